/** The judgements of settle, apart from its transaction: what an outcome makes of an attempt, and of its task. */
import { pictureShortfallsOf, type Shortfall, shortfallsOf } from '../core/artefact.ts'
import { type FactsJson, factsFromJson, type Release } from '../core/frozen.ts'
import type { Fault } from '../core/outcome.ts'
import type { RequestFacts } from '../core/request.ts'
import type { Resolver } from '../core/resolution.ts'
import {
  type AfterFailure,
  afterFailure,
  costOfAttempt,
  mayChangeSupply,
  type RealPersonRefusal,
} from '../core/retry.ts'
import type { AttemptEnd, AttemptRow, TaskRow } from '../store/attempts.ts'
import type { JudgedOutput, Output, TaskEnd } from '../store/usage.ts'

export interface Delivery {
  readonly outputs: readonly Output[]
  /** Places that cost something: those delivered, and those that were made and paid for but could not be fetched. */
  readonly billedPlaces: number
  /** From acceptance to result, where both are known. */
  readonly durationMs: number | null
  readonly reported: object | null
  readonly requestId: string | null
}

/** Who found out what became of an unknown submission (UNK-9). */
export interface FoundBy {
  readonly resolver: Resolver | 'operator'
  readonly note: string | null
}

/** What may happen to an attempt. */
export type Outcome =
  | {
      readonly kind: 'accepted'
      readonly providerTaskId: string
      readonly requestId: string | null
      readonly found?: FoundBy
    }
  /** Not sent, or completely refused. */
  | {
      readonly kind: 'refused'
      readonly fault: Fault
      readonly requestId: string | null
      readonly found?: FoundBy
    }
  /** It may have been accepted (UNK-1). */
  | { readonly kind: 'unknown'; readonly fault: Fault; readonly requestId: string | null }
  /** Its process died between `submitting` and the answer (UNK-6). */
  | { readonly kind: 'lost' }
  /** Proven that nothing of it was sent, and nobody is to blame. */
  | { readonly kind: 'not_started' }
  /** It was found in `reserved`, out of its owner's hands; counts only where it still is. */
  | { readonly kind: 'not_begun' }
  /** What is stored of the request could not be opened. */
  | { readonly kind: 'unsendable'; readonly why: string }
  | ({ readonly kind: 'finished' } & Delivery)
  /**
   * The accepted job failed; `billed` is the provider's word on it, null where it has none, and of a batch of images the
   * places that were made and paid for.
   */
  | {
      readonly kind: 'job_failed'
      readonly fault: Fault
      readonly billed: Billing
      readonly requestId: string | null
    }
  | { readonly kind: 'job_cancelled' }
  /** RTY-7: `max_run_seconds` are over. */
  | { readonly kind: 'timed_out' }
  /** The provider's maximum life is over. */
  | { readonly kind: 'life_over' }
  /** UNK-5. */
  | { readonly kind: 'unresolved' }

export type Settled =
  /** The attempt was no longer as the caller knew it: nothing was changed. */
  | { readonly kind: 'stale' }
  /** The attempt goes on. */
  | { readonly kind: 'open' }
  /** The task has its next turn, after so many ms. */
  | { readonly kind: 'retry'; readonly delayMs: number }
  | { readonly kind: 'ended'; readonly state: string; readonly code: string | null }

export type Billing = boolean | null | { readonly places: number; readonly asked: number }

export function ended(
  attempt: AttemptRow,
  outcome: { fault: Fault; requestId: string | null },
  terms: { billed: Billing; refusal: RealPersonRefusal },
): AttemptEnd {
  const { fault } = outcome
  return {
    state: 'failed',
    category: fault.category,
    scope: fault.scope,
    retryable: fault.retryable,
    mayChangeSupply: mayChangeSupply(fault, terms.refusal),
    code: fault.code,
    message: fault.message,
    providerCode: fault.providerCode,
    httpStatus: fault.httpStatus,
    requestId: outcome.requestId,
    cost: costOfFailure(attempt, terms.billed),
    // What the provider says of it is kept beside our own figure.
    reported: typeof terms.billed === 'boolean' ? { billed: terms.billed } : null,
    fingerprint: fault.fingerprint,
  }
}

/** COST-7. An attempt that was never accepted was refused; one that was accepted is billed by its price list. */
export function costOfFailure(attempt: AttemptRow, billed: Billing): bigint {
  if (typeof billed === 'object' && billed !== null) {
    const made = { kind: 'delivered', delivered: billed.places, asked: billed.asked } as const
    return costOfAttempt(made, { quote: attempt.quote_micros, billsFailures: attempt.bills_failures })
  }
  const terms = { quote: attempt.quote_micros, billsFailures: attempt.bills_failures }
  return costOfAttempt({ kind: attempt.state === 'accepted' ? 'failed' : 'refused' }, terms)
}

export function endedWell(attempt: AttemptRow, delivery: Delivery): AttemptEnd {
  const asked = delivery.outputs.length
  const delivered = delivery.billedPlaces
  const terms = { quote: attempt.quote_micros, billsFailures: attempt.bills_failures }
  return {
    state: 'succeeded',
    category: null,
    scope: null,
    retryable: null,
    mayChangeSupply: null,
    code: null,
    message: null,
    providerCode: null,
    httpStatus: null,
    requestId: delivery.requestId,
    cost: costOfAttempt({ kind: 'delivered', delivered, asked }, terms),
    reported: delivery.reported,
    fingerprint: null,
  }
}

export interface Failing {
  readonly task: TaskRow
  readonly attempt: AttemptRow
  readonly release: Release
  readonly now: number
  /** Whether another supply of the model could take the task now. */
  readonly otherSupplyFree: boolean
}

/** RTY-1 to RTY-6, ERR-4, UNK-3. */
export function nextAfterFailure(at: Failing, fault: Fault): AfterFailure {
  const { task, attempt, release } = at
  const ageMs = (at.now - task.created_at) / 1000
  return afterFailure({
    media: attempt.kind,
    fault,
    attemptsCounted: task.attempts,
    policy: release.policy,
    realPersonRefusal: release.realPersonRefusal,
    taskAgeMs: ageMs,
    otherSupplyFree: at.otherSupplyFree,
    deadlineMsLeft: attempt.kind === 'image' ? release.imageTimeoutSeconds * 1000 - ageMs : null,
  })
}

/** Supplies of the model, apart from the one that failed; those of its channel too where the channel failed. */
export function otherSupplies(at: { attempt: AttemptRow; release: Release }, fault: Fault): string[] {
  const { attempt, release } = at
  return release.bindings
    .filter((binding) => binding.supplyId !== attempt.supply_id && binding.tier !== 'degraded')
    .filter((binding) => fault.scope !== 'channel' || binding.channelId !== attempt.channel_id)
    .map((binding) => binding.supplyId)
}

export function failedTask(
  task: Pick<TaskRow, 'facts'>,
  release: Release,
  end: { state: 'failed' | 'cancelled' | 'rejected'; code: string | null; param?: string | null },
): TaskEnd {
  return {
    state: end.state,
    code: end.code,
    param: end.param ?? null,
    parameters: task.facts,
    delivered: {
      degraded: false,
      requestedProfile: release.profile,
      actualProfile: release.profile,
      droppedInputs: [],
      changes: [],
    },
  }
}

/** DEG-3, CUS-2: what was billed is what was sent and, of a batch, what came back. */
export function succeededTask(
  task: TaskRow,
  release: Release,
  by: { attempt: AttemptRow; delivery: Delivery },
): TaskEnd {
  const { degraded, kind } = by.attempt
  const facts = degraded?.sent ?? (task.facts as FactsJson)
  const delivered = by.delivery.outputs.filter((output) => output.error === null).length
  const dropped = degraded?.dropped_inputs ?? []
  return {
    state: 'succeeded',
    code: null,
    param: null,
    parameters: { ...facts, ...(kind === 'image' ? { count: delivered } : {}) },
    delivered: {
      degraded: degraded !== null,
      requestedProfile: release.profile,
      actualProfile: degraded?.actual_profile ?? release.profile,
      droppedInputs: dropped,
      changes: degraded?.changes ?? [],
    },
  }
}

/** DEG-7: each result beside what was promised, which is what was sent. */
export function judged(
  task: Pick<TaskRow, 'facts'>,
  attempt: Pick<AttemptRow, 'degraded'>,
  outputs: readonly Output[],
): JudgedOutput[] {
  const promised = factsFromJson(attempt.degraded?.sent ?? (task.facts as FactsJson))
  return outputs.map((output) => ({ ...output, shortfalls: shortfalls(output, promised) }))
}

function shortfalls({ measured }: Output, promised: RequestFacts): Shortfall[] {
  if (measured === null) return []
  return promised.media === 'video'
    ? shortfallsOf(measured, promised)
    : pictureShortfallsOf(measured, promised.size)
}
