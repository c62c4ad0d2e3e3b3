/** Kling's videos: a task is created, asked after by its ID, and its film fetched. No way to cancel is documented. */
import { classifyUnbuilt, type Fault, meaning } from '../../core/outcome.ts'
import type { Account, CallLimits, PollReply, Submission, SubmitReply, VideoOrder } from '../adapter.ts'
import type { Caller, Exchange } from '../call.ts'
import { parseObject, textAt } from '../json.ts'
import { endedFault, isSuccess, type Reading, readFault, requestIdOf, submissionFault } from '../proof.ts'
import { redact } from '../redaction.ts'
import { createCall, readCall, type Target, targetOf } from '../target.ts'
import { KLING_DIALECT } from './faults.ts'
import { type KlingOptions, KlingOptionsSchema } from './options.ts'
import {
  createTaskBody,
  knownKinds,
  productOf,
  readEnvelope,
  readRequestId,
  readTask,
  readTaskId,
  readTasks,
  type TaskState,
} from './wire.ts'

/** [?] What Kling takes in one body; an image of the legacy standard may have 10 MB. */
const LARGEST_IMAGE = 10 * 1024 * 1024
const LONGEST_PROMPT = 2500

export async function submitVideo(
  caller: Caller,
  account: Account,
  submission: Submission<VideoOrder>,
): Promise<SubmitReply> {
  const target = targetOf(account, KlingOptionsSchema)
  if (!target.ok) return { kind: 'fault', fault: target.fault, requestId: null }
  const unsendable = whatKlingCannotTake(submission)
  if (unsendable) return { kind: 'fault', fault: unsendable, requestId: null }
  const { upstreamModel, order } = submission
  const exchange = await caller.exchange(
    createCall(account, target.value, {
      submission,
      path: `/${productOf(upstreamModel, order)}/${encodeURIComponent(upstreamModel)}`,
      contentType: 'application/json',
      body: Buffer.from(JSON.stringify(createTaskBody(submission, target.value.options))),
    }),
  )
  return submitReply(exchange, readingOf(target.value))
}

function submitReply(exchange: Exchange, reading: Reading): SubmitReply {
  if (exchange.kind === 'stopped_before_sending') return { kind: 'stopped_before_sending' }
  const body = exchange.kind === 'answered' ? parseObject(exchange.answer.body) : null
  const named = body && readRequestId(body)
  const requestId = named === null ? requestIdOf(exchange) : redact(named, reading.secrets).slice(0, 200)
  const accepted =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? body && readTaskId(body) : null
  if (accepted !== null) return { kind: 'accepted', providerTaskId: accepted, requestId }
  return { kind: 'fault', fault: submissionFault(exchange, reading), requestId }
}

export function readingOf(target: Target<KlingOptions>): Reading {
  return { dialect: KLING_DIALECT, secrets: target.secrets, declared5xx: target.options.refusals_5xx }
}

/** What would be refused, or silently left out. Nothing has been sent, so another supply may serve it. */
function whatKlingCannotTake({ upstreamModel, order }: Submission<VideoOrder>): Fault | null {
  if (order.prompt.length > LONGEST_PROMPT) return unsupported('prompts of more than 2,500 characters')
  for (const [kind, inputs] of Object.entries(order.inputs)) {
    if (inputs.length > 0 && !knownKinds(upstreamModel).includes(kind))
      return unsupported(`inputs of the kind ${kind}`)
    if (inputs.some((input) => input.kind === 'bytes' && input.bytes.length > LARGEST_IMAGE))
      return classifyUnbuilt(
        meaning('supply/supply', 'input_too_large', { retryable: true }),
        `An input of ${kind} is larger than the 10 MB that Kling takes.`,
      )
  }
  return null
}

function unsupported(what: string): Fault {
  const order = meaning('supply/supply', 'order_unsupported', { retryable: true })
  return classifyUnbuilt(order, `Kling does not take ${what}.`)
}

export async function poll(
  caller: Caller,
  account: Account,
  providerTaskId: string,
  limits: CallLimits,
): Promise<PollReply> {
  const target = targetOf(account, KlingOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const path = `/tasks?task_ids=${encodeURIComponent(providerTaskId)}`
  const exchange = await caller.exchange(readCall(account, target.value, { method: 'GET', path, ...limits }))
  return pollReply(exchange, readingOf(target.value), providerTaskId)
}

function pollReply(exchange: Exchange, reading: Reading, providerTaskId: string): PollReply {
  const noAnswer = (): PollReply => ({ kind: 'no_answer', fault: readFault(exchange, reading) })
  if (exchange.kind !== 'answered') return noAnswer()
  const body = parseObject(exchange.answer.body)
  // [?] A task that is unknown: an empty list, or 1203.
  if (exchange.answer.status === 404 && body && readEnvelope(body)?.code === '1203')
    return { kind: 'not_found' }
  const tasks = isSuccess(exchange.answer) && body ? readTasks(body) : null
  if (!tasks) return noAnswer()
  const task = tasks.find((one) => textAt(one, 'id') === providerTaskId)
  if (!task) return { kind: 'not_found' }
  const state = readTask(task)
  return state ? stateOf(state, reading) : noAnswer()
}

function stateOf(task: TaskState, reading: Reading): PollReply {
  switch (task.status) {
    case 'submitted':
      return { kind: 'running', phase: 'queued', progress: null }
    case 'processing':
      return { kind: 'running', phase: 'running', progress: null }
    case 'succeeded':
    // The legacy standard's spelling.
    case 'succeed':
      if (task.videoUrl === null) return { kind: 'unknown_status', status: 'succeeded, without a video URL' }
      return { kind: 'succeeded', video: { location: task.videoUrl, reported: task.reported } }
    case 'failed': {
      const spoken = { code: null, message: task.message || 'The task failed without a reason.' }
      return { kind: 'failed', fault: endedFault(spoken, reading), billed: task.billed }
    }
    default:
      return { kind: 'unknown_status', status: task.status.slice(0, 100) }
  }
}
