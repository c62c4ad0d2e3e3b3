/**
 * OpenAI's shapes of videos and images, read as leniently as the gateways write them: absent fields, flat errors, other
 * names of the same status (docs/providers.md).
 */
import type { ImageOrder, OutboundInput, ReportedUsage, VideoOrder } from '../adapter.ts'
import { asObject, type JsonObject, linkAt, listAt, objectAt, plainFields, textAt } from '../json.ts'
import { buildForm, type Form, type FormPart } from '../multipart.ts'
import type { Spoken } from '../proof.ts'
import type { OpenAiOptions } from './options.ts'

/** Our kinds that OpenAI's own dialect has a name for; the others are extensions. */
export const EXTENDED_KINDS = ['last_frame', 'reference_images', 'reference_videos', 'reference_audios']

/** The plain fields of `POST /videos`. `size` null: left to the provider. */
export function videoFields(
  upstreamModel: string,
  order: VideoOrder,
  how: { readonly size: string | null; readonly options: OpenAiOptions },
): Readonly<Record<string, unknown>> {
  const own = {
    resolution: order.resolution,
    aspect_ratio: order.aspectRatio,
    generate_audio: order.generateAudio,
  }
  const frame = { ...(how.size === null ? {} : { size: how.size }), ...(how.options.extensions ? own : {}) }
  return finished(
    { model: upstreamModel, prompt: order.prompt, seconds: String(order.durationSeconds), ...frame },
    how.options,
  )
}

/** What the channel adds, and what it leaves out. */
function finished(
  fields: Readonly<Record<string, unknown>>,
  options: OpenAiOptions,
): Record<string, unknown> {
  const silent = options.gateway === 'litellm' ? { num_retries: 0, disable_fallbacks: true } : {}
  const all: Record<string, unknown> = { ...fields, ...silent, ...options.extra_body }
  for (const field of options.omit) delete all[field]
  return all
}

/** As the SDK sends it: every value a string, arrays as `name[]`, files as they are. */
export function asForm(fields: Readonly<Record<string, unknown>>, inputs: VideoOrder['inputs']): Form {
  const plain = Object.entries(fields).map(([name, value]) => ({ name, value: asText(value) }))
  return buildForm([...plain, ...Object.entries(inputs).flatMap(([kind, given]) => inputParts(kind, given))])
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function inputParts(kind: string, given: readonly OutboundInput[]): FormPart[] {
  return given.map((input) => {
    const name = input.kind === 'url' ? linkName(kind) : fileName(kind)
    return input.kind === 'url' ? { name, value: input.url } : { name, ...input }
  })
}

function linkName(kind: string): string {
  return kind === 'first_frame' ? 'input_reference[image_url]' : fileName(kind)
}

function fileName(kind: string): string {
  if (kind === 'first_frame') return 'input_reference'
  return kind === 'last_frame' ? kind : `${kind}[]`
}

/** The same as JSON; bytes become data URLs. */
export function asJson(fields: Readonly<Record<string, unknown>>, inputs: VideoOrder['inputs']): Form {
  const body: Record<string, unknown> = { ...fields }
  for (const [kind, given] of Object.entries(inputs)) {
    const links = given.map(linkTo)
    if (links.length === 0) continue
    if (kind === 'first_frame') body.input_reference = { image_url: links[0] }
    else body[kind] = kind === 'last_frame' ? links[0] : links
  }
  return { contentType: 'application/json', body: Buffer.from(JSON.stringify(body)) }
}

function linkTo(input: OutboundInput): string {
  if (input.kind === 'url') return input.url
  return `data:${input.contentType};base64,${Buffer.from(input.bytes).toString('base64')}`
}

/**
 * `{"error":{message,type,code}}`, a gateway's flat `{"code","message","type"}`, or `{"error":"text"}`. Where the code
 * is empty the type stands for it. A finished object that merely has a `code` of success is no error.
 */
export function readEnvelope(body: JsonObject): Spoken | null {
  const error = objectAt(body, 'error')
  if (error) return spokenOf(error)
  const words = textAt(body, 'error')
  if (words !== null) return { code: codeAt(body), message: words }
  return textAt(body, 'message') !== null && textAt(body, 'status') === null ? spokenOf(body) : null
}

function spokenOf(error: JsonObject): Spoken | null {
  const code = codeAt(error)
  const message = [textAt(error, 'message'), moderatedFor(error)].filter(Boolean).join(' ')
  return code === null && message === '' ? null : { code, message }
}

/** `moderation_details.categories`: the only place that names a likeness, which is a real person's. */
function moderatedFor(error: JsonObject): string | null {
  const details = objectAt(error, 'moderation_details')
  const categories =
    details && listAt(details, 'categories')?.filter((category) => typeof category === 'string')
  return categories?.length ? `(${categories.join(', ')})` : null
}

function codeAt(error: JsonObject): string | null {
  const code = error.code
  return typeof code === 'number' ? String(code) : (textAt(error, 'code') ?? textAt(error, 'type'))
}

/** The ID of a created video: OpenAI's `id`, or an older gateway's `task_id`. */
export function readVideoId(body: JsonObject): string | null {
  return idAt(body, 'id') ?? idAt(body, 'task_id')
}

/** A text, or a whole number, as some databases give it. */
function idAt(body: JsonObject, key: string): string | null {
  const id = body[key]
  return Number.isSafeInteger(id) ? String(id) : textAt(body, key)
}

export type VideoStatus = 'queued' | 'running' | 'succeeded' | 'failed' | 'expired' | 'cancelled'

const STATUSES: ReadonlyMap<string, VideoStatus> = new Map([
  ['queued', 'queued'],
  ['in_progress', 'running'],
  ['processing', 'running'],
  ['completed', 'succeeded'],
  ['succeeded', 'succeeded'],
  ['failed', 'failed'],
  ['expired', 'expired'],
  ['cancelled', 'cancelled'],
  ['canceled', 'cancelled'],
])

export interface VideoState {
  /** null: a status that is not known; `rawStatus` is it. */
  readonly status: VideoStatus | null
  readonly rawStatus: string
  readonly progress: number | null
  /** A link to the film where the object has one. */
  readonly link: string | null
  readonly error: Spoken | null
  readonly reported: ReportedUsage
}

/** A video object, or null where the body is none. */
export function readVideo(body: JsonObject): VideoState | null {
  const rawStatus = textAt(body, 'status')
  if (rawStatus === null) return null
  const error = readEnvelope(body)
  const metadata = objectAt(body, 'metadata')
  return {
    status: error?.code === 'cancelled' ? 'cancelled' : (STATUSES.get(rawStatus) ?? null),
    rawStatus,
    progress: progressOf(body.progress),
    link: (metadata && linkAt(metadata, 'url')) ?? linkAt(body, 'url') ?? linkAt(body, 'video_url'),
    error,
    reported: {
      ...plainFields(body, ['seconds', 'size']),
      ...plainFields(objectAt(body, 'usage'), ['completion_tokens', 'total_tokens']),
    },
  }
}

/** 0 to 100; some write `"40%"`. */
function progressOf(value: unknown): number | null {
  const number =
    typeof value === 'string' && /^\d{1,3}(\.\d+)?%?$/.test(value) ? Number.parseFloat(value) : value
  return typeof number === 'number' && number >= 0 && number <= 100 ? Math.floor(number) : null
}

/** `{"id","object":"video.deleted","deleted":true}`, or the video itself with a status that says so. */
export function saysCancelled(body: JsonObject): boolean {
  return body.deleted === true || readVideo(body)?.status === 'cancelled'
}

export function isModelList(body: JsonObject): boolean {
  return listAt(body, 'data') !== null
}

/** `POST /images/generations`, and the fields beside the files of `POST /images/edits`. */
export function imageFields(
  upstreamModel: string,
  order: ImageOrder,
  options: OpenAiOptions,
): Record<string, unknown> {
  return finished(
    {
      model: upstreamModel,
      prompt: order.prompt,
      n: order.count,
      size: options.sizes[order.size] ?? order.size,
      ...(order.quality === null ? {} : { quality: order.quality }),
      ...(options.image_response_format === null ? {} : { response_format: options.image_response_format }),
    },
    options,
  )
}

/** The images to be edited, as files. */
export function asEditForm(
  fields: Readonly<Record<string, unknown>>,
  images: readonly OutboundInput[],
): Form {
  const plain = Object.entries(fields).map(([name, value]) => ({ name, value: asText(value) }))
  const files = images.flatMap((image) => (image.kind === 'bytes' ? [{ name: 'image[]', ...image }] : []))
  return buildForm([...plain, ...files])
}

export type ReadPicture =
  | { readonly kind: 'base64'; readonly text: string }
  | { readonly kind: 'link'; readonly url: string }
  | { readonly kind: 'error'; readonly spoken: Spoken }

export interface ImagesAnswer {
  readonly pictures: readonly ReadPicture[]
  readonly reported: ReportedUsage
}

/** The batch, or null where the answer holds none. */
export function readImages(body: JsonObject): ImagesAnswer | null {
  const data = listAt(body, 'data')
  if (data === null || data.length === 0) return null
  return {
    pictures: inPlaces(
      data.map((item) => readPicture(asObject(item) ?? {})),
      listAt(body, 'failed') ?? [],
    ),
    reported: {
      ...plainFields(body, ['size', 'quality', 'output_format']),
      ...plainFields(objectAt(body, 'usage'), ['input_tokens', 'output_tokens', 'total_tokens']),
    },
  }
}

/** Another Yardmaster lists what failed apart: `{"failed":[{"index","code","message"}]}`. Back into its places with it. */
function inPlaces(pictures: readonly ReadPicture[], failed: readonly unknown[]): readonly ReadPicture[] {
  const places = [...pictures]
  for (const entry of failed) {
    const error = asObject(entry)
    const spoken = error && spokenOf(error)
    const index = error?.index
    if (spoken) places.splice(typeof index === 'number' ? index : places.length, 0, { kind: 'error', spoken })
  }
  return places
}

function readPicture(item: JsonObject): ReadPicture {
  const text = textAt(item, 'b64_json')
  if (text !== null) return { kind: 'base64', text }
  const url = linkAt(item, 'url')
  if (url !== null) return { kind: 'link', url }
  return { kind: 'error', spoken: readEnvelope(item) ?? NOTHING }
}

const NOTHING: Spoken = { code: null, message: 'This place of the batch has neither an image nor an error.' }
