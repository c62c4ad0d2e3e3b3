/** End a task that waits between two rounds, with the round that said so: an image without a second supply, a video's deadline. */
import type { Database, Sql } from '../store/database.ts'
import { insertRound } from '../store/grant.ts'
import { withPartition } from '../store/partitions.ts'
import type { Releases } from '../store/releases.ts'
import type { DecidedRound } from '../store/round-record.ts'
import { endTasks } from '../store/usage.ts'
import { failedTask } from './settlement.ts'

export interface WaitingEnd {
  readonly taskId: string
  readonly code: string
  readonly param?: string | null
  /** `rejected` where no attempt was made: an image's 429 or 503. */
  readonly state?: 'failed' | 'rejected'
  /** The fence that the decision saw; another's turn since then makes it void. */
  readonly fence?: bigint
  readonly round?: DecidedRound
}

const LOCK = {
  name: 'lock-queued-task',
  text: `select id, rounds, release_id, facts, fence from task where id = $1 and state = 'queued' for update`,
}

interface Row {
  id: string
  rounds: number
  release_id: bigint
  facts: object
  fence: bigint
}

const COUNT = { name: 'count-last-round', text: 'update task set rounds = $2 where id = $1' }

const FORGET_KEY = {
  name: 'forget-idempotency-claim',
  text: 'delete from idempotency_claim where task_id = $1',
}

/** Answers whether it was this call that ended it. */
export async function endWaiting(db: Database, releases: Releases, end: WaitingEnd): Promise<boolean> {
  return withPartition(db, () => db.transaction((tx) => endIn(tx, releases, end), { retry: true }))
}

async function endIn(tx: Sql, releases: Releases, end: WaitingEnd): Promise<boolean> {
  const [task] = (await tx.query<Row>(LOCK, [end.taskId])).rows
  if (!task || (end.fence !== undefined && task.fence !== end.fence)) return false
  const release = await releases.release(tx, String(task.release_id))
  if (!release) throw new Error(`release ${task.release_id} of task ${task.id} is missing`)
  if (end.round) {
    const { result } = end.round.record
    const outcome = result === 'selected' ? 'asked' : result
    await insertRound(tx, { taskId: task.id, number: task.rounds + 1 }, { round: end.round, outcome })
    await tx.query(COUNT, [task.id, task.rounds + 1])
  }
  const state = end.state ?? 'failed'
  // An answer given before any submission is not kept (CUS-3).
  if (state === 'rejected') await tx.query(FORGET_KEY, [task.id])
  const failed = failedTask(task, release, { state, code: end.code, param: end.param ?? null })
  await endTasks(tx, [{ id: task.id, end: failed }])
  return true
}
