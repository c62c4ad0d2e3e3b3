/**
 * What an attempt, or a poll, tells a level (HLT-2, HLT-3, HLT-9, HLT-10, HLT-15, UNK-8). One happening may be news to
 * the channel, to the supply, to both or to neither; each gets its own, with the epoch that the attempt was granted in
 * there.
 */
import type { LevelKind } from './health-row.ts'
import type { Fault } from './outcome.ts'
import type { Instant } from './time.ts'

/**
 * `persistent`: does not heal by itself, and opens at once. `escalated`: the same error on several supplies, which opens
 * their channel at once (HLT-16). `connection`, `bare_403`: two in a row open a channel.
 */
export type FailureCause = 'ordinary' | 'connection' | 'bare_403' | 'persistent' | 'escalated'

interface Explained {
  readonly code: string
  /** Same cause, same text. */
  readonly fingerprint: string
}

interface OfAnAttempt {
  /** The level's epoch that the attempt was granted in. */
  readonly epoch: number
  /** When its submission began: tells a call made after a hold from one that was on its way before. */
  readonly calledAt: Instant
}

/** Of now, whatever the attempt's age (HLT-10). */
interface OfNow {
  readonly epoch: null
}

export type HealthNews =
  /** A channel's success; a supply only learns that its hold is over. */
  | (OfAnAttempt & { readonly kind: 'accepted' })
  /** A supply's success. `durationMs`: from acceptance to result, null where it is not known. */
  | (OfAnAttempt & { readonly kind: 'finished'; readonly durationMs: number | null })
  | (OfAnAttempt & Explained & { readonly kind: 'failed'; readonly cause: FailureCause })
  | (OfAnAttempt & Explained & { readonly kind: 'uncertain' })
  | (OfAnAttempt & Explained & { readonly kind: 'capacity'; readonly retryAfterMs: number | null })
  | (OfNow & Explained & { readonly kind: 'refused_poll'; readonly cause: FailureCause })
  | (OfNow & Explained & { readonly kind: 'unanswered_polls'; readonly cause: FailureCause })

export type NewsKind = HealthNews['kind']
export type CapacityNews = Extract<HealthNews, { kind: 'capacity' }>
export type FailureNews = Extract<
  HealthNews,
  { kind: 'failed' | 'uncertain' | 'refused_poll' | 'unanswered_polls' }
>

/** What happened, as runtime sees it. */
export type Happening =
  | { readonly kind: 'accepted' }
  | { readonly kind: 'finished'; readonly durationMs: number | null }
  /** The submission, or the job, ended in a fault. */
  | { readonly kind: 'fault'; readonly fault: Fault }
  /** The submission is uncertain without an answer to look at: its process died. */
  | { readonly kind: 'lost' }
  /** A poll brought no answer about the job; `inARow` counts such polls of the attempt, this one included. */
  | { readonly kind: 'no_answer'; readonly fault: Fault; readonly inARow: number }

/** HLT-10. */
const POLLS_WITHOUT_ANSWER = 3

/** The news for this level, or null where the happening does not concern it. */
export function newsFor(kind: LevelKind, happening: Happening, attempt: OfAnAttempt): HealthNews | null {
  const of = { epoch: attempt.epoch, calledAt: attempt.calledAt }
  switch (happening.kind) {
    case 'accepted':
      return { ...of, kind: 'accepted' }
    case 'finished':
      return kind === 'supply' ? { ...of, kind: 'finished', durationMs: happening.durationMs } : null
    case 'fault':
      return concerns(kind, happening.fault) ? newsOfFault(happening.fault, of) : null
    case 'lost':
      return kind === 'supply' ? { ...of, kind: 'uncertain', ...LOST } : null
    case 'no_answer':
      return kind === 'channel' ? newsOfPoll(happening) : null
  }
}

const LOST: Explained = { code: 'submission_unknown', fingerprint: 'unknown|attempt|process|lost' }

/**
 * HLT-9: content and request concern nobody. What is not said to be the channel's is the supply's, an unknown
 * submission too (UNK-8): the smaller level is blamed where the larger one is not proven.
 */
function concerns(kind: LevelKind, fault: Fault): boolean {
  if (fault.category === 'content' || fault.category === 'request' || fault.impact === 'none') return false
  return kind === (fault.scope === 'channel' ? 'channel' : 'supply')
}

function newsOfFault(fault: Fault, of: OfAnAttempt): HealthNews {
  const explained = { code: fault.code, fingerprint: fault.fingerprint }
  if (fault.impact === 'capacity')
    return { ...of, ...explained, kind: 'capacity', retryAfterMs: fault.retryAfterMs }
  if (fault.category === 'unknown' && fault.certainty === 'unknown')
    return { ...of, ...explained, kind: 'uncertain' }
  return { ...of, ...explained, kind: 'failed', cause: causeOf(fault) }
}

/** HLT-16: the channel's share of what its supplies failed by. */
export function escalated(fault: Pick<Fault, 'code' | 'fingerprint'>, of: OfAnAttempt): HealthNews {
  const { code, fingerprint } = fault
  return { epoch: of.epoch, calledAt: of.calledAt, code, fingerprint, kind: 'failed', cause: 'escalated' }
}

function newsOfPoll(poll: Extract<Happening, { kind: 'no_answer' }>): HealthNews | null {
  const { fault } = poll
  const explained = { code: fault.code, fingerprint: fault.fingerprint, cause: causeOf(fault) }
  if (fault.code === 'key_refused' || fault.code === 'access_refused')
    return { epoch: null, kind: 'refused_poll', ...explained }
  // A 429 is an answer: the provider is there, and asks for patience.
  if (fault.impact === 'none' || fault.impact === 'capacity' || poll.inARow < POLLS_WITHOUT_ANSWER)
    return null
  return { epoch: null, kind: 'unanswered_polls', ...explained }
}

function causeOf(fault: Fault): FailureCause {
  if (fault.impact === 'persistent_failure') return 'persistent'
  if (fault.connection) return 'connection'
  return fault.code === 'access_refused' ? 'bare_403' : 'ordinary'
}

/**
 * HLT-19: whether an attempt that has already given a level these kinds of news may give it this one too. Once each;
 * and no success after it counted as an uncertain failure: the attempt was judged then, and late luck proves little.
 */
export function mayGive(kind: NewsKind, alreadyGiven: ReadonlySet<NewsKind>): boolean {
  if (alreadyGiven.has(kind)) return false
  const success = kind === 'accepted' || kind === 'finished'
  return !(success && alreadyGiven.has('uncertain'))
}
