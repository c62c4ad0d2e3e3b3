/** Alerts about attempts, read in the transaction that raises them. */
import type { Shortfall } from '../core/artefact.ts'
import type { Fault } from '../core/outcome.ts'
import type { Alert, Severity } from '../store/alerts.ts'
import type { AttemptRow } from '../store/attempts.ts'
import type { Sql } from '../store/database.ts'

type AttemptAlert = 'generation_timeout' | 'submission_unresolved' | 'orphan_result' | 'request_unsendable'

const TEXT: Readonly<Record<AttemptAlert, { severity: Severity; message: string }>> = {
  generation_timeout: {
    severity: 'high',
    message: 'A job ran longer than its model allows; the customer was told so.',
  },
  submission_unresolved: {
    severity: 'high',
    message: 'Whether a submission was accepted could not be found out in time.',
  },
  orphan_result: {
    severity: 'warning',
    message: 'A job was made that nobody gets; its cost is recorded.',
  },
  request_unsendable: { severity: 'high', message: 'A stored request could not be opened for sending.' },
}

export function attemptAlerts(code: AttemptAlert, attempt: AttemptRow, detail: string): Alert[] {
  return [
    {
      fingerprint: `${code}:supply:${attempt.supply_id}`,
      code,
      severity: TEXT[code].severity,
      message: `${TEXT[code].message} Latest: attempt ${attempt.id}, ${detail}.`,
      subject: { supply: attempt.supply_id, channel: attempt.channel_id, task: attempt.task_id },
    },
  ]
}

/** DEG-7: a provider delivered less than was promised, and said nothing. */
export function downgradeAlerts(attempt: AttemptRow, shortfalls: readonly Shortfall[]): Alert[] {
  if (shortfalls.length === 0) return []
  const what = [...new Set(shortfalls)].join(', ')
  return [
    {
      fingerprint: `silent_downgrade:supply:${attempt.supply_id}`,
      code: 'silent_downgrade',
      severity: 'warning',
      message: `Supply ${attempt.supply_id} delivered less than was promised (${what}), and did not say so. Latest: attempt ${attempt.id}.`,
      subject: { supply: attempt.supply_id, channel: attempt.channel_id, task: attempt.task_id },
    },
  ]
}

const DOUBTFUL = {
  name: 'uncertain-share',
  text: `select 'channel' as level, c.id, c.concurrency,
      (select count(*)::int from attempt a where a.channel_id = c.id and a.state = 'submission_uncertain') as uncertain
    from channel c where c.id = $1
    union all
    select 'supply', s.id, s.concurrency,
      (select count(*)::int from attempt a where a.supply_id = s.id and a.state = 'submission_uncertain')
    from supply s where s.id = $2`,
}

/** UNK-5: told early, when uncertain attempts hold half of a level. */
export async function doubtAlerts(tx: Sql, attempt: AttemptRow): Promise<Alert[]> {
  const { rows } = await tx.query<{ level: string; id: string; concurrency: number; uncertain: number }>(
    DOUBTFUL,
    [attempt.channel_id, attempt.supply_id],
  )
  return rows
    .filter((row) => row.uncertain * 2 >= row.concurrency)
    .map((row) => ({
      fingerprint: `uncertain_half:${row.level}:${row.id}`,
      code: 'uncertain_half',
      severity: 'high',
      message: `${row.uncertain} of ${row.concurrency} slots of ${row.level} ${row.id} are held by submissions of unknown outcome.`,
      subject: { [row.level]: row.id, uncertain: row.uncertain, concurrency: row.concurrency },
    }))
}

const REFUSALS = {
  name: 'real-person-refusals',
  text: `select count(*)::int as refusals from attempt a join supply s on s.id = a.supply_id
    where a.supply_id = $1 and s.real_person = 'allowed' and a.error_code = 'real_person_refused'
      and a.ended_at > clock_timestamp() - interval '24 hours'`,
}

/** ERR-4: the ended attempts are the evidence; three in a day by a supply marked `allowed` propose to reclassify it. */
export async function refusalAlerts(tx: Sql, attempt: AttemptRow, fault: Fault): Promise<Alert[]> {
  if (!fault.realPerson || attempt.kind !== 'video') return []
  const refusals =
    (await tx.query<{ refusals: number }>(REFUSALS, [attempt.supply_id])).rows[0]?.refusals ?? 0
  if (refusals < 3) return []
  return [
    {
      fingerprint: `real_person_policy:supply:${attempt.supply_id}`,
      code: 'real_person_policy',
      severity: 'warning',
      message: `Supply ${attempt.supply_id} is marked allowed, but refused ${refusals} real-person requests in 24 hours: consider restricted.`,
      subject: { supply: attempt.supply_id, refusals },
    },
  ]
}
