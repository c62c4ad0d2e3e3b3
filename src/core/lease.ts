/**
 * The right of one attempt to occupy one slot of its channel and one of its supply. A lease belongs to the provider's
 * job, not to the process that started it: it is held as long as that job may be running, and a dead process frees
 * nothing.
 */
import { type AttemptState, isAlive } from './attempt.ts'
import type { Instant } from './time.ts'

/** How the attempt ended, or `life_over`: the provider's maximum life passed and nobody could ask about the job (RTY-7). */
export type ReleaseReason = 'succeeded' | 'failed' | 'abandoned' | 'cancelled' | 'life_over'

export type Lease =
  /** `heldUntil`: the provider's maximum life, set when the task no longer waits for the job; null before that. */
  | { readonly state: 'held'; readonly heldUntil: Instant | null }
  | { readonly state: 'released'; readonly releasedAt: Instant; readonly why: ReleaseReason }

/** The lease of an attempt in this state, at this instant. What was released stays so, with its reason. */
export function leaseAfter(lease: Lease, attempt: AttemptState, now: Instant): Lease {
  if (lease.state === 'released') return lease
  const why = reasonToRelease(lease, attempt, now)
  return why === null ? lease : { state: 'released', releasedAt: now, why }
}

function reasonToRelease(
  lease: Extract<Lease, { state: 'held' }>,
  attempt: AttemptState,
  now: Instant,
): ReleaseReason | null {
  if (isAlive(attempt)) return lease.heldUntil !== null && lease.heldUntil <= now ? 'life_over' : null
  switch (attempt) {
    case 'succeeded':
    case 'failed':
    case 'abandoned':
    case 'cancelled':
      return attempt
    default:
      return null
  }
}
