/** Tasks: admitted at the door, scanned by lanes, claimed by fence. */
import type { FactsJson, PastAttemptJson } from '../core/frozen.ts'
import type { Sql } from './database.ts'

/** A task that the door lets in, or records as refused. Its ID was made by the database's clock. */
export interface NewTask {
  readonly id: string
  readonly kind: 'video' | 'image'
  readonly customer_id: string
  readonly api_key_id: string
  readonly model_id: string
  readonly release_id: string
  readonly state: 'queued' | 'rejected'
  readonly lane: string
  readonly facts: FactsJson
  readonly content: object
  readonly request_id: string
  /** Hexadecimal. */
  readonly fingerprint: string
  readonly error_code: string | null
  readonly error_param: string | null
  readonly idempotency: {
    readonly endpoint: string
    readonly key: string
    readonly payload_digest: string
  } | null
}

/** A waiting task as the dispatcher sees it. */
export interface QueuedTask {
  readonly id: string
  readonly fence: bigint
  readonly lane: string
  readonly turn: number
  readonly modelId: string
  readonly createdAt: number
  readonly facts: FactsJson
  readonly userActive: boolean
  readonly attempts: readonly PastAttemptJson[]
  readonly waitDigest: string | null
  readonly waitRoundAt: number | null
}

const DOOR = {
  name: 'door',
  text: `select new_time_id() as id, clock_timestamp() as now, c.active as user_active
    from (select 1) one left join customer c on c.id = $1`,
}

/** What the door must know besides the catalog: a fresh ID, the clock, and whether the user is active. */
export async function atTheDoor(sql: Sql, customerId: string) {
  const [row] = (
    await sql.query<{ id: string; now: number; user_active: boolean | null }>(DOOR, [customerId])
  ).rows
  if (!row) throw new Error('the door statement gave no row')
  return { taskId: row.id, now: row.now, userActive: row.user_active ?? false }
}

const INSERT_CLAIMS = {
  name: 'insert-idempotency-claims',
  text: `insert into idempotency_claim (customer_id, endpoint, key, payload_digest, task_id, expires_at)
    select t.customer_id, t.endpoint, t.key, decode(t.payload_digest, 'hex'), t.task_id, clock_timestamp() + interval '24 hours'
    from jsonb_to_recordset($1::jsonb) t(customer_id text, endpoint text, key text, payload_digest text, task_id uuid)
    order by t.customer_id, t.endpoint, t.key
    on conflict (customer_id, endpoint, key) do update set
      payload_digest = excluded.payload_digest, task_id = excluded.task_id, created_at = clock_timestamp(), expires_at = excluded.expires_at
      where idempotency_claim.expires_at < clock_timestamp()
    returning task_id`,
}

const INSERT_TASKS = {
  name: 'insert-tasks',
  text: `with t as (
      select * from jsonb_to_recordset($1::jsonb) t(id uuid, kind text, customer_id text, api_key_id uuid, model_id text,
        release_id bigint, state text, lane text, facts jsonb, content jsonb, request_id text, fingerprint text,
        error_code text, error_param text)),
    inserted as (
      insert into task (id, kind, customer_id, api_key_id, model_id, release_id, state, lane, facts, request_id, fingerprint,
        error_code, error_param, ended_at)
      select id, kind, customer_id, api_key_id, model_id, release_id, state, lane, facts, request_id, decode(fingerprint, 'hex'),
        error_code, error_param, case when state = 'rejected' then clock_timestamp() end from t
      returning id, fence),
    stored as (insert into task_content (task_id, content) select id, content from t),
    hinted as (
      insert into wake_hint (writer, model_id) select distinct $2::uuid, model_id from t
      where $2::uuid is not null and kind = 'video' and state = 'queued')
    select id, fence from inserted`,
}

/**
 * Store new tasks with their claims of an Idempotency-Key. Answers the fences of those that were stored, by ID: a task
 * whose key another request holds is not. `hintFrom` is the process that will wake others for what is queued, if any.
 */
export async function insertTasks(
  tx: Sql,
  tasks: readonly NewTask[],
  hintFrom: string | null = null,
): Promise<ReadonlyMap<string, bigint>> {
  const claims = tasks.flatMap((task) =>
    task.idempotency ? [{ ...task.idempotency, customer_id: task.customer_id, task_id: task.id }] : [],
  )
  const claimed = new Set<string>()
  if (claims.length > 0) {
    const { rows } = await tx.query<{ task_id: string }>(INSERT_CLAIMS, [JSON.stringify(claims)])
    for (const row of rows) claimed.add(row.task_id)
  }
  const admitted = tasks.filter((task) => !task.idempotency || claimed.has(task.id))
  if (admitted.length === 0) return new Map()
  const { rows } = await tx.query<{ id: string; fence: bigint }>(INSERT_TASKS, [
    JSON.stringify(admitted),
    hintFrom,
  ])
  return new Map(rows.map((row) => [row.id, row.fence]))
}

const FIND_CLAIM = {
  name: 'find-idempotency-claim',
  text: `select encode(i.payload_digest, 'hex') as digest, i.task_id, t.state
    from idempotency_claim i left join task t on t.id = i.task_id
    where i.customer_id = $1 and i.endpoint = $2 and i.key = $3 and i.expires_at >= clock_timestamp()`,
}

/** Who holds an Idempotency-Key. */
export async function findClaim(sql: Sql, claim: { customerId: string; endpoint: string; key: string }) {
  const { rows } = await sql.query<{ digest: string; task_id: string; state: string | null }>(FIND_CLAIM, [
    claim.customerId,
    claim.endpoint,
    claim.key,
  ])
  return rows[0]
}

const MATCH_REPEAT = {
  name: 'match-repeat',
  text: `update task set repeat_count = $4 where id = (
      select id from task
      where customer_id = $1 and kind = $2 and fingerprint = $3 and state <> 'rejected' and repeat_count < $4
        and id >= time_id_floor(clock_timestamp() - interval '10 minutes')
      order by id limit 1 for update)
    returning id`,
}

/**
 * CUS-4: the oldest try of the last ten minutes that no repeat of this count was matched with. Waits for a row that is
 * being granted or settled: to pass it over would make the repeat a second task.
 */
export async function matchRepeat(
  sql: Sql,
  repeat: { customerId: string; kind: string; fingerprint: Uint8Array; count: number },
): Promise<string | undefined> {
  const values = [repeat.customerId, repeat.kind, Buffer.from(repeat.fingerprint), repeat.count]
  return (await sql.query<{ id: string }>(MATCH_REPEAT, values)).rows[0]?.id
}

// A loose index scan: one probe of the index for each lane, however many tasks wait in it (WAKE-4). Within a lane the
// oldest first; lanes of second attempts first (STR-12). A lane is a range of one, not an equality, so that its order is
// no constant to the planner: with an equality the primary key gives the order too, and it read every task for a lane.
/** Exported for the test of its plan. */
export const SCAN = {
  name: 'scan-lanes',
  text: `with recursive lane as (
      (select turn, lane from task where state = 'queued' and kind = 'video' order by turn, lane limit 1)
      union all
      select next.turn, next.lane from lane, lateral (
        select turn, lane from task where state = 'queued' and kind = 'video' and (turn, lane) > (lane.turn, lane.lane)
        order by turn, lane limit 1) next)
    select head.id, head.fence, head.lane, head.turn, head.model_id, head.created_at, head.facts, head.wait_digest,
      head.wait_round_at, c.active as user_active,
      case when head.attempts = 0 then '[]'::jsonb else (
        select coalesce(jsonb_agg(jsonb_build_object(
            'supply_id', a.supply_id, 'channel_id', a.channel_id,
            'outcome', case a.state when 'failed' then 'failed' when 'submission_uncertain' then 'uncertain' else 'active' end,
            'category', a.category, 'scope', a.scope, 'may_change_supply', coalesce(a.may_change_supply, false),
            'cost', a.cost_micros::text) order by a.number), '[]'::jsonb)
        from attempt a where a.task_id = head.id and a.number is not null) end as attempts
    from lane, lateral (
      select * from task t where t.state = 'queued' and t.kind = 'video' and t.turn = lane.turn
        and t.lane >= lane.lane and t.lane <= lane.lane and t.next_action_at <= clock_timestamp()
      order by t.lane, t.id limit $1) head
    join customer c on c.id = head.customer_id
    order by head.turn, head.id`,
}

interface ScanRow {
  id: string
  fence: bigint
  lane: string
  turn: number
  model_id: string
  created_at: number
  facts: FactsJson
  wait_digest: string | null
  wait_round_at: number | null
  user_active: boolean
  attempts: PastAttemptJson[]
}

/** The first `perLane` due tasks of every lane, in the order of STR-12. */
export async function scanQueue(sql: Sql, perLane: number): Promise<QueuedTask[]> {
  const { rows } = await sql.query<ScanRow>(SCAN, [perLane])
  return rows.map((row) => ({
    id: row.id,
    fence: row.fence,
    lane: row.lane,
    turn: row.turn,
    modelId: row.model_id,
    createdAt: row.created_at,
    facts: row.facts,
    userActive: row.user_active,
    attempts: row.attempts,
    waitDigest: row.wait_digest,
    waitRoundAt: row.wait_round_at,
  }))
}

const CLAIM = {
  name: 'claim-tasks',
  text: `select t.id, t.rounds, t.attempts from task t
    join jsonb_to_recordset($1::jsonb) c(id uuid, fence bigint) on c.id = t.id
    where t.state = 'queued' and t.fence = c.fence
    order by t.id for update of t skip locked`,
}

/** Lock those tasks that are still as they were seen; another process's are left alone. */
export async function claimTasks(tx: Sql, seen: readonly { id: string; fence: bigint }[]) {
  const wanted = seen.map((task) => ({ id: task.id, fence: String(task.fence) }))
  const { rows } = await tx.query<{ id: string; rounds: number; attempts: number }>(CLAIM, [
    JSON.stringify(wanted),
  ])
  return new Map(rows.map((row) => [row.id, row]))
}

const PAST_ATTEMPTS = {
  name: 'past-attempts',
  text: `select supply_id, channel_id,
      case state when 'failed' then 'failed' when 'submission_uncertain' then 'uncertain' else 'active' end as outcome,
      category, scope, coalesce(may_change_supply, false) as may_change_supply, cost_micros::text as cost
    from attempt where task_id = $1 and number is not null order by number`,
}

/** The counted attempts of one task, oldest first. */
export async function pastAttempts(sql: Sql, taskId: string): Promise<PastAttemptJson[]> {
  return (await sql.query<PastAttemptJson>(PAST_ATTEMPTS, [taskId])).rows
}

const NOW = {
  name: 'task-now',
  text: 'select id, state, fence, attempts, attempt_id, error_code, created_at from task where id = $1',
}

/** A task's row as it stands. */
export async function taskNow(sql: Sql, taskId: string) {
  const { rows } = await sql.query<{
    id: string
    state: string
    fence: bigint
    attempts: number
    attempt_id: string | null
    error_code: string | null
    created_at: number
  }>(NOW, [taskId])
  return rows[0]
}
