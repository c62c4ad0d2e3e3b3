// Kling's video tasks, new standard: create, query by either ID, list by time.

import { type Answer, json } from '../answer.ts'
import { signedUrl } from '../artefact.ts'
import type { CallbackBody } from '../callbacks.ts'
import type { Exchange } from '../exchange.ts'
import type { Job } from '../job.ts'
import type { World } from '../world.ts'
import { invalid, klingError, klingNamed } from './errors.ts'

const KEPT_MS = 30 * 86_400_000
const LARGEST_PAGE = 500
const LONGEST_PROMPT = 2500
const SHORT_SIDES: Record<string, number> = { '720p': 720, '1080p': 1080, '4k': 2160 }
const RATIOS: Record<string, [number, number]> = { '16:9': [16, 9], '9:16': [9, 16], '1:1': [1, 1] }
const CONTENT_TYPES: Record<string, readonly string[]> = {
  'text-to-video': ['prompt'],
  'image-to-video': ['prompt', 'first_frame', 'last_frame'],
  'omni-video': ['prompt', 'first_frame', 'last_frame', 'reference_image'],
}

type Asked = {
  product: string
  prompt: string
  seconds: number
  width: number
  height: number
  audio: boolean
  externalId: string
  callbackUrl: string | null
}

export async function createVideo(exchange: Exchange, product: string): Promise<Answer> {
  const { world, requestId, effect, account, model = '' } = exchange
  if (exchange.body.kind !== 'fields') return klingError(invalid('the body must be JSON'), requestId)
  if (!world.configuration.knows('kling', account, model)) return klingNamed('model_missing', requestId)
  const asked = read(exchange.body.fields, product)
  if (typeof asked === 'string') return klingError(invalid(asked), requestId)
  if (asked.externalId !== '' && byExternalId(exchange, asked.externalId).length > 0)
    return klingError(invalid('external_task_id is used already'), requestId)
  const lane = world.jobs.lane({ protocol: 'kling', account, model, kind: 'video' })
  if (lane.isFull(world.clock.now())) return klingNamed('concurrency', requestId)

  const jobs = Array.from({ length: effect.jobs ?? 1 }, () => accept(exchange, asked, model))
  world.ledger.accept(
    exchange.entry,
    jobs.map((job) => job.id),
  )
  const [first] = jobs
  if (first === undefined) throw new Error('a create makes at least one job')
  if (first.plan.earlyCallback === true) await world.callbacks.first(first)
  return json(200, {
    code: 0,
    message: 'SUCCEED',
    request_id: requestId,
    data: {
      id: first.id,
      status: 'submitted',
      create_time: first.createdAt,
      update_time: first.createdAt,
      external_id: asked.externalId,
    },
  })
}

/** What was asked for, or what is wrong with it. */
function read(fields: Record<string, unknown>, product: string): Asked | string {
  const settings = record(fields.settings)
  const options = record(fields.options)
  const contents = Array.isArray(fields.contents) ? fields.contents.map(record) : []
  const allowed = CONTENT_TYPES[product] ?? []
  const strange = contents.find((item) => !allowed.includes(String(item.type)))
  if (strange !== undefined) return `contents: the type ${String(strange.type)} does not belong to ${product}`
  const empty = contents.find(
    (item) => item.type !== 'prompt' && (typeof item.url !== 'string' || item.url === ''),
  )
  if (empty !== undefined) return `contents: ${String(empty.type)} has no url`
  const dataUrl = contents.find((item) => typeof item.url === 'string' && item.url.startsWith('data:'))
  if (dataUrl !== undefined) return 'contents: base64 must come without a data: prefix'
  const prompt = contents.filter((item) => item.type === 'prompt').map((item) => String(item.text ?? ''))
  if (prompt.join('\n').length > LONGEST_PROMPT) return 'contents: the prompt is longer than 2500 characters'
  if (product === 'text-to-video' && prompt.length === 0) return 'contents: a prompt is required'
  const short = SHORT_SIDES[String(settings.resolution)]
  if (short === undefined) return 'settings.resolution: expected 720p, 1080p or 4k'
  const { duration } = settings
  if (typeof duration !== 'number' || !Number.isInteger(duration) || duration < 3 || duration > 15)
    return 'settings.duration: expected 3 to 15'
  const ratio = RATIOS[String(settings.aspect_ratio ?? '16:9')]
  if (ratio === undefined) return 'settings.aspect_ratio: expected 16:9, 9:16 or 1:1'
  return {
    product,
    prompt: prompt.join('\n'),
    seconds: duration,
    ...frame(short, ratio),
    audio: settings.sound === 'on',
    externalId: typeof options.external_task_id === 'string' ? options.external_task_id : '',
    callbackUrl: typeof options.callback_url === 'string' ? options.callback_url : null,
  }
}

function record(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}

function frame(short: number, [wide, high]: [number, number]): { width: number; height: number } {
  const long = 2 * Math.round((short * Math.max(wide, high)) / Math.min(wide, high) / 2)
  return wide >= high ? { width: long, height: short } : { width: short, height: long }
}

function accept(exchange: Exchange, asked: Asked, model: string): Job {
  const { seconds, width, height, audio } = asked
  return exchange.world.jobs.add({
    protocol: 'kling',
    account: exchange.account,
    model,
    kind: 'video',
    attempt: exchange.attempt,
    prompt: asked.prompt,
    request: asked,
    video: { width, height, seconds, audio },
    plan: exchange.effect.plan ?? {},
    origin: exchange.origin,
    callbackUrl: asked.callbackUrl,
    tokens: 0,
    images: 0,
    expiresAfterMs: KEPT_MS,
  })
}

/** `GET /tasks?task_ids=a,b` or `?external_task_ids=x,y`: exactly one of the two. */
export function queryVideos(exchange: Exchange): Answer {
  const { world, query, requestId, account, effect } = exchange
  const ids = query.get('task_ids')
  const external = query.get('external_task_ids')
  if ((ids === null) === (external === null))
    return klingError(invalid('expected exactly one of task_ids and external_task_ids'), requestId)
  const jobs =
    ids !== null
      ? ids.split(',').flatMap((id) => world.jobs.find(id, 'kling', account) ?? [])
      : (external ?? '').split(',').flatMap((id) => byExternalId(exchange, id))
  const data = jobs
    .filter((job) => isKept(world, job))
    .flatMap((job) => shown(world, job, { look: ids !== null, show: effect.show }))
  return json(200, { code: 0, message: 'SUCCEED', request_id: requestId, data })
}

function shown(world: World, job: Job, how: { look: boolean; show: string | undefined }): CallbackBody[] {
  if (how.look) {
    world.jobs.look(job)
    if (job.polls <= (job.plan.hiddenPolls ?? 0)) return []
  }
  return [showTask(world, job, how.show ?? (how.look ? job.plan.shows?.[job.polls] : undefined))]
}

/** `POST /tasks`: by time, the oldest first, page by page. */
export function listVideos(exchange: Exchange): Answer {
  const { world, requestId, account } = exchange
  const fields = exchange.body.kind === 'fields' ? exchange.body.fields : {}
  const from = typeof fields.start_time === 'number' ? fields.start_time : world.clock.now() - KEPT_MS
  const until = typeof fields.end_time === 'number' ? fields.end_time : Number.POSITIVE_INFINITY
  const limit = typeof fields.limit === 'number' ? fields.limit : 20
  const start = Number(fields.cursor ?? 0)
  if (!(limit >= 1 && limit <= LARGEST_PAGE))
    return klingError(invalid('limit: expected 1 to 500'), requestId)
  if (!Number.isInteger(start) || start < 0) return klingError(invalid('cursor'), requestId)
  const all = [...world.jobs.ofAccount('kling', account)]
    .filter((job) => isKept(world, job) && job.createdAt >= from && job.createdAt <= until)
    .reverse()
  const page = all.slice(start, start + limit)
  const next = start + limit < all.length ? String(start + limit) : ''
  const data = { result: page.map((job) => showTask(world, job)), next_cursor: next }
  return json(200, { code: 0, message: 'SUCCEED', request_id: requestId, data })
}

function byExternalId({ world, account }: Exchange, externalId: string): Job[] {
  return [...world.jobs.ofAccount('kling', account)].filter(
    (job) => (job.request as Asked).externalId === externalId,
  )
}

function isKept(world: World, job: Job): boolean {
  return job.kind === 'video' && world.clock.now() - job.createdAt < KEPT_MS
}

const STATUSES: Record<string, string> = {
  queued: 'submitted',
  running: 'processing',
  succeeded: 'succeeded',
  // There is no such state; Kling says in words what came of the task.
  failed: 'failed',
  expired: 'failed',
  cancelled: 'failed',
}

/** A task as a query or a callback shows it, with another status when a script says so. */
export function showTask(world: World, job: Job, status?: string): CallbackBody {
  const succeeded = job.state === 'succeeded' && (status === undefined || status === 'succeeded')
  const state = status === undefined ? (STATUSES[job.state] ?? job.state) : (STATUSES[status] ?? status)
  return {
    id: job.id,
    status: state,
    message: job.state === 'expired' ? 'The task timed out' : (job.failure?.message ?? ''),
    create_time: job.createdAt,
    update_time: job.endedAt ?? job.startedAt ?? job.createdAt,
    external_id: (job.request as Asked).externalId,
    ...(succeeded ? result(world, job) : {}),
  }
}

function result(world: World, job: Job): Record<string, unknown> {
  const { plan, video } = job
  const address = plan.withoutUrl === true ? {} : { url: signedUrl(world, job, 'video.mp4') }
  return {
    outputs: [
      {
        type: 'video',
        id: `${job.id}-0`,
        ...address,
        duration: String(plan.artefact?.seconds ?? video.seconds),
      },
    ],
    billing: [
      {
        charge_type: 'cash',
        amount: job.costMicros / 1e6,
        currency: 'CNY',
        list_price: job.costMicros / 1e6,
      },
    ],
  }
}
