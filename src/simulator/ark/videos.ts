// Ark's video tasks: create, query, list, cancel or delete.

import { type Answer, json } from '../answer.ts'
import { signedUrl } from '../artefact.ts'
import type { CallbackBody } from '../callbacks.ts'
import { hashOf } from '../clock.ts'
import type { Exchange } from '../exchange.ts'
import { isEnded, type Job } from '../job.ts'
import type { World } from '../world.ts'
import { readContent } from './content.ts'
import { arkError, arkNamed, invalid, missing } from './errors.ts'
import { familyOf, frameSize } from './families.ts'
import { isProblem, type Parameters, readParameters } from './parameters.ts'

const RECORD_KEPT_MS = 7 * 86_400_000
const CANCELLED_KEPT_MS = 86_400_000
const LARGEST_PAGE = 500
const STATUSES = ['queued', 'running', 'cancelled', 'succeeded', 'failed', 'expired']

export async function createVideo(exchange: Exchange): Promise<Answer> {
  const { world, body, requestId, effect } = exchange
  if (body.kind !== 'fields')
    return arkError(invalid('body', body.kind === 'invalid' ? body.problem : 'empty'), requestId)
  const { model } = body.fields
  if (typeof model !== 'string' || model === '') return arkError(missing('model'), requestId)
  if (!world.configuration.knows('ark', exchange.account, model)) return arkNamed('model_missing', requestId)
  const lane = world.jobs.lane({ protocol: 'ark', account: exchange.account, model, kind: 'video' })
  const family = familyOf(model, lane.settings.limits)
  const content = readContent(body.fields.content, family)
  if (isProblem(content)) return arkError(content, requestId)
  const parameters = readParameters(body.fields, content.prompt, { family, model })
  if (isProblem(parameters)) return arkError(parameters, requestId)
  if (lane.isFull(world.clock.now())) return arkNamed('concurrency', requestId)

  const jobs = Array.from({ length: effect.jobs ?? 1 }, () =>
    accept(exchange, { model, prompt: content.prompt, parameters }),
  )
  world.ledger.accept(
    exchange.entry,
    jobs.map((job) => job.id),
  )
  const [first] = jobs
  if (first?.plan.earlyCallback === true) await world.callbacks.first(first)
  return json(200, { id: first?.id })
}

function accept(exchange: Exchange, asked: { model: string; prompt: string; parameters: Parameters }): Job {
  const { parameters } = asked
  const size = frameSize(parameters.resolution, parameters.ratio)
  return exchange.world.jobs.add({
    protocol: 'ark',
    account: exchange.account,
    model: asked.model,
    kind: 'video',
    attempt: exchange.attempt,
    prompt: asked.prompt,
    request: parameters,
    video: { ...size, seconds: parameters.seconds, audio: parameters.generateAudio },
    plan: exchange.effect.plan ?? {},
    origin: exchange.origin,
    callbackUrl: parameters.callbackUrl,
    tokens: Math.round((size.width * size.height * (24 * parameters.seconds + 1)) / 1024),
    images: 0,
    expiresAfterMs: parameters.expiresAfterS * 1000,
  })
}

export function queryVideo(exchange: Exchange): Answer {
  const { world, requestId, effect } = exchange
  const job = exchange.job
  if (job === undefined || !isKept(world, job)) return noTask(exchange)
  world.jobs.look(job)
  if (job.polls <= (job.plan.hiddenPolls ?? 0)) return noTask({ ...exchange, requestId })
  const shown = effect.show ?? job.plan.shows?.[job.polls]
  return json(200, showTask(world, job, shown))
}

function isKept(world: World, job: Job): boolean {
  const age = world.clock.now() - job.createdAt
  if (job.state === 'cancelled') return world.clock.now() - (job.endedAt ?? 0) < CANCELLED_KEPT_MS
  return job.kind === 'video' && age < RECORD_KEPT_MS
}

function noTask({ requestId, jobId }: Exchange): Answer {
  return arkError(
    {
      status: 404,
      code: 'NotFound.ContentGenerationTask',
      message: `The task ${jobId} does not exist.`,
      param: 'id',
    },
    requestId,
  )
}

/** A task as a query shows it, with another status when a script says so. */
export function showTask(world: World, job: Job, shown?: string): CallbackBody {
  const asked = job.request as Parameters
  const status = shown ?? job.state
  const succeeded = status === 'succeeded' && job.state === 'succeeded'
  return {
    id: job.id,
    model: job.model,
    status,
    error: status === 'failed' ? job.failure : null,
    created_at: seconds(job.createdAt),
    updated_at: seconds(job.endedAt ?? job.startedAt ?? job.createdAt),
    service_tier: asked.serviceTier,
    execution_expires_after: asked.expiresAfterS,
    ...(asked.safetyIdentifier === null ? {} : { safety_identifier: asked.safetyIdentifier }),
    ...(succeeded ? result(world, job, asked) : {}),
  }
}

function result(world: World, job: Job, asked: Parameters): Record<string, unknown> {
  const { plan, video } = job
  const seconds = plan.artefact?.seconds ?? video.seconds
  return {
    content: {
      ...(plan.withoutUrl === true ? {} : { video_url: signedUrl(world, job, 'video.mp4') }),
      ...(asked.returnLastFrame ? { last_frame_url: signedUrl(world, job, 'last_frame.png') } : {}),
    },
    usage: {
      completion_tokens: job.tokens,
      total_tokens: job.tokens,
      tool_usage: { web_search: 0 },
    },
    seed: asked.seed === -1 ? hashOf(job.id) % 100_000 : asked.seed,
    resolution: asked.resolution,
    ratio: asked.ratio === 'adaptive' ? '16:9' : asked.ratio,
    duration: Math.round(seconds),
    framespersecond: 24,
    generate_audio: plan.artefact?.audio ?? asked.generateAudio,
    draft: asked.draft,
  }
}

const seconds = (ms: number) => Math.floor(ms / 1000)

export function listVideos(exchange: Exchange): Answer {
  const { world, query, requestId } = exchange
  const page = wholeOf(query.get('page_num') ?? '1')
  const size = wholeOf(query.get('page_size') ?? '20')
  if (page === undefined) return arkError(invalid('page_num', 'expected 1 to 500'), requestId)
  if (size === undefined) return arkError(invalid('page_size', 'expected 1 to 500'), requestId)
  const status = query.get('filter.status')
  if (status !== null && !STATUSES.includes(status))
    return arkError(invalid('filter.status', `expected ${STATUSES.join(', ')}`), requestId)
  const found: Job[] = []
  let total = 0
  for (const job of world.jobs.ofAccount('ark', exchange.account)) {
    if (!isKept(world, job) || !passes(job, query)) continue
    if (total >= (page - 1) * size && found.length < size) found.push(job)
    total++
  }
  return json(200, { items: found.map((job) => showTask(world, job)), total })
}

function wholeOf(text: string): number | undefined {
  const number = Number(text)
  return Number.isInteger(number) && number >= 1 && number <= LARGEST_PAGE ? number : undefined
}

function passes(job: Job, query: URLSearchParams): boolean {
  const status = query.get('filter.status')
  const model = query.get('filter.model')
  const tier = query.get('filter.service_tier')
  const ids = query.getAll('filter.task_ids')
  return (
    (status === null || job.state === status) &&
    (model === null || job.model === model) &&
    (tier === null || job.request.serviceTier === tier) &&
    (ids.length === 0 || ids.includes(job.id))
  )
}

/** Queued: cancelled. Running or already cancelled: refused. Ended: the record is removed. */
export function cancelVideo(exchange: Exchange): Answer {
  const { world, job, requestId } = exchange
  if (job === undefined || !isKept(world, job)) return noTask(exchange)
  if (job.state === 'queued') {
    world.jobs.end(job, 'cancelled')
    return json(200, {})
  }
  if (!isEnded(job) || job.state === 'cancelled') {
    const message = `The task ${job.id} is ${job.state} and can be neither cancelled nor deleted.`
    return arkError({ status: 403, code: 'OperationDenied.InvalidState', message, param: 'id' }, requestId)
  }
  job.deleted = true
  return json(200, {})
}
