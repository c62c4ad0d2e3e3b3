/** Tasks as operators look at them. */
import type { Sql } from './database.ts'

export interface TaskWish {
  readonly state: string | null
  readonly model: string | null
  readonly customer: string | null
  readonly limit: number
}

export interface TaskLine {
  readonly id: string
  readonly kind: 'video' | 'image'
  readonly state: string
  readonly model_id: string
  readonly customer_id: string
  readonly attempts: number
  readonly error_code: string | null
  readonly wait_reason: string | null
  readonly created_at: number
  readonly ended_at: number | null
}

const LIST = {
  name: 'task-lines',
  text: `select id, kind, state, model_id, customer_id, attempts, error_code, wait_reason, created_at, ended_at from task
    where ($1::text is null or state = $1) and ($2::text is null or model_id = $2) and ($3::text is null or customer_id = $3)
    order by id desc limit $4`,
}

export async function listTasks(sql: Sql, wish: TaskWish): Promise<TaskLine[]> {
  return (await sql.query<TaskLine>(LIST, [wish.state, wish.model, wish.customer, wish.limit])).rows
}

const COUNT = {
  name: 'task-counts',
  text: 'select state, count(*)::int as n from task group by state order by state',
}

export async function countTasks(sql: Sql): Promise<Record<string, number>> {
  const { rows } = await sql.query<{ state: string; n: number }>(COUNT)
  return Object.fromEntries(rows.map((row) => [row.state, row.n]))
}

export interface TaskRecord {
  readonly id: string
  readonly kind: 'video' | 'image'
  readonly customer_id: string
  readonly model_id: string
  readonly release_id: bigint
  readonly state: string
  readonly attempts: number
  readonly facts: object
  readonly created_at: number
  readonly started_at: number | null
  readonly ended_at: number | null
  readonly next_action_at: number
  readonly wait_reason: string | null
  readonly error_code: string | null
  readonly error_param: string | null
  readonly degraded: object | null
  readonly request_id: string | null
  readonly ahead: number | null
}

const RECORD = {
  name: 'task-record',
  text: `select id, kind, customer_id, model_id, release_id, state, attempts, facts, created_at, started_at, ended_at, next_action_at,
      wait_reason, error_code, error_param, degraded, request_id,
      case when state = 'queued' and kind = 'video' then (
        select count(*)::int from task o where o.state = 'queued' and o.kind = 'video' and o.turn = t.turn and o.lane = t.lane and o.id < t.id)
      end as ahead
    from task t where id = $1`,
}

/** One task, without its prompt; `ahead`: how many of its lane stand before it. */
export async function taskRecord(sql: Sql, id: string): Promise<TaskRecord | undefined> {
  return (await sql.query<TaskRecord>(RECORD, [id])).rows[0]
}

export interface AttemptRecord {
  readonly id: string
  readonly number: number | null
  readonly round: number
  readonly state: string
  readonly binding_id: string
  readonly supply_id: string
  readonly channel_id: string
  readonly provider: string
  readonly upstream_model: string
  readonly tier: string
  readonly created_at: number
  readonly submitting_at: number | null
  readonly uncertain_at: number | null
  readonly uncertain_deadline: number | null
  readonly accepted_at: number | null
  readonly ended_at: number | null
  readonly provider_task_id: string | null
  readonly provider_request_id: string | null
  readonly polls: number
  readonly category: string | null
  readonly scope: string | null
  readonly retryable: boolean | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly provider_code: string | null
  readonly http_status: number | null
  readonly quote_micros: bigint
  readonly cost_micros: bigint
  readonly reported: object | null
  readonly degraded: object | null
  readonly lease_released_at: number | null
}

const ATTEMPTS = {
  name: 'attempt-records',
  text: `select a.id, a.number, a.round, a.state, a.binding_id, a.supply_id, a.channel_id, a.provider, a.upstream_model, a.tier,
      a.created_at, a.submitting_at, a.uncertain_at, a.uncertain_deadline, a.accepted_at, a.ended_at, a.provider_task_id,
      a.provider_request_id, a.polls, a.category, a.scope, a.retryable, a.error_code, a.error_message, a.provider_code,
      a.http_status, a.quote_micros, a.cost_micros, a.reported, a.degraded, l.released_at as lease_released_at
    from attempt a left join capacity_lease l on l.attempt_id = a.id where a.task_id = $1 order by a.created_at, a.id`,
}

export async function attemptRecords(sql: Sql, taskId: string): Promise<AttemptRecord[]> {
  return (await sql.query<AttemptRecord>(ATTEMPTS, [taskId])).rows
}
