/** The one way in which an attempt changes after its grant, by the book of runtime/settle.ts. */
import { type AttemptTransition, attemptAfter } from '../../src/core/attempt.ts'
import type { Fault } from '../../src/core/outcome.ts'
import { NOT_ACCEPTED } from '../../src/core/retry.ts'
import { type Attempt, type Books, isCounted, isSteady, type Supply } from './books.ts'
import { SECOND } from './clock.ts'
import type { Health } from './health.ts'

export type Outcome =
  | { readonly kind: 'accepted' | 'finished' | 'not_started' }
  | { readonly kind: 'lost' }
  | { readonly kind: 'timed_out' | 'life_over' | 'unresolved' | 'not_accepted' }
  | { readonly kind: 'refused' | 'job_failed'; readonly fault: Fault }
  | { readonly kind: 'unknown'; readonly fault: Fault }

/** What the caller knows of it; `retry` leads an image's request to its second round. */
export type Settled = 'stale' | 'open' | 'ended' | 'retry'

const TRANSITIONS: Readonly<Record<Outcome['kind'], readonly AttemptTransition[]>> = {
  accepted: ['accept', 'resolve_accepted'],
  refused: ['refuse', 'resolve_not_accepted'],
  not_accepted: ['resolve_not_accepted'],
  unknown: ['doubt'],
  lost: ['doubt'],
  not_started: ['abandon'],
  finished: ['finish'],
  job_failed: ['fail', 'refuse'],
  timed_out: [],
  life_over: ['leave_unresolved'],
  unresolved: ['leave_unresolved'],
}

const TIMED_OUT = { fingerprint: 'supply|supply|run|timeout', scope: 'supply' } as const

export class Settle {
  readonly #books: Books
  readonly #health: Health

  constructor(books: Books, health: Health) {
    this.#books = books
    this.#health = health
  }

  apply(attempt: Attempt, outcome: Outcome): Settled {
    if (outcome.kind === 'timed_out') return this.#timedOut(attempt)
    const next = TRANSITIONS[outcome.kind]
      .map((transition) => attemptAfter(attempt.state, transition))
      .find((state) => state !== null)
    if (!next) return this.#stale()
    const isMine = attempt.task.attempt === attempt
    const wasInDoubt = attempt.state === 'submission_uncertain'
    attempt.state = next
    if (!this.#books.rules.isAlive(next)) this.#books.leases.delete(attempt)
    if (wasInDoubt) this.#books.see(`doubt resolved: ${outcome.kind}`)
    return this.#follow(attempt, outcome, isMine)
  }

  #stale(): Settled {
    this.#books.see('stale answer')
    return 'stale'
  }

  #follow(attempt: Attempt, outcome: Outcome, isMine: boolean): Settled {
    switch (outcome.kind) {
      case 'accepted':
        return this.#accepted(attempt)
      case 'finished':
        return this.#finished(attempt, isMine)
      case 'refused':
      case 'job_failed':
        return this.#failed(attempt, outcome, isMine)
      case 'not_accepted':
        return this.#failed(attempt, { kind: 'refused', fault: NOT_ACCEPTED }, isMine)
      case 'unknown':
      case 'lost':
        return this.#uncertain(attempt, outcome, isMine)
      case 'not_started':
        return this.#notStarted(attempt, isMine)
      case 'life_over':
      case 'unresolved':
        return this.#givenUp(attempt, outcome.kind, isMine)
      case 'timed_out':
        return 'stale'
    }
  }

  #accepted(attempt: Attempt): Settled {
    attempt.acceptedAt = this.#books.now
    attempt.signs.push({ kind: 'accepted', supplyId: attempt.supply.id, at: this.#books.now })
    this.#health.tell(attempt, { kind: 'accepted' })
    return 'open'
  }

  #finished(attempt: Attempt, isMine: boolean): Settled {
    attempt.cost = attempt.quote
    if (attempt.task.facts.media === 'image') this.#health.tell(attempt, { kind: 'accepted' })
    this.#health.tell(attempt, { kind: 'finished', durationMs: 60_000 })
    if (isMine) this.#books.endTask(attempt.task, null)
    else this.#books.see('orphan')
    return 'ended'
  }

  #failed(
    attempt: Attempt,
    { kind, fault }: { kind: 'refused' | 'job_failed'; fault: Fault },
    isMine: boolean,
  ): Settled {
    const { rules, insist, now } = this.#books
    attempt.fault = fault
    attempt.cost = rules.costOfAttempt({ kind: kind === 'refused' ? 'refused' : 'failed' }, attempt)
    insist(
      attempt.cost === (kind === 'job_failed' && attempt.billsFailures ? attempt.quote : 0n),
      'COST-7: a failure costs what its price list says',
    )
    attempt.mayChangeSupply = rules.mayChangeSupply(fault, 'stop')
    if (fault.category === 'supply' && fault.scope === 'supply') this.#sign(attempt, fault.fingerprint)
    this.#health.tell(attempt, { kind: 'fault', fault })
    if (!isMine) return 'ended'
    const { task } = attempt
    const next = rules.afterFailure({
      media: task.facts.media,
      fault,
      attemptsCounted: task.attempts.filter(isCounted).length,
      policy: this.#books.releases[task.facts.media].policy,
      realPersonRefusal: 'stop',
      taskAgeMs: (now - task.createdAt) / 1000,
      otherSupplyFree: this.#books.supplies.some((one) => one !== attempt.supply && this.#isFree(one)),
      deadlineMsLeft:
        task.facts.media === 'image' ? rules.imageSeconds * 1000 - (now - task.createdAt) / 1000 : null,
    })
    if (next.kind === 'final') {
      this.#books.endTask(task, next.code)
      return 'ended'
    }
    this.#books.see('retry')
    this.#books.requeue(task, next.notBeforeMs / 1000)
    return 'retry'
  }

  #sign(attempt: Attempt, fingerprint: string): void {
    attempt.signs.push({ kind: 'failed', supplyId: attempt.supply.id, at: this.#books.now, fingerprint })
  }

  #isFree(supply: Supply): boolean {
    return [supply, supply.channel].every(
      (level) => isSteady(level.row) && this.#books.held(level).length < level.concurrency,
    )
  }

  #uncertain(
    attempt: Attempt,
    outcome: Extract<Outcome, { kind: 'unknown' } | { kind: 'lost' }>,
    isMine: boolean,
  ): Settled {
    const { rules } = this.#books
    attempt.uncertainAt = this.#books.now
    if (outcome.kind === 'unknown') {
      attempt.fault = outcome.fault
      this.#sign(attempt, outcome.fault.fingerprint)
      this.#health.tell(attempt, { kind: 'fault', fault: outcome.fault })
    } else {
      this.#books.see('process lost')
      this.#health.tell(attempt, { kind: 'lost' })
    }
    const { task } = attempt
    if (task.facts.media === 'image' && isMine && rules.unknownEndsImage) {
      this.#books.endTask(task, 'submission_unresolved')
      return 'ended'
    }
    if (task.facts.media === 'image' && isMine) {
      this.#books.requeue(task, 0)
      return 'retry'
    }
    return 'open'
  }

  /** It was no attempt: not counted, and gone from `attempts[]`. */
  #notStarted(attempt: Attempt, isMine: boolean): Settled {
    this.#books.see('not started')
    attempt.number = null
    attempt.cost = 0n
    if (!isMine) return 'ended'
    this.#books.requeue(attempt.task, 0)
    return 'retry'
  }

  /** The job may still run: its lease stays, and it is asked about until the provider's maximum life. */
  #timedOut(attempt: Attempt): Settled {
    if (attempt.state !== 'accepted' || attempt.task.attempt !== attempt) return this.#stale()
    this.#books.see('timed out')
    attempt.heldUntil = this.#books.now + 2 * 3600 * SECOND
    const { fingerprint, scope } = TIMED_OUT
    this.#health.tell(attempt, {
      kind: 'fault',
      fault: { ...NOT_ACCEPTED, fingerprint, scope, impact: 'failure' },
    })
    this.#books.endTask(attempt.task, 'generation_timeout')
    return 'ended'
  }

  #givenUp(attempt: Attempt, kind: 'life_over' | 'unresolved', isMine: boolean): Settled {
    attempt.cost = attempt.quote
    this.#books.see(kind)
    if (isMine)
      this.#books.endTask(
        attempt.task,
        kind === 'unresolved' ? 'submission_unresolved' : 'generation_timeout',
      )
    return 'ended'
  }
}
