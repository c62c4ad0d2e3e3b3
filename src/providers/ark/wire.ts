/**
 * Ark's shapes, no more of them than is needed: the bodies that are sent, and the fields that are read
 * (docs/providers.md).
 */
import type { ImageOrder, OutboundInput, ReportedUsage, VideoOrder } from '../adapter.ts'
import { asObject, type JsonObject, linkAt, listAt, objectAt, plainFields, textAt } from '../json.ts'
import type { Spoken } from '../proof.ts'
import type { ArkOptions } from './options.ts'

export interface CreateTask {
  readonly upstreamModel: string
  readonly order: VideoOrder
  readonly callbackUrl: string | null
}

/** `POST /contents/generations/tasks`. `extra_body` comes last: it is the operator's word for this channel. */
export function createTaskBody(task: CreateTask, options: ArkOptions): JsonObject {
  const { order } = task
  const body: Record<string, unknown> = {
    model: task.upstreamModel,
    content: contentOf(order),
    resolution: order.resolution,
    ratio: order.aspectRatio,
    duration: order.durationSeconds,
    generate_audio: order.generateAudio,
    watermark: options.watermark,
    ...(task.callbackUrl === null ? {} : { callback_url: task.callbackUrl }),
    ...options.extra_body,
  }
  for (const field of options.omit) delete body[field]
  return body
}

type Role = { readonly type: 'image_url' | 'video_url' | 'audio_url'; readonly role: string }

/** Our input kinds, in the order in which they are sent. */
export const ROLES: ReadonlyMap<string, Role> = new Map([
  ['first_frame', { type: 'image_url', role: 'first_frame' }],
  ['last_frame', { type: 'image_url', role: 'last_frame' }],
  ['reference_images', { type: 'image_url', role: 'reference_image' }],
  ['reference_videos', { type: 'video_url', role: 'reference_video' }],
  ['reference_audios', { type: 'audio_url', role: 'reference_audio' }],
])

function contentOf(order: VideoOrder): readonly JsonObject[] {
  const text = order.prompt === '' ? [] : [{ type: 'text', text: order.prompt }]
  const media = [...ROLES].flatMap(([kind, { type, role }]) =>
    (order.inputs[kind] ?? []).map((input) => ({ type, [type]: { url: linkTo(input) }, role })),
  )
  return [...text, ...media]
}

/** A public URL as it is, bytes as a data URL. */
export function linkTo(input: OutboundInput): string {
  if (input.kind === 'url') return input.url
  return `data:${input.contentType};base64,${Buffer.from(input.bytes).toString('base64')}`
}

/** `{"error":{code,message,param,type}}`. */
export function readEnvelope(body: JsonObject): Spoken | null {
  const error = objectAt(body, 'error')
  return error && spokenOf(error)
}

function spokenOf(error: JsonObject): Spoken | null {
  const code = textAt(error, 'code') ?? textAt(error, 'type')
  const message = textAt(error, 'message') ?? ''
  return code === null && message === '' ? null : { code, message }
}

export function readTaskId(body: JsonObject): string | null {
  return textAt(body, 'id')
}

export interface TaskState {
  readonly status: string
  readonly videoUrl: string | null
  /** Under `error`, or, as in lists, under `failure_reason`: an object, or words alone. */
  readonly error: Spoken | null
  readonly reported: ReportedUsage
  /** Tokens of a task that failed: what Ark says of its billing. null: it says nothing. */
  readonly billed: boolean | null
}

/** A task, or null where the body is none. */
export function readTask(body: JsonObject): TaskState | null {
  const status = textAt(body, 'status')
  if (status === null) return null
  const usage = objectAt(body, 'usage')
  const content = objectAt(body, 'content')
  const tokens = usage?.completion_tokens
  return {
    status,
    videoUrl: content && linkAt(content, 'video_url'),
    error: readEnvelope(body) ?? readFailureReason(body),
    reported: {
      ...plainFields(usage, ['completion_tokens', 'total_tokens']),
      ...plainFields(body, ['duration', 'resolution', 'ratio', 'framespersecond', 'generate_audio']),
    },
    billed: typeof tokens === 'number' ? tokens > 0 : null,
  }
}

function readFailureReason(body: JsonObject): Spoken | null {
  const reason = objectAt(body, 'failure_reason')
  if (reason) return spokenOf(reason)
  const words = textAt(body, 'failure_reason')
  return words === null ? null : { code: /^[\w.]{3,80}$/.test(words) ? words : null, message: words }
}

/** The page that `ping` asks for: `{"items":[…],"total":N}`. */
export function isTaskList(body: JsonObject): boolean {
  return listAt(body, 'items') !== null
}

/** `POST /images/generations`. Ark has no `n`: more than one image is a sequence of at most so many. */
export function createImagesBody(upstreamModel: string, order: ImageOrder, options: ArkOptions): JsonObject {
  const images = (order.inputs.reference_images ?? []).map(linkTo)
  const sequence =
    order.count > 1
      ? {
          sequential_image_generation: 'auto',
          sequential_image_generation_options: { max_images: order.count },
        }
      : { sequential_image_generation: 'disabled' }
  const body: Record<string, unknown> = {
    model: upstreamModel,
    prompt: order.prompt,
    ...(images.length === 0 ? {} : { image: images.length === 1 ? images[0] : images }),
    size: options.sizes[order.size] ?? order.size,
    ...sequence,
    response_format: options.response_format,
    watermark: options.watermark,
    ...options.extra_body,
  }
  for (const field of options.omit) delete body[field]
  return body
}

export type ReadPicture =
  | { readonly kind: 'base64'; readonly text: string }
  | { readonly kind: 'link'; readonly url: string }
  | { readonly kind: 'error'; readonly spoken: Spoken }

export interface ImagesAnswer {
  readonly pictures: readonly ReadPicture[]
  readonly reported: ReportedUsage
}

/** The batch, or null where the answer holds none: then it is judged by its envelope. */
export function readImages(body: JsonObject): ImagesAnswer | null {
  const data = listAt(body, 'data')
  if (data === null || data.length === 0) return null
  return {
    pictures: data.map((item) => readPicture(asObject(item) ?? {})),
    reported: plainFields(objectAt(body, 'usage'), ['generated_images', 'output_tokens', 'total_tokens']),
  }
}

function readPicture(item: JsonObject): ReadPicture {
  const spoken = readEnvelope(item)
  if (spoken) return { kind: 'error', spoken }
  const text = textAt(item, 'b64_json')
  if (text !== null) return { kind: 'base64', text }
  const url = linkAt(item, 'url')
  return url !== null ? { kind: 'link', url } : { kind: 'error', spoken: NOTHING }
}

const NOTHING: Spoken = { code: null, message: 'This place of the batch has neither an image nor an error.' }
