/**
 * The health of a channel or a supply as a pure machine (HLT-1 to HLT-19): a row and a piece of news give a row and an
 * event. Both kinds of level use the same machine, each with a row of its own.
 *
 *     healthy ⇄ degraded ──▶ circuit_open ──cooldown──▶ probing ──2nd success──▶ recovering ──5th──▶ healthy
 *        └───────────────────▶     ▲  └── ping failed      │                        │
 *                                  └──────── any failure ──┴────────────────────────┘
 *     disabled: by the operator alone, from and back to any of them
 *
 * Invariants: news of another epoch leaves the row as it is; only the cooldown and the operator lead out of
 * circuit_open, and nothing but a new opening, or a failed free call, moves its end; nothing but a success moves the
 * recovery count up. What changes nothing gives back the very same row object.
 */
import {
  type EventDetail,
  eventOf,
  type HealthEvent,
  type Ignored,
  ignoredEvent,
  type Transition,
} from './health-event.ts'
import type { CapacityNews, FailureCause, FailureNews, HealthNews } from './health-news.ts'
import {
  type AnyStanding,
  type Counters,
  HEALTH_DEFAULTS,
  type HealthRow,
  type HealthSettings,
  type Hold,
  type LevelKind,
  type LiveRow,
  type Standing,
} from './health-row.ts'
import { reaches, windowShare, withOutcome } from './health-window.ts'
import type { Instant } from './time.ts'

export { healthFromColumns, healthToColumns } from './health-columns.ts'
export { samples } from './health-window.ts'

const MICROS_PER_MILLI = 1000

export interface Step {
  readonly row: HealthRow
  /** To be appended, with the attempt's ID; null for what needs no record (a success while healthy). */
  readonly event: HealthEvent | null
  readonly applied: boolean
  readonly why: Transition | Ignored | 'success_counted' | 'answered'
}

interface Moment<Row extends HealthRow> {
  readonly kind: LevelKind
  readonly row: Row
  readonly now: Instant
  readonly settings: HealthSettings
}

/**
 * Let one piece of news count. `now`: the database's clock, read after the row was locked. That the attempt has not
 * given this news before (`mayGive`, HLT-19) is the caller's to check.
 */
export function applyNews(
  kind: LevelKind,
  row: HealthRow,
  news: HealthNews,
  now: Instant,
  settings: HealthSettings = HEALTH_DEFAULTS,
): Step {
  if (!concerns(kind, news)) return ignore(row, news, 'not_of_this_level')
  if (news.epoch !== null && news.epoch !== row.epoch) return ignore(row, news, 'stale_epoch')
  if (row.state === 'circuit_open') return ignore(row, news, 'circuit_open')
  if (row.state === 'disabled') return ignore(row, news, 'level_disabled')
  return applyLive({ kind, row, now, settings }, news)
}

/** HLT-16: news of a channel that our own network is suspected to have made: written down, and nothing else. */
export function setAside(row: HealthRow, news: HealthNews): Step {
  return ignore(row, news, 'own_network')
}

/** A channel's success is an acceptance, a supply's a result (HLT-15); only a channel is judged by polls (HLT-10). */
function concerns(kind: LevelKind, news: HealthNews): boolean {
  if (news.kind === 'finished') return kind === 'supply'
  return news.epoch !== null || kind === 'channel'
}

function applyLive(at: Moment<LiveRow>, news: HealthNews): Step {
  switch (news.kind) {
    case 'accepted':
      return at.kind === 'channel' ? succeed(answered(at, news), news, null) : onlyAnswered(at, news)
    case 'finished':
      return succeed(answered(at, news), news, news.durationMs)
    case 'failed':
    case 'uncertain':
    case 'refused_poll':
    case 'unanswered_polls':
      return fail(answered(at, news), at.row, news)
    case 'capacity':
      return holdBack(at, news)
  }
}

/** The first call after a hold was answered by something other than a 429: the hold is forgotten, its doubling too. */
function answered(at: Moment<LiveRow>, news: HealthNews): Moment<LiveRow> {
  const { hold } = at.row
  const answers = hold !== null && news.epoch !== null && news.calledAt >= hold.notBefore
  return answers ? { ...at, row: { ...at.row, hold: null } } : at
}

function onlyAnswered(at: Moment<LiveRow>, news: HealthNews): Step {
  return { row: answered(at, news).row, event: null, applied: true, why: 'answered' }
}

function succeed(at: Moment<LiveRow>, news: HealthNews, durationMs: number | null): Step {
  const counters = countSuccess(at, durationMs)
  const row: LiveRow = { ...at.row, counters }
  switch (row.state) {
    case 'healthy':
      return { row, event: null, applied: true, why: 'success_counted' }
    case 'degraded':
      if (!isRestored(counters, at)) return { row, event: null, applied: true, why: 'success_counted' }
      return move(at.row, stand(row, { state: 'healthy' }), 'restored', news)
    case 'probing':
      return row.recoverySuccesses === 0
        ? move(at.row, stand(row, { state: 'probing', recoverySuccesses: 1 }), 'probe_succeeded', news)
        : move(at.row, stand(row, { state: 'recovering', recoverySuccesses: 2 }), 'recovery_started', news)
    case 'recovering':
      return climb(at.row, row, news)
  }
}

function climb(before: HealthRow, row: Extract<LiveRow, { state: 'recovering' }>, news: HealthNews): Step {
  switch (row.recoverySuccesses) {
    case 2:
      return move(before, stand(row, { state: 'recovering', recoverySuccesses: 3 }), 'rung_climbed', news)
    case 3:
      return move(before, stand(row, { state: 'recovering', recoverySuccesses: 4 }), 'rung_climbed', news)
    case 4:
      return move(before, recovered(row), 'recovered', news)
  }
}

/** Only a full recovery shows that what does not heal by itself was mended: the next one starts at the short cooldown. */
function recovered(row: HealthRow): HealthRow {
  return stand({ ...row, counters: { ...row.counters, persistentOpenings: 0 } }, { state: 'healthy' })
}

function countSuccess(at: Moment<LiveRow>, durationMs: number | null): Counters {
  const counters = withOutcome(at.row.counters, { at: at.now, ok: true, durationMs }, at)
  return {
    ...counters,
    consecutiveFailures: 0,
    consecutiveDirect: 0,
    consecutiveSuccesses: counters.consecutiveSuccesses + 1,
  }
}

function isRestored(counters: Counters, at: Moment<LiveRow>): boolean {
  const share = windowShare(counters, at.now, at.settings)
  return (
    counters.consecutiveSuccesses >= at.settings.restoreAfter && !reaches(share, at.settings.degradeAtPercent)
  )
}

/** `before`: the row as it was stored, for the event. */
function fail(at: Moment<LiveRow>, before: LiveRow, news: FailureNews | CapacityNews): Step {
  const cause = causeOf(news)
  const inRecovery = at.row.state === 'probing' || at.row.state === 'recovering'
  if (!inRecovery && !OPENS_AT_ONCE.has(cause) && isSameFailure(at, news))
    return ignore(before, news, 'same_failure')
  const counters = countFailure(at, news)
  const row: LiveRow = { ...at.row, counters }
  // HLT-8: no threshold while it is being tried out.
  if (inRecovery) return move(before, open({ ...at, row }, cause), 'reopened', news)
  if (opens(counters, at, cause)) return move(before, open({ ...at, row }, cause), 'opened', news)
  if (row.state === 'healthy' && degrades(counters, at))
    return move(before, stand(row, { state: 'degraded' }), 'degraded', news)
  return move(before, row, 'failure_counted', news)
}

const OPENS_AT_ONCE: ReadonlySet<FailureCause> = new Set(['persistent', 'escalated'])

function causeOf(news: FailureNews | CapacityNews): FailureCause {
  return news.kind === 'capacity' || news.kind === 'uncertain' ? 'ordinary' : news.cause
}

/** One dropped pool of connections is one event, however many attempts it takes with it. */
function isSameFailure(at: Moment<LiveRow>, news: FailureNews | CapacityNews): boolean {
  const last = at.row.counters.lastFailure
  if (last === null || last.fingerprint !== news.fingerprint) return false
  const since = at.now - last.at
  return since >= 0 && since < at.settings.sameFailureMs * MICROS_PER_MILLI
}

function countFailure(at: Moment<LiveRow>, news: FailureNews | CapacityNews): Counters {
  const counters = withOutcome(at.row.counters, { at: at.now, ok: false }, at)
  const cause = causeOf(news)
  const direct = cause === 'connection' || cause === 'bare_403'
  return {
    ...counters,
    consecutiveFailures: counters.consecutiveFailures + 1,
    consecutiveDirect: direct ? counters.consecutiveDirect + 1 : 0,
    consecutiveSuccesses: 0,
    lastFailure: { at: at.now, fingerprint: news.fingerprint },
  }
}

function opens(counters: Counters, at: Moment<LiveRow>, cause: FailureCause): boolean {
  const { settings } = at
  if (OPENS_AT_ONCE.has(cause)) return true
  if (at.kind === 'channel' && counters.consecutiveDirect >= settings.openAfterDirect) return true
  if (counters.consecutiveFailures >= settings.openAfter) return true
  const share = windowShare(counters, at.now, settings)
  return (
    counters.consecutiveFailures >= settings.openWithConsecutive &&
    share.total >= settings.openMinimum &&
    reaches(share, settings.openAtPercent)
  )
}

function degrades(counters: Counters, at: Moment<LiveRow>): boolean {
  const { settings } = at
  if (counters.consecutiveFailures >= settings.degradeAfter) return true
  const share = windowShare(counters, at.now, settings)
  return share.total >= settings.degradeMinimum && reaches(share, settings.degradeAtPercent)
}

/** The full cooldown starts from this failure. The window starts anew, the samples go on. */
function open(at: Moment<HealthRow>, cause: FailureCause): HealthRow {
  const pingFirst = cause === 'persistent'
  const persistentOpenings = at.row.counters.persistentOpenings + (pingFirst ? 1 : 0)
  const lasts = pingFirst ? persistentCoolDownMs(persistentOpenings, at.settings) : at.settings.coolDownMs
  const counters: Counters = {
    ...at.row.counters,
    sinceOpening: 0,
    consecutiveFailures: 0,
    consecutiveDirect: 0,
    consecutiveSuccesses: 0,
    persistentOpenings,
  }
  const openUntil = at.now + lasts * MICROS_PER_MILLI
  return stand({ ...raised(at.row), counters }, { state: 'circuit_open', openUntil, pingFirst })
}

function persistentCoolDownMs(openings: number, settings: HealthSettings): number {
  return doubled(settings.persistentCoolDownMs, openings, settings.persistentCoolDownMaxMs)
}

/** first, twice that for the second, and so on up to the most. */
function doubled(first: number, count: number, most: number): number {
  return Math.min(first * 2 ** Math.min(count - 1, 30), most)
}

/**
 * HLT-15. A 429 is no failure of a healthy level: it asks for patience. It is one for a supply that asks again at the
 * first call after its hold, or while the supply is being tried out. A channel is only held: full is not broken.
 */
function holdBack(at: Moment<LiveRow>, news: CapacityNews): Step {
  const { hold, state } = at.row
  const again = hold !== null && news.calledAt >= hold.notBefore
  const next = nextHold(at, news, again)
  const row: LiveRow = next === hold ? at.row : { ...at.row, hold: next }
  const beingTried = state === 'probing' || state === 'recovering'
  if (at.kind === 'supply' && (again || beingTried)) {
    const failed = fail({ ...at, row }, at.row, news)
    if (failed.applied) return failed
  }
  return row === at.row ? { row, event: null, applied: true, why: 'held' } : move(at.row, row, 'held', news)
}

/** A call that was on its way before the hold was over belongs to it: it may lengthen it, and doubles nothing. */
function nextHold(at: Moment<LiveRow>, news: CapacityNews, again: boolean): Hold {
  const { hold } = at.row
  const { holdMs, holdMaxMs } = at.settings
  const until = (lasts: number) => at.now + lasts * MICROS_PER_MILLI
  if (hold !== null && !again) {
    const asked = news.retryAfterMs === null ? 0 : until(news.retryAfterMs)
    return asked > hold.notBefore ? { ...hold, notBefore: asked } : hold
  }
  const count = (hold?.count ?? 0) + 1
  return { count, notBefore: until(news.retryAfterMs ?? doubled(holdMs, count, holdMaxMs)) }
}

/** HLT-5: circuit_open → probing once the cooldown is over; the caller pings first where `pingFirst` asks for it. */
export function coolDownOver(row: HealthRow, now: Instant): Step {
  if (!isCooledDown(row, now)) return nothing(row, 'not_due')
  return move(row, stand(raised(row), { state: 'probing', recoverySuccesses: 0 }), 'probing_started', null)
}

function isCooledDown(row: HealthRow, now: Instant): row is Extract<HealthRow, { state: 'circuit_open' }> {
  return row.state === 'circuit_open' && row.openUntil <= now
}

/**
 * HLT-14: what the free call said that comes before the probe of what does not heal by itself. Not answered well, the
 * circuit stays open for another, longer cooldown. Says nothing where no free call was due.
 */
export function afterPing(
  row: HealthRow,
  ok: boolean,
  now: Instant,
  settings: HealthSettings = HEALTH_DEFAULTS,
): Step {
  if (!isCooledDown(row, now) || !row.pingFirst) return nothing(row, 'not_due')
  if (ok) return coolDownOver(row, now)
  const persistentOpenings = row.counters.persistentOpenings + 1
  const openUntil = now + persistentCoolDownMs(persistentOpenings, settings) * MICROS_PER_MILLI
  const after = { ...row, openUntil, counters: { ...row.counters, persistentOpenings } }
  return move(row, after, 'ping_failed', null)
}

/** HLT-17: the operator's switch. What the level was stays in the row, for its return. */
export function disable(row: HealthRow): Step {
  if (row.state === 'disabled') return nothing(row, 'already_disabled')
  return move(row, stand(raised(row), { state: 'disabled', before: standingOf(row) }), 'disabled', null)
}

/** HLT-17: back to what it was before, or to a first probe if the operator asks for that. */
export function enable(row: HealthRow, options: { readonly probe: boolean }): Step {
  if (row.state !== 'disabled') return nothing(row, 'not_disabled')
  const standing: Standing = options.probe ? { state: 'probing', recoverySuccesses: 0 } : row.before
  return move(row, stand(raised(row), standing), 'enabled', null)
}

/** The state alone, without what is kept through all states. */
function standingOf(row: Exclude<HealthRow, { state: 'disabled' }>): Standing {
  switch (row.state) {
    case 'healthy':
    case 'degraded':
      return { state: row.state }
    case 'circuit_open':
      return { state: row.state, openUntil: row.openUntil, pingFirst: row.pingFirst }
    case 'probing':
      return { state: row.state, recoverySuccesses: row.recoverySuccesses }
    case 'recovering':
      return { state: row.state, recoverySuccesses: row.recoverySuccesses }
  }
}

/** Another state, with nothing of the old one left in it. */
function stand(row: HealthRow, standing: AnyStanding): HealthRow {
  return { epoch: row.epoch, counters: row.counters, hold: row.hold, ...standing }
}

/** HLT-10: what was granted before this does not count after it. */
function raised(row: HealthRow): HealthRow {
  return { ...row, epoch: row.epoch + 1 }
}

function move(before: HealthRow, after: HealthRow, why: Transition, news: HealthNews | null): Step {
  return { row: after, event: eventOf(why, { before, after }, causeDetail(news)), applied: true, why }
}

function ignore(row: HealthRow, news: HealthNews, why: Ignored): Step {
  return { row, event: ignoredEvent(row, why, causeDetail(news)), applied: false, why }
}

function nothing(row: HealthRow, why: Ignored): Step {
  return { row, event: null, applied: false, why }
}

function causeDetail(news: HealthNews | null): EventDetail {
  if (news === null) return {}
  const explained = 'code' in news ? { code: news.code, fingerprint: news.fingerprint } : {}
  return { news: news.kind, ...(news.epoch === null ? {} : { news_epoch: news.epoch }), ...explained }
}
