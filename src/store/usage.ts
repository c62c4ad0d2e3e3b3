/** How a task ends for its customer: state, error, outputs and the usage record (CUS-2), in the transaction of the end. */
import type { Measured, Shortfall } from '../core/artefact.ts'
import type { Change } from '../core/degrade.ts'
import type { TaskRow } from './attempts.ts'
import type { Sql } from './database.ts'

export interface Delivered {
  readonly requestedProfile: string
  readonly actualProfile: string
  readonly droppedInputs: readonly string[]
  readonly changes: readonly Change[]
  readonly degraded: boolean
}

export interface TaskEnd {
  readonly state: 'succeeded' | 'failed' | 'cancelled' | 'rejected'
  readonly code: string | null
  readonly param: string | null
  readonly delivered: Delivered
  /** The parameters that are billed: the facts, for a partial batch with the count that was delivered. */
  readonly parameters: object
}

const END = {
  name: 'task-end',
  text: `update task set state = $2, attempt_id = null, ended_at = clock_timestamp(), error_code = $3, error_param = $4,
      degraded = $5, progress = case when $2 = 'succeeded' then 100 else progress end, fence = nextval('fence_seq'),
      wait_digest = null, wait_reason = null
    where id = $1 and ended_at is null`,
}

const USAGE = {
  name: 'usage-record',
  text: `insert into usage_record (task_id, customer_id, api_key_id, model_id, kind, parameters, result, error_code, degraded,
      requested_profile, actual_profile, dropped_inputs, shortfalls, cost_micros, currency, created_at, ended_at)
    select t.id, t.customer_id, t.api_key_id, t.model_id, t.kind, $2, t.state, t.error_code, $3, $4, $5, $6,
      coalesce((select array_agg(distinct s) from task_output o cross join unnest(o.shortfalls) s where o.task_id = t.id), '{}'),
      coalesce((select sum(a.cost_micros) from attempt a where a.task_id = t.id), 0),
      coalesce((select value #>> '{}' from setting where name = 'base_currency'), 'CNY'), t.created_at, t.ended_at
    from task t where t.id = $1`,
}

/** End a task that has not ended, with its usage record. */
export async function endTask(tx: Sql, task: Pick<TaskRow, 'id'>, end: TaskEnd): Promise<void> {
  const { delivered } = end
  const degraded = delivered.degraded
    ? {
        requested_profile: delivered.requestedProfile,
        actual_profile: delivered.actualProfile,
        dropped_inputs: delivered.droppedInputs,
        changes: delivered.changes,
      }
    : null
  const { rowCount } = await tx.query(END, [
    task.id,
    end.state,
    end.code,
    end.param,
    degraded === null ? null : JSON.stringify(degraded),
  ])
  if (rowCount !== 1) throw new Error(`task ${task.id} had ended already`)
  await recordUsage(tx, task.id, end)
}

/** The usage record of a task that has just ended. */
export async function recordUsage(tx: Sql, taskId: string, end: TaskEnd): Promise<void> {
  const { delivered } = end
  await tx.query(USAGE, [
    taskId,
    JSON.stringify(end.parameters),
    delivered.degraded,
    delivered.requestedProfile,
    delivered.actualProfile,
    delivered.droppedInputs,
  ])
}

const COST_AGAIN = {
  name: 'usage-cost-again',
  text: `update usage_record u set cost_micros = coalesce((select sum(a.cost_micros) from attempt a where a.task_id = u.task_id), 0)
    where u.task_id = $1`,
}

/** What a task cost may change after its end: an uncertain attempt that cost nothing after all, or an orphan (RTY-7). */
export async function recountCost(tx: Sql, taskId: string): Promise<void> {
  await tx.query(COST_AGAIN, [taskId])
}

const BACK_TO_QUEUE = {
  name: 'task-back-to-queue',
  text: `update task set state = 'queued', attempt_id = null, fence = nextval('fence_seq'), turn = $2, lane = $3, attempts = $4,
      next_action_at = clock_timestamp() + make_interval(secs => $5)
    where id = $1 and state = 'running'`,
}

/** Give a task its next turn: at once, or after a backoff (RTY-6). */
export async function backToQueue(
  tx: Sql,
  task: Pick<TaskRow, 'id'>,
  next: { turn: 0 | 1; lane: string; attempts: number; delaySeconds: number },
): Promise<void> {
  const { rowCount } = await tx.query(BACK_TO_QUEUE, [
    task.id,
    next.turn,
    next.lane,
    next.attempts,
    next.delaySeconds,
  ])
  if (rowCount !== 1) throw new Error(`task ${task.id} was not running`)
}

export interface Output {
  readonly place: number
  readonly asset_digest: string | null
  readonly content_type: string | null
  readonly bytes: number | null
  readonly error: object | null
  /** What it was found to be; null where that was not looked into. */
  readonly measured: Measured | null
}

export interface JudgedOutput extends Output {
  /** In what it is less than was promised. */
  readonly shortfalls: readonly Shortfall[]
}

const OUTPUTS = {
  name: 'task-outputs',
  text: `insert into task_output (task_id, place, asset_digest, content_type, bytes, error, measured, shortfalls)
    select $1, o.place, o.asset_digest, o.content_type, o.bytes, o.error, nullif(o.measured, 'null'), o.shortfalls
    from jsonb_to_recordset($2::jsonb) o(place int, asset_digest text, content_type text, bytes bigint, error jsonb, measured jsonb,
      shortfalls text[])`,
}

export async function storeOutputs(tx: Sql, taskId: string, outputs: readonly JudgedOutput[]): Promise<void> {
  if (outputs.length > 0) await tx.query(OUTPUTS, [taskId, JSON.stringify(outputs)])
}

const ORPHAN = {
  name: 'orphan-result',
  text: `insert into orphan_result (attempt_id, task_id, how, cost_micros) values ($1, $2, $3, $4) on conflict (attempt_id) do nothing`,
}

/** A result that came after its task had ended: recorded with its cost, never delivered. */
export async function recordOrphan(
  tx: Sql,
  orphan: { attemptId: string; taskId: string; how: string; cost: bigint },
): Promise<void> {
  await tx.query(ORPHAN, [orphan.attemptId, orphan.taskId, orphan.how, orphan.cost])
}
