/**
 * What comes after a failed attempt, and when (RTY-1 to RTY-6, ERR-4, UNK-3); under which code a task ends for its
 * customer (CUS-3); what an attempt cost (COST-7); and when a running job is looked at again.
 */
import type { Policy } from './catalog.ts'
import { divideUp, type Micros } from './money.ts'
import type { Fault } from './outcome.ts'
import type { Media } from './request.ts'

export type RealPersonRefusal = 'stop' | 'change_supply'

/** Codes under which an attempt's failure ends its task (CUS-3). Never a provider's own (ERR-3). */
export type FailureCode =
  | 'content_refused'
  | 'real_person_refused'
  | 'invalid_request'
  | 'submission_unresolved'
  | 'generation_timeout'
  | 'retry_window_expired'
  | 'attempts_exhausted'

export interface FailedAttempt {
  readonly media: Media
  readonly fault: Fault
  /** Attempts of the task that reached `submitting`, this one included. */
  readonly attemptsCounted: number
  readonly policy: Pick<Policy, 'maxAttempts' | 'retryWindowSeconds'>
  readonly realPersonRefusal: RealPersonRefusal
  /** Since the task's creation. */
  readonly taskAgeMs: number
  /** Whether a supply other than this one could take the task now. */
  readonly otherSupplyFree: boolean
  /** What is left of an image's total timeout, both calls included; null for a video. */
  readonly deadlineMsLeft: number | null
}

export type AfterFailure =
  | { readonly kind: 'final'; readonly code: FailureCode }
  /** Back to the queue (an image: a second round at once), not before so many ms from now. */
  | { readonly kind: 'retry'; readonly notBeforeMs: number }

/** The order matters: why it must not be tried again says more to the customer than that there was no try left. */
export function afterFailure(failed: FailedAttempt): AfterFailure {
  const { fault } = failed
  if (!mayChangeSupply(fault, failed.realPersonRefusal)) return final(codeOfFault(fault))
  if (failed.attemptsCounted >= failed.policy.maxAttempts) return final(codeOfFault(fault))
  if (failed.media === 'image') return afterImageFailure(failed.deadlineMsLeft)
  if (failed.taskAgeMs > failed.policy.retryWindowSeconds * 1000) return final('retry_window_expired')
  return { kind: 'retry', notBeforeMs: backOffMs(failed) }
}

/**
 * RTY-2, ERR-4, UNK-3. What an unknown outcome says of itself does not matter: it is never submitted again by itself.
 */
export function mayChangeSupply(
  fault: Pick<Fault, 'category' | 'retryable' | 'realPerson'>,
  realPersonRefusal: RealPersonRefusal,
): boolean {
  switch (fault.category) {
    case 'supply':
    case 'capacity':
      return fault.retryable
    case 'content':
      return fault.realPerson && realPersonRefusal === 'change_supply'
    case 'request':
    case 'unknown':
      return false
  }
}

function final(code: FailureCode): AfterFailure {
  return { kind: 'final', code }
}

/**
 * CUS-3. A call that we built wrongly is no fault of the customer's, and a job that ended without a reason is no
 * unresolved submission: of both the customer learns that no attempt is left.
 */
export function codeOfFault(
  fault: Pick<Fault, 'category' | 'certainty' | 'code' | 'realPerson'>,
): FailureCode {
  switch (fault.category) {
    case 'content':
      return fault.realPerson ? 'real_person_refused' : 'content_refused'
    case 'request':
      return fault.code === 'call_misbuilt' ? 'attempts_exhausted' : 'invalid_request'
    case 'unknown':
      return fault.certainty === 'unknown' ? 'submission_unresolved' : 'attempts_exhausted'
    case 'supply':
    case 'capacity':
      return 'attempts_exhausted'
  }
}

/** RTY-5: at once, and only inside the request's total timeout. Whether anything is free, the next round says. */
function afterImageFailure(deadlineMsLeft: number | null): AfterFailure {
  const isOver = deadlineMsLeft !== null && deadlineMsLeft <= 0
  return isOver ? final('generation_timeout') : { kind: 'retry', notBeforeMs: 0 }
}

const BACK_OFF_MS = 5000
/** A longer hold lies on the supply itself; the task looks again meanwhile, since another supply may have come free. */
const BACK_OFF_MAX_MS = 60_000

/** RTY-6. */
function backOffMs(failed: FailedAttempt): number {
  if (failed.otherSupplyFree) return 0
  return Math.min(failed.fault.retryAfterMs ?? BACK_OFF_MS, BACK_OFF_MAX_MS)
}

/**
 * UNK-6: the fault of an uncertain attempt that turned out not to have been accepted, a retryable supply error. It has
 * no impact on health: that was counted when the doubt arose (UNK-8).
 */
export const NOT_ACCEPTED: Fault = {
  category: 'supply',
  scope: 'supply',
  retryable: true,
  certainty: 'rejected',
  impact: 'none',
  code: 'upstream_error',
  message: 'The submission was found not to have been accepted.',
  providerCode: null,
  httpStatus: null,
  fingerprint: 'supply|supply|resolved|not_accepted',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}

const SHORTEST_POLL_MS = 1000
/** With the whole spread on top: 30 s. */
const LONGEST_BASE_MS = 24_000
const POLLS_PER_JOB = 20

export interface PollPace {
  /** How long such a job usually takes. */
  readonly expectedMs: number
  /** Since it was accepted. */
  readonly elapsedMs: number
  /** Polls in a row without an answer. */
  readonly failures: number
  /** 0 to 1, the same for the same attempt: keeps jobs that began together from being asked about together. */
  readonly spread: number
}

/**
 * How long to wait before a job is looked at again, 1 to 30 s. In a twentieth of the expected duration where it is
 * likely to end, from half of that duration to twice; in twice that before, since an early result is rare, and in a
 * tenth of its age after that, since nobody knows any more. Each poll without an answer doubles it. Up to a quarter is
 * added by `spread`.
 */
export function pollDelayMs(pace: PollPace): number {
  const paced = unspreadMs(pace) * 2 ** Math.min(Math.max(pace.failures, 0), 10)
  const base = Math.min(Math.max(paced, SHORTEST_POLL_MS), LONGEST_BASE_MS)
  return Math.round(base * (1 + Math.min(Math.max(pace.spread, 0), 1) / 4))
}

function unspreadMs({ expectedMs, elapsedMs }: PollPace): number {
  const near = Math.max(expectedMs / POLLS_PER_JOB, SHORTEST_POLL_MS)
  if (elapsedMs < expectedMs / 2) return Math.min(2 * near, Math.max(near, expectedMs - elapsedMs))
  return elapsedMs <= 2 * expectedMs ? near : Math.max(near, elapsedMs / 10)
}

/** How an attempt stands, as far as its cost goes. */
export type Billed =
  /** Nothing was sent, or the provider refused it. */
  | { readonly kind: 'refused' }
  /** Accepted, and ended without a result: failed, or cancelled at the provider. */
  | { readonly kind: 'failed' }
  /** `delivered` of `asked` results; 1 of 1 for a video. */
  | { readonly kind: 'delivered'; readonly delivered: number; readonly asked: number }
  /** Running, uncertain, or never resolved: what it may cost. */
  | { readonly kind: 'open' }

/** COST-7. `quote`: what the attempt was quoted with, on the price list whose `billsFailures` this is. */
export function costOfAttempt(
  billed: Billed,
  terms: { readonly quote: Micros; readonly billsFailures: boolean },
): Micros {
  switch (billed.kind) {
    case 'refused':
      return 0n
    case 'failed':
      return terms.billsFailures ? terms.quote : 0n
    case 'delivered':
      return proRata(terms.quote, billed)
    case 'open':
      return terms.quote
  }
}

/** Rounded up to a micro-unit; never more than the quote, however many results came. */
function proRata(quote: Micros, { delivered, asked }: { delivered: number; asked: number }): Micros {
  if (delivered >= asked) return quote
  return divideUp(quote * BigInt(delivered), BigInt(asked))
}
