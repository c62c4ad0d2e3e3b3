/** Jobs that providers made and that are delivered to nobody, each recorded once with what it cost. */
import type { Sql } from './database.ts'

export interface Orphan {
  readonly attemptId: string
  readonly taskId: string
  /** The provider's ID of the job; null where it gave none. */
  readonly job: string | null
  readonly how: string
  readonly cost: bigint
  /** What of the cost its attempt was not charged with yet. */
  readonly uncharged: bigint
}

const RECORD = {
  name: 'orphan-result',
  text: `with recorded as (
      insert into orphan_result (attempt_id, task_id, provider_task_id, how, cost_micros) values ($1, $2, $3, $4, $5)
      on conflict do nothing returning attempt_id),
    charged as (
      update attempt a set cost_micros = a.cost_micros + $6, orphan_cost_micros = a.orphan_cost_micros + $6
      from recorded where a.id = recorded.attempt_id)
    select 1 from recorded`,
}

/** False: it was recorded before, and nothing was changed. The attempt is locked by the caller. */
export async function recordOrphan(tx: Sql, orphan: Orphan): Promise<boolean> {
  const { attemptId, taskId, job, how, cost, uncharged } = orphan
  return (await tx.query(RECORD, [attemptId, taskId, job, how, cost, uncharged])).rowCount === 1
}

const KNOWN = { name: 'orphans-of-attempt', text: 'select from orphan_result where attempt_id = $1 limit 1' }

export async function hasOrphans(tx: Sql, attemptId: string): Promise<boolean> {
  return (await tx.query(KNOWN, [attemptId])).rowCount === 1
}
