/**
 * HLT-6, HLT-7: how much of its configured concurrency a channel or a supply may use in its present health. Everything
 * is computed from the configured value at the moment of asking, so that a changed limit is right in the middle of a
 * recovery too.
 */
import type { HealthState } from './catalog.ts'

/**
 * Slots open to attempts of the level's present epoch.
 * `recoverySuccesses` is read in `recovering` only; `concurrency` is the configured limit, 1 or more.
 */
export function effectiveConcurrency(
  state: HealthState,
  recoverySuccesses: number,
  concurrency: number,
): number {
  switch (state) {
    case 'healthy':
    case 'degraded':
      return concurrency
    case 'circuit_open':
    case 'disabled':
      return 0
    case 'probing':
      return 1
    case 'recovering':
      return rung(recoverySuccesses, concurrency)
  }
}

/**
 * 25, 50, 75 % after 2, 3, 4 successes, rounded up in integers. One slot stays closed while there is more than one:
 * without that, 75 % of 2 or 3 would be all of it, and the fifth success would decide nothing.
 */
function rung(recoverySuccesses: number, concurrency: number): number {
  const quarters = Math.min(Math.max(recoverySuccesses, 2), 4) - 1
  const roundedUp = Math.floor((concurrency * quarters + 3) / 4)
  return Math.max(1, Math.min(roundedUp, concurrency - 1))
}
