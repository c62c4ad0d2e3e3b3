/** Seedance: a task is created, asked after, cancelled while it queues, and its film fetched. */
import { classifyUnbuilt, type Fault, meaning } from '../../core/outcome.ts'
import type {
  Account,
  CallLimits,
  CancelReply,
  OutboundInput,
  PollReply,
  Submission,
  SubmitReply,
  VideoOrder,
} from '../adapter.ts'
import type { Caller, Exchange } from '../call.ts'
import { cancellationBy } from '../cancelling.ts'
import { type JsonObject, parseObject } from '../json.ts'
import { endedFault, isSuccess, type Reading, readFault, requestIdOf, submissionFault } from '../proof.ts'
import { createCall, readCall, type Target, targetOf } from '../target.ts'
import { ARK_DIALECT, ARK_EXPIRED } from './faults.ts'
import { type ArkOptions, ArkOptionsSchema } from './options.ts'
import { createTaskBody, ROLES, readEnvelope, readTask, readTaskId, type TaskState } from './wire.ts'

const TASKS = '/contents/generations/tasks'

export async function submitVideo(
  caller: Caller,
  account: Account,
  submission: Submission<VideoOrder>,
): Promise<SubmitReply> {
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { kind: 'fault', fault: target.fault, requestId: null }
  const body = Buffer.from(JSON.stringify(createTaskBody(submission, target.value.options)))
  const unsendable = whatArkCannotTake(submission.order.inputs, [...ROLES.keys()], body.length)
  if (unsendable) return { kind: 'fault', fault: unsendable, requestId: null }
  const exchange = await caller.exchange(
    createCall(account, target.value, { submission, path: TASKS, contentType: 'application/json', body }),
  )
  return submitReply(exchange, readingOf(target.value))
}

function submitReply(exchange: Exchange, reading: Reading): SubmitReply {
  if (exchange.kind === 'stopped_before_sending') return { kind: 'stopped_before_sending' }
  const requestId = requestIdOf(exchange)
  const providerTaskId = acceptedId(exchange)
  if (providerTaskId !== null) return { kind: 'accepted', providerTaskId, requestId }
  return { kind: 'fault', fault: submissionFault(exchange, reading), requestId }
}

/** Only a complete 2xx with an ID is an acceptance. */
function acceptedId(exchange: Exchange): string | null {
  if (exchange.kind !== 'answered' || !isSuccess(exchange.answer)) return null
  const body = parseObject(exchange.answer.body)
  return body && readTaskId(body)
}

export function readingOf(target: Target<ArkOptions>): Reading {
  return { dialect: ARK_DIALECT, secrets: target.secrets, declared5xx: target.options.refusals_5xx }
}

const MEGABYTE = 1024 * 1024
/** Ark's own limits of what may travel inside a request; links are the provider's business. */
const LARGEST: ReadonlyMap<string, number> = new Map([
  ['first_frame', 30 * MEGABYTE],
  ['last_frame', 30 * MEGABYTE],
  ['reference_images', 30 * MEGABYTE],
  ['reference_audios', 15 * MEGABYTE],
])
const LARGEST_BODY = 64 * MEGABYTE

/** What would be refused, or silently left out. Nothing has been sent, so another supply may serve it. */
export function whatArkCannotTake(
  inputs: Readonly<Record<string, readonly OutboundInput[]>>,
  kinds: readonly string[],
  bodyBytes: number,
): Fault | null {
  for (const [kind, given] of Object.entries(inputs)) {
    if (given.length === 0) continue
    if (!kinds.includes(kind)) return unsupported(`inputs of the kind ${kind}`)
    for (const input of given) {
      if (input.kind !== 'bytes') continue
      const largest = LARGEST.get(kind)
      if (largest === undefined) return unsupported(`uploaded ${kind}: they must be public URLs`)
      if (input.bytes.length >= largest) return tooLarge(`An input of ${kind}`, largest)
    }
  }
  return bodyBytes > LARGEST_BODY ? tooLarge('The request with all its inputs', LARGEST_BODY) : null
}

function unsupported(what: string): Fault {
  const order = meaning('supply/supply', 'order_unsupported', { retryable: true })
  return classifyUnbuilt(order, `Ark does not take ${what}.`)
}

function tooLarge(what: string, largest: number): Fault {
  const order = meaning('supply/supply', 'input_too_large', { retryable: true })
  return classifyUnbuilt(order, `${what} is larger than the ${largest / MEGABYTE} MB that Ark takes.`)
}

export async function poll(
  caller: Caller,
  account: Account,
  providerTaskId: string,
  limits: CallLimits,
): Promise<PollReply> {
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const exchange = await caller.exchange(
    readCall(account, target.value, { method: 'GET', path: taskPath(providerTaskId), ...limits }),
  )
  return pollReply(exchange, readingOf(target.value))
}

function taskPath(providerTaskId: string): string {
  return `${TASKS}/${encodeURIComponent(providerTaskId)}`
}

function pollReply(exchange: Exchange, reading: Reading): PollReply {
  const noAnswer = (): PollReply => ({ kind: 'no_answer', fault: readFault(exchange, reading) })
  if (exchange.kind !== 'answered') return noAnswer()
  const body = parseObject(exchange.answer.body)
  if (exchange.answer.status === 404 && body && saysNotFound(body)) return { kind: 'not_found' }
  const task = isSuccess(exchange.answer) && body ? readTask(body) : null
  return task ? stateOf(task, reading) : noAnswer()
}

/**
 * [?] The code of a missing task. A 404 without Ark's envelope is somebody's proxy, and one that speaks of the model or
 * endpoint is about the account: neither says anything about the job.
 */
function saysNotFound(body: JsonObject): boolean {
  const spoken = readEnvelope(body)
  return spoken !== null && !/^(InvalidEndpoint|Model|Unsupported)/.test(spoken.code ?? '')
}

function stateOf(task: TaskState, reading: Reading): PollReply {
  switch (task.status) {
    case 'queued':
    case 'running':
      return { kind: 'running', phase: task.status, progress: null }
    case 'succeeded':
      // Without its film it is asked again, and counted: the job is done and paid, and the link may only be late.
      if (task.videoUrl === null) return { kind: 'unknown_status', status: 'succeeded, without a video_url' }
      return { kind: 'succeeded', video: { location: task.videoUrl, reported: task.reported } }
    case 'failed':
      return { kind: 'failed', fault: endedFault(task.error ?? UNEXPLAINED, reading), billed: task.billed }
    case 'expired':
      return { kind: 'failed', fault: expiredFault(task, reading), billed: task.billed }
    case 'cancelled':
      return { kind: 'cancelled' }
    default:
      return { kind: 'unknown_status', status: task.status.slice(0, 100) }
  }
}

const UNEXPLAINED = { code: null, message: 'The task failed without a reason.' }

function expiredFault(task: TaskState, reading: Reading): Fault {
  const table = [{ meaning: ARK_EXPIRED }]
  const spoken = task.error ?? { code: 'expired', message: 'The task expired at the provider.' }
  return endedFault(spoken, { ...reading, dialect: { ...reading.dialect, table } })
}

/**
 * DELETE cancels what is queued, refuses what runs, and deletes the record of what has ended, result and all. So it is
 * sent only to a task that was queued a moment ago, and believed only when the task then says `cancelled`.
 */
export async function cancel(
  caller: Caller,
  account: Account,
  providerTaskId: string,
  limits: CallLimits,
): Promise<CancelReply> {
  const before = await poll(caller, account, providerTaskId, limits)
  if (before.kind !== 'running' || before.phase !== 'queued') return cancellationBy(before)
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const exchange = await caller.exchange(
    readCall(account, target.value, { method: 'DELETE', path: taskPath(providerTaskId), ...limits }),
  )
  if (exchange.kind !== 'answered' || !isSuccess(exchange.answer)) {
    return cancelRefusal(exchange, readingOf(target.value))
  }
  return cancellationBy(await poll(caller, account, providerTaskId, limits))
}

/** [?] How a refused DELETE looks is not documented: any complete refusal of the request itself counts. */
function cancelRefusal(exchange: Exchange, reading: Reading): CancelReply {
  const fault = readFault(exchange, reading)
  const refused = fault.category === 'request' || fault.httpStatus === 404
  return refused ? { kind: 'refused', why: fault.message } : { kind: 'no_answer', fault }
}
