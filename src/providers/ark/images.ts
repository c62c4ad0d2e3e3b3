/** Seedream: one synchronous POST, a batch in its answer, some places of which may hold an error instead. */
import type { Account, ImageOrder, ImageReply, Submission } from '../adapter.ts'
import type { Caller, Exchange } from '../call.ts'
import { parseObject } from '../json.ts'
import { gather, type RawPicture } from '../pictures.ts'
import { endedFault, isSuccess, type Reading, requestIdOf, submissionFault } from '../proof.ts'
import { createCall, type Target, targetOf } from '../target.ts'
import { type ArkOptions, ArkOptionsSchema } from './options.ts'
import { readingOf, whatArkCannotTake } from './video.ts'
import { createImagesBody, type ImagesAnswer, type ReadPicture, readImages } from './wire.ts'

const LARGEST_PICTURE = 64 * 1024 * 1024

export async function generateImage(
  caller: Caller,
  account: Account,
  submission: Submission<ImageOrder>,
): Promise<ImageReply> {
  const deadline = performance.now() + submission.timeoutMs
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { kind: 'fault', fault: target.fault, requestId: null }
  const { upstreamModel, order } = submission
  const body = Buffer.from(JSON.stringify(createImagesBody(upstreamModel, order, target.value.options)))
  const unsendable = whatArkCannotTake(order.inputs, ['reference_images'], body.length)
  if (unsendable) return { kind: 'fault', fault: unsendable, requestId: null }
  const path = '/images/generations'
  const exchange = await caller.exchange(
    createCall(account, target.value, { submission, path, contentType: 'application/json', body }),
  )
  return imageReply(exchange, { caller, account, target: target.value, deadline, count: order.count })
}

interface Circumstances {
  readonly caller: Caller
  readonly account: Account
  readonly target: Target<ArkOptions>
  readonly deadline: number
  readonly count: number
}

async function imageReply(exchange: Exchange, at: Circumstances): Promise<ImageReply> {
  if (exchange.kind === 'stopped_before_sending') return { kind: 'stopped_before_sending' }
  // Seedream's documented answer has an `error` beside an empty `data` under 200.
  const reading: Reading = { ...readingOf(at.target), refusesIn2xx: true }
  const requestId = requestIdOf(exchange)
  const batch = batchOf(exchange)
  if (batch === null) return { kind: 'fault', fault: submissionFault(exchange, reading), requestId }
  const raw = batch.pictures.map((picture) => asRaw(picture, reading))
  return gather(raw, at.count, {
    caller: at.caller,
    fetch: {
      channelId: at.account.channelId,
      credentialHeaders: {},
      trustedOrigin: '',
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
