/**
 * What is remembered of the health of one channel or one supply (HLT-1, HLT-12), and by which figures it is judged
 * (HLT-14, HLT-15). A state holds only what is true in it: `openUntil` cannot be read while the level is healthy.
 */
import type { Instant } from './time.ts'

export type LevelKind = 'channel' | 'supply'

/** An outcome with impact, at the instant at which it became known. */
export type Outcome =
  | { readonly at: Instant; readonly ok: true; readonly durationMs: number | null }
  | { readonly at: Instant; readonly ok: false }

/** What the thresholds count. All of it survives a change of state, save where `health.ts` says otherwise. */
export interface Counters {
  /** Newest last. For a supply also the samples of its success rate (STR-9), which an opening does not wipe out. */
  readonly outcomes: readonly Outcome[]
  /** How many of the newest outcomes may stand in the window: those since the circuit last opened. */
  readonly sinceOpening: number
  readonly consecutiveFailures: number
  readonly consecutiveSuccesses: number
  /** Failures in a row that were a connection's, or a bare 403 (HLT-14). */
  readonly consecutiveDirect: number
  /** The last failure that was counted: the same one within a second is not counted again. */
  readonly lastFailure: { readonly at: Instant; readonly fingerprint: string } | null
  /** Openings since the last full recovery by what does not heal by itself: each doubles the cooldown. */
  readonly persistentOpenings: number
}

/** After a 429 (HLT-15). It stays after its time, until a call made after it is answered by something else. */
export interface Hold {
  readonly notBefore: Instant
  /** 1 for the first; one more for each call after a hold that was a 429 again. */
  readonly count: number
}

/** What a level may be returned to when it is enabled. */
export type Standing =
  | { readonly state: 'healthy' }
  | { readonly state: 'degraded' }
  | {
      readonly state: 'circuit_open'
      readonly openUntil: Instant
      /** What opened it does not heal by itself: a free call to the provider comes before a probe. */
      readonly pingFirst: boolean
    }
  | { readonly state: 'probing'; readonly recoverySuccesses: 0 | 1 }
  | { readonly state: 'recovering'; readonly recoverySuccesses: 2 | 3 | 4 }

export type AnyStanding = Standing | { readonly state: 'disabled'; readonly before: Standing }

interface Kept {
  /** Raised by opening, probing, disabling and enabling; an outcome counts only in the epoch it was granted in (HLT-10). */
  readonly epoch: number
  readonly counters: Counters
  readonly hold: Hold | null
}

export type HealthRow = Kept & AnyStanding

/** A row in which news may count. */
export type LiveRow = Exclude<HealthRow, { state: 'circuit_open' | 'disabled' }>

export const NO_COUNTERS: Counters = {
  outcomes: [],
  sinceOpening: 0,
  consecutiveFailures: 0,
  consecutiveSuccesses: 0,
  consecutiveDirect: 0,
  lastFailure: null,
  persistentOpenings: 0,
}

/** HLT-17: what is new starts healthy. */
export const NEW_ROW: HealthRow = { state: 'healthy', epoch: 0, counters: NO_COUNTERS, hold: null }

/** As HLT-12 stores it: 0 but in probing and recovering. */
export function recoverySuccesses(row: AnyStanding): number {
  return row.state === 'probing' || row.state === 'recovering' ? row.recoverySuccesses : 0
}

export function openUntil(row: AnyStanding): Instant | null {
  return row.state === 'circuit_open' ? row.openUntil : null
}

export interface HealthSettings {
  /** The window: so many outcomes, at most max(age, durations × p95 of the successes' duration) old. */
  readonly windowSize: number
  readonly windowAgeMs: number
  readonly windowDurations: number
  readonly sampleSize: number
  readonly sampleAgeMs: number
  /** healthy → degraded: failures in a row, or a share of the window once that has enough outcomes. */
  readonly degradeAfter: number
  readonly degradeAtPercent: number
  readonly degradeMinimum: number
  /** degraded → healthy: successes in a row, with the window below `degradeAtPercent`. */
  readonly restoreAfter: number
  /** → circuit_open: failures in a row, or a share of the window with some failures in a row. */
  readonly openAfter: number
  readonly openAtPercent: number
  readonly openMinimum: number
  readonly openWithConsecutive: number
  /** A channel's: connection failures, or bare 403, in a row. */
  readonly openAfterDirect: number
  readonly sameFailureMs: number
  readonly coolDownMs: number
  readonly persistentCoolDownMs: number
  readonly persistentCoolDownMaxMs: number
  /** After a 429 that names no time. */
  readonly holdMs: number
  readonly holdMaxMs: number
}

/** HLT-14 and HLT-15; STR-9 for the samples. */
export const HEALTH_DEFAULTS: HealthSettings = {
  windowSize: 20,
  windowAgeMs: 10 * 60_000,
  windowDurations: 3,
  sampleSize: 100,
  sampleAgeMs: 24 * 3_600_000,
  degradeAfter: 2,
  degradeAtPercent: 20,
  degradeMinimum: 5,
  restoreAfter: 5,
  openAfter: 5,
  openAtPercent: 50,
  openMinimum: 10,
  openWithConsecutive: 2,
  openAfterDirect: 2,
  sameFailureMs: 1000,
  coolDownMs: 30_000,
  persistentCoolDownMs: 10 * 60_000,
  persistentCoolDownMaxMs: 3_600_000,
  holdMs: 5000,
  holdMaxMs: 5 * 60_000,
}
