/** `/v1/videos` of an OpenAI-compatible gateway: created, asked after, cancelled where it can, and its film fetched. */
import { classifyUnbuilt, type Fault, meaning } from '../../core/outcome.ts'
import type {
  Account,
  CallLimits,
  CancelReply,
  DownloadReply,
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
import { openResult } from '../result.ts'
import { type Checked, createCall, readCall, type Target, targetOf } from '../target.ts'
import { OPENAI_DIALECT } from './faults.ts'
import { type OpenAiOptions, OpenAiOptionsSchema } from './options.ts'
import { sizeOf } from './size.ts'
import {
  asForm,
  asJson,
  EXTENDED_KINDS,
  readEnvelope,
  readVideo,
  readVideoId,
  saysCancelled,
  type VideoState,
  videoFields,
} from './wire.ts'

/** LiteLLM's header; others ignore it. A gateway that retries for us could make two jobs of one attempt (UNK-10). */
export const NO_RETRIES = { 'x-litellm-num-retries': '0' }

export async function submitVideo(
  caller: Caller,
  account: Account,
  submission: Submission<VideoOrder>,
): Promise<SubmitReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'fault', fault: target.fault, requestId: null }
  const form = formOf(submission, target.value.options)
  if (!form.ok) return { kind: 'fault', fault: form.fault, requestId: null }
  const exchange = await caller.exchange(
    createCall(account, target.value, { submission, path: '/videos', ...form.value, headers: NO_RETRIES }),
  )
  return submitReply(exchange, readingOf(target.value))
}

function formOf(submission: Submission<VideoOrder>, options: OpenAiOptions) {
  const { order } = submission
  const size = sizeOf(order, options.sizes)
  // A gateway that knows our fields needs no size.
  if (size === undefined && !options.extensions) {
    return unsupported(`${order.resolution} at ${order.aspectRatio} as a size`)
  }
  const untold = untoldKind(order.inputs, options)
  if (untold !== null) return unsupported(untold)
  const fields = videoFields(submission.upstreamModel, order, { size: size ?? null, options })
  const form = options.request_format === 'json' ? asJson(fields, order.inputs) : asForm(fields, order.inputs)
  return { ok: true as const, value: form }
}

/** An input that would be left out without a word; null where all can be said. */
function untoldKind(
  inputs: Readonly<Record<string, readonly OutboundInput[]>>,
  options: OpenAiOptions,
): string | null {
  const known = options.extensions ? ['first_frame', ...EXTENDED_KINDS] : ['first_frame']
  const given = Object.keys(inputs).filter((kind) => (inputs[kind] ?? []).length > 0)
  const untold = given.find((kind) => !known.includes(kind))
  return untold === undefined ? null : `inputs of the kind ${untold}`
}

/** Nothing has been sent, so another supply may serve it. */
export function unsupported(what: string): Checked<never> {
  const order = meaning('supply/supply', 'order_unsupported', { retryable: true })
  return { ok: false, fault: classifyUnbuilt(order, `This channel cannot be told ${what}.`) }
}

function submitReply(exchange: Exchange, reading: Reading): SubmitReply {
  if (exchange.kind === 'stopped_before_sending') return { kind: 'stopped_before_sending' }
  const requestId = requestIdOf(exchange)
  const providerTaskId = acceptedId(exchange)
  if (providerTaskId !== null) return { kind: 'accepted', providerTaskId, requestId }
  return { kind: 'fault', fault: submissionFault(exchange, reading), requestId }
}

/** Only a complete 2xx with an ID is an acceptance, whatever status the video already has. */
function acceptedId(exchange: Exchange): string | null {
  if (exchange.kind !== 'answered' || !isSuccess(exchange.answer)) return null
  const body = parseObject(exchange.answer.body)
  return body && readVideoId(body)
}

export function readingOf(target: Target<OpenAiOptions>): Reading {
  return { dialect: OPENAI_DIALECT, secrets: target.secrets, declared5xx: target.options.refusals_5xx }
}

export async function poll(
  caller: Caller,
  account: Account,
  providerTaskId: string,
  limits: CallLimits,
): Promise<PollReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  const path = videoPath(providerTaskId)
  const exchange = await caller.exchange(readCall(account, target.value, { method: 'GET', path, ...limits }))
  return pollReply(exchange, target.value, providerTaskId)
}

function videoPath(providerTaskId: string): string {
  return `/videos/${encodeURIComponent(providerTaskId)}`
}

function pollReply(exchange: Exchange, target: Target<OpenAiOptions>, providerTaskId: string): PollReply {
  const reading = readingOf(target)
  if (exchange.kind !== 'answered') return { kind: 'no_answer', fault: readFault(exchange, reading) }
  const body = parseObject(exchange.answer.body)
  if (exchange.answer.status === 404 && body && saysNotFound(body)) return { kind: 'not_found' }
  const video = isSuccess(exchange.answer) && body ? readVideo(body) : null
  if (!video) return { kind: 'no_answer', fault: readFault(exchange, reading) }
  return stateOf(video, reading, locationOf(video, target, providerTaskId))
}

/** A 404 without an envelope is a proxy's or a missing route's, and one about the model or the account no job's. */
function saysNotFound(body: JsonObject): boolean {
  const spoken = readEnvelope(body)
  return spoken !== null && !/^(model|deployment|access)_/.test(spoken.code ?? '')
}

function locationOf(video: VideoState, target: Target<OpenAiOptions>, providerTaskId: string): string {
  const content = `${target.baseUrl}${videoPath(providerTaskId)}/content`
  return target.options.result_from === 'url' ? (video.link ?? content) : content
}

function stateOf(video: VideoState, reading: Reading, location: string): PollReply {
  switch (video.status) {
    case 'queued':
    case 'running':
      return { kind: 'running', phase: video.status, progress: video.progress }
    case 'succeeded':
      return { kind: 'succeeded', video: { location, reported: video.reported } }
    case 'failed':
      return { kind: 'failed', fault: endedFault(video.error ?? UNEXPLAINED, reading), billed: null }
    case 'expired':
      return { kind: 'failed', fault: endedFault(EXPIRED, reading), billed: null }
    case 'cancelled':
      return { kind: 'cancelled' }
    case null:
      return { kind: 'unknown_status', status: video.rawStatus.slice(0, 100) }
  }
}

const UNEXPLAINED = { code: null, message: 'The video failed without a reason.' }
const EXPIRED = { code: 'expired', message: 'The video expired at the provider.' }

/** Where the channel's options say that DELETE cancels. What has ended is left alone: DELETE would remove its record. */
export async function cancel(
  caller: Caller,
  account: Account,
  providerTaskId: string,
  limits: CallLimits,
): Promise<CancelReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  if (!target.value.options.cancel) return { kind: 'refused', why: 'This channel cannot cancel a video.' }
  const before = await poll(caller, account, providerTaskId, limits)
  if (before.kind !== 'running') return cancellationBy(before)
  const path = videoPath(providerTaskId)
  const exchange = await caller.exchange(
    readCall(account, target.value, { method: 'DELETE', path, ...limits }),
  )
  return cancelReply(exchange, readingOf(target.value))
}

function cancelReply(exchange: Exchange, reading: Reading): CancelReply {
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  if (body && saysCancelled(body)) return { kind: 'cancelled' }
  const fault: Fault = readFault(exchange, reading)
  const refused = fault.category === 'request' || fault.httpStatus === 404
  return refused ? { kind: 'refused', why: fault.message } : { kind: 'no_answer', fault }
}

/** With the credential where the film lies at the gateway itself, without it elsewhere. */
export async function download(
  caller: Caller,
  account: Account,
  location: string,
  limits: CallLimits,
): Promise<DownloadReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  return openResult(caller, {
    channelId: account.channelId,
    location,
    credentialHeaders: target.value.headers,
    trustedOrigin: new URL(target.value.baseUrl).origin,
    limits,
    reading: readingOf(target.value),
  })
}
