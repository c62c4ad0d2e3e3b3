/** The lane of a task as it is stored: a digest, so that the queue's index stays narrow. */
import { createHash } from 'node:crypto'
import { type FactsJson, laneOf, type PastAttemptJson } from '../core/frozen.ts'

export function laneDigest(modelId: string, facts: FactsJson, attempts: readonly PastAttemptJson[]): string {
  return createHash('sha256')
    .update(laneOf(modelId, facts, attempts))
    .digest('base64url')
    .slice(0, 22)
}
