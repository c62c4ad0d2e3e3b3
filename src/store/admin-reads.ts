/** What the admin API asks beyond the operators' views: tasks of all customers, and models with what serves them. */
import type { FactsJson } from '../core/frozen.ts'
import type { Media } from '../core/request.ts'
import type { Instant } from '../core/time.ts'
import type { Sql } from './database.ts'

export interface TaskLine {
  id: string
  kind: Media
  customer_id: string
  model_id: string
  state: string
  attempts: number
  rounds: number
  created_at: Instant
  ended_at: Instant | null
  /** Of a waiting task, what its last stored round said. */
  wait_reason: string | null
  error_code: string | null
  /** Of the open attempt. */
  attempt_state: string | null
  supply_id: string | null
  channel_id: string | null
  request_id: string | null
  facts: FactsJson
}

export interface TaskFilter {
  readonly state: string | null
  readonly model: string | null
  readonly customer: string | null
  /** Only tasks older than this one. */
  readonly before: string | null
  readonly limit: number
}

const TASKS = {
  name: 'admin-tasks',
  text: `select t.id, t.kind, t.customer_id, t.model_id, t.state, t.attempts, t.rounds, t.created_at, t.ended_at, t.wait_reason,
      t.error_code, a.state as attempt_state, a.supply_id, a.channel_id, t.request_id, t.facts
    from task t left join attempt a on a.id = t.attempt_id
    where ($1::text is null or t.state = $1) and ($2::text is null or t.model_id = $2)
      and ($3::text is null or t.customer_id = $3) and ($4::uuid is null or t.id < $4)
    order by t.id desc limit $5`,
}

/** Newest first; what customers removed is there too. */
export async function taskLines(sql: Sql, filter: TaskFilter): Promise<TaskLine[]> {
  const values = [filter.state, filter.model, filter.customer, filter.before, filter.limit]
  return (await sql.query<TaskLine & Record<string, unknown>>(TASKS, values)).rows
}

export interface ModelLine {
  id: string
  media: Media
  enabled: boolean
  published: boolean
  /** Number of the release that decides; null: never published. */
  release: number | null
  published_at: Instant | null
  bindings: ModelBinding[]
  queued: number
  running: number
}

export interface ModelBinding {
  id: string
  supply_id: string
  channel_id: string
  tier: string
  priority: number
  enabled: boolean
  supply_health: string
  channel_health: string
}

const MODELS = {
  name: 'admin-models',
  text: `select m.id, m.media, m.enabled, m.published, r.number as release, r.published_at,
      (select coalesce(jsonb_agg(jsonb_build_object('id', b.id, 'supply_id', b.supply_id, 'channel_id', s.channel_id,
          'tier', b.tier, 'priority', b.priority, 'enabled', b.enabled, 'supply_health', sh.state,
          'channel_health', ch.state) order by b.id), '[]')
        from binding b join supply s on s.id = b.supply_id join supply_health sh on sh.supply_id = s.id
        join channel_health ch on ch.channel_id = s.channel_id
        where b.model_id = m.id and b.archived_at is null) as bindings,
      (select count(*)::int from task t where t.model_id = m.id and t.state = 'queued') as queued,
      (select count(*)::int from task t where t.model_id = m.id and t.state = 'running') as running
    from model m left join release r on r.id = m.release_id where m.archived_at is null order by m.id`,
}

export async function modelLines(sql: Sql): Promise<ModelLine[]> {
  return (await sql.query<ModelLine & Record<string, unknown>>(MODELS)).rows
}
