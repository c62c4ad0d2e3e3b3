/** OpenAI's videos, found again (UNK-9): the list tells the prompt, so that the time and all parameters can be compared. */
import type { Account, CallLimits, FoundJob, Lookup, LookupReply, LostSubmission } from '../adapter.ts'
import type { Caller } from '../call.ts'
import { asObject, type JsonObject, listAt, numberAt, parseObject, textAt } from '../json.ts'
import { isSuccess, readFault } from '../proof.ts'
import { readCall, type Target, targetOf } from '../target.ts'
import { type OpenAiOptions, OpenAiOptionsSchema } from './options.ts'
import { frameOf } from './size.ts'
import { poll, readingOf } from './video.ts'

const PAGE_SIZE = 100
const MOST_PAGES = 20
/** The provider's clock against ours. */
const SKEW_MS = 120_000

export function openAiLookup(caller: Caller): Lookup {
  return {
    byTime: (account, lost, limits) => byTime(caller, account, { lost, limits }),
    byTaskId: (account, providerTaskId, limits) => byTaskId(caller, account, { providerTaskId, limits }),
  }
}

/** The newest first, until the videos are older than the submission. */
async function byTime(
  caller: Caller,
  account: Account,
  { lost, limits }: { lost: LostSubmission; limits: CallLimits },
): Promise<LookupReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const deadline = performance.now() + limits.timeoutMs
  const jobs: FoundJob[] = []
  let after: string | null = null
  for (let page = 1; page <= MOST_PAGES; page += 1) {
    const timeoutMs = Math.max(1, deadline - performance.now())
    const read: Page | Silence = await readPage(caller, account, { target: target.value, after, timeoutMs })
    if ('kind' in read) return read
    jobs.push(...read.jobs)
    const isOlder = read.jobs.some(({ createdAtMs: at }) => at !== null && at < lost.from - SKEW_MS)
    if (read.next === null || isOlder) return within(jobs, lost, true)
    after = read.next
  }
  return within(jobs, lost, false)
}

function within(jobs: readonly FoundJob[], lost: LostSubmission, complete: boolean): LookupReply {
  const inTime = jobs.filter(
    ({ createdAtMs: at }) => at === null || (at >= lost.from - SKEW_MS && at <= lost.until + SKEW_MS),
  )
  return { kind: 'jobs', jobs: inTime, complete }
}

interface Page {
  readonly jobs: readonly FoundJob[]
  /** null: this is the last page. */
  readonly next: string | null
}

type Silence = LookupReply & { kind: 'no_answer' }

async function readPage(
  caller: Caller,
  account: Account,
  read: { target: Target<OpenAiOptions>; after: string | null; timeoutMs: number },
): Promise<Page | Silence> {
  const from = read.after === null ? '' : `&after=${encodeURIComponent(read.after)}`
  const path = `/videos?limit=${PAGE_SIZE}&order=desc${from}`
  const call = readCall(account, read.target, { method: 'GET', path, timeoutMs: read.timeoutMs })
  const exchange = await caller.exchange(call)
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  const data = body && listAt(body, 'data')
  if (!body || !data) return { kind: 'no_answer', fault: readFault(exchange, readingOf(read.target)) }
  const jobs = data.flatMap((item) => jobOf(asObject(item), read.target.options) ?? [])
  // A page of which nothing can be read would be asked for again and again.
  const last = jobs.at(-1)?.providerTaskId ?? null
  return { jobs, next: body.has_more === true ? last : null }
}

function jobOf(video: JsonObject | null, options: OpenAiOptions): FoundJob | null {
  const id = video && textAt(video, 'id')
  if (!video || id === null) return null
  const createdAt = numberAt(video, 'created_at')
  const seconds = Number(textAt(video, 'seconds') ?? numberAt(video, 'seconds') ?? Number.NaN)
  return {
    providerTaskId: id,
    // Unix time in seconds.
    createdAtMs: createdAt === null ? null : createdAt * 1000,
    clientId: null,
    upstreamModel: textAt(video, 'model'),
    durationSeconds: Number.isFinite(seconds) ? seconds : null,
    ...frame(textAt(video, 'size'), options),
    prompt: textAt(video, 'prompt'),
  }
}

function frame(size: string | null, options: OpenAiOptions) {
  // A channel with sizes of its own names none that could be compared.
  const known = size === null || Object.keys(options.sizes).length > 0 ? null : frameOf(size)
  return { resolution: known?.resolution ?? null, aspectRatio: known?.aspectRatio ?? null }
}

async function byTaskId(
  caller: Caller,
  account: Account,
  { providerTaskId, limits }: { providerTaskId: string; limits: CallLimits },
): Promise<LookupReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const path = `/videos/${encodeURIComponent(providerTaskId)}`
  const exchange = await caller.exchange(readCall(account, target.value, { method: 'GET', path, ...limits }))
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  const job = jobOf(body, target.value.options)
  if (job) return { kind: 'jobs', jobs: [job], complete: true }
  // What counts as "no such video" is the poll's to say.
  const polled = await poll(caller, account, providerTaskId, limits)
  if (polled.kind === 'not_found') return { kind: 'jobs', jobs: [], complete: true }
  return { kind: 'no_answer', fault: readFault(exchange, readingOf(target.value)) }
}

/** A video object, or OpenAI's event around one: `{"type":"video.completed","data":{"id":…}}` [?]. */
export function taskIdInCallback(body: Uint8Array): string | null {
  const told = parseObject(Buffer.from(body))
  const inner = told && asObject(told.data)
  return (inner && textAt(inner, 'id')) ?? (told && textAt(told, 'id'))
}
