/** ORD-9: how many more attempts a channel or a supply may take at this instant. */
import type { Level } from './catalog.ts'
import { effectiveConcurrency } from './concurrency.ts'

/**
 * Free slots; 0 or less is saturated. Leases of an older epoch may still hold the provider's own slots, so they count
 * against the configured concurrency, but they are no probe of this epoch (HLT-6, HLT-10). An open circuit has no
 * capacity to speak of.
 */
export function freeCapacity(level: Level): number {
  switch (level.health) {
    case 'healthy':
    case 'degraded':
      return level.concurrency - level.inUse
    case 'probing':
    case 'recovering': {
      const limit = effectiveConcurrency(level.health, level.recoverySuccesses, level.concurrency)
      return Math.min(limit - level.inUseEpoch, level.concurrency - level.inUse)
    }
    case 'circuit_open':
    case 'disabled':
      return 0
  }
}
