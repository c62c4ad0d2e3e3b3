/**
 * The pictures of an image answer, as bytes. Once the provider has answered, the work is done and paid for: a picture
 * that cannot be fetched is fetched again, never generated again, so its fault is not retryable (GOAL-5, COST-7).
 */
import { setTimeout as wait } from 'node:timers/promises'
import { isCutOff } from '../core/artefact.ts'
import { classifyEnded, type Fault, meaning } from '../core/outcome.ts'
import type { GeneratedImage, ImageItem, ImageReply, ReportedUsage } from './adapter.ts'
import type { Caller } from './call.ts'
import { type Fetch, openDownload } from './download.ts'

/** One place of the batch as the provider gave it. */
export type RawPicture =
  | { readonly kind: 'base64'; readonly text: string }
  | { readonly kind: 'link'; readonly url: string }
  | { readonly kind: 'fault'; readonly fault: Fault }

export interface Gathering {
  readonly caller: Caller
  /** How links are fetched; `url` and `timeoutMs` are filled in. */
  readonly fetch: Omit<Fetch, 'url' | 'timeoutMs'>
  /** By `performance.now()`: the end of the whole call. */
  readonly deadline: number
  readonly requestId: string | null
  readonly reported: ReportedUsage | null
}

const TRIES = 3
const PAUSES_MS = [100, 500]

/** A reply with `count` places. Where nothing succeeded and nothing was billed, the fault stands for the whole call. */
export async function gather(raw: readonly RawPicture[], count: number, how: Gathering): Promise<ImageReply> {
  const places = Array.from({ length: Math.max(count, raw.length) }, (_, index) => raw[index] ?? MISSING)
  const items = await Promise.all(places.slice(0, count).map((picture) => itemOf(picture, how)))
  const whole = faultOfAll(items)
  if (whole) return { kind: 'fault', fault: whole, requestId: how.requestId }
  return { kind: 'finished', items, requestId: how.requestId, reported: how.reported }
}

const MISSING: RawPicture = {
  kind: 'fault',
  fault: classifyEnded({
    meaning: meaning('supply/attempt', 'result_missing', { impact: 'failure' }),
    providerCode: null,
    message: 'The provider made fewer images than were asked for.',
    provesRefusal: true,
  }),
}

async function itemOf(picture: RawPicture, how: Gathering): Promise<ImageItem> {
  switch (picture.kind) {
    case 'fault':
      return { ok: false, fault: picture.fault, billed: false }
    case 'base64':
      return asItem(pictureOf(Buffer.from(picture.text, 'base64')), 'it is no whole image')
    case 'link':
      return fetchPicture(picture.url, how)
  }
}

async function fetchPicture(url: string, how: Gathering): Promise<ImageItem> {
  let why = 'the time of the call was up'
  for (let tried = 0; tried < TRIES && how.deadline > performance.now(); tried++) {
    const fetched = await fetchOnce(url, how)
    const picture = typeof fetched === 'string' ? null : pictureOf(fetched)
    if (picture) return asItem(picture, why)
    // A page in its place, or half of it, is as good as no answer.
    why = typeof fetched === 'string' ? fetched : 'its link leads to no whole image'
    await wait(Math.min(PAUSES_MS[tried] ?? 0, Math.max(how.deadline - performance.now(), 0)))
  }
  return asItem(null, why)
}

/** The bytes, or why there are none. */
async function fetchOnce(url: string, how: Gathering): Promise<Buffer | string> {
  const timeoutMs = Math.max(1, Math.ceil(how.deadline - performance.now()))
  const opened = await openDownload(how.caller, { ...how.fetch, url, timeoutMs })
  if (opened.kind === 'answered') return `its link answered HTTP ${opened.answer.status}`
  if (opened.kind === 'broken') return `its link broke off: ${endText(opened.evidence.end)}`
  try {
    const pieces: Uint8Array[] = []
    for await (const piece of opened.stream) pieces.push(piece)
    return Buffer.concat(pieces)
  } catch (error) {
    return error instanceof Error ? error.message : 'its link broke off'
  }
}

function endText(end: { readonly kind: string; readonly code?: string }): string {
  return end.code ?? end.kind
}

function asItem(image: GeneratedImage | null, why: string): ImageItem {
  return image ? { ok: true, image } : { ok: false, fault: unavailable(why), billed: true }
}

/** Made and paid for, but not to be had. */
function unavailable(why: string): Fault {
  return classifyEnded({
    meaning: meaning('supply/attempt', 'result_unavailable', { impact: 'failure' }),
    providerCode: null,
    message: `The image was generated, but ${why}.`,
    provesRefusal: true,
  })
}

/** By its first bytes: what a provider says of the type is often wrong. null: nothing known, empty, or cut off. */
function pictureOf(bytes: Buffer): GeneratedImage | null {
  const contentType = SIGNATURES.find(([, matches]) => matches(bytes))?.[0]
  return contentType === undefined || isCutOff(bytes) ? null : { bytes, contentType }
}

const SIGNATURES: readonly (readonly [string, (bytes: Buffer) => boolean])[] = [
  [
    'image/png',
    (bytes) => bytes.subarray(0, 8).equals(Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])),
  ],
  ['image/jpeg', (bytes) => bytes.subarray(0, 3).equals(Buffer.from([0xff, 0xd8, 0xff]))],
  ['image/webp', (bytes) => latin(bytes, 0, 4) === 'RIFF' && latin(bytes, 8, 12) === 'WEBP'],
  ['image/gif', (bytes) => latin(bytes, 0, 4) === 'GIF8'],
  ['image/avif', (bytes) => latin(bytes, 4, 12) === 'ftypavif'],
  ['image/svg+xml', (bytes) => /^\s*(<\?xml[^>]*>\s*)?<svg[\s>]/.test(latin(bytes, 0, 300))],
]

function latin(bytes: Buffer, from: number, to: number): string {
  return bytes.subarray(from, to).toString('latin1')
}

/** Null as soon as one image is there, or was billed. Else the fault that forbids most. */
function faultOfAll(items: readonly ImageItem[]): Fault | null {
  const faults: Fault[] = []
  for (const item of items) {
    if (item.ok || item.billed) return null
    faults.push(item.fault)
  }
  return faults.find((fault) => !fault.retryable) ?? faults[0] ?? null
}
