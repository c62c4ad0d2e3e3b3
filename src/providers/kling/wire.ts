/** Kling's new standard, no more of it than is needed: the bodies that are sent, and the fields that are read (docs/providers.md). */
import type { FoundJob, OutboundInput, ReportedUsage, VideoOrder } from '../adapter.ts'
import { asObject, type JsonObject, linkAt, listAt, numberAt, plainFields, textAt } from '../json.ts'
import type { Spoken } from '../proof.ts'
import type { KlingOptions } from './options.ts'

export interface CreateTask {
  /** Kling's own client ID: unique within the account, and what a lost submission is looked up by. */
  readonly attemptId: string
  readonly order: VideoOrder
  readonly callbackUrl: string | null
}

/** Our input kinds as entries of `contents`. [?] `last_frame` and `reference_image`: only `first_frame` is in the text at hand. */
const CONTENT_TYPES: ReadonlyMap<string, string> = new Map([
  ['first_frame', 'first_frame'],
  ['last_frame', 'last_frame'],
  ['reference_images', 'reference_image'],
])
/** [?] The legacy standard says `sound: on|off`. */
const AUDIO_FIELD = 'sound'

/** Which product a request is: by its model, else by its inputs. */
export function productOf(upstreamModel: string, order: VideoOrder): string {
  if (upstreamModel.endsWith('-omni')) return 'omni-video'
  const frames = (order.inputs.first_frame ?? []).length + (order.inputs.last_frame ?? []).length
  return frames > 0 ? 'image-to-video' : 'text-to-video'
}

/** Kinds of inputs that this model can be told. */
export function knownKinds(upstreamModel: string): readonly string[] {
  return upstreamModel.endsWith('-omni') ? [...CONTENT_TYPES.keys()] : ['first_frame', 'last_frame']
}

/** `POST /{product}/{model}`. `extra_settings` come last: they are the operator's word for this channel. */
export function createTaskBody(task: CreateTask, options: KlingOptions): JsonObject {
  const { order } = task
  const settings: Record<string, unknown> = {
    resolution: order.resolution,
    duration: order.durationSeconds,
    aspect_ratio: order.aspectRatio, // [?] as in the legacy standard
    [AUDIO_FIELD]: order.generateAudio ? 'on' : 'off',
    ...options.extra_settings,
  }
  for (const field of options.omit) delete settings[field]
  return {
    contents: contentsOf(order),
    settings,
    options: {
      external_task_id: task.attemptId,
      watermark_info: { enabled: options.watermark },
      ...(task.callbackUrl === null ? {} : { callback_url: task.callbackUrl }),
    },
  }
}

function contentsOf(order: VideoOrder): readonly JsonObject[] {
  const text = order.prompt === '' ? [] : [{ type: 'prompt', text: order.prompt }]
  const media = [...CONTENT_TYPES].flatMap(([kind, type]) =>
    (order.inputs[kind] ?? []).map((input) => ({ type, url: addressOf(input) })),
  )
  return [...text, ...media]
}

/** A public URL, or bare base64: Kling takes no data URLs [?]. */
function addressOf(input: OutboundInput): string {
  return input.kind === 'url' ? input.url : Buffer.from(input.bytes).toString('base64')
}

/** `{"code":1101,"message":…,"request_id":…}`; code 0 is no error. */
export function readEnvelope(body: JsonObject): Spoken | null {
  const code = numberAt(body, 'code')
  if (code === null || code === 0) return null
  return { code: String(code), message: textAt(body, 'message') ?? '' }
}

export function readRequestId(body: JsonObject): string | null {
  return textAt(body, 'request_id')
}

/** Of a create: an acceptance has code 0 and an ID. */
export function readTaskId(body: JsonObject): string | null {
  const data = asObject(body.data)
  return body.code === 0 && data ? textAt(data, 'id') : null
}

function objectsAt(from: JsonObject, key: string): readonly JsonObject[] | null {
  const items = listAt(from, key)
  return items === null ? null : items.map(asObject).filter((item) => item !== null)
}

/** `GET /tasks`: the tasks, or null where the answer is no list of them. */
export function readTasks(body: JsonObject): readonly JsonObject[] | null {
  if (body.code !== 0) return null
  return objectsAt(body, 'data')
}

/** `POST /tasks`: a page of them. */
export function readPage(body: JsonObject): { tasks: readonly JsonObject[]; next: string | null } | null {
  const data = body.code === 0 ? asObject(body.data) : null
  const result = data && objectsAt(data, 'result')
  if (!data || !result) return null
  const next = textAt(data, 'next_cursor') ?? numberAt(data, 'next_cursor')
  return {
    tasks: result,
    next: next === null || next === 0 ? null : String(next),
  }
}

export interface TaskState {
  readonly status: string
  readonly videoUrl: string | null
  readonly message: string
  readonly reported: ReportedUsage
  /** What Kling says of the billing of a task that failed. null: it says nothing. */
  readonly billed: boolean | null
}

export function readTask(task: JsonObject): TaskState | null {
  const status = textAt(task, 'status')
  if (status === null) return null
  const outputs = objectsAt(task, 'outputs') ?? []
  const video = outputs.find((output) => output.type === 'video') ?? null
  const [bill = null] = objectsAt(task, 'billing') ?? []
  return {
    status,
    videoUrl: video && linkAt(video, 'url'),
    message: textAt(task, 'message') ?? '',
    reported: {
      ...plainFields(video, ['duration']),
      ...plainFields(bill, ['charge_type', 'cash_type', 'amount', 'currency', 'package_type']),
    },
    billed: bill === null ? null : Number(bill.amount) > 0,
  }
}

/** What Kling tells of a task: whose it is by its external ID, and nothing of what was ordered. */
export function readFound(task: JsonObject): FoundJob | null {
  const id = textAt(task, 'id')
  if (id === null) return null
  return {
    providerTaskId: id,
    createdAtMs: numberAt(task, 'create_time'),
    clientId: textAt(task, 'external_id'),
    upstreamModel: null,
    durationSeconds: null,
    resolution: null,
    aspectRatio: null,
    prompt: null,
  }
}
