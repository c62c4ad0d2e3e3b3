/**
 * The one way in which an attempt changes after it was granted, and the only one in which it ends: one transaction that
 * moves the attempt, frees its slots, tells health, decides what comes next and, if that is the end, ends the task with
 * its usage record and alerts. Locks: task, attempt, channel, supply.
 *
 * Invariants: an attempt ends once; a task gets its next turn only after a failure that may be retried, never beside an
 * attempt that may be alive; news that comes after the task's end is recorded and changes nothing for the customer.
 */
import type { AttemptState } from '../core/attempt.ts'
import type { FactsJson, Release } from '../core/frozen.ts'
import type { Happening } from '../core/health-news.ts'
import type { HealthSettings } from '../core/health-row.ts'
import type { Fault } from '../core/outcome.ts'
import { raiseAlerts } from '../store/alerts.ts'
import {
  type AttemptEnd,
  type AttemptRow,
  endAttempts,
  type LockedAttempt,
  lockTasksAndAttempts,
  markUncertain,
} from '../store/attempts.ts'
import type { Database, Sql } from '../store/database.ts'
import { anySupplyFree } from '../store/levels.ts'
import { withPartition } from '../store/partitions.ts'
import type { Releases } from '../store/releases.ts'
import { markResolved, mayTakeJob } from '../store/resolution.ts'
import { pastAttempts } from '../store/tasks.ts'
import { backToQueue, endTasks, recountCost } from '../store/usage.ts'
import { attemptAlerts, doubtAlerts, refusalAlerts } from './attempt-alerts.ts'
import { Batches } from './batches.ts'
import type { Journal } from './journal.ts'
import { laneDigest } from './lane.ts'
import { recordLateEnd, recordLateNews } from './orphans.ts'
import { type GoodMove, type GoodOutcome, settleWell, tellerOf } from './settle-well.ts'
import {
  type Billing,
  costOfFailure,
  type Delivery,
  ended,
  endedWell,
  failedTask,
  nextAfterFailure,
  type Outcome,
  otherSupplies,
  type Settled,
} from './settlement.ts'
import { tellLevels } from './tell-levels.ts'
import type { Timing } from './timing.ts'

export interface SettlePorts {
  readonly db: Database
  readonly releases: Releases
  readonly health: HealthSettings
  readonly timing: Timing
  readonly journal: Journal
  /** False once the process is going down for good: then the reconciler of another one takes over. */
  readonly insist: () => boolean
  /** A slot was freed: a hint for the dispatcher, and never more than that. */
  readonly freed: () => void
  /** The process that tells others of what is freed (WAKE-3); null where nobody is there to be told. */
  readonly hintFrom: () => string | null
}

const EXPECTED: Readonly<Record<Outcome['kind'], readonly AttemptState[]>> = {
  accepted: ['submitting', 'submission_uncertain'],
  refused: ['submitting', 'submission_uncertain'],
  unknown: ['submitting'],
  lost: ['submitting'],
  not_started: ['reserved', 'submitting'],
  // Its owner may have begun it since it was looked at: then something may have been sent.
  not_begun: ['reserved'],
  unsendable: ['reserved', 'submitting'],
  finished: ['submitting', 'submission_uncertain', 'accepted'],
  // An image's answer is acceptance and failure in one.
  job_failed: ['submitting', 'submission_uncertain', 'accepted'],
  job_cancelled: ['accepted'],
  timed_out: ['accepted'],
  life_over: ['accepted'],
  unresolved: ['submission_uncertain'],
}

interface Locked extends LockedAttempt {
  readonly tx: Sql
  readonly release: Release
  /** Whether the task still waits for this attempt. */
  readonly mine: boolean
}

interface Which {
  readonly attemptId: string
  readonly fence: bigint
}

/** What settles in company: an acceptance or a delivery that the attempt's own call brought. */
interface Good extends Which {
  readonly outcome: GoodOutcome
}

const LARGEST_BATCH = 200

export class Settle {
  readonly #ports: SettlePorts
  readonly #good: Batches<Good, Settled | null>

  constructor(ports: SettlePorts) {
    this.#ports = ports
    this.#good = new Batches({ largest: LARGEST_BATCH, store: (items) => this.#together(items) })
  }

  /**
   * Let an outcome count. `stale` where the attempt is no longer as the caller knew it. Insists through faults of the
   * database, since an answer of a provider that is not written down would be asked for again by nobody.
   */
  async apply(attemptId: string, fence: bigint, outcome: Outcome): Promise<Settled> {
    for (let tries = 0; ; tries += 1) {
      try {
        const settled = await this.#once(attemptId, fence, outcome)
        if (settled.kind !== 'open') this.#ports.freed()
        if (settled.kind === 'stale')
          this.#ports.journal.note('settle.stale', { attempt: attemptId, outcome: outcome.kind })
        return settled
      } catch (error) {
        this.#ports.journal.fault('settle', error, { attempt: attemptId, outcome: outcome.kind, tries })
        if (!this.#ports.insist() || tries >= MOST_TRIES) throw error
        await pause(Math.min(5000, 100 * 2 ** tries))
      }
    }
  }

  async #once(attemptId: string, fence: bigint, outcome: Outcome): Promise<Settled> {
    if (isGood(outcome)) {
      const [settled] = await this.#good.add([{ attemptId, fence, outcome }])
      if (settled) return settled
    }
    return this.#inTransaction((tx) => this.#settle(tx, { attemptId, fence }, outcome))
  }

  #inTransaction<T>(body: (tx: Sql) => Promise<T>): Promise<T> {
    const { db } = this.#ports
    return withPartition(db, () => db.transaction(body, { retry: true }))
  }

  /** In one transaction, those that go as they should; null for the others, which are then settled each by itself. */
  #together(items: readonly Good[]): Promise<(Settled | null)[]> {
    return this.#inTransaction(async (tx) => {
      const locked = await lockTasksAndAttempts(
        tx,
        items.map((item) => item.attemptId),
      )
      const moves = new Map<Good, GoodMove>()
      const tasks = new Set<string>()
      for (const item of items) {
        const found = locked.get(item.attemptId)
        const move = found && !tasks.has(found.task.id) ? await this.#goodMove(tx, found, item) : null
        if (!move) continue
        tasks.add(move.at.task.id)
        moves.set(item, move)
      }
      const settled = await settleWell(tx, [...moves.values()], this.#ports)
      const results = new Map([...moves.keys()].map((item, place) => [item, settled[place] ?? null]))
      return items.map((item) => results.get(item) ?? null)
    })
  }

  async #goodMove(tx: Sql, found: LockedAttempt, item: Good): Promise<GoodMove | null> {
    const { task, attempt } = found
    const isExpected = attempt.fence === item.fence && EXPECTED[item.outcome.kind].includes(attempt.state)
    if (!isExpected || (item.outcome.kind === 'finished' && !isWaitedFor(found))) return null
    const release = await this.#releaseOf(tx, attempt)
    return { at: { ...found, task, release }, outcome: item.outcome }
  }

  async #settle(tx: Sql, which: Which, outcome: Outcome): Promise<Settled> {
    const found = (await lockTasksAndAttempts(tx, [which.attemptId])).get(which.attemptId)
    if (!found) return { kind: 'stale' }
    const { task, attempt } = found
    if (attempt.fence !== which.fence) return { kind: 'stale' }
    if (!EXPECTED[outcome.kind].includes(attempt.state)) {
      await recordLateNews(tx, { task, attempt }, outcome)
      return { kind: 'stale' }
    }
    const release = await this.#releaseOf(tx, attempt)
    return this.#move({ ...found, tx, release, mine: isWaitedFor(found) }, outcome)
  }

  async #releaseOf(tx: Sql, attempt: AttemptRow): Promise<Release> {
    const release = await this.#ports.releases.release(tx, String(attempt.release_id))
    if (!release) throw new Error(`release ${attempt.release_id} of attempt ${attempt.id} is missing`)
    return release
  }

  #move(at: Locked, outcome: Outcome): Promise<Settled> {
    switch (outcome.kind) {
      case 'accepted':
        return this.#accepted(at, outcome)
      case 'refused':
        return this.#refused(at, outcome)
      case 'job_failed':
        return this.#failed(at, outcome, outcome.billed)
      case 'unknown':
        return this.#uncertain(at, { kind: 'fault', fault: outcome.fault }, outcome)
      case 'lost':
        return this.#uncertain(at, { kind: 'lost' }, null)
      case 'not_started':
      case 'not_begun':
        return this.#notStarted(at)
      case 'unsendable':
        return this.#unsendable(at, outcome.why)
      case 'finished':
        return this.#finished(at, outcome)
      case 'job_cancelled':
        return this.#cancelled(at)
      case 'timed_out':
        return this.#timedOut(at)
      case 'life_over':
        return this.#givenUp(at, 'generation_timeout')
      case 'unresolved':
        return this.#givenUp(at, 'submission_unresolved')
    }
  }

  async #accepted(at: Locked, outcome: Outcome & { kind: 'accepted' }): Promise<Settled> {
    if (outcome.found) {
      // Found again, not answered: another attempt may have taken the job meanwhile.
      if (!(await mayTakeJob(at.tx, at.attempt, outcome.providerTaskId))) return { kind: 'stale' }
      await markResolved(at.tx, at.attempt.id, outcome.found)
    }
    return this.#well(at, outcome)
  }

  async #refused(at: Locked, outcome: Outcome & { kind: 'refused' }): Promise<Settled> {
    if (outcome.found) {
      // A callback that came after the look: the provider has got the submission, whatever its list did not show.
      if (outcome.found.resolver === 'client_id' && at.attempt.called_back_at !== null)
        return { kind: 'stale' }
      await markResolved(at.tx, at.attempt.id, outcome.found)
    }
    return this.#failed(at, outcome, false)
  }

  async #uncertain(
    at: Locked,
    happening: Happening,
    outcome: (Outcome & { kind: 'unknown' }) | null,
  ): Promise<Settled> {
    const fault = outcome?.fault ?? null
    const { timing } = this.#ports
    await markUncertain(at.tx, at.attempt, {
      deadlineSeconds: at.attempt.kind === 'video' ? timing.videoDoubtSeconds : timing.imageDoubtSeconds,
      lookupSeconds: timing.lookupMs / 1000,
      code: fault?.code ?? 'process_lost',
      message:
        fault?.message ?? 'The process that was submitting died; whether the provider accepted is unknown.',
      providerCode: fault?.providerCode ?? null,
      httpStatus: fault?.httpStatus ?? null,
      requestId: outcome?.requestId ?? null,
      fingerprint: fault?.fingerprint ?? null,
    })
    await this.#tell(at, happening)
    await raiseAlerts(at.tx, await doubtAlerts(at.tx, at.attempt))
    // For an image unknown is final: its customer is waiting, and nothing may be submitted beside it (UNK-7).
    if (at.attempt.kind === 'image' && at.mine) return this.#endFailed(at, 'submission_unresolved')
    return { kind: 'open' }
  }

  async #failed(
    at: Locked,
    outcome: { fault: Fault; requestId: string | null },
    billed: Billing,
  ): Promise<Settled> {
    const past = ended(at.attempt, outcome, { billed, refusal: at.release.realPersonRefusal })
    await this.#end(at, past)
    await this.#tell(at, { kind: 'fault', fault: outcome.fault })
    await raiseAlerts(at.tx, await refusalAlerts(at.tx, at.attempt, outcome.fault))
    if (!at.mine) return this.#afterEnd(at, 'failed', past.cost)
    if (at.task.cancel_requested_at !== null) return this.#endCancelled(at)
    const otherSupplyFree = await anySupplyFree(at.tx, otherSupplies(at, outcome.fault))
    const next = nextAfterFailure({ ...at, otherSupplyFree }, outcome.fault)
    if (next.kind === 'final') return this.#endFailed(at, next.code)
    await this.#requeue(at, { attempts: at.task.attempts, delayMs: next.notBeforeMs })
    return { kind: 'retry', delayMs: next.notBeforeMs }
  }

  async #finished(at: Locked, outcome: Delivery & { kind: 'finished' }): Promise<Settled> {
    if (at.mine) return this.#well(at, outcome)
    const end = endedWell(at.attempt, outcome)
    await this.#end(at, end)
    // An image's answer is acceptance and result in one.
    if (at.attempt.kind === 'image') await this.#tell(at, { kind: 'accepted' })
    await this.#tell(at, { kind: 'finished', durationMs: outcome.durationMs })
    return this.#afterEnd(at, 'finished', end.cost)
  }

  async #well(at: Locked, outcome: GoodOutcome): Promise<Settled> {
    const [settled] = await settleWell(at.tx, [{ at, outcome }], this.#ports)
    if (!settled) throw new Error('what was settled has no result')
    return settled
  }

  async #notStarted(at: Locked): Promise<Settled> {
    await this.#end(at, abandoned('nothing was sent'))
    if (!at.mine) return { kind: 'ended', state: at.task.state, code: null }
    if (at.task.cancel_requested_at !== null) return this.#endCancelled(at)
    const counted = at.attempt.number === null ? at.task.attempts : at.task.attempts - 1
    await this.#requeue(at, { attempts: counted, delayMs: 0 })
    return { kind: 'retry', delayMs: 0 }
  }

  /** A fault of our own that another try would meet again: the task ends, and nobody else is blamed. */
  async #unsendable(at: Locked, why: string): Promise<Settled> {
    await this.#end(at, abandoned(why))
    await raiseAlerts(at.tx, attemptAlerts('request_unsendable', at.attempt, why))
    return at.mine
      ? this.#endFailed(at, 'internal_error')
      : { kind: 'ended', state: at.task.state, code: null }
  }

  async #cancelled(at: Locked): Promise<Settled> {
    const wanted = at.task.cancel_requested_at !== null
    const why = wanted ? 'cancelled for the customer' : 'cancelled at the provider, not by us'
    const cost = costOfFailure(at.attempt, null)
    await this.#end(at, {
      ...abandoned(why),
      cost,
      state: wanted ? 'cancelled' : 'failed',
      ...(wanted
        ? {}
        : { category: 'supply', scope: 'supply', retryable: false, code: 'cancelled_upstream' }),
    })
    if (!at.mine) return this.#afterEnd(at, 'cancelled', cost)
    return wanted ? this.#endCancelled(at) : this.#endFailed(at, 'attempts_exhausted')
  }

  /** RTY-7. The job may still run: its leases stay held, and it is asked about until the provider's maximum life. */
  async #timedOut(at: Locked): Promise<Settled> {
    if (!at.mine) return { kind: 'stale' }
    await at.tx.query(HOLD_UNTIL, [at.attempt.id, 2 * at.release.maxRunSeconds])
    await this.#tell(at, { kind: 'fault', fault: TIMED_OUT })
    await raiseAlerts(
      at.tx,
      attemptAlerts('generation_timeout', at.attempt, `longer than ${at.release.maxRunSeconds} s`),
    )
    await this.#endFailed(at, 'generation_timeout')
    return { kind: 'ended', state: 'failed', code: 'generation_timeout' }
  }

  /** UNK-5 and RTY-7: nobody will know any more. Only now are the leases released. */
  async #givenUp(at: Locked, code: 'submission_unresolved' | 'generation_timeout'): Promise<Settled> {
    await this.#end(at, {
      ...abandoned('the deadline passed without an answer'),
      state: 'failed',
      category: 'unknown',
      scope: 'attempt',
      retryable: false,
      mayChangeSupply: false,
      code,
      cost: at.attempt.quote_micros,
    })
    await raiseAlerts(at.tx, attemptAlerts(code, at.attempt, 'its leases are released now'))
    return at.mine ? this.#endFailed(at, code) : { kind: 'ended', state: at.task.state, code }
  }

  #end(at: Locked, end: AttemptEnd): Promise<void> {
    return endAttempts(at.tx, [{ id: at.attempt.id, end }], this.#ports.hintFrom())
  }

  /** What an attempt of a task that has ended cost after all (RTY-7). */
  async #afterEnd(at: Locked, how: string, cost: bigint): Promise<Settled> {
    if (cost > 0n) await recordLateEnd(at.tx, at.attempt, { how, cost })
    await recountCost(at.tx, at.task.id)
    return { kind: 'ended', state: at.task.state, code: null }
  }

  async #requeue(at: Locked, next: { attempts: number; delayMs: number }): Promise<void> {
    const past = await pastAttempts(at.tx, at.task.id)
    const facts = at.task.facts as FactsJson
    await backToQueue(at.tx, at.task, {
      turn: next.attempts > 0 ? 0 : 1,
      lane: laneDigest(at.task.model_id, facts, past),
      attempts: next.attempts,
      delaySeconds: next.delayMs / 1000,
    })
  }

  async #endFailed(at: Locked, code: string): Promise<Settled> {
    const end = failedTask(at.task, at.release, { state: 'failed', code })
    await endTasks(at.tx, [{ id: at.task.id, end }])
    return { kind: 'ended', state: 'failed', code }
  }

  async #endCancelled(at: Locked): Promise<Settled> {
    const end = failedTask(at.task, at.release, { state: 'cancelled', code: null })
    await endTasks(at.tx, [{ id: at.task.id, end }])
    return { kind: 'ended', state: 'cancelled', code: null }
  }

  async #tell(at: Locked, happening: Happening): Promise<void> {
    await tellLevels(at.tx, tellerOf(at.attempt), { happening, settings: this.#ports.health })
  }
}

/** Not what was found again: that first has to be nobody else's. */
function isGood(outcome: Outcome): outcome is GoodOutcome {
  return (outcome.kind === 'accepted' && !outcome.found) || outcome.kind === 'finished'
}

/** Whether the task still waits for this attempt. */
function isWaitedFor({ task, attempt }: LockedAttempt): boolean {
  return task.state === 'running' && task.attempt_id === attempt.id
}

const MOST_TRIES = 50

const HOLD_UNTIL = {
  name: 'hold-lease-until',
  text: `update capacity_lease set held_until = clock_timestamp() + make_interval(secs => $2) where attempt_id = $1`,
}

/** A job that runs longer than its model allows counts as a failure of its supply: a probe must not hang for ever. */
const TIMED_OUT: Fault = {
  category: 'supply',
  scope: 'supply',
  retryable: false,
  certainty: 'rejected',
  impact: 'failure',
  code: 'upstream_timeout',
  message: 'The job ran longer than the model allows.',
  providerCode: null,
  httpStatus: null,
  fingerprint: 'supply|supply|run|generation_timeout',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}

function abandoned(message: string) {
  return {
    state: 'abandoned' as const,
    category: null,
    scope: null,
    retryable: null,
    mayChangeSupply: null,
    code: null,
    message,
    providerCode: null,
    httpStatus: null,
    requestId: null,
    cost: 0n,
    reported: null,
    fingerprint: null,
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
