/**
 * The auditor: what must hold of a database and of what providers saw, whatever happened on the way. Each finding is a
 * sentence; a sound run has none.
 */
import { rowsOf, type System } from './kit.ts'

interface Ledger {
  readonly attempts: readonly {
    readonly attempt: string
    readonly posts: number
    readonly accepted: number
  }[]
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
    rule: 'a success has its result',
    sql: `select t.id::text as what from task t where t.state = 'succeeded'
      and not exists (select from task_output o where o.task_id = t.id and o.asset_digest is not null)`,
  },
]

/** At any moment. */
export async function audit(system: System): Promise<string[]> {
  const findings: string[] = []
  for (const { rule, sql } of RULES) {
    for (const { what } of await rowsOf<{ what: string }>(system.db, sql)) findings.push(`${rule}: ${what}`)
  }
  findings.push(...(await overTheLimit(system)), ...(await doubledJobs(system)))
  return findings
}

/** The history of leases, swept: never more at once than the level's limit, at either level. */
async function overTheLimit(system: System): Promise<string[]> {
  const findings: string[] = []
  for (const level of ['channel', 'supply'] as const) {
    const rows = await rowsOf<{ id: string; most: number; concurrency: number }>(
      system.db,
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

/** What the providers counted by the trace header that carries the attempt's ID. */
async function doubledJobs(system: System): Promise<string[]> {
  const { attempts } = (await system.control('GET', '/attempts?min_accepted=2')) as Ledger
  return attempts.map(({ attempt, accepted }) => `attempt ${attempt} created ${accepted} jobs`)
}
