/**
 * Two readings of the same outcomes. The window (HLT-14) decides about the circuit and starts anew when it opens: old
 * failures that opened it must not open it again. The samples (STR-9) rank supplies by success rate and outlive an
 * opening: a supply that keeps failing must not look untested after each recovery.
 */
import type { Counters, HealthRow, HealthSettings, LevelKind, Outcome } from './health-row.ts'
import { HEALTH_DEFAULTS } from './health-row.ts'
import type { Instant } from './time.ts'

const MICROS_PER_MILLI = 1000

export interface Share {
  readonly total: number
  readonly failures: number
}

/** What stands in the window at `now`. */
export function windowShare(counters: Counters, now: Instant, settings: HealthSettings): Share {
  const size = Math.min(settings.windowSize, counters.sinceOpening)
  const oldest = now - windowAgeMs(counters, settings) * MICROS_PER_MILLI
  return shareOf(newest(counters.outcomes, size).filter((outcome) => outcome.at >= oldest))
}

function windowAgeMs(counters: Counters, settings: HealthSettings): number {
  return Math.max(settings.windowAgeMs, settings.windowDurations * percentile95(durations(counters)))
}

function durations(counters: Counters): number[] {
  return counters.outcomes.flatMap((outcome) =>
    outcome.ok && outcome.durationMs !== null ? [outcome.durationMs] : [],
  )
}

/** Nearest rank: an observed value, so that one outlier among twenty does not stretch the window. 0 of none. */
function percentile95(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.ceil((sorted.length * 95) / 100) - 1] ?? 0
}

/** The success rate's basis (STR-9): the newest outcomes with impact, as far as they are recent enough. */
export function samples(
  row: HealthRow,
  now: Instant,
  settings: HealthSettings = HEALTH_DEFAULTS,
): { readonly successes: number; readonly failures: number } {
  const oldest = now - settings.sampleAgeMs * MICROS_PER_MILLI
  const kept = newest(row.counters.outcomes, settings.sampleSize).filter((outcome) => outcome.at >= oldest)
  const { total, failures } = shareOf(kept)
  return { successes: total - failures, failures }
}

/** Only a supply is ranked by its success rate; a channel's row is written at every submission and is kept short. */
export function withOutcome(
  counters: Counters,
  outcome: Outcome,
  keep: { readonly kind: LevelKind; readonly settings: HealthSettings },
): Counters {
  const size = keep.kind === 'supply' ? keep.settings.sampleSize : keep.settings.windowSize
  return {
    ...counters,
    outcomes: newest([...counters.outcomes, outcome], Math.max(size, keep.settings.windowSize)),
    sinceOpening: Math.min(counters.sinceOpening + 1, keep.settings.windowSize),
  }
}

function newest<T>(list: readonly T[], count: number): readonly T[] {
  return count <= 0 ? [] : list.slice(-count)
}

function shareOf(outcomes: readonly Outcome[]): Share {
  return { total: outcomes.length, failures: outcomes.filter((outcome) => !outcome.ok).length }
}

/** failures ÷ total ≥ percent %, in integers; never of nothing. */
export function reaches(share: Share, percent: number): boolean {
  return share.total > 0 && share.failures * 100 >= share.total * percent
}
