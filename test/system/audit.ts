/**
 * The auditor: what must hold of a database and of what providers saw, whatever happened on the way. Each finding is a
 * sentence; a sound run has none.
 */
import { createHash } from 'node:crypto'
import { type EventDetail, type Folded, foldEvents, type HealthEvent } from '../../src/core/health-event.ts'
import type { Sql } from '../../src/store/database.ts'

/** What is audited: a database, and the control API of the simulator that stood in for the providers. */
export interface Audited {
  readonly db: Sql
  readonly control: (method: string, path: string) => Promise<unknown>
}

interface Entry {
  readonly attempt: string
  readonly operation: string
  readonly posts: number
  readonly accepted: number
  readonly jobs: readonly string[]
  readonly faults: readonly string[]
}

const RULES: readonly { readonly rule: string; readonly sql: string }[] = [
  {
    rule: 'a lease is held exactly while its attempt is alive',
    sql: `select a.id::text as what from attempt a left join capacity_lease l on l.attempt_id = a.id
      where (a.state in ('reserved', 'submitting', 'submission_uncertain', 'accepted')) <> (l.attempt_id is not null and l.released_at is null)`,
  },
  {
    rule: 'no task has more than two attempts that reached submitting',
    sql: `select task_id::text as what from attempt where number is not null group by task_id having count(*) > 2`,
  },
  {
    rule: 'no attempt follows one whose outcome is unknown',
    sql: `select a.task_id::text as what from attempt a join attempt b on b.task_id = a.task_id and b.created_at > a.created_at
      where a.uncertain_at is not null and b.number is not null and (a.ended_at is null or b.created_at < a.ended_at)`,
  },
  {
    rule: 'a running task has an attempt that is alive',
    sql: `select t.id::text as what from task t join attempt a on a.id = t.attempt_id
      where t.state = 'running' and a.state not in ('reserved', 'submitting', 'submission_uncertain', 'accepted')`,
  },
  {
    rule: 'every grant was within both limits when it was counted under the lock',
    sql: `select task_id::text as what from round where outcome = 'granted' and (
      (reservation->'channel'->>'in_use')::int >= (reservation->'channel'->>'concurrency')::int
      or (reservation->'supply'->>'in_use')::int >= (reservation->'supply'->>'concurrency')::int)`,
  },
  {
    rule: 'every ended task has one usage record, with the cost of its attempts',
    sql: `select t.id::text as what from task t left join usage_record u on u.task_id = t.id
      where t.ended_at is not null and (u.task_id is null or u.result <> t.state
        or u.cost_micros <> (select coalesce(sum(a.cost_micros), 0) from attempt a where a.task_id = t.id))`,
  },
  {
    rule: 'every granted round has its attempt, and every attempt its round',
    sql: `select coalesce(a.id, r.attempt_id)::text as what from attempt a
      full join (select * from round where outcome = 'granted') r on r.attempt_id = a.id
      where a.id is null or r.attempt_id is null or a.round <> r.number or a.task_id <> r.task_id`,
  },
  {
    rule: 'content and request errors moved no health',
    sql: `select e.id::text as what from health_events e join attempt a on a.id = e.attempt_id
      where e.applied and a.category in ('content', 'request') and a.uncertain_at is null
        and e.detail->>'news' in ('failed', 'uncertain', 'capacity')`,
  },
  {
    rule: 'a probe was granted only while nothing of its epoch was held',
    sql: `select r.task_id::text as what from round r join attempt a on a.id = r.attempt_id
      cross join lateral (values ('channel', a.channel_id, a.channel_epoch), ('supply', a.supply_id, a.supply_epoch)) level(name, id, epoch)
      join health_events e on e.level = level.name and e.level_id = level.id and e.kind = 'probing_started' and e.epoch_after = level.epoch
      where r.outcome = 'granted' and (r.reservation->level.name->>'in_use_epoch')::int > 0 and not exists (
        select from health_events later where later.level = e.level and later.level_id = e.level_id
          and later.kind = 'recovery_started' and later.epoch_after = e.epoch_after and later.at < a.created_at)`,
  },
  {
    rule: 'results of a task are of one attempt, which succeeded',
    sql: `select t.id::text as what from task t where exists (select from task_output o where o.task_id = t.id)
      and (select count(*) from attempt a where a.task_id = t.id and a.state = 'succeeded') <> 1`,
  },
  {
    rule: 'no two attempts of a channel have one job',
    sql: `select min(id::text) as what from attempt where provider_task_id is not null group by channel_id, provider_task_id having count(*) > 1`,
  },
  {
    rule: 'a success has its result',
    sql: `select t.id::text as what from task t where t.state = 'succeeded'
      and not exists (select from task_output o where o.task_id = t.id and o.asset_digest is not null)`,
  },
]

/** What must hold at the end, when everything has had its time. */
const AT_THE_END: readonly { readonly rule: string; readonly sql: string }[] = [
  { rule: 'every task has ended', sql: `select id::text as what from task where ended_at is null` },
  { rule: 'every attempt has ended', sql: `select id::text as what from attempt where ended_at is null` },
  {
    rule: 'no lease is held',
    sql: `select attempt_id::text as what from capacity_lease where released_at is null`,
  },
]

/** At any moment. */
export async function audit(audited: Audited): Promise<string[]> {
  return [
    ...(await broken(audited.db, RULES)),
    ...(await overTheLimit(audited.db)),
    ...(await unfolded(audited.db)),
    ...(await againstTheLedger(audited)),
  ]
}

/** At the end of a run. */
export async function auditTheEnd(audited: Audited): Promise<string[]> {
  return [...(await audit(audited)), ...(await broken(audited.db, AT_THE_END))]
}

async function broken(db: Sql, rules: typeof RULES): Promise<string[]> {
  const findings: string[] = []
  for (const { rule, sql } of rules)
    for (const { what } of await rowsOf<{ what: string }>(db, sql)) findings.push(`${rule}: ${what}`)
  return findings
}

/** The history of leases, swept: never more at once than the level's limit, at either level. */
async function overTheLimit(db: Sql): Promise<string[]> {
  const findings: string[] = []
  for (const level of ['channel', 'supply'] as const) {
    const rows = await rowsOf<{ id: string; most: number; concurrency: number }>(
      db,
      `with change as (
          select ${level}_id as id, granted_at as at, 1 as step from capacity_lease
          union all select ${level}_id, released_at, -1 from capacity_lease where released_at is not null),
        running as (select id, sum(step) over (partition by id order by at, step rows unbounded preceding) as held from change)
      select r.id, max(r.held)::int as most, l.concurrency from running r join ${level} l on l.id = r.id
      group by r.id, l.concurrency having max(r.held) > l.concurrency`,
    )
    for (const row of rows)
      findings.push(`${level} ${row.id} held ${row.most} leases over a limit of ${row.concurrency}`)
  }
  return findings
}

interface EventRow extends Record<string, unknown> {
  readonly level_id: string
  readonly kind: HealthEvent['kind']
  readonly from: HealthEvent['from']
  readonly to: HealthEvent['to']
  readonly epoch_before: bigint
  readonly epoch_after: bigint
  readonly recovery_successes: number
  readonly applied: boolean
  readonly detail: EventDetail
}

/** HLT-18: the events of each level, folded, are its row. */
async function unfolded(db: Sql): Promise<string[]> {
  const findings: string[] = []
  for (const level of ['channel', 'supply'] as const) {
    // Read in one statement each, so that a level that is just moving is not called wrong: it is looked at again.
    for (let tries = 0; ; tries += 1) {
      const wrong = await wrongFolds(db, level)
      if (wrong.length === 0) break
      if (tries < 3) continue
      findings.push(...wrong)
      break
    }
  }
  return findings
}

async function wrongFolds(db: Sql, level: 'channel' | 'supply'): Promise<string[]> {
  const rows = await rowsOf<{
    id: string
    state: string
    epoch: bigint
    recovery: number
    events: EventRow[] | null
  }>(
    db,
    `select h.${level}_id as id, h.state, h.epoch, h.recovery_successes as recovery,
      (select jsonb_agg(jsonb_build_object('kind', e.kind, 'from', e.from_state, 'to', e.to_state, 'epoch_before', e.epoch_before,
        'epoch_after', e.epoch_after, 'recovery_successes', e.recovery_successes, 'applied', e.applied, 'detail', e.detail) order by e.at, e.id)
        from health_events e where e.level = '${level}' and e.level_id = h.${level}_id) as events
      from ${level}_health h`,
  )
  return rows.flatMap((row) => {
    const folded = foldEvents((row.events ?? []).map(eventOf))
    const isRow =
      folded.state === row.state &&
      BigInt(folded.epoch) === BigInt(row.epoch) &&
      folded.recoverySuccesses === row.recovery &&
      folded.brokenAt === null
    return isRow
      ? []
      : [
          `the events of ${level} ${row.id} do not fold to its row: ${JSON.stringify(folded satisfies Folded)}`,
        ]
  })
}

function eventOf(row: EventRow): HealthEvent {
  return {
    kind: row.kind,
    from: row.from,
    to: row.to,
    epochBefore: Number(row.epoch_before),
    epochAfter: Number(row.epoch_after),
    recoverySuccesses: row.recovery_successes,
    applied: row.applied,
    detail: row.detail,
  }
}

interface AttemptRow extends Record<string, unknown> {
  readonly id: string
  readonly kind: string
  readonly provider_task_id: string | null
  readonly doubted: boolean
  readonly number: number | null
}

/**
 * What the providers counted by the trace header that carries the attempt's ID: one POST at most, one job at most, save
 * where the provider itself made several of one POST; and every job that was made is known, or written down as doubtful.
 */
async function againstTheLedger(audited: Audited): Promise<string[]> {
  const entries = await allEntries(audited)
  const rows = await rowsOf<AttemptRow>(
    audited.db,
    `select id::text, kind, provider_task_id, number, uncertain_at is not null or state = 'submitting' as doubted from attempt`,
  )
  const attempts = new Map(rows.map((row) => [row.id, row]))
  return entries.flatMap((entry) => findingsOf(entry, attempts.get(entry.attempt)))
}

async function allEntries({ control }: Audited): Promise<Entry[]> {
  const entries: Entry[] = []
  for (;;) {
    const page = (await control('GET', `/attempts?limit=1000&offset=${entries.length}`)) as {
      attempts: Entry[]
      total: number
    }
    entries.push(...page.attempts)
    if (page.attempts.length === 0 || entries.length >= page.total) return entries
  }
}

function findingsOf(entry: Entry, attempt: AttemptRow | undefined): string[] {
  const findings: string[] = []
  if (entry.posts > 1) findings.push(`attempt ${entry.attempt} was posted ${entry.posts} times`)
  if (entry.accepted > 1 && !entry.faults.includes('duplicate_accept'))
    findings.push(`attempt ${entry.attempt} created ${entry.accepted} jobs`)
  if (!attempt) return [...findings, `attempt ${entry.attempt} was posted, and is not in the database`]
  if (attempt.number === null) findings.push(`attempt ${entry.attempt} was posted, and is called abandoned`)
  const known =
    attempt.kind === 'image' || attempt.doubted || entry.jobs.includes(attempt.provider_task_id ?? '')
  if (entry.accepted > 0 && !known)
    findings.push(`attempt ${entry.attempt} made job ${entry.jobs[0]}, and nobody wrote it down`)
  return findings
}

async function rowsOf<Row extends Record<string, unknown>>(db: Sql, text: string): Promise<Row[]> {
  const name = `audit-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
  return (await db.query<Row>({ name, text })).rows
}
