/**
 * Alerts: raised in the transaction of their cause, one open row for each fingerprint, counted up when raised again, and
 * resolved when the cause ends. Both are written to the outbox of every endpoint that wants them, in the same statement.
 */
import type { AlertCode, Severity } from '../core/alert-rules.ts'
import type { Sql } from './database.ts'

export type { Severity }

export interface Alert {
  /** Same cause, same text: `code:subject`. */
  readonly fingerprint: string
  readonly code: AlertCode
  readonly severity: Severity
  readonly message: string
  readonly subject: Readonly<Record<string, string | number | null>>
}

const RANK = (column: string) => `array_position(array['info', 'warning', 'high', 'critical'], ${column})`
const PAYLOAD = `jsonb_build_object('id', a.id, 'code', a.code, 'severity', a.severity, 'message', a.message, 'subject', a.subject,
      'count', a.count, 'first_at', a.first_at, 'last_at', a.last_at, 'resolved_at', a.resolved_at)`

const RAISE = {
  name: 'raise-alerts',
  text: `with raised as (
      insert into alert (fingerprint, code, severity, message, subject, count)
      select a.fingerprint, a.code, a.severity, a.message, a.subject, a.times
      from jsonb_to_recordset($1::jsonb) a(fingerprint text, code text, severity text, message text, subject jsonb, times bigint)
      order by a.fingerprint
      on conflict (fingerprint) where resolved_at is null
      do update set count = alert.count + excluded.count, last_at = clock_timestamp(), message = excluded.message
      returning *, xmax = 0 as fresh)
    insert into alert_delivery (endpoint_id, alert_id, event, payload)
    select e.id, a.id, 'raised', ${PAYLOAD}
    from raised a join alert_endpoint e on e.enabled and ${RANK('e.min_severity')} <= ${RANK('a.severity')} where a.fresh`,
}

/** Raise several at once; equal fingerprints become one row, written in one order by everybody. */
export async function raiseAlerts(sql: Sql, alerts: readonly Alert[]): Promise<void> {
  if (alerts.length === 0) return
  const merged = new Map<string, Alert & { times: number }>()
  for (const alert of alerts) {
    const seen = merged.get(alert.fingerprint)
    merged.set(alert.fingerprint, { ...alert, times: (seen?.times ?? 0) + 1 })
  }
  await sql.query(RAISE, [JSON.stringify([...merged.values()])])
}

/** Who was told that it is raised is told that it is over. `condition` reads the row as `alert`. */
export function resolving(condition: string): string {
  return `with over as (
      update alert set resolved_at = clock_timestamp() where resolved_at is null and ${condition} returning *)
    insert into alert_delivery (endpoint_id, alert_id, event, payload)
    select distinct on (d.endpoint_id, a.id) d.endpoint_id, a.id, 'resolved', ${PAYLOAD}
    from over a join alert_delivery d on d.alert_id = a.id and d.event = 'raised'`
}

const RESOLVE = { name: 'resolve-alerts', text: resolving('fingerprint = any($1::text[])') }

export async function resolveAlerts(sql: Sql, fingerprints: readonly string[]): Promise<void> {
  if (fingerprints.length > 0) await sql.query(RESOLVE, [fingerprints])
}
