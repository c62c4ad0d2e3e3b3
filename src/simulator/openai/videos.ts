// OpenAI's video resource, which gateways of its kind go on speaking.

import { type Answer, binary, json } from '../answer.ts'
import { frameOf, videoOf } from '../artefact.ts'
import { UploadedFile } from '../body.ts'
import type { Limits } from '../configuration.ts'
import type { Exchange } from '../exchange.ts'
import { isRecord } from '../fields.ts'
import { isEnded, type Job } from '../job.ts'
import {
  invalidValue,
  isOpenAiProblem,
  missingField,
  type OpenAiProblem,
  openAiError,
  openAiNamed,
} from './errors.ts'

type Asked = {
  model: string
  prompt: string
  seconds: number
  size: string
  width: number
  height: number
  audio: boolean
}

const SORA_SECONDS = ['4', '8', '12']
const SORA_SIZES = ['720x1280', '1280x720', '1024x1792', '1792x1024']
const LONGEST_PROMPT = 32_000
const LONGEST_SIDE = 4096
const DEFAULT_MODEL = 'sora-2'
const RESULT_KEPT_S = 86_400

export function createVideo(exchange: Exchange): Answer {
  const { world, account, effect } = exchange
  const asked = readRequest(exchange)
  if (isOpenAiProblem(asked)) return openAiError(asked)
  const { model } = asked
  if (!world.configuration.knows('openai', account, model)) return openAiNamed('model_missing')
  const lane = world.jobs.lane({ protocol: 'openai', account, model, kind: 'video' })
  const tooMuch = limitProblem(exchange, asked, lane.settings.limits)
  if (tooMuch !== undefined) return openAiError(tooMuch)
  if (lane.isFull(world.clock.now())) return openAiNamed('concurrency')
  const jobs = Array.from({ length: effect.jobs ?? 1 }, () => accept(exchange, asked))
  world.ledger.accept(
    exchange.entry,
    jobs.map((job) => job.id),
  )
  const [first] = jobs
  // The answer to a create always says queued, also when work begins at once.
  return first === undefined ? openAiNamed('internal') : json(200, showVideo(first, 'queued'))
}

function readRequest({ body }: Exchange): Asked | OpenAiProblem {
  if (body.kind === 'invalid')
    return { ...invalidValue('', `We could not parse your body: ${body.problem}`), code: null }
  const fields = body.kind === 'fields' ? body.fields : {}
  const { prompt } = fields
  const model = fields.model ?? DEFAULT_MODEL
  if (prompt === undefined) return missingField('prompt')
  if (typeof prompt !== 'string' || prompt.trim() === '')
    return invalidValue('prompt', "Invalid 'prompt': empty.")
  if (prompt.length > LONGEST_PROMPT)
    return invalidValue('prompt', `Invalid 'prompt': at most ${LONGEST_PROMPT}.`)
  if (typeof model !== 'string' || model === '') return invalidValue('model', "Invalid 'model'.")
  const seconds = fields.seconds ?? '4'
  const size = fields.size ?? '720x1280'
  const [, w, h] = /^(\d{1,4})x(\d{1,4})$/.exec(String(size)) ?? []
  const [width, height] = [Number(w), Number(h)]
  const strict = model.startsWith('sora-')
  if (strict ? !SORA_SECONDS.includes(String(seconds)) : !isSeconds(seconds))
    return invalidValue('seconds', `Invalid value: '${seconds}'. Supported values are: '4', '8', and '12'.`)
  if (!(width >= 16 && height >= 16 && width <= LONGEST_SIDE && height <= LONGEST_SIDE))
    return invalidValue('size', `Invalid value: '${size}'. Expected <width>x<height>.`)
  if (strict && !SORA_SIZES.includes(String(size)))
    return invalidValue('size', `Invalid value: '${size}'. Supported values are: ${SORA_SIZES.join(', ')}.`)
  const problem = referenceProblem(fields.input_reference)
  if (problem !== undefined) return problem
  const audio = String(fields.generate_audio ?? 'true') !== 'false'
  return { model, prompt, seconds: Number(seconds), size: String(size), width, height, audio }
}

function isSeconds(value: unknown): boolean {
  return /^\d{1,2}$/.test(String(value)) && Number(value) >= 1 && Number(value) <= 60
}

function referenceProblem(reference: unknown): OpenAiProblem | undefined {
  if (reference === undefined) return undefined
  if (reference instanceof UploadedFile) {
    if (reference.bytes.length > 0) return undefined
    return invalidValue('input_reference', 'The file is empty.')
  }
  if (isRecord(reference)) {
    const given = ['image_url', 'file_id'].filter((name) => typeof reference[name] === 'string')
    if (given.length === 1) return undefined
  }
  return invalidValue('input_reference', 'Expected a file, or an object with one of image_url and file_id.')
}

function limitProblem({ body }: Exchange, asked: Asked, limits: Limits): OpenAiProblem | undefined {
  const [least, most] = limits.seconds ?? [0, Infinity]
  if (asked.seconds < least || asked.seconds > most)
    return invalidValue('seconds', `Invalid value: '${asked.seconds}'. Expected ${least} to ${most}.`)
  const fields = body.kind === 'fields' ? body.fields : {}
  for (const kind of ['images', 'videos', 'audios'] as const) {
    const count = [fields[`reference_${kind}`] ?? []].flat().length
    if (count > (limits[kind] ?? Infinity))
      return invalidValue(`reference_${kind}`, `${count} given, at most ${limits[kind]}.`)
  }
  return undefined
}

function accept(exchange: Exchange, asked: Asked): Job {
  const { model, prompt, width, height, seconds, audio } = asked
  return exchange.world.jobs.add({
    protocol: 'openai',
    account: exchange.account,
    model,
    kind: 'video',
    attempt: exchange.attempt,
    prompt,
    request: { size: asked.size },
    video: { width, height, seconds, audio },
    plan: exchange.effect.plan ?? {},
    origin: exchange.origin,
    callbackUrl: null,
    tokens: Math.round((width * height * (24 * seconds + 1)) / 1024),
    images: 0,
    expiresAfterMs: Infinity,
  })
}

export function queryVideo({ world, job, jobId, effect }: Exchange): Answer {
  if (job === undefined) return noVideo(jobId)
  world.jobs.look(job)
  if (job.polls <= (job.plan.hiddenPolls ?? 0)) return noVideo(jobId)
  const shown = effect.show ?? job.plan.shows?.[job.polls]
  return json(200, showVideo(job, shown))
}

function noVideo(id: string | undefined): Answer {
  return openAiError({
    status: 404,
    type: 'invalid_request_error',
    code: 'not_found',
    message: `Video with id '${id}' not found.`,
  })
}

const STATUSES = {
  queued: 'queued',
  running: 'in_progress',
  succeeded: 'completed',
  failed: 'failed',
  expired: 'failed',
  cancelled: 'failed',
} as const

function showVideo(job: Job, shown?: string): Record<string, unknown> {
  const status = shown ?? STATUSES[job.state]
  const ended = isEnded(job) && status === STATUSES[job.state]
  const completed = ended && job.state === 'succeeded'
  const at = (ms: number) => Math.floor(ms / 1000)
  const { seconds } = { ...job.video, ...job.plan.artefact }
  return {
    id: job.id,
    object: 'video',
    model: job.model,
    status,
    progress: completed ? 100 : status === 'in_progress' ? 50 : 0,
    created_at: at(job.createdAt),
    completed_at: completed && job.endedAt !== null ? at(job.endedAt) : null,
    expires_at: completed && job.endedAt !== null ? at(job.endedAt) + RESULT_KEPT_S : null,
    prompt: job.prompt,
    size: shownSize(job),
    seconds: String(seconds),
    remixed_from_video_id: null,
    error: ended ? errorOf(job) : null,
    ...(completed ? { usage: { completion_tokens: job.tokens, total_tokens: job.tokens } } : {}),
  }
}

function shownSize(job: Job): string {
  const { width, height } = { ...job.video, ...job.plan.artefact }
  return `${width}x${height}`
}

function errorOf(job: Job): { code: string; message: string } | null {
  switch (job.state) {
    case 'failed':
      return job.failure
    case 'expired':
    case 'cancelled':
      return { code: job.state, message: `The video generation was ${job.state}.` }
    case 'queued':
    case 'running':
    case 'succeeded':
      return null
  }
}

export function listVideos(exchange: Exchange): Answer {
  const { world, query, account } = exchange
  const limit = Number(query.get('limit') ?? '20')
  const order = query.get('order') ?? 'desc'
  const after = query.get('after')
  if (!Number.isInteger(limit) || limit < 0 || limit > 100)
    return openAiError(invalidValue('limit', "Invalid 'limit': expected 0 to 100."))
  if (order !== 'asc' && order !== 'desc')
    return openAiError(invalidValue('order', "Invalid 'order': expected asc or desc."))
  const all = [...world.jobs.ofAccount('openai', account)].filter((job) => job.kind === 'video')
  if (order === 'asc') all.reverse()
  const start = after === null ? 0 : all.findIndex((job) => job.id === after) + 1
  if (after !== null && start === 0) return openAiError(invalidValue('after', `No video with id '${after}'.`))
  const data = all.slice(start, start + limit).map((job) => showVideo(job))
  return json(200, {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: start + limit < all.length,
  })
}

/** Removes what has ended; refuses what is under way, since OpenAI has no way to cancel. */
export function deleteVideo({ job, jobId }: Exchange): Answer {
  if (job === undefined) return noVideo(jobId)
  if (!isEnded(job))
    return openAiError({
      status: 409,
      type: 'invalid_request_error',
      code: 'video_not_finished',
      message: `Video '${job.id}' is still being generated and cannot be deleted.`,
    })
  job.deleted = true
  return json(200, { id: job.id, object: 'video.deleted', deleted: true })
}

export function videoContent({ job, jobId, query }: Exchange): Answer {
  if (job === undefined) return noVideo(jobId)
  const variant = query.get('variant') ?? 'video'
  if (variant !== 'video' && variant !== 'thumbnail' && variant !== 'spritesheet')
    return openAiError(
      invalidValue('variant', "Invalid 'variant': expected video, thumbnail or spritesheet."),
    )
  if (job.state !== 'succeeded' || job.plan.withoutUrl === true)
    return openAiError({
      status: 404,
      type: 'invalid_request_error',
      code: 'video_not_ready',
      message: `Video '${job.id}' is not ready.`,
    })
  return variant === 'video' ? binary('video/mp4', videoOf(job)) : binary('image/png', frameOf(job))
}
