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
  name: 'tasks-end',
  text: `update task t set state = w.state, attempt_id = null, ended_at = clock_timestamp(), error_code = w.code,
      error_param = w.param, degraded = w.degraded, progress = case when w.state = 'succeeded' then 100 else t.progress end,
      fence = nextval('fence_seq'), wait_digest = null, wait_reason = null
    from jsonb_to_recordset($1::jsonb) w(id uuid, state text, code text, param text, degraded jsonb)
    where t.id = w.id and t.ended_at is null`,
}

const USAGE = {
  name: 'usage-records',
  text: `insert into usage_record (task_id, customer_id, api_key_id, model_id, kind, parameters, result, error_code, degraded,
      requested_profile, actual_profile, dropped_inputs, shortfalls, cost_micros, currency, created_at, ended_at)
    select t.id, t.customer_id, t.api_key_id, t.model_id, t.kind, w.parameters, t.state, t.error_code, w.degraded,
      w.requested_profile, w.actual_profile, w.dropped_inputs,
      coalesce((select array_agg(distinct s) from task_output o cross join unnest(o.shortfalls) s where o.task_id = t.id), '{}'),
      coalesce((select sum(a.cost_micros) from attempt a where a.task_id = t.id), 0),
      coalesce((select value #>> '{}' from setting where name = 'base_currency'), 'CNY'), t.created_at, t.ended_at
    from jsonb_to_recordset($1::jsonb) w(id uuid, parameters jsonb, degraded boolean, requested_profile text,
      actual_profile text, dropped_inputs text[])
    join task t on t.id = w.id`,
}

export interface EndedTask {
  readonly id: string
  readonly end: TaskEnd
}

/** End tasks that have not ended, with their usage records; all, or none. */
export async function endTasks(tx: Sql, ended: readonly EndedTask[]): Promise<void> {
  if (ended.length === 0) return
  const [{ rowCount }] = await Promise.all([
    tx.query(END, [JSON.stringify(ended.map(endRow))]),
    recordUsage(tx, ended),
  ])
  if (rowCount !== ended.length)
    throw new Error(`one of these tasks had ended already: ${ended.map(({ id }) => id).join(', ')}`)
}

function endRow({ id, end }: EndedTask) {
  const { delivered } = end
  const degraded = delivered.degraded && {
    requested_profile: delivered.requestedProfile,
    actual_profile: delivered.actualProfile,
    dropped_inputs: delivered.droppedInputs,
    changes: delivered.changes,
  }
  return { id, state: end.state, code: end.code, param: end.param, ...(degraded ? { degraded } : {}) }
}

/** The usage records of tasks that have just ended. */
export async function recordUsage(tx: Sql, ended: readonly EndedTask[]): Promise<void> {
  const rows = ended.map(({ id, end: { delivered, parameters } }) => ({
    id,
    parameters,
    degraded: delivered.degraded,
    requested_profile: delivered.requestedProfile,
    actual_profile: delivered.actualProfile,
    dropped_inputs: delivered.droppedInputs,
  }))
  await tx.query(USAGE, [JSON.stringify(rows)])
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
    select o.task_id, o.place, o.asset_digest, o.content_type, o.bytes, o.error, nullif(o.measured, 'null'), o.shortfalls
    from jsonb_to_recordset($1::jsonb) o(task_id uuid, place int, asset_digest text, content_type text, bytes bigint, error jsonb,
      measured jsonb, shortfalls text[])`,
}

export interface OutputOfTask extends JudgedOutput {
  readonly task_id: string
}

export async function storeOutputs(tx: Sql, outputs: readonly OutputOfTask[]): Promise<void> {
  if (outputs.length > 0) await tx.query(OUTPUTS, [JSON.stringify(outputs)])
}
