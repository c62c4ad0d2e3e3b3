/** The table of alerts, as operators read and acknowledge it. */
import type { Instant } from '../core/time.ts'
import type { Severity } from './alerts.ts'
import type { Sql } from './database.ts'

export interface AlertView {
  id: string
  code: string
  severity: Severity
  message: string
  subject: Record<string, unknown>
  count: bigint
  first_at: Instant
  last_at: Instant
  acknowledged_at: Instant | null
  acknowledged_by: string | null
  resolved_at: Instant | null
}

const ALERTS = {
  name: 'alert-views',
  text: `select id, code, severity, message, subject, count, first_at, last_at, acknowledged_at, acknowledged_by, resolved_at
    from alert where $1 or resolved_at is null
    order by resolved_at is not null, array_position(array['critical', 'high', 'warning', 'info'], severity), last_at desc, id limit $2`,
}

/** Open ones, the gravest and newest first; with `all`, resolved ones behind them. */
export async function alertViews(
  sql: Sql,
  wanted: { readonly all: boolean; readonly limit: number },
): Promise<AlertView[]> {
  return (await sql.query<AlertView & Record<string, unknown>>(ALERTS, [wanted.all, wanted.limit])).rows
}

const ACKNOWLEDGE = {
  name: 'acknowledge-alerts',
  text: `update alert set acknowledged_at = coalesce(acknowledged_at, clock_timestamp()),
      acknowledged_by = coalesce(acknowledged_by, $2)
    where resolved_at is null and ($1::text is null or id::text = $1) returning id`,
}

/** One alert, or all open ones (null): seen by whom. Answers how many there were. */
export async function acknowledgeAlerts(sql: Sql, id: string | null, by: string): Promise<number> {
  return (await sql.query(ACKNOWLEDGE, [id, by])).rowCount
}
