/** Alerts: raised in the transaction of their cause, one open row for each fingerprint, counted up when raised again. */
import type { Sql } from './database.ts'

export type Severity = 'info' | 'warning' | 'high' | 'critical'

export interface Alert {
  /** Same cause, same text: `code:subject`. */
  readonly fingerprint: string
  readonly code: string
  readonly severity: Severity
  readonly message: string
  readonly subject: Readonly<Record<string, string | number | null>>
}

const RAISE = {
  name: 'raise-alerts',
  text: `insert into alert (fingerprint, code, severity, message, subject, count)
    select a.fingerprint, a.code, a.severity, a.message, a.subject, a.times
    from jsonb_to_recordset($1::jsonb) a(fingerprint text, code text, severity text, message text, subject jsonb, times bigint)
    order by a.fingerprint
    on conflict (fingerprint) where resolved_at is null
    do update set count = alert.count + excluded.count, last_at = clock_timestamp(), message = excluded.message`,
}

const RESOLVE = {
  name: 'resolve-alert',
  text: `update alert set resolved_at = clock_timestamp() where fingerprint = any($1::text[]) and resolved_at is null`,
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

export async function resolveAlerts(sql: Sql, fingerprints: readonly string[]): Promise<void> {
  if (fingerprints.length > 0) await sql.query(RESOLVE, [fingerprints])
}
