/** What a run came to: the findings of the auditors, and the figures beside them. */

import { replay } from '../../src/runtime/replay.ts'
import type { Database } from '../../src/store/database.ts'
import { Releases } from '../../src/store/releases.ts'
import { auditTheEnd } from '../../test/system/audit.ts'
import { accountFor, sightings, toldOf } from '../../test/system/audit-requests.ts'
import { type Secrets, secretsIn, secretsInTables } from '../../test/system/audit-secrets.ts'
import type { Asked, Seen } from './customers.ts'
import { neverPlayed, playedBy } from './faults.ts'

export interface Killed {
  submission: number
  /** Of these, how often the provider had the request already. */
  submissionAtProvider: number
  settlement: number
  database: number
  pauses: number
}

/** What happened, for the report. */
export interface Happened {
  readonly seed: number
  readonly asked: readonly Asked[]
  readonly seen: readonly Seen[]
  readonly killed: Readonly<Killed>
  /** What was to be done and could not be. */
  readonly undone: readonly string[]
  /** What programs wrote and customers were told, by where it comes from. */
  readonly texts: Readonly<Record<string, string>>
  readonly secrets: Secrets
  /** Whether every fault must have been played. */
  readonly inFull: boolean
  readonly seconds: number
}

export interface MixReport {
  readonly seed: number
  readonly asked: number
  readonly tasks: number
  readonly findings: readonly string[]
  readonly duplicateJobs: number
  readonly lostTasks: number
  readonly leakedLeases: number
  readonly overAdmissions: number
  readonly replayDifferences: number
  readonly rounds: number
  readonly leakedSecrets: number
  /** How requests ended for who asked, with how many. */
  readonly requests: Readonly<Record<string, number>>
  readonly videosLookedAt: number
  /** How tasks ended: `succeeded`, or the error code, with how many. */
  readonly ends: readonly End[]
  /** Of all requests whose content was not refused: also of those that never became a task. */
  readonly succeededShare: number
  /** Of attempts that ran out of time: what was played on them, and how often they were looked at. */
  readonly overdue: readonly string[]
  readonly attempts: number
  readonly uncertain: number
  readonly resolvedBy: Readonly<Record<string, number>>
  /** How often the sound account was isolated: what is promised rests on a supply that is healthy at any time. */
  readonly soundIsolated: number
  readonly killed: Readonly<Killed>
  readonly faultsPlayed: Readonly<Record<string, number>>
  readonly seconds: number
}

interface End extends Record<string, unknown> {
  readonly kind: string
  readonly end: string
  readonly count: number
}

export interface ReportPorts {
  readonly db: Database
  readonly control: (method: string, path: string) => Promise<unknown>
}

/** "At least 80 % succeed", with a healthy supply at any time. */
const LEAST_SHARE = 0.8
/** No supply could have helped these. */
const REFUSED_BY_CONTENT: ReadonlySet<string> = new Set([
  'content_refused',
  'real_person_refused',
  'invalid_request',
])
/** Channels that lead nowhere are faults below HTTP, which the simulator does not play. */
const LEAD_NOWHERE = { 'no-tls': 'TLS that fails', 'no-name': 'a name that does not resolve' }

export async function reportOf(ports: ReportPorts, happened: Happened): Promise<MixReport> {
  const { db } = ports
  const { asked, seen, secrets } = happened
  const told = await toldOf(db)
  const accounts = accountFor(asked, told)
  const { differences, rounds } = await replay(db, new Releases(), '1970-01-01')
  const leaked = [
    ...Object.entries(happened.texts).flatMap(([place, text]) => secretsIn(place, text, secrets)),
    ...(await secretsInTables(db, secrets)),
  ]
  const ends = await endsOf(db)
  const share = succeededShare(ends, asked.length)
  const played = await faultsPlayed(ports)
  const findings = [
    ...(await auditTheEnd(ports)),
    ...accounts.findings,
    ...sightings(seen, told),
    ...leaked,
    ...differences.map((one) => `replay differs: ${JSON.stringify(one)}`),
    ...happened.undone,
    ...(share < LEAST_SHARE ? [`only ${(100 * share).toFixed(1)} % succeeded`] : []),
    ...(happened.inFull
      ? (await unplayed(ports, played)).map((name) => `fault ${name} was never played`)
      : []),
  ]
  return {
    seed: happened.seed,
    asked: asked.length,
    tasks: told.length,
    findings,
    ...kindsOf(findings),
    replayDifferences: differences.length,
    rounds,
    leakedSecrets: leaked.length,
    requests: accounts.ends,
    videosLookedAt: seen.length,
    ends,
    succeededShare: share,
    overdue: await overdueIn(ports),
    ...(await attemptFigures(db)),
    killed: happened.killed,
    faultsPlayed: played,
    seconds: happened.seconds,
  }
}

function kindsOf(findings: readonly string[]) {
  const of = (pattern: RegExp) => findings.filter((finding) => pattern.test(finding)).length
  return {
    duplicateJobs: of(/created \d+ jobs|was posted \d+ times|have one job|(made|was told) \d+ tasks/),
    lostTasks: of(/is not there|every task has ended|nobody wrote it down|without an ID|did not succeed/),
    leakedLeases: of(/lease/) - of(/leases over a limit/),
    overAdmissions: of(/over a limit|within both limits|of its epoch was held/),
  }
}

async function endsOf(db: Database): Promise<End[]> {
  const { rows } = await db.query<End>(
    `select kind, coalesce(error_code, state) as "end", count(*)::int as count from task group by 1, 2 order by 1, 3 desc`,
  )
  return rows
}

function succeededShare(ends: readonly End[], asked: number): number {
  const of = (is: (end: string) => boolean) =>
    ends.filter(({ end }) => is(end)).reduce((sum, { count }) => sum + count, 0)
  const decided = asked - of((end) => REFUSED_BY_CONTENT.has(end))
  return decided === 0 ? 0 : of((end) => end === 'succeeded') / decided
}

async function attemptFigures(db: Database) {
  const { rows } = await db.query<{ attempts: number; uncertain: number }>(
    'select count(*)::int as attempts, count(uncertain_at)::int as uncertain from attempt',
  )
  const resolved = await db.query<{ by: string; n: number }>(
    'select resolved_by as by, count(*)::int as n from attempt where resolved_by is not null group by 1 order by 1',
  )
  const isolated = await db.query<{ n: number }>(
    `select count(*)::int as n from health_events
      where level_id in ('sound', 'sound-video', 'sound-image') and from_state <> 'circuit_open' and to_state = 'circuit_open'`,
  )
  return {
    soundIsolated: isolated.rows[0]?.n ?? 0,
    attempts: rows[0]?.attempts ?? 0,
    uncertain: rows[0]?.uncertain ?? 0,
    resolvedBy: Object.fromEntries(resolved.rows.map(({ by, n }) => [by, n])),
  }
}

async function overdueIn({ db, control }: ReportPorts): Promise<string[]> {
  const { rows } = await db.query<{
    id: string
    supply: string
    polls: number
    failures: number
    state: string
    code: string | null
  }>(
    `select a.id::text, a.supply_id as supply, a.polls, a.poll_failures as failures, a.state, a.error_code as code
      from attempt a join task t on t.id = a.task_id
      where t.error_code = 'generation_timeout' and t.model_id <> 'mix-short' and a.number is not null order by a.id limit 40`,
  )
  return Promise.all(
    rows.map(async ({ id, supply, polls, failures, state, code }) => {
      const { faults } = (await control('GET', `/ledger/${id}`).catch(() => ({ faults: [] }))) as {
        faults: string[]
      }
      return `${supply} ${state} ${code ?? ''} polls ${polls}, without answer ${failures}: ${faults.join(', ')}`
    }),
  )
}

async function faultsPlayed({ db, control }: ReportPorts): Promise<Record<string, number>> {
  const { rules } = (await control('GET', '/faults')) as { rules: { fault: unknown; played: number }[] }
  const { rows } = await db.query<{ channel: string; n: number }>(
    `select channel_id as channel, count(*)::int as n from attempt where channel_id like 'no-%' group by 1`,
  )
  const nowhere = Object.entries(LEAD_NOWHERE).map(([channel, name]) => [
    name,
    rows.find((row) => row.channel === channel)?.n ?? 0,
  ])
  return { ...playedBy(rules), ...Object.fromEntries(nowhere) }
}

async function unplayed({ control }: ReportPorts, played: Record<string, number>): Promise<string[]> {
  const { kinds } = (await control('GET', '/faults/kinds')) as { kinds: object }
  return neverPlayed(played, Object.keys(kinds))
}
