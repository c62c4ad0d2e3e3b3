/**
 * Attempts that this very process has claimed and lost out of its hands: the commit of their grant was never answered, or
 * the database went away before they were begun or written down. Their owner is alive, so that no reconciler takes them.
 *
 * Invariant: an attempt in `reserved` or `submitting` is in the hands of its owner, or is ended within two claims. What was
 * only reserved was not sent; of what had said `submitting`, nobody knows (UNK-6).
 */
import { claimedBy } from '../store/attempts.ts'
import type { Database } from '../store/database.ts'
import type { Settle } from './settle.ts'

export interface OwnOrphansPorts {
  readonly db: Database
  readonly owner: string
  /** Attempts that are being worked on: from before they are begun until their end is written down. */
  readonly inHand: ReadonlySet<string>
  readonly settle: Settle
}

export async function settleOwnOrphans(ports: OwnOrphansPorts, afterSeconds: number): Promise<void> {
  const claimed = await claimedBy(ports.db, ports.owner, afterSeconds)
  for (const attempt of claimed)
    if (!ports.inHand.has(attempt.id))
      await ports.settle.apply(attempt.id, attempt.fence, { kind: attempt.due })
}
