/** Ark's tasks, found again (UNK-9). Its list has no filter by time and tells no prompt; it goes back seven days. */
import type { Account, CallLimits, FoundJob, Lookup, LookupReply, LostSubmission } from '../adapter.ts'
import type { Caller } from '../call.ts'
import { asObject, type JsonObject, listAt, numberAt, parseObject, textAt } from '../json.ts'
import { isSuccess, readFault } from '../proof.ts'
import { readCall, type Target, targetOf } from '../target.ts'
import { type ArkOptions, ArkOptionsSchema } from './options.ts'
import { poll, readingOf } from './video.ts'

const TASKS = '/contents/generations/tasks'
const PAGE_SIZE = 100
/** Enough for thousands of tasks within the time of a look. */
const MOST_PAGES = 20
/** The provider's clock against ours. */
const SKEW_MS = 120_000

export function arkLookup(caller: Caller): Lookup {
  return {
    byTime: (account, lost, limits) => byTime(caller, account, { lost, limits }),
    byTaskId: (account, providerTaskId, limits) => byTaskId(caller, account, { providerTaskId, limits }),
  }
}

/** Page by page, the newest first [?], until the tasks are older than the submission. */
async function byTime(
  caller: Caller,
  account: Account,
  { lost, limits }: { lost: LostSubmission; limits: CallLimits },
): Promise<LookupReply> {
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const deadline = performance.now() + limits.timeoutMs
  const jobs = new Map<string, FoundJob>()
  for (let page = 1; page <= MOST_PAGES; page += 1) {
    const timeoutMs = Math.max(1, deadline - performance.now())
    const read = await readPage(caller, account, { target: target.value, page, timeoutMs })
    if ('kind' in read) return read
    for (const job of read.jobs) jobs.set(job.providerTaskId, job)
    if (read.isLast || isOlder(read.jobs, lost.from)) return within(jobs, lost, true)
  }
  return within(jobs, lost, false)
}

function within(jobs: ReadonlyMap<string, FoundJob>, lost: LostSubmission, complete: boolean): LookupReply {
  const inTime = [...jobs.values()].filter(
    ({ createdAtMs: at }) => at === null || (at >= lost.from - SKEW_MS && at <= lost.until + SKEW_MS),
  )
  return { kind: 'jobs', jobs: inTime, complete }
}

function isOlder(jobs: readonly FoundJob[], from: number): boolean {
  return jobs.length > 0 && jobs.every(({ createdAtMs: at }) => at !== null && at < from - SKEW_MS)
}

interface Page {
  readonly jobs: readonly FoundJob[]
  readonly isLast: boolean
}

async function readPage(
  caller: Caller,
  account: Account,
  read: { target: Target<ArkOptions>; page: number; timeoutMs: number },
): Promise<Page | (LookupReply & { kind: 'no_answer' })> {
  const path = `${TASKS}?page_num=${read.page}&page_size=${PAGE_SIZE}`
  const call = readCall(account, read.target, { method: 'GET', path, timeoutMs: read.timeoutMs })
  const exchange = await caller.exchange(call)
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  const items = body && listAt(body, 'items')
  if (!items) return { kind: 'no_answer', fault: readFault(exchange, readingOf(read.target)) }
  return { jobs: items.flatMap((item) => jobOf(asObject(item)) ?? []), isLast: items.length < PAGE_SIZE }
}

/** One task of the list, or the answer to a query. */
function jobOf(item: JsonObject | null): FoundJob | null {
  const id = item && textAt(item, 'id')
  if (!item || id === null) return null
  const createdAt = numberAt(item, 'created_at')
  return {
    providerTaskId: id,
    // Unix time in seconds.
    createdAtMs: createdAt === null ? null : createdAt * 1000,
    clientId: null,
    upstreamModel: textAt(item, 'model'),
    durationSeconds: numberAt(item, 'duration'),
    resolution: textAt(item, 'resolution'),
    aspectRatio: textAt(item, 'ratio'),
    prompt: null,
  }
}

async function byTaskId(
  caller: Caller,
  account: Account,
  { providerTaskId, limits }: { providerTaskId: string; limits: CallLimits },
): Promise<LookupReply> {
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const path = `${TASKS}/${encodeURIComponent(providerTaskId)}`
  const exchange = await caller.exchange(readCall(account, target.value, { method: 'GET', path, ...limits }))
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  const job = jobOf(body)
  if (job) return { kind: 'jobs', jobs: [job], complete: true }
  // What counts as "no such task" is the poll's to say.
  const polled = await poll(caller, account, providerTaskId, limits)
  if (polled.kind === 'not_found') return { kind: 'jobs', jobs: [], complete: true }
  return { kind: 'no_answer', fault: readFault(exchange, readingOf(target.value)) }
}

/** `{"id":"cgt-…","status":…}`: the body of a callback is that of a query. */
export function taskIdInCallback(body: Uint8Array): string | null {
  const told = parseObject(Buffer.from(body))
  return told && textAt(told, 'id')
}
