/** What the search for lost submissions reads and writes (UNK-9): who is due, who else could have made a job, and nudges. */
import type { AttemptState } from '../core/attempt.ts'
import type { Sql } from './database.ts'

export interface LostRow {
  readonly id: string
  readonly fence: bigint
  readonly state: AttemptState
  readonly error_code: string | null
  readonly channel_id: string
  readonly supply_id: string
  readonly provider: string
  readonly upstream_model: string
  readonly credential_id: bigint
  readonly base_url: string
  readonly options: Record<string, unknown>
  /** Known of an attempt whose second job is looked for. */
  readonly provider_task_id: string | null
  readonly hinted_task_id: string | null
  readonly called_back_at: number | null
  readonly lookups: number
  readonly now: number
}

const LOST_COLUMNS = `a.id, a.fence, a.state, a.error_code, a.channel_id, a.supply_id, a.provider, a.upstream_model, a.credential_id,
      a.provider_task_id, a.hinted_task_id, a.called_back_at, a.lookups, clock_timestamp() as now`

const CLAIM = {
  name: 'claim-lookups',
  text: `with due as (
      select id from attempt where next_lookup_at <= clock_timestamp() order by next_lookup_at limit $1 for no key update skip locked)
    update attempt a set next_lookup_at = clock_timestamp() + make_interval(secs => $2), lookups = a.lookups + 1
    from due join attempt b on b.id = due.id join channel c on c.id = b.channel_id
    where a.id = due.id
    returning ${LOST_COLUMNS}, c.base_url, c.options`,
}

/** Take lost submissions whose look is due; a process that dies leaves them due again after `leaseSeconds`. */
export async function claimLookups(
  sql: Sql,
  want: { limit: number; leaseSeconds: number },
): Promise<LostRow[]> {
  return (await sql.query<LostRow>(CLAIM, [want.limit, want.leaseSeconds])).rows
}

const ONE = {
  name: 'lost-submission',
  text: `select ${LOST_COLUMNS}, c.base_url, c.options from attempt a join channel c on c.id = a.channel_id where a.id = $1`,
}

export async function readLost(sql: Sql, attemptId: string): Promise<LostRow | undefined> {
  return (await sql.query<LostRow>(ONE, [attemptId])).rows[0]
}

const AGAIN = {
  name: 'look-again',
  text: `update attempt set next_lookup_at = clock_timestamp() + make_interval(secs => $2::float8), lookup_note = $3,
      hinted_task_id = case when hinted_task_id is not distinct from $4 then null else hinted_task_id end
    where id = $1`,
}

/** Nothing was proved: look again later, or (`seconds` null) only when somebody asks. A hint that failed is dropped. */
export async function lookAgain(
  sql: Sql,
  attemptId: string,
  next: { seconds: number | null; note: string; failedHint: string | null },
): Promise<void> {
  await sql.query(AGAIN, [attemptId, next.seconds, next.note.slice(0, 500), next.failedHint])
}

const TAKEN = {
  name: 'jobs-taken',
  text: `select provider_task_id as id from attempt where channel_id = $1 and provider_task_id = any($2::text[]) and id <> $3
    union all
    select o.provider_task_id from orphan_result o join attempt a on a.id = o.attempt_id
    where a.channel_id = $1 and o.provider_task_id = any($2::text[]) and a.id <> $3`,
}

/** Which of these jobs other attempts of the channel have, orphans among them. */
export async function takenJobs(
  sql: Sql,
  channelId: string,
  of: { jobs: readonly string[]; attemptId: string },
): Promise<Set<string>> {
  const { rows } = await sql.query<{ id: string }>(TAKEN, [channelId, of.jobs, of.attemptId])
  return new Set(rows.map((row) => row.id))
}

export interface SuspectRow {
  readonly id: string
  readonly upstream_model: string
  readonly submitting_at: number
  readonly uncertain_at: number | null
  readonly facts: object
  readonly content: { readonly prompt: string }
}

const SUSPECT = `select a.id, a.upstream_model, a.submitting_at, a.uncertain_at, coalesce(a.degraded->'sent', t.facts) as facts, content.content
    from attempt a join task t on t.id = a.task_id join task_content content on content.task_id = t.id`

const SUSPECT_ONE = { name: 'suspect', text: `${SUSPECT} where a.id = $1 and a.submitting_at is not null` }

export async function readSuspect(sql: Sql, attemptId: string): Promise<SuspectRow | undefined> {
  return (await sql.query<SuspectRow>(SUSPECT_ONE, [attemptId])).rows[0]
}

const MOST_RIVALS = 2000

// Whoever was uncertain once counts, also where an operator has said that it was not accepted: who knows.
const RIVALS = {
  name: 'rivals',
  text: `${SUSPECT}
    where a.channel_id = $1 and a.id <> $2 and a.kind = 'video' and a.provider_task_id is null and a.submitting_at is not null
      and (a.state = 'submitting' or a.uncertain_at is not null)
      and a.submitting_at between timestamptz 'epoch' + $3::bigint * interval '1 millisecond' - interval '2 hours'
        and timestamptz 'epoch' + $4::bigint * interval '1 millisecond' + interval '10 minutes'
    order by a.submitting_at limit ${MOST_RIVALS + 1}`,
}

/**
 * Other attempts of the channel, of that time (Unix ms), that may have been accepted under an ID that we do not know. To be
 * read after the jobs were listed: whoever made one of them had said `submitting` before.
 */
export async function rivalsOf(
  sql: Sql,
  lost: LostRow,
  time: { readonly from: number; readonly until: number },
): Promise<{ readonly rows: readonly SuspectRow[]; readonly all: boolean }> {
  const values = [lost.channel_id, lost.id, Math.floor(time.from), Math.ceil(time.until)]
  const { rows } = await sql.query<SuspectRow>(RIVALS, values)
  return { rows, all: rows.length <= MOST_RIVALS }
}

const NUDGE = {
  name: 'callback-nudge',
  text: `update attempt a set called_back_at = clock_timestamp(),
      hinted_task_id = case when a.provider_task_id is null then coalesce(a.hinted_task_id, $2) when w.second then $2
        else a.hinted_task_id end,
      next_poll_at = case when a.state = 'accepted' and a.poll_owner is null then least(a.next_poll_at, clock_timestamp())
        else a.next_poll_at end,
      next_lookup_at = case when w.second or a.state = 'submission_uncertain'
          or (a.state = 'failed' and a.uncertain_at is not null and a.provider_task_id is null)
        then clock_timestamp() else a.next_lookup_at end
    from (
      -- Named is a job that is neither its own nor known as its orphan: its submission may have become two.
      select id, coalesce(provider_task_id <> $2::text and hinted_task_id is distinct from $2 and not exists (
          select from orphan_result o where o.attempt_id = id and o.provider_task_id = $2), false) as second
      from attempt where id = $1 for no key update) w
    where a.id = w.id and (w.second or (a.state in ('submitting', 'submission_uncertain', 'accepted', 'failed')
      and (a.called_back_at is null or a.called_back_at < clock_timestamp() - interval '200 milliseconds')))
    returning a.provider`,
}

/** A callback came: look now. Callbacks that come thick and fast are one. False: it changed nothing. */
export async function nudge(sql: Sql, attemptId: string, hint: string | null): Promise<boolean> {
  return (await sql.query(NUDGE, [attemptId, hint])).rowCount === 1
}

const PROVIDER = { name: 'provider-of-attempt', text: 'select provider from attempt where id = $1' }

export async function providerOf(sql: Sql, attemptId: string): Promise<string | null> {
  return (await sql.query<{ provider: string }>(PROVIDER, [attemptId])).rows[0]?.provider ?? null
}

const LOCK_JOB = {
  name: 'lock-found-job',
  text: `select pg_advisory_xact_lock(hashtextextended($1 || '/' || $2, 7))`,
}

/** Whether this attempt may have that job: true for one of them, however many find it at once. */
export async function mayTakeJob(
  tx: Sql,
  attempt: { id: string; channel_id: string },
  providerTaskId: string,
): Promise<boolean> {
  await tx.query(LOCK_JOB, [attempt.channel_id, providerTaskId])
  const taken = await takenJobs(tx, attempt.channel_id, { jobs: [providerTaskId], attemptId: attempt.id })
  return taken.size === 0
}

const RESOLVED = {
  name: 'resolved-by',
  text: `update attempt set resolved_by = $2, lookup_note = $3, next_lookup_at = null, hinted_task_id = null where id = $1`,
}

/** Who found out what became of it. */
export async function markResolved(
  tx: Sql,
  attemptId: string,
  by: { resolver: 'callback' | 'client_id' | 'time' | 'operator'; note: string | null },
): Promise<void> {
  await tx.query(RESOLVED, [attemptId, by.resolver, by.note])
}

const DESK = {
  name: 'uncertain-attempts',
  text: `select a.id as attempt_id, a.task_id, t.kind, t.model_id, t.customer_id, a.channel_id, a.supply_id, a.provider, a.upstream_model,
      a.submitting_at, a.uncertain_at, a.uncertain_deadline as uncertain_until, a.error_code, a.error_message, a.http_status,
      a.provider_request_id, a.lookups, a.next_lookup_at, a.lookup_note, a.called_back_at, a.quote_micros,
      coalesce(a.degraded->'sent', t.facts) as facts
    from attempt a join task t on t.id = a.task_id
    where a.state = 'submission_uncertain' order by a.uncertain_deadline limit $1`,
}

export interface UncertainAttempt {
  readonly attempt_id: string
  readonly task_id: string
  readonly kind: 'video' | 'image'
  readonly model_id: string
  readonly customer_id: string
  readonly channel_id: string
  readonly supply_id: string
  readonly provider: string
  readonly upstream_model: string
  readonly submitting_at: number
  readonly uncertain_at: number
  readonly uncertain_until: number
  readonly error_code: string | null
  readonly error_message: string | null
  readonly http_status: number | null
  readonly provider_request_id: string | null
  readonly lookups: number
  readonly next_lookup_at: number | null
  readonly lookup_note: string | null
  readonly called_back_at: number | null
  readonly quote_micros: bigint
  readonly facts: object
}

/** The operator's desk: what nobody has found out yet, the most urgent first. */
export async function uncertainAttempts(sql: Sql, limit: number): Promise<UncertainAttempt[]> {
  return (await sql.query<UncertainAttempt>(DESK, [limit])).rows
}
