/** What only the public API asks: keys by digest, a customer's tasks as it sees them, and their outputs. */

import type { Measured } from '../core/artefact.ts'
import type { FactsJson } from '../core/frozen.ts'
import type { DegradedJson } from './attempts.ts'
import type { Sql } from './database.ts'

export interface KeyOwner {
  readonly keyId: string
  readonly customerId: string
  readonly groups: readonly string[]
  readonly customerActive: boolean
  /** Revoked or expired. */
  readonly over: boolean
  /** Not marked as used within the last minute. */
  readonly usedLongAgo: boolean
}

const KEY = {
  name: 'api-key-by-digest',
  text: `select k.id as "keyId", k.customer_id as "customerId", c.groups, c.active as "customerActive",
      (k.revoked_at is not null and k.revoked_at <= clock_timestamp())
        or (k.expires_at is not null and k.expires_at <= clock_timestamp()) as over,
      coalesce(k.last_used_at < clock_timestamp() - interval '1 minute', true) as "usedLongAgo"
    from api_key k join customer c on c.id = k.customer_id where k.digest = $1`,
}

/** The key whose SHA-256 that is; undefined where there is none. */
export async function findKey(sql: Sql, digest: Uint8Array): Promise<KeyOwner | undefined> {
  return (await sql.query<KeyOwner & Record<string, unknown>>(KEY, [Buffer.from(digest)])).rows[0]
}

const TOUCH_KEY = {
  name: 'api-key-used',
  text: `update api_key set last_used_at = clock_timestamp()
    where id = $1 and coalesce(last_used_at < clock_timestamp() - interval '1 minute', true)`,
}

/** Coarse on purpose: a key in constant use is written once a minute. */
export async function markKeyUsed(sql: Sql, keyId: string): Promise<void> {
  await sql.query(TOUCH_KEY, [keyId])
}

export interface TaskView {
  readonly id: string
  readonly model: string
  readonly state: 'queued' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'rejected'
  readonly attempts: number
  readonly progress: number
  /** µs since 1970. */
  readonly createdAt: number
  readonly endedAt: number | null
  /** When its result will no longer be kept. */
  readonly expiresAt: number | null
  readonly errorCode: string | null
  readonly errorParam: string | null
  readonly facts: FactsJson
  readonly prompt: string | null
  readonly metadata: Readonly<Record<string, string>> | null
  readonly echo: Readonly<Record<string, string | number | boolean | null>> | null
  readonly profile: string
  /** Of a task that is worked on, what its present attempt would deliver. */
  readonly degraded: DegradedJson | null
  /** In what its results were found to be less than promised. */
  readonly shortfalls: readonly string[]
  /** What the first of them was found to be. */
  readonly measured: Measured | null
}

const VIEW = `t.id, t.model_id as model, t.state, t.attempts, t.progress, t.created_at as "createdAt", t.ended_at as "endedAt",
      coalesce(t.expires_at, (select min(x.expires_at) from task_output o join asset x on x.digest = o.asset_digest
        where o.task_id = t.id)) as "expiresAt",
      t.error_code as "errorCode", t.error_param as "errorParam", t.facts, coalesce(t.degraded, a.degraded) as degraded,
      tc.content->>'prompt' as prompt, tc.content->'metadata' as metadata, tc.content->'echo' as echo,
      mv.document->>'profile' as profile,
      coalesce((select array_agg(distinct s order by s) from task_output o cross join unnest(o.shortfalls) s where o.task_id = t.id), '{}') as shortfalls,
      (select o.measured from task_output o where o.task_id = t.id and o.place = 0) as measured
    from task t
    left join task_content tc on tc.task_id = t.id
    left join attempt a on a.id = t.attempt_id
    join release r on r.id = t.release_id
    join model_version mv on mv.id = r.model_version_id`

const TASK = {
  name: 'api-task',
  text: `select ${VIEW} where t.id = $1 and t.customer_id = $2 and t.kind = $3 and t.hidden_at is null`,
}

export interface TaskOfCustomer {
  readonly taskId: string
  readonly customerId: string
  readonly kind: 'video' | 'image'
}

/** undefined also where it is another customer's, or was deleted by its own (CUS-1). */
export async function findTask(sql: Sql, task: TaskOfCustomer): Promise<TaskView | undefined> {
  const values = [task.taskId, task.customerId, task.kind]
  return (await sql.query<TaskView & Record<string, unknown>>(TASK, values)).rows[0]
}

// What the door refused was answered at once and never had an ID that its customer knows.
const page = (order: 'asc' | 'desc') => ({
  name: `api-task-page-${order}`,
  text: `select ${VIEW} where t.customer_id = $1 and t.kind = 'video' and t.hidden_at is null and t.state <> 'rejected'
      and ($2::uuid is null or t.id ${order === 'desc' ? '<' : '>'} $2)
    order by t.id ${order} limit $3`,
})
const PAGES = { asc: page('asc'), desc: page('desc') }

export interface PageOfTasks {
  readonly customerId: string
  readonly order: 'asc' | 'desc'
  /** The last ID of the page before; it need not exist any more. */
  readonly after: string | null
  readonly limit: number
}

/** A customer's videos, newest first unless asked otherwise. */
export async function listTasks(sql: Sql, wanted: PageOfTasks): Promise<readonly TaskView[]> {
  const values = [wanted.customerId, wanted.after, wanted.limit]
  return (await sql.query<TaskView & Record<string, unknown>>(PAGES[wanted.order], values)).rows
}

const HIDE = {
  name: 'api-hide-task',
  text: `update task set hidden_at = clock_timestamp()
    where id = $1 and customer_id = $2 and kind = $3 and ended_at is not null and hidden_at is null`,
}

/** Remove an ended task from its customer's sight; the operator keeps it. False where it was not there, or not ended. */
export async function hideTask(sql: Sql, task: TaskOfCustomer): Promise<boolean> {
  return (await sql.query(HIDE, [task.taskId, task.customerId, task.kind])).rowCount === 1
}

export interface OutputView {
  readonly place: number
  readonly digest: string | null
  readonly contentType: string | null
  readonly error: Readonly<Record<string, unknown>> | null
}

const OUTPUTS = {
  name: 'api-outputs',
  text: `select place, asset_digest as digest, content_type as "contentType", error from task_output
    where task_id = $1 order by place`,
}

export async function listOutputs(sql: Sql, taskId: string): Promise<readonly OutputView[]> {
  return (await sql.query<OutputView & Record<string, unknown>>(OUTPUTS, [taskId])).rows
}

const LINKED = {
  name: 'api-linked-output',
  text: `select o.place, o.asset_digest as digest, o.content_type as "contentType", o.error
    from task_output o join task t on t.id = o.task_id
    where o.task_id = $1 and o.place = $2 and t.hidden_at is null`,
}

/** The output behind a signed link, whose signature stands for the customer. */
export async function findLinkedOutput(
  sql: Sql,
  taskId: string,
  place: number,
): Promise<OutputView | undefined> {
  return (await sql.query<OutputView & Record<string, unknown>>(LINKED, [taskId, place])).rows[0]
}

const CREATIONS = {
  name: 'api-model-creations',
  text: 'select id, created_at from model where archived_at is null',
}

/** When each public model was made, µs since 1970. */
export async function modelCreations(sql: Sql): Promise<ReadonlyMap<string, number>> {
  const { rows } = await sql.query<{ id: string; created_at: number }>(CREATIONS)
  return new Map(rows.map((row) => [row.id, row.created_at]))
}

const ALIVE = { name: 'api-alive', text: 'select 1 as one' }

/** Throws where the database does not answer. */
export async function pingDatabase(sql: Sql): Promise<void> {
  await sql.query(ALIVE)
}
