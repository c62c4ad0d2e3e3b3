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
  /** Its own job's, and that of jobs which nobody was given. */
  readonly cost_micros: bigint
  /** That of jobs which nobody was given, beyond its own. */
  readonly orphan_cost_micros: bigint
  readonly category: string | null
  readonly error_code: string | null
  readonly called_back_at: number | null
  readonly hinted_task_id: string | null
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
  const wanted = attempts.map((attempt) => ({ id: attempt.id, fence: String(attempt.fence) }))
  const [, { rows }] = await Promise.all([
    tx.query(LOCK_TASKS_OF, [attempts.map((attempt) => attempt.id)]),
    tx.query<{ id: string }>(BEGIN, [JSON.stringify(wanted), owner]),
  ])
  return new Set(rows.map((row) => row.id))
}

const LOCK_TASKS = {
  name: 'lock-tasks-to-settle',
  text: `select t.* from task t where t.id in (select task_id from attempt where id = any($1::uuid[])) order by t.id for update`,
}

const LOCK_ATTEMPTS = {
  name: 'lock-attempts-to-settle',
  text: `select *, clock_timestamp() as now from attempt where id = any($1::uuid[]) order by id for update`,
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

export interface LockedAttempt {
  readonly task: TaskRow
  readonly attempt: AttemptRow
  /** The database's clock, read after the locks. */
  readonly now: number
}

/** Lock tasks and then these attempts of theirs, each in the order of its ID. By attempt. */
export async function lockTasksAndAttempts(
  tx: Sql,
  attemptIds: readonly string[],
): Promise<ReadonlyMap<string, LockedAttempt>> {
  const [{ rows }, { rows: attempts }] = await Promise.all([
    tx.query<TaskRow>(LOCK_TASKS, [attemptIds]),
    tx.query<AttemptRow & { now: number }>(LOCK_ATTEMPTS, [attemptIds]),
  ])
  const tasks = new Map(rows.map((row) => [row.id, row]))
  return new Map(
    attempts.flatMap((attempt) => {
      const task = tasks.get(attempt.task_id)
      return task ? [[attempt.id, { task, attempt, now: attempt.now }] as const] : []
    }),
  )
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
  name: 'attempts-accepted',
  text: `update attempt a set state = 'accepted', provider_task_id = w.provider_task_id,
      provider_request_id = coalesce(w.request_id, a.provider_request_id), accepted_at = clock_timestamp(),
      run_deadline = clock_timestamp() + make_interval(secs => w.run_seconds),
      next_poll_at = clock_timestamp() + make_interval(secs => w.poll_seconds), owner = null, uncertain_deadline = null,
      -- A callback has named another job: there are two (orphans.ts).
      next_lookup_at = case when a.hinted_task_id <> w.provider_task_id then clock_timestamp() end,
      hinted_task_id = nullif(a.hinted_task_id, w.provider_task_id)
    from jsonb_to_recordset($1::jsonb) w(id uuid, fence bigint, provider_task_id text, request_id text, run_seconds float8,
      poll_seconds float8)
    where a.id = w.id and a.fence = w.fence and a.state in ('submitting', 'submission_uncertain')`,
}

/** The provider's job that an attempt has become. */
export interface Acceptance {
  readonly attempt: Pick<AttemptRow, 'id' | 'fence'>
  readonly providerTaskId: string
  readonly requestId: string | null
  readonly maxRunSeconds: number
  readonly firstPollSeconds: number
}

/** All of them, or none: throws where one is not as its lock showed it. */
export async function markAccepted(tx: Sql, accepted: readonly Acceptance[]): Promise<void> {
  if (accepted.length === 0) return
  const rows = accepted.map(({ attempt, ...job }) => ({
    id: attempt.id,
    fence: String(attempt.fence),
    provider_task_id: job.providerTaskId,
    request_id: job.requestId,
    run_seconds: job.maxRunSeconds,
    poll_seconds: job.firstPollSeconds,
  }))
  const { rowCount } = await tx.query(ACCEPTED, [JSON.stringify(rows)])
  if (rowCount !== accepted.length) throw new Error('an attempt was accepted that nobody is submitting')
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
  name: 'attempts-end',
  text: `update attempt a set state = w.state, ended_at = clock_timestamp(), owner = null, poll_owner = null, next_poll_at = null,
      -- What was given up is looked for once more: a job that turns up is recorded with its cost.
      next_lookup_at = case when a.kind = 'video' and w.code = 'submission_unresolved' then clock_timestamp() + interval '1 hour'
        when a.hinted_task_id is not null then a.next_lookup_at end,
      number = case when w.state = 'abandoned' then null else a.number end,
      submitting_at = case when w.state = 'abandoned' then null else a.submitting_at end,
      category = w.category, scope = w.scope, retryable = w.retryable, may_change_supply = w.may_change_supply,
      error_code = w.code, error_message = w.message, provider_code = w.provider_code, http_status = w.http_status,
      provider_request_id = coalesce(w.request_id, a.provider_request_id), cost_micros = w.cost + a.orphan_cost_micros, reported = w.reported,
      fingerprint = coalesce(w.fingerprint, a.fingerprint)
    from jsonb_to_recordset($1::jsonb) w(id uuid, state text, category text, scope text, retryable boolean,
      may_change_supply boolean, code text, message text, provider_code text, http_status int, request_id text, cost bigint,
      reported jsonb, fingerprint text)
    where a.id = w.id and a.ended_at is null`,
}

const RELEASE_LEASES = {
  name: 'release-leases',
  // The hint for other processes rides along (WAKE-3); none where $2 is null.
  text: `with freed as (
      update capacity_lease l set released_at = clock_timestamp(), released_why = w.state
      from jsonb_to_recordset($1::jsonb) w(id uuid, state text) where l.attempt_id = w.id and l.released_at is null
      returning l.channel_id, l.supply_id)
    insert into wake_hint (writer, channel_id, supply_id)
    select distinct $2::uuid, channel_id, supply_id from freed where $2::uuid is not null`,
}

export interface EndedAttempt {
  readonly id: string
  readonly end: AttemptEnd
}

/**
 * Write the end of attempts and free their slots, all or none. Only `runtime/settle` calls it: an attempt ends in one way.
 * `hintFrom` is the process that will wake others for it, if any.
 */
export async function endAttempts(
  tx: Sql,
  ended: readonly EndedAttempt[],
  hintFrom: string | null,
): Promise<void> {
  if (ended.length === 0) return
  const freed = ended.map(({ id, end }) => ({ id, state: end.state }))
  const [{ rowCount }] = await Promise.all([
    tx.query(END, [JSON.stringify(ended.map(endRow))]),
    tx.query(RELEASE_LEASES, [JSON.stringify(freed), hintFrom]),
  ])
  if (rowCount !== ended.length)
    throw new Error(`one of these attempts had ended already: ${ended.map(({ id }) => id).join(', ')}`)
}

function endRow({ id, end }: EndedAttempt) {
  return {
    id,
    state: end.state,
    category: end.category,
    scope: end.scope,
    retryable: end.retryable,
    may_change_supply: end.mayChangeSupply,
    code: end.code,
    message: end.message,
    provider_code: end.providerCode,
    http_status: end.httpStatus,
    request_id: end.requestId,
    cost: String(end.cost),
    reported: end.reported,
    fingerprint: end.fingerprint,
  }
}

const POLL_CLAIM = {
  name: 'claim-polls',
  text: `with due as (
      select id from attempt where state = 'accepted' and next_poll_at <= clock_timestamp() and channel_id <> all($4::text[])
      order by next_poll_at limit $1 for no key update skip locked)
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

/**
 * Take due polls for `leaseSeconds`, none of the channels that are passed over; a process that dies leaves them due again
 * after that.
 */
export async function claimPolls(
  sql: Sql,
  want: { limit: number; owner: string; leaseSeconds: number; passingOver: readonly string[] },
): Promise<DuePoll[]> {
  const values = [want.limit, want.owner, want.leaseSeconds, want.passingOver]
  return (await sql.query<DuePoll>(POLL_CLAIM, values)).rows
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
  // What is being settled is passed over: it needs no poll any more.
  text: `update attempt set next_poll_at = clock_timestamp(), poll_owner = null where id in (
      select id from attempt where poll_owner = $1 and state = 'accepted' order by id for no key update skip locked)`,
}

/** A process that stops hands its polls on at once. */
export async function releasePolls(sql: Sql, owner: string): Promise<void> {
  await sql.query(RELEASED_POLLS, [owner])
}

const RELEASED_LOST_POLLS = {
  name: 'release-lost-polls',
  text: `update attempt set next_poll_at = clock_timestamp() + make_interval(secs => $3), poll_owner = null where id in (
      select id from attempt where poll_owner = $1 and state = 'accepted' and id <> all($2::uuid[])
      order by id for no key update skip locked)`,
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
  text: `update attempt set next_poll_at = clock_timestamp(), poll_owner = null where id in (
    select a.id from attempt a
    where a.state = 'accepted' and a.poll_owner is not null and a.next_poll_at > clock_timestamp()
      and not exists (select from process p where p.id = a.poll_owner and p.stopped_at is null and p.alive_until > clock_timestamp())
    order by a.id for no key update skip locked)`,
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
