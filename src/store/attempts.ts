/** Attempts: begun, accepted, polled, and read for an end. Every write matches ID, fence and expected state. */
import type { AttemptState } from '../core/attempt.ts'
import type { Change } from '../core/degrade.ts'
import type { FactsJson } from '../core/frozen.ts'
import type { TaskState } from '../core/task.ts'
import type { Sql } from './database.ts'

export interface AttemptRow {
  readonly id: string
  readonly task_id: string
  readonly number: number | null
  readonly round: number
  readonly kind: 'video' | 'image'
  readonly binding_id: string
  readonly supply_id: string
  readonly channel_id: string
  readonly provider: string
  readonly upstream_model: string
  readonly tier: 'exact' | 'fallback' | 'degraded'
  readonly release_id: bigint
  readonly credential_id: bigint
  readonly state: AttemptState
  readonly fence: bigint
  readonly channel_epoch: bigint
  readonly supply_epoch: bigint
  readonly quote_micros: bigint
  readonly bills_failures: boolean
  readonly created_at: number
  readonly submitting_at: number | null
  readonly accepted_at: number | null
  readonly ended_at: number | null
  readonly run_deadline: number | null
  readonly provider_task_id: string | null
  readonly expected_ms: number
  readonly polls: number
  readonly poll_failures: number
  readonly degraded: DegradedJson | null
  readonly cost_micros: bigint
  readonly category: string | null
  readonly error_code: string | null
  readonly called_back_at: number | null
}

export interface DegradedJson {
  readonly requested_profile: string
  readonly actual_profile: string
  readonly dropped_inputs: readonly string[]
  readonly changes: readonly Change[]
  /** DEG-6: the request after the transform. */
  readonly sent: FactsJson
}

const BEGIN = {
  name: 'begin-submitting',
  text: `with mine as (
      select a.id, a.task_id from attempt a
      join jsonb_to_recordset($1::jsonb) w(id uuid, fence bigint) on w.id = a.id
      where a.state = 'reserved' and a.fence = w.fence and a.owner = $2),
    counted as (
      update task t set attempts = t.attempts + 1 from mine where t.id = mine.task_id and t.state = 'running' and t.attempt_id = mine.id
      returning t.attempt_id, t.attempts)
    update attempt a set state = 'submitting', number = counted.attempts, submitting_at = clock_timestamp()
    from counted where a.id = counted.attempt_id and a.state = 'reserved'
    returning a.id`,
}

const LOCK_TASKS_OF = {
  name: 'lock-tasks-of-attempts',
  text: `select t.id from task t where t.id in (select task_id from attempt where id = any($1::uuid[])) order by t.id for no key update`,
}

/**
 * Say `submitting`, before a byte leaves. Answers the attempts of which it is now true; another's, or one that the
 * reconciler gave back to the queue, is not among them.
 */
export async function beginSubmitting(
  tx: Sql,
  attempts: readonly { id: string; fence: bigint }[],
  owner: string,
): Promise<ReadonlySet<string>> {
  await tx.query(LOCK_TASKS_OF, [attempts.map((attempt) => attempt.id)])
  const wanted = attempts.map((attempt) => ({ id: attempt.id, fence: String(attempt.fence) }))
  const { rows } = await tx.query<{ id: string }>(BEGIN, [JSON.stringify(wanted), owner])
  return new Set(rows.map((row) => row.id))
}

const LOCK_ONE = {
  name: 'lock-attempt',
  text: `select *, clock_timestamp() as now from attempt where id = $1 for update`,
}

const LOCK_TASK = {
  name: 'lock-task-of-attempt',
  text: `select t.* from task t where t.id = (select task_id from attempt where id = $1) for update`,
}

export interface TaskRow {
  readonly id: string
  readonly kind: 'video' | 'image'
  readonly customer_id: string
  readonly api_key_id: string
  readonly model_id: string
  readonly release_id: bigint
  readonly state: TaskState
  readonly attempts: number
  readonly rounds: number
  readonly attempt_id: string | null
  readonly facts: object
  readonly created_at: number
  readonly cancel_requested_at: number | null
  readonly fence: bigint
}

/** Lock a task and one of its attempts, in that order. */
export async function lockTaskAndAttempt(
  tx: Sql,
  attemptId: string,
): Promise<{ task: TaskRow; attempt: AttemptRow; now: number } | undefined> {
  const [task] = (await tx.query<TaskRow>(LOCK_TASK, [attemptId])).rows
  const [attempt] = (await tx.query<AttemptRow & { now: number }>(LOCK_ONE, [attemptId])).rows
  return task && attempt ? { task, attempt, now: attempt.now } : undefined
}

const READ = { name: 'attempt-by-id', text: 'select * from attempt where id = $1' }

export async function readAttempt(sql: Sql, id: string): Promise<AttemptRow | undefined> {
  return (await sql.query<AttemptRow>(READ, [id])).rows[0]
}

const CONTENT = {
  name: 'content-for-submission',
  text: `select a.id as attempt_id, a.fence, a.channel_id, a.provider, a.upstream_model, a.credential_id, a.degraded, a.created_at,
      t.id as task_id, t.facts, t.model_id, t.release_id, a.release_id as attempt_release_id, content.content, c.base_url, c.options
    from attempt a join task t on t.id = a.task_id join task_content content on content.task_id = t.id
    join channel c on c.id = a.channel_id
    where a.id = any($1::uuid[])`,
}

export interface SubmissionRow {
  readonly attempt_id: string
  readonly fence: bigint
  readonly channel_id: string
  readonly provider: string
  readonly upstream_model: string
  readonly credential_id: bigint
  readonly degraded: DegradedJson | null
  readonly created_at: number
  readonly task_id: string
  readonly facts: object
  readonly model_id: string
  readonly attempt_release_id: bigint
  readonly content: object
  readonly base_url: string
  readonly options: Record<string, unknown>
}

/** All that a submission needs, for several attempts at once. */
export async function readSubmissions(sql: Sql, ids: readonly string[]): Promise<SubmissionRow[]> {
  return (await sql.query<SubmissionRow>(CONTENT, [ids])).rows
}

const ACCEPTED = {
  name: 'attempt-accepted',
  text: `update attempt set state = 'accepted', provider_task_id = $3, provider_request_id = coalesce($4, provider_request_id),
      accepted_at = clock_timestamp(), run_deadline = clock_timestamp() + make_interval(secs => $5),
      next_poll_at = clock_timestamp() + make_interval(secs => $6), owner = null, uncertain_deadline = null,
      next_lookup_at = null, hinted_task_id = null
    where id = $1 and fence = $2 and state in ('submitting', 'submission_uncertain')`,
}

export async function markAccepted(
  tx: Sql,
  attempt: { id: string; fence: bigint },
  found: {
    providerTaskId: string
    requestId: string | null
    maxRunSeconds: number
    firstPollSeconds: number
  },
): Promise<boolean> {
  const values = [
    attempt.id,
    attempt.fence,
    found.providerTaskId,
    found.requestId,
    found.maxRunSeconds,
    found.firstPollSeconds,
  ]
  return (await tx.query(ACCEPTED, values)).rowCount === 1
}

const UNCERTAIN = {
  name: 'attempt-uncertain',
  text: `update attempt set state = 'submission_uncertain', uncertain_at = clock_timestamp(),
      uncertain_deadline = clock_timestamp() + make_interval(secs => $3), owner = null, category = 'unknown', scope = 'attempt',
      retryable = false, may_change_supply = false, error_code = $4, error_message = $5, provider_code = $6, http_status = $7,
      provider_request_id = coalesce($8, provider_request_id),
      next_lookup_at = case when kind = 'video'
        then clock_timestamp() + make_interval(secs => case when hinted_task_id is null then $9::float8 else 0 end) end,
      fingerprint = $10
    where id = $1 and fence = $2 and state = 'submitting'`,
}

export interface Doubt {
  readonly deadlineSeconds: number
  /** Until it is first looked for (UNK-9); at once where a callback has named a job already. */
  readonly lookupSeconds: number
  /** Of its cause; null where our own process died. */
  readonly fingerprint: string | null
  readonly code: string
  readonly message: string
  readonly providerCode: string | null
  readonly httpStatus: number | null
  readonly requestId: string | null
}

/** UNK-1: whether it was accepted cannot be known. The leases stay held. */
export async function markUncertain(
  tx: Sql,
  attempt: { id: string; fence: bigint },
  doubt: Doubt,
): Promise<boolean> {
  const values = [
    attempt.id,
    attempt.fence,
    doubt.deadlineSeconds,
    doubt.code,
    doubt.message,
    doubt.providerCode,
    doubt.httpStatus,
    doubt.requestId,
    doubt.lookupSeconds,
    doubt.fingerprint,
  ]
  return (await tx.query(UNCERTAIN, values)).rowCount === 1
}

export interface AttemptEnd {
  readonly state: 'succeeded' | 'failed' | 'abandoned' | 'cancelled'
  readonly category: string | null
  readonly scope: string | null
  readonly retryable: boolean | null
  readonly mayChangeSupply: boolean | null
  readonly code: string | null
  readonly message: string | null
  readonly providerCode: string | null
  readonly httpStatus: number | null
  readonly requestId: string | null
  readonly cost: bigint
  readonly reported: object | null
  /** Of its failure (HLT-16). */
  readonly fingerprint: string | null
}

const END = {
  name: 'attempt-end',
  text: `update attempt set state = $2, ended_at = clock_timestamp(), owner = null, poll_owner = null, next_poll_at = null,
      -- What was given up is looked for once more: a job that turns up is recorded with its cost.
      next_lookup_at = case when kind = 'video' and $7 = 'submission_unresolved' then clock_timestamp() + interval '1 hour' end,
      number = case when $2 = 'abandoned' then null else number end,
      submitting_at = case when $2 = 'abandoned' then null else submitting_at end,
      category = $3, scope = $4, retryable = $5, may_change_supply = $6, error_code = $7, error_message = $8, provider_code = $9,
      http_status = $10, provider_request_id = coalesce($11, provider_request_id), cost_micros = $12, reported = $13, fingerprint = coalesce($14, fingerprint)
    where id = $1 and ended_at is null`,
}

const RELEASE_LEASE = {
  name: 'release-lease',
  // The hint for other processes rides along (WAKE-3); none where $3 is null.
  text: `with freed as (
      update capacity_lease set released_at = clock_timestamp(), released_why = $2 where attempt_id = $1 and released_at is null
      returning channel_id, supply_id)
    insert into wake_hint (writer, channel_id, supply_id) select $3::uuid, channel_id, supply_id from freed where $3::uuid is not null`,
}

/**
 * Write the end of an attempt and free its slots. Only `runtime/settle` calls it: an attempt ends in one way. `hintFrom`
 * is the process that will wake others for it, if any.
 */
export async function endAttempt(
  tx: Sql,
  { id, hintFrom }: { readonly id: string; readonly hintFrom: string | null },
  end: AttemptEnd,
): Promise<void> {
  const { rowCount } = await tx.query(END, [
    id,
    end.state,
    end.category,
    end.scope,
    end.retryable,
    end.mayChangeSupply,
    end.code,
    end.message,
    end.providerCode,
    end.httpStatus,
    end.requestId,
    end.cost,
    end.reported === null ? null : JSON.stringify(end.reported),
    end.fingerprint,
  ])
  if (rowCount !== 1) throw new Error(`attempt ${id} had ended already`)
  await tx.query(RELEASE_LEASE, [id, end.state, hintFrom])
}

const POLL_CLAIM = {
  name: 'claim-polls',
  text: `with due as (
      select id from attempt where state = 'accepted' and next_poll_at <= clock_timestamp() order by next_poll_at limit $1
      for no key update skip locked)
    update attempt a set fence = nextval('fence_seq'), poll_owner = $2, polls = a.polls + 1,
      next_poll_at = clock_timestamp() + make_interval(secs => $3)
    from due where a.id = due.id
    returning a.id, a.fence, a.task_id, a.channel_id, a.supply_id, a.provider, a.provider_task_id, a.credential_id, a.accepted_at,
      a.expected_ms, a.polls, a.poll_failures, a.run_deadline, clock_timestamp() as now,
      (select c.base_url from channel c where c.id = a.channel_id) as base_url,
      (select c.credential_id from channel c where c.id = a.channel_id) as present_credential_id,
      (select c.options from channel c where c.id = a.channel_id) as options,
      (select t.state from task t where t.id = a.task_id) as task_state`,
}

export interface DuePoll {
  readonly id: string
  readonly fence: bigint
  readonly task_id: string
  readonly channel_id: string
  readonly supply_id: string
  readonly provider: string
  readonly provider_task_id: string
  readonly credential_id: bigint
  /** The channel's own by now: another after a rotation. */
  readonly present_credential_id: bigint | null
  readonly accepted_at: number
  readonly expected_ms: number
  readonly polls: number
  readonly poll_failures: number
  readonly run_deadline: number
  readonly now: number
  readonly base_url: string
  readonly options: Record<string, unknown>
  readonly task_state: string
}

/** Take due polls for `leaseSeconds`; a process that dies leaves them due again after that. */
export async function claimPolls(
  sql: Sql,
  want: { limit: number; owner: string; leaseSeconds: number },
): Promise<DuePoll[]> {
  return (await sql.query<DuePoll>(POLL_CLAIM, [want.limit, want.owner, want.leaseSeconds])).rows
}

const POLLED = {
  name: 'polled',
  // A callback that came while it was asked about makes it due at once.
  text: `update attempt set poll_failures = $4, poll_owner = null, next_poll_at = clock_timestamp() + make_interval(secs =>
      case when called_back_at > timestamptz 'epoch' + $5::bigint * interval '1 microsecond' then 0 else $3::float8 end)
    where id = $1 and fence = $2 and state = 'accepted'`,
}

const PROGRESS = {
  name: 'task-progress',
  text: `update task set progress = $2 where id = $1 and state = 'running' and progress < $2`,
}

/** The job goes on: look again later. Two statements, each with a lock of its own, so that no lock order is at stake. */
export async function markPolled(
  sql: Sql,
  poll: { id: string; fence: bigint; task_id: string; now: number },
  next: { seconds: number; failures: number; progress: number | null },
): Promise<void> {
  const { rowCount } = await sql.query(POLLED, [poll.id, poll.fence, next.seconds, next.failures, poll.now])
  if (rowCount === 1 && next.progress !== null) await sql.query(PROGRESS, [poll.task_id, next.progress])
}

const EXTEND_POLL = {
  name: 'extend-poll',
  text: `update attempt set next_poll_at = clock_timestamp() + make_interval(secs => $3) where id = $1 and fence = $2 and state = 'accepted'`,
}

/** Keep a claimed poll for longer, while its result is fetched. False: another process has it. */
export async function extendPoll(
  sql: Sql,
  poll: { id: string; fence: bigint },
  seconds: number,
): Promise<boolean> {
  return (await sql.query(EXTEND_POLL, [poll.id, poll.fence, seconds])).rowCount === 1
}

const RELEASED_POLLS = {
  name: 'release-polls',
  text: `update attempt set next_poll_at = clock_timestamp(), poll_owner = null where poll_owner = $1 and state = 'accepted'`,
}

/** A process that stops hands its polls on at once. */
export async function releasePolls(sql: Sql, owner: string): Promise<void> {
  await sql.query(RELEASED_POLLS, [owner])
}

const RELEASED_LOST_POLLS = {
  name: 'release-lost-polls',
  text: `update attempt set next_poll_at = clock_timestamp() + make_interval(secs => $3), poll_owner = null
    where poll_owner = $1 and state = 'accepted' and id <> all($2::uuid[])`,
}

/** A process that lives hands on what it claimed and does not work on; `inHand` are the attempts that it does work on. */
export async function releaseLostPolls(
  sql: Sql,
  of: { owner: string; inHand: readonly string[]; seconds: number },
): Promise<void> {
  await sql.query(RELEASED_LOST_POLLS, [of.owner, [...of.inHand], of.seconds])
}

const FREE_POLLS = {
  name: 'free-polls-of-the-dead',
  text: `update attempt a set next_poll_at = clock_timestamp(), poll_owner = null
    where a.state = 'accepted' and a.poll_owner is not null and a.next_poll_at > clock_timestamp()
      and not exists (select from process p where p.id = a.poll_owner and p.stopped_at is null and p.alive_until > clock_timestamp())`,
}

/** Polls, and downloads, that a dead process had taken are due at once. */
export async function freePollsOfTheDead(sql: Sql): Promise<void> {
  await sql.query(FREE_POLLS)
}

const OVERDUE = {
  name: 'overdue-attempts',
  text: `
    (select a.id, a.fence, case a.state when 'reserved' then 'not_begun' else 'lost' end as due
      from attempt a where a.state in ('reserved', 'submitting')
        and not exists (select from process p where p.id = a.owner and p.stopped_at is null and p.alive_until > clock_timestamp())
      order by a.id limit $1)
    union all
    (select id, fence, 'unresolved' from attempt
      where state = 'submission_uncertain' and uncertain_deadline <= clock_timestamp() order by uncertain_deadline limit $1)
    union all
    (select a.id, a.fence, 'timed_out' from attempt a join task t on t.attempt_id = a.id
      where a.state = 'accepted' and a.run_deadline <= clock_timestamp() and t.state = 'running' order by a.run_deadline limit $1)
    union all
    (select a.id, a.fence, 'life_over' from attempt a join capacity_lease l on l.attempt_id = a.id
      where a.state = 'accepted' and l.released_at is null and l.held_until <= clock_timestamp() order by a.id limit $1)`,
}

export interface Overdue {
  readonly id: string
  readonly fence: bigint
  readonly due: 'not_begun' | 'lost' | 'unresolved' | 'timed_out' | 'life_over'
}

const CLAIMED_BY = {
  name: 'attempts-claimed-by',
  text: `select id, fence, case state when 'reserved' then 'not_begun' else 'lost' end as due from attempt
    where owner = $1 and state in ('reserved', 'submitting') and created_at < clock_timestamp() - make_interval(secs => $2)
      and coalesce(submitting_at, created_at) < clock_timestamp() - make_interval(secs => $2)`,
}

/** What this process has had in its claim for so long, and what is due where it is not working on it. */
export async function claimedBy(sql: Sql, owner: string, forSeconds: number): Promise<Overdue[]> {
  return (await sql.query<Overdue>(CLAIMED_BY, [owner, forSeconds])).rows
}

/** Attempts whose process is gone, or whose time is over. */
export async function overdueAttempts(sql: Sql, limit: number): Promise<Overdue[]> {
  return (await sql.query<Overdue>(OVERDUE, [limit])).rows
}
