/** `/v1/images/generations`, and `/v1/images/edits` where images come with the order: one synchronous POST each. */
import type { Account, ImageOrder, ImageReply, Submission } from '../adapter.ts'
import type { Caller, Exchange } from '../call.ts'
import { parseObject } from '../json.ts'
import type { Form } from '../multipart.ts'
import { gather, type RawPicture } from '../pictures.ts'
import { endedFault, isSuccess, type Reading, requestIdOf, submissionFault } from '../proof.ts'
import { type Checked, createCall, type Target, targetOf } from '../target.ts'
import { type OpenAiOptions, OpenAiOptionsSchema } from './options.ts'
import { NO_RETRIES, readingOf, unsupported } from './video.ts'
import { asEditForm, asJson, type ImagesAnswer, imageFields, type ReadPicture, readImages } from './wire.ts'

const LARGEST_PICTURE = 64 * 1024 * 1024

export async function generateImage(
  caller: Caller,
  account: Account,
  submission: Submission<ImageOrder>,
): Promise<ImageReply> {
  const deadline = performance.now() + submission.timeoutMs
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { kind: 'fault', fault: target.fault, requestId: null }
  const post = postOf(submission, target.value.options)
  if (!post.ok) return { kind: 'fault', fault: post.fault, requestId: null }
  const exchange = await caller.exchange(
    createCall(account, target.value, { submission, ...post.value, headers: NO_RETRIES }),
  )
  return imageReply(exchange, {
    caller,
    account,
    target: target.value,
    deadline,
    count: submission.order.count,
  })
}

function postOf(
  submission: Submission<ImageOrder>,
  options: OpenAiOptions,
): Checked<Form & { readonly path: string }> {
  const { order } = submission
  const fields = imageFields(submission.upstreamModel, order, options)
  const kinds = Object.keys(order.inputs).filter((kind) => (order.inputs[kind] ?? []).length > 0)
  if (options.extensions || kinds.length === 0) {
    return { ok: true, value: { path: '/images/generations', ...asJson(fields, order.inputs) } }
  }
  const other = kinds.find((kind) => kind !== 'reference_images')
  if (other !== undefined) return unsupported(`inputs of the kind ${other}`)
  const images = order.inputs.reference_images ?? []
  if (images.some((image) => image.kind === 'url'))
    return unsupported('reference images by URL: it takes files')
  return { ok: true, value: { path: '/images/edits', ...asEditForm(fields, images) } }
}

interface Circumstances {
  readonly caller: Caller
  readonly account: Account
  readonly target: Target<OpenAiOptions>
  readonly deadline: number
  readonly count: number
}

async function imageReply(exchange: Exchange, at: Circumstances): Promise<ImageReply> {
  if (exchange.kind === 'stopped_before_sending') return { kind: 'stopped_before_sending' }
  const reading = readingOf(at.target)
  const requestId = requestIdOf(exchange)
  const batch = batchOf(exchange)
  if (batch === null) return { kind: 'fault', fault: submissionFault(exchange, reading), requestId }
  const raw = batch.pictures.map((picture) => asRaw(picture, reading))
  return gather(raw, at.count, {
    caller: at.caller,
    fetch: {
      channelId: at.account.channelId,
      credentialHeaders: at.target.headers,
      trustedOrigin: new URL(at.target.baseUrl).origin,
      maxBytes: LARGEST_PICTURE,
      secrets: at.target.secrets,
    },
    deadline: at.deadline,
    requestId,
    reported: batch.reported,
  })
}

function batchOf(exchange: Exchange): ImagesAnswer | null {
  if (exchange.kind !== 'answered' || !isSuccess(exchange.answer)) return null
  const body = parseObject(exchange.answer.body)
  return body && readImages(body)
}

function asRaw(picture: ReadPicture, reading: Reading): RawPicture {
  return picture.kind === 'error' ? { kind: 'fault', fault: endedFault(picture.spoken, reading) } : picture
}
