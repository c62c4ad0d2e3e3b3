/**
 * What is written about a level, for ever (HLT-12): each transition by its name, with the recovery count, and the news
 * that did not count with the reason. Folding the events gives state, epoch, recovery count and cooldown again (HLT-18).
 */
import type { HealthState } from './catalog.ts'
import type { NewsKind } from './health-news.ts'
import { type AnyStanding, type HealthRow, openUntil, recoverySuccesses } from './health-row.ts'
import type { Instant } from './time.ts'

export type Transition =
  | 'failure_counted'
  /** healthy → degraded */
  | 'degraded'
  /** degraded → healthy */
  | 'restored'
  /** healthy, degraded → circuit_open */
  | 'opened'
  /** circuit_open → probing */
  | 'probing_started'
  /** probing, first success */
  | 'probe_succeeded'
  /** probing → recovering, second success */
  | 'recovery_started'
  /** recovering, third and fourth success */
  | 'rung_climbed'
  /** recovering → healthy, fifth success */
  | 'recovered'
  /** probing, recovering → circuit_open */
  | 'reopened'
  /** circuit_open, the free call failed: another cooldown */
  | 'ping_failed'
  /** a 429: no new attempts until `not_before` */
  | 'held'
  | 'disabled'
  | 'enabled'

/** Why news, or a request for a transition, changed nothing. */
export type Ignored =
  | 'stale_epoch'
  | 'circuit_open'
  | 'level_disabled'
  | 'same_failure'
  | 'not_of_this_level'
  /** Most channels are out of reach: the fault is suspected to be ours (HLT-16). */
  | 'own_network'
  | 'not_due'
  | 'not_disabled'
  | 'already_disabled'

/** Stored as it is: JSON with the columns' own spelling. Instants in µs. */
export interface EventDetail {
  readonly news?: NewsKind
  readonly news_epoch?: number
  readonly why?: Ignored
  readonly code?: string
  readonly fingerprint?: string
  readonly open_until?: Instant
  readonly ping_first?: boolean
  readonly not_before?: Instant
}

export interface HealthEvent {
  readonly kind: Transition | 'ignored'
  readonly from: HealthState
  readonly to: HealthState
  readonly epochBefore: number
  readonly epochAfter: number
  /** The count that this event reached: 5 for `recovered`, 0 for `reopened`. */
  readonly recoverySuccesses: number
  readonly applied: boolean
  readonly detail: EventDetail
}

/** The event of a transition between two rows. */
export function eventOf(
  kind: Transition,
  rows: { readonly before: HealthRow; readonly after: HealthRow },
  cause: EventDetail,
): HealthEvent {
  const { before, after } = rows
  return {
    kind,
    from: before.state,
    to: after.state,
    epochBefore: before.epoch,
    epochAfter: after.epoch,
    recoverySuccesses: kind === 'recovered' ? 5 : recoverySuccesses(after),
    applied: true,
    detail: { ...cause, ...coolDownDetail(after), ...holdDetail(before, after) },
  }
}

function coolDownDetail(row: AnyStanding): EventDetail {
  return row.state === 'circuit_open' ? { open_until: row.openUntil, ping_first: row.pingFirst } : {}
}

function holdDetail(before: HealthRow, after: HealthRow): EventDetail {
  return after.hold !== null && after.hold !== before.hold ? { not_before: after.hold.notBefore } : {}
}

/** The record of news that did not count; the row stays as it was. */
export function ignoredEvent(row: HealthRow, why: Ignored, cause: EventDetail): HealthEvent {
  return {
    kind: 'ignored',
    from: row.state,
    to: row.state,
    epochBefore: row.epoch,
    epochAfter: row.epoch,
    recoverySuccesses: recoverySuccesses(row),
    applied: false,
    detail: { ...cause, why },
  }
}

/** What the events alone tell of a level. */
export interface Folded {
  readonly state: HealthState
  readonly epoch: number
  readonly recoverySuccesses: number
  readonly openUntil: Instant | null
  /** Index of the first event that does not begin where the one before it ended; null if the chain is whole. */
  readonly brokenAt: number | null
}

/**
 * HLT-18. The events of one level in the order of `at` (IDs are in order by the millisecond only), from `start` (a new row,
 * or what was folded before retention).
 */
export function foldEvents(events: readonly HealthEvent[], start: Folded = FOLDED_NEW): Folded {
  return events.reduce(foldOne, start)
}

export const FOLDED_NEW: Folded = {
  state: 'healthy',
  epoch: 0,
  recoverySuccesses: 0,
  openUntil: null,
  brokenAt: null,
}

function foldOne(folded: Folded, event: HealthEvent, index: number): Folded {
  const continues = event.from === folded.state && event.epochBefore === folded.epoch
  const brokenAt = folded.brokenAt ?? (continues ? null : index)
  if (!event.applied) return { ...folded, brokenAt }
  return {
    state: event.to,
    epoch: event.epochAfter,
    recoverySuccesses: event.kind === 'recovered' ? 0 : event.recoverySuccesses,
    openUntil: event.detail.open_until ?? null,
    brokenAt,
  }
}

/** The same four figures of a row, to be compared with what its events fold to. */
export function foldedOf(row: HealthRow): Folded {
  return {
    state: row.state,
    epoch: row.epoch,
    recoverySuccesses: recoverySuccesses(row),
    openUntil: openUntil(row),
    brokenAt: null,
  }
}
