// The files that jobs make, and the signed addresses under which they are fetched.

import { type Answer, binary } from './answer.ts'
import { hashOf } from './clock.ts'
import type { Exchange } from './exchange.ts'
import type { Job } from './job.ts'
import { makeMp4, noteBox, type VideoSpec } from './media/mp4.ts'
import { makeStill, rgbOf, type StillFormat } from './media/still.ts'
import type { World } from './world.ts'

const KEPT_VIDEOS = 64
const COLOURS = 8
const videos = new Map<string, Buffer>()

const TYPES: Record<string, string> = {
  mp4: 'video/mp4',
  png: 'image/png',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
}

export type PictureSpec = { width: number; height: number; format: StillFormat }

/** The job's video: as asked for, unless a script makes it differ. No two jobs have the same bytes. */
export function videoOf(job: Job): Buffer {
  const spec: VideoSpec = { ...job.video, ...job.plan.artefact, seed: hashOf(job.id) % COLOURS }
  return Buffer.concat([cachedVideo(spec), noteBox(job.id)])
}

/** The job's picture number `index`. */
export function pictureOf(
  job: Pick<Job, 'id'>,
  index: number,
  { width, height, format }: PictureSpec,
): Buffer {
  const note = `${job.id}/${index}`
  return makeStill(format, { width, height, rgb: rgbOf(hashOf(note)), note })
}

/** The first or last frame of a video, as a picture. */
export function frameOf(job: Job): Buffer {
  const { width, height } = { ...job.video, ...job.plan.artefact }
  return pictureOf(job, 0, { width, height, format: 'png' })
}

/** An address that works for a GET until it expires. */
export function signedUrl(world: World, job: Job, file: string): string {
  const from = job.endedAt ?? world.clock.now()
  const expires = Math.floor(from / 1000) + job.settings.url_ttl_s
  const path = `/files/${job.protocol}/${job.account}/${job.id}/${file}`
  return `${job.origin}${path}?X-Tos-Expires=${expires}&X-Tos-Signature=${world.sign(path, expires)}`
}

/** Answers a request for a signed address. The signature is bound to GET, as at the real store. */
export function download(exchange: Exchange, method: string, path: string): Answer {
  const { world, job, query, variant = '' } = exchange
  const expires = Number(query.get('X-Tos-Expires'))
  const signature = query.get('X-Tos-Signature') ?? ''
  if (method !== 'GET' || signature !== world.sign(path, expires))
    return storeError(
      403,
      'SignatureDoesNotMatch',
      'The request signature does not match the calculated one.',
    )
  if (world.clock.now() / 1000 >= expires) return storeError(403, 'AccessDenied', 'Request has expired')
  const file = job === undefined ? undefined : fileOf(job, variant)
  if (file === undefined) return storeError(404, 'NoSuchKey', 'The specified key does not exist.')
  return binary(TYPES[variant.split('.').pop() ?? ''] ?? 'application/octet-stream', file)
}

function fileOf(job: Job, name: string): Buffer | undefined {
  if (job.state !== 'succeeded') return undefined
  if (name === 'video.mp4') return videoOf(job)
  if (name === 'last_frame.png') return frameOf(job)
  const picture = /^(\d+)-(\d+)x(\d+)\.(png|jpeg|webp)$/.exec(name)
  if (picture === null) return undefined
  const [, index, width, height, format] = picture
  return pictureOf(job, Number(index), {
    width: Number(width),
    height: Number(height),
    format: format as StillFormat,
  })
}

function storeError(status: number, code: string, message: string): Answer {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`
  return { status, headers: { 'content-type': 'application/xml' }, body: Buffer.from(body) }
}

function cachedVideo(spec: VideoSpec): Buffer {
  const key = JSON.stringify([spec.width, spec.height, spec.seconds, spec.audio, spec.seed])
  const known = videos.get(key)
  if (known !== undefined) return known
  const made = makeMp4(spec)
  if (videos.size >= KEPT_VIDEOS) videos.clear()
  videos.set(key, made)
  return made
}
