/**
 * Kling's tasks, found again (UNK-9): it is the one that can be asked by the client's own ID, and lists by time. Both tell
 * the external ID, so that there is never a doubt whose a task is.
 */
import type { Account, CallLimits, FoundJob, Lookup, LookupReply, LostSubmission } from '../adapter.ts'
import type { Caller } from '../call.ts'
import { type JsonObject, parseObject, textAt } from '../json.ts'
import { isSuccess, readFault } from '../proof.ts'
import { readCall, type Target, targetOf } from '../target.ts'
import { type KlingOptions, KlingOptionsSchema } from './options.ts'
import { readingOf } from './video.ts'
import { readFound, readPage, readTasks } from './wire.ts'

const PAGE_SIZE = 500
const MOST_PAGES = 20
/** Kling's clock against ours. */
const SKEW_MS = 120_000

export function klingLookup(caller: Caller): Lookup {
  return {
    byClientId: (account, lost, limits) =>
      byQuery(caller, account, { query: `external_task_ids=${encodeURIComponent(lost.attemptId)}`, limits }),
    byTaskId: (account, providerTaskId, limits) =>
      byQuery(caller, account, { query: `task_ids=${encodeURIComponent(providerTaskId)}`, limits }),
    byTime: (account, lost, limits) => byTime(caller, account, { lost, limits }),
  }
}

async function byQuery(
  caller: Caller,
  account: Account,
  { query, limits }: { query: string; limits: CallLimits },
): Promise<LookupReply> {
  const target = targetOf(account, KlingOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const call = readCall(account, target.value, { method: 'GET', path: `/tasks?${query}`, ...limits })
  const exchange = await caller.exchange(call)
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  const tasks = body && readTasks(body)
  if (!tasks) return { kind: 'no_answer', fault: readFault(exchange, readingOf(target.value)) }
  return { kind: 'jobs', jobs: found(tasks), complete: true }
}

function found(tasks: readonly JsonObject[]): FoundJob[] {
  return tasks.flatMap((task) => readFound(task) ?? [])
}

async function byTime(
  caller: Caller,
  account: Account,
  { lost, limits }: { lost: LostSubmission; limits: CallLimits },
): Promise<LookupReply> {
  const target = targetOf(account, KlingOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const deadline = performance.now() + limits.timeoutMs
  const jobs: FoundJob[] = []
  let cursor: string | null = null
  for (let page = 1; page <= MOST_PAGES; page += 1) {
    const timeoutMs = Math.max(1, deadline - performance.now())
    const read: Page | Silence = await pageOf(caller, account, {
      target: target.value,
      lost,
      cursor,
      timeoutMs,
    })
    if ('kind' in read) return read
    jobs.push(...found(read.tasks))
    if (read.next === null) return { kind: 'jobs', jobs, complete: true }
    cursor = read.next
  }
  return { kind: 'jobs', jobs, complete: false }
}

type Page = NonNullable<ReturnType<typeof readPage>>
type Silence = LookupReply & { kind: 'no_answer' }

async function pageOf(
  caller: Caller,
  account: Account,
  read: { target: Target<KlingOptions>; lost: LostSubmission; cursor: string | null; timeoutMs: number },
): Promise<Page | Silence> {
  const body = Buffer.from(
    JSON.stringify({
      start_time: Math.floor(read.lost.from - SKEW_MS),
      end_time: Math.ceil(read.lost.until + SKEW_MS),
      limit: PAGE_SIZE,
      ...(read.cursor === null ? {} : { cursor: read.cursor }),
    }),
  )
  const { timeoutMs } = read
  const call = readCall(account, read.target, { method: 'POST', path: '/tasks', body, timeoutMs })
  const exchange = await caller.exchange(call)
  const answer =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  const page = answer && readPage(answer)
  return page ?? { kind: 'no_answer', fault: readFault(exchange, readingOf(read.target)) }
}

/** The body of a callback is a task. */
export function taskIdInCallback(body: Uint8Array): string | null {
  const told = parseObject(Buffer.from(body))
  return told && textAt(told, 'id')
}
