/** Usage records as they are exported per customer and period (CUS-2). Settlement happens elsewhere and feeds on it. */
import type { Micros } from '../core/money.ts'
import type { Instant } from '../core/time.ts'
import type { Sql } from './database.ts'
import { fromInstant } from './instants.ts'

export interface UsageRow {
  task_id: string
  customer_id: string
  api_key_id: string
  model_id: string
  kind: 'video' | 'image'
  parameters: Record<string, unknown>
  result: 'succeeded' | 'failed' | 'cancelled' | 'rejected'
  error_code: string | null
  degraded: boolean
  requested_profile: string
  actual_profile: string
  dropped_inputs: string[]
  shortfalls: string[]
  cost_micros: Micros
  currency: string
  created_at: Instant
  ended_at: Instant
}

export interface UsagePeriod {
  /** null: of all customers. */
  readonly customerId: string | null
  /** RFC 3339; ended at or after, and before. null: open. */
  readonly from: string | null
  readonly to: string | null
}

const PAGE = 1000

const ROWS = {
  name: 'usage-rows',
  text: `select task_id, customer_id, api_key_id, model_id, kind, parameters, result, error_code, degraded, requested_profile,
      actual_profile, dropped_inputs, shortfalls, cost_micros, currency, created_at, ended_at
    from usage_record
    where ($1::text is null or customer_id = $1)
      and ($2::timestamptz is null or ended_at >= $2) and ($3::timestamptz is null or ended_at < $3)
      and ($4::timestamptz is null or (ended_at, task_id) > ($4, $5::uuid))
    order by ended_at, task_id limit $6`,
}

/** In the order of their end, a page at a time, so that an export of any length needs little memory. */
export async function* usageRows(sql: Sql, period: UsagePeriod): AsyncGenerator<UsageRow> {
  let after: UsageRow | undefined
  for (;;) {
    const { rows } = await sql.query<UsageRow & Record<string, unknown>>(ROWS, [
      period.customerId,
      period.from,
      period.to,
      after ? fromInstant(after.ended_at) : null,
      after?.task_id ?? null,
      PAGE,
    ])
    yield* rows
    after = rows.at(-1)
    if (rows.length < PAGE) return
  }
}
