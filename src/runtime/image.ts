/**
 * An image walks the same rooms as a video inside one HTTP call (RTY-5): door, decision, lease, attempt, call, settle,
 * and at most one change of supply, all within the model's total timeout. Nobody else touches its task meanwhile.
 */

import { v7 as uuidv7 } from 'uuid'
import { measurePicture } from '../core/artefact.ts'
import { type FactsJson, factsToJson } from '../core/frozen.ts'
import type { Waiting } from '../core/verdict.ts'
import type { ImageItem, ImageOrder, ImageReply, ProviderAdapter } from '../providers/adapter.ts'
import type { AssetStore } from '../store/assets.ts'
import { readSubmissions, type SubmissionRow } from '../store/attempts.ts'
import type { Database } from '../store/database.ts'
import type { Origin, Reserved } from '../store/grant.ts'
import type { Releases } from '../store/releases.ts'
import { pastAttempts, taskNow } from '../store/tasks.ts'
import type { Output } from '../store/usage.ts'
import type { Accounts } from './accounts.ts'
import { type Decided, Situation } from './decider.ts'
import { earlierTask, type Judged, judge, keepRefusal } from './door.ts'
import type { Granter } from './granter.ts'
import type { Journal } from './journal.ts'
import { orderOf } from './order.ts'
import type { ImageAnswer, IncomingRequest, RequestContent } from './service.ts'
import type { Settle } from './settle.ts'
import type { Outcome, Settled } from './settlement.ts'
import { BROKEN_CALL, unopened } from './submitter.ts'
import { endWaiting } from './waiting-end.ts'

export interface ImagePorts {
  readonly db: Database
  readonly releases: Releases
  readonly granter: Granter
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly assets: AssetStore
  readonly settle: Settle
  /** Attempts that this process is working on (own-orphans.ts). */
  readonly inHand: Set<string>
  readonly journal: Journal
  readonly mayStillSend: (claimedAt: number) => boolean
  readonly resultLifeMs: number
  /** Monotonic, in ms. */
  readonly clock: () => number
  readonly pause: (ms: number) => Promise<void>
}

/** How many rounds an image may need before it is told to come again. */
const MOST_ROUNDS = 6
const SHORTEST_CALL_MS = 1000
const REPEAT_LOOK_MS = 250

interface Walk {
  readonly request: IncomingRequest
  readonly deadline: number
  readonly createdAt: number
  readonly started: () => void
}

export async function runImage(
  ports: ImagePorts,
  request: IncomingRequest,
  started: () => void,
): Promise<ImageAnswer> {
  const earlier = await earlierTask(ports, request, 'image')
  if (earlier?.kind === 'found') {
    started()
    return repeated(ports, request, earlier)
  }
  if (earlier) return earlier
  const judged = await judge(ports, request)
  const release = judged?.situation.release(request.modelId)
  if (!judged || !release) return { kind: 'rejected', taskId: null, code: 'model_not_available', param: null }
  const { verdict } = judged.decided.decision
  if (verdict.result === 'rejected') {
    await keepRefusal(ports, judged, { code: verdict.code, param: verdict.param ?? null })
    return { kind: 'rejected', taskId: judged.task.id, code: verdict.code, param: verdict.param ?? null }
  }
  if (verdict.result === 'wait') return notNow(ports, judged, verdict)
  const deadline = ports.clock() + release.imageTimeoutSeconds * 1000
  return new ImageWalk(ports, { request, deadline, createdAt: judged.createdAt, started }).start(judged)
}

async function notNow(ports: ImagePorts, judged: Judged, verdict: Waiting): Promise<ImageAnswer> {
  await keepRefusal(ports, judged, { code: verdict.reason, param: null })
  return waitAnswer(judged.task.id, verdict, judged.decided)
}

function waitAnswer(taskId: string, verdict: Waiting, decided: Decided): ImageAnswer {
  return {
    kind: 'wait',
    taskId,
    reason: verdict.reason,
    retryAfterSeconds: retryAfterSeconds(verdict, decided),
  }
}

/** Until the first held level is free again, within a minute; else what is usual for the reason. */
function retryAfterSeconds(verdict: Waiting, decided: Decided): number {
  const { now, channels, supplies } = decided.round.dynamic
  const holds = [...Object.values(channels), ...Object.values(supplies)].flatMap((level) =>
    level.n !== null && level.n > now ? [Math.ceil((level.n - now) / 1_000_000)] : [],
  )
  if (verdict.reason !== 'capacity') return 30
  return holds.length === 0 ? 2 : Math.min(60, Math.max(1, Math.min(...holds)))
}

/** The earlier request's answer: its result, or 409 while it is running under the same Idempotency-Key. */
async function repeated(
  ports: ImagePorts,
  request: IncomingRequest,
  earlier: { taskId: string; over: boolean },
): Promise<ImageAnswer> {
  if (request.idempotency && !earlier.over) return { kind: 'key_in_flight', taskId: earlier.taskId }
  for (;;) {
    const task = await taskNow(ports.db, earlier.taskId)
    if (!task) throw new Error(`task ${earlier.taskId} is gone`)
    if (task.state === 'succeeded') return { kind: 'finished', taskId: task.id, repeated: true }
    if (task.state !== 'queued' && task.state !== 'running')
      return {
        kind: 'failed',
        taskId: task.id,
        code: task.error_code ?? task.state,
        submitted: task.attempts > 0,
      }
    await ports.pause(REPEAT_LOOK_MS)
  }
}

class ImageWalk {
  readonly #ports: ImagePorts
  readonly #walk: Walk
  /** When the latest reservation was asked for: its attempt says `submitting` from then on. */
  #claimedAt = 0

  constructor(ports: ImagePorts, walk: Walk) {
    this.#ports = ports
    this.#walk = walk
  }

  /** The first admitted round sees the very situation that the door saw. */
  async start(judged: Judged): Promise<ImageAnswer> {
    const { task, situation } = judged
    const decided = this.#decide(situation, { id: task.id, attempts: [] })
    const origin: Origin = { kind: 'new', task, door: judged.decided.round }
    const [reserved] = await this.#reserve(situation, decided, origin)
    if (!reserved || reserved.kind === 'lost') return this.#lost()
    return this.#carryOn(task.id, reserved)
  }

  /** Another request with the same Idempotency-Key was faster. */
  async #lost(): Promise<ImageAnswer> {
    const earlier = await earlierTask(this.#ports, this.#walk.request, 'image')
    if (!earlier) throw new Error('an Idempotency-Key was held and is gone within one request')
    this.#walk.started()
    return earlier.kind === 'found' ? repeated(this.#ports, this.#walk.request, earlier) : earlier
  }

  async #carryOn(taskId: string, first: Reserved): Promise<ImageAnswer> {
    let reserved = first
    for (let failed = 0; ; ) {
      if (reserved.kind === 'granted') {
        const settled = await this.#attempt(reserved)
        if (settled.kind !== 'retry') return this.#answer(taskId)
      }
      // A refused attempt counts by itself (RTY-1); what was never sent, and what found no room, is bounded here.
      if (++failed > MOST_ROUNDS) return this.#giveUp(taskId)
      const next = await this.#again(taskId)
      if ('answer' in next) return next.answer
      reserved = next.reserved
    }
  }

  /** Another round of a task that is between two attempts, or whose reservation failed. */
  async #again(taskId: string): Promise<{ reserved: Reserved } | { answer: ImageAnswer }> {
    const { db, releases } = this.#ports
    const { modelId } = this.#walk.request
    const task = await taskNow(db, taskId)
    if (task?.state !== 'queued') return { answer: await this.#answer(taskId) }
    const attempts = await pastAttempts(db, taskId)
    const situation = await Situation.read(db, releases, [modelId])
    const decided = this.#decide(situation, { id: taskId, attempts })
    const { verdict } = decided.decision
    if (verdict.result === 'selected' && this.#leftMs() >= SHORTEST_CALL_MS) {
      const [reserved] = await this.#reserve(situation, decided, {
        kind: 'queued',
        id: taskId,
        fence: task.fence,
      })
      return reserved ? { reserved } : { answer: await this.#answer(taskId) }
    }
    return { answer: await this.#endUnserved(taskId, decided, attempts.length > 0) }
  }

  async #endUnserved(taskId: string, decided: Decided, submitted: boolean): Promise<ImageAnswer> {
    const { db, releases } = this.#ports
    const { verdict } = decided.decision
    if (submitted) {
      const code = this.#leftMs() < SHORTEST_CALL_MS ? 'generation_timeout' : 'attempts_exhausted'
      await endWaiting(db, releases, { taskId, code, round: decided.round })
      return this.#answer(taskId)
    }
    if (verdict.result === 'rejected') {
      await endWaiting(db, releases, {
        taskId,
        code: verdict.code,
        param: verdict.param ?? null,
        state: 'rejected',
        round: decided.round,
      })
      return { kind: 'rejected', taskId, code: verdict.code, param: verdict.param ?? null }
    }
    const reason = verdict.result === 'wait' ? verdict.reason : 'capacity'
    await endWaiting(db, releases, { taskId, code: reason, state: 'rejected', round: decided.round })
    return verdict.result === 'wait'
      ? waitAnswer(taskId, verdict, decided)
      : { kind: 'wait', taskId, reason: 'capacity', retryAfterSeconds: 2 }
  }

  /** Others were faster at every round: full, as far as this request is concerned. */
  async #giveUp(taskId: string): Promise<ImageAnswer> {
    const { db, releases } = this.#ports
    const ended = await endWaiting(db, releases, { taskId, code: 'capacity', state: 'rejected' })
    return ended ? { kind: 'wait', taskId, reason: 'capacity', retryAfterSeconds: 2 } : this.#answer(taskId)
  }

  #decide(
    situation: Situation,
    task: { id: string; attempts: Awaited<ReturnType<typeof pastAttempts>> },
  ): Decided {
    const { request, createdAt } = this.#walk
    const decided = situation.decide(request.modelId, {
      ...task,
      createdAt,
      admitted: true,
      facts: factsToJson(request.facts),
      caller: { key_active: true, user_active: true, groups: [] },
    })
    if (!decided) throw new Error(`model ${request.modelId} lost its release`)
    return decided
  }

  async #reserve(situation: Situation, decided: Decided, origin: Origin): Promise<Reserved[]> {
    const { modelId } = this.#walk.request
    if (decided.decision.verdict.result !== 'selected') return []
    const { granter, inHand } = this.#ports
    const attemptId = uuidv7()
    const reservation = situation.reserve(modelId, decided, attemptId)
    const proposal = { kind: 'reserve', origin, round: decided.round, reservation } as const
    // In hand from before it is there: reading back what became of a commit may take longer than two claims.
    inHand.add(attemptId)
    this.#claimedAt = performance.now()
    let results: Reserved[] = []
    try {
      results = await granter.grant([{ modelId, alerts: decided.decision.verdict.alerts, proposal }])
      return results
    } finally {
      if (!results.some((result) => result.kind === 'granted')) inHand.delete(attemptId)
    }
  }

  #leftMs(): number {
    return this.#walk.deadline - this.#ports.clock()
  }

  async #attempt(granted: Reserved & { kind: 'granted' }): Promise<Settled> {
    const { settle, inHand } = this.#ports
    this.#walk.started()
    inHand.add(granted.attemptId)
    try {
      return await settle.apply(granted.attemptId, granted.fence, await this.#tryOut(granted))
    } finally {
      inHand.delete(granted.attemptId)
    }
  }

  async #tryOut(granted: Reserved & { kind: 'granted' }): Promise<Outcome> {
    const { journal, db } = this.#ports
    // A database that is gone now leaves an attempt of which nothing was sent.
    const row = await readSubmissions(db, [granted.attemptId])
      .then(([first]) => first)
      .catch((error: unknown) => {
        journal.fault('image.read', error, { attempt: granted.attemptId })
        return undefined
      })
    if (!row) return { kind: 'not_started' }
    return this.#call(row).catch((error: unknown): Outcome => {
      journal.fault('image.call', error, { attempt: row.attempt_id })
      return { kind: 'unknown', fault: BROKEN_CALL, requestId: null }
    })
  }

  async #call(row: SubmissionRow): Promise<Outcome> {
    const adapter = this.#ports.providers.get(row.provider)
    if (!adapter?.generateImage) return { kind: 'unsendable', why: `provider ${row.provider} has no images` }
    const opened = await this.#open(row).catch((error: unknown) => {
      this.#ports.journal.fault('image.prepare', error, { attempt: row.attempt_id })
      return { failed: error }
    })
    if ('failed' in opened) return unopened(opened.failed)
    const startedAt = this.#ports.clock()
    const claimedAt = this.#claimedAt
    const reply = await adapter.generateImage(opened.account, {
      attemptId: row.attempt_id,
      upstreamModel: row.upstream_model,
      order: opened.order,
      callbackUrl: null,
      timeoutMs: Math.max(SHORTEST_CALL_MS, this.#leftMs()),
      mayStillSend: () => this.#ports.mayStillSend(claimedAt),
    })
    return this.#outcome(reply, this.#ports.clock() - startedAt)
  }

  async #open(
    row: SubmissionRow,
  ): Promise<{ order: ImageOrder; account: Awaited<ReturnType<Accounts['open']>> }> {
    const stored = {
      facts: row.facts as FactsJson,
      content: row.content as RequestContent,
      degraded: row.degraded,
    }
    const order = await orderOf(stored, this.#ports.assets)
    if (order.media !== 'image') throw new Error('a video has no place in an image request')
    return { order, account: await this.#ports.accounts.open(row) }
  }

  async #outcome(reply: ImageReply, durationMs: number): Promise<Outcome> {
    switch (reply.kind) {
      case 'stopped_before_sending':
        return { kind: 'not_started' }
      case 'fault':
        return reply.fault.certainty === 'unknown'
          ? { ...reply, kind: 'unknown' }
          : { ...reply, kind: 'refused' }
      case 'finished':
        return this.#finished(reply, durationMs)
    }
  }

  /** A batch of which nothing came is a failure of the job; one of which something came is a success with gaps. */
  async #finished(reply: ImageReply & { kind: 'finished' }, durationMs: number): Promise<Outcome> {
    const { items, requestId, reported } = reply
    const failed = items.find((item) => !item.ok)
    const billedPlaces = items.filter((item) => item.ok || item.billed === true).length
    if (failed && !failed.ok && items.every((item) => !item.ok)) {
      const billed = { places: billedPlaces, asked: items.length }
      return { kind: 'job_failed', fault: failed.fault, billed, requestId }
    }
    const outputs = await Promise.all(items.map((item, place) => this.#output(item, place)))
    return { kind: 'finished', outputs, billedPlaces, durationMs, reported, requestId }
  }

  async #output(item: ImageItem, place: number): Promise<Output> {
    if (!item.ok) {
      const error = { code: item.fault.code, message: 'This image could not be generated.' }
      return { place, asset_digest: null, content_type: null, bytes: null, error, measured: null }
    }
    const { bytes, contentType } = item.image
    const stored = await this.#ports.assets.put(bytes, {
      contentType,
      expiresAt: this.#walk.createdAt + this.#ports.resultLifeMs * 1000,
      maxBytes: bytes.length,
    })
    const { digest } = stored
    const measured = measurePicture(bytes)
    return {
      place,
      asset_digest: digest,
      content_type: contentType,
      bytes: bytes.length,
      error: null,
      measured,
    }
  }

  /** What the task's row says is what the customer is told. */
  async #answer(taskId: string): Promise<ImageAnswer> {
    const task = await taskNow(this.#ports.db, taskId)
    if (!task) throw new Error(`task ${taskId} is gone`)
    if (task.state === 'succeeded') return { kind: 'finished', taskId, repeated: false }
    const code = task.error_code ?? (task.state === 'cancelled' ? 'cancelled' : 'submission_unresolved')
    return { kind: 'failed', taskId, code, submitted: task.attempts > 0 }
  }
}
