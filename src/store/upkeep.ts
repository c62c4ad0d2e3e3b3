/** What the reconciler looks for, and what it clears away. */
import type { Sql } from './database.ts'

const COOLED = {
  name: 'cooled-down-levels',
  text: `
    select 'channel' as level, c.id, c.id as channel_id, c.provider, c.base_url, c.options, c.credential_id,
      coalesce((h.counters->>'ping_first')::boolean, false) as "pingFirst"
    from channel_health h join channel c on c.id = h.channel_id
    where h.state = 'circuit_open' and h.open_until <= clock_timestamp()
    union all
    select 'supply', s.id, c.id, c.provider, c.base_url, c.options, c.credential_id,
      coalesce((h.counters->>'ping_first')::boolean, false)
    from supply_health h join supply s on s.id = h.supply_id join channel c on c.id = s.channel_id
    where h.state = 'circuit_open' and h.open_until <= clock_timestamp()`,
}

export interface CooledLevel {
  readonly level: 'channel' | 'supply'
  readonly id: string
  readonly channel_id: string
  readonly provider: string
  readonly base_url: string
  readonly options: Record<string, unknown>
  readonly credential_id: bigint | null
  readonly pingFirst: boolean
}

/** Levels whose cooldown is over. */
export async function cooledDownLevels(sql: Sql): Promise<CooledLevel[]> {
  return (await sql.query<CooledLevel>(COOLED)).rows
}

const EXPIRED_IMAGES = {
  name: 'expired-images',
  text: `select t.id from task t join release r on r.id = t.release_id join model_version v on v.id = r.model_version_id
    where t.kind = 'image' and t.state = 'queued'
      and t.created_at < clock_timestamp() - make_interval(secs => 30 + coalesce((v.document->>'image_timeout_seconds')::int, 120))
    limit 100`,
}

/** Images that wait for a request that is gone: longer than their total timeout, and some. */
export async function expiredImages(sql: Sql): Promise<{ id: string }[]> {
  return (await sql.query<{ id: string }>(EXPIRED_IMAGES)).rows
}

const PRUNE = [
  {
    name: 'prune-deliveries',
    text: `delete from alert_delivery where delivered_at < clock_timestamp() - interval '30 days'`,
  },
  {
    name: 'prune-claims',
    text: `delete from idempotency_claim where expires_at < clock_timestamp() - interval '1 hour'`,
  },
  {
    name: 'prune-processes',
    text: `delete from process where alive_until < clock_timestamp() - interval '7 days'`,
  },
  {
    name: 'prune-news',
    text: `delete from attempt_news where at < clock_timestamp() - interval '7 days'
      and not exists (select from attempt a where a.id = attempt_id and a.ended_at is null)`,
  },
]

export async function pruneExpired(sql: Sql): Promise<void> {
  for (const statement of PRUNE) await sql.query(statement)
}

const CLOCK = { name: 'clock', text: 'select clock_timestamp() as now' }

/** The database's clock is the clock. */
export async function databaseClock(sql: Sql): Promise<number> {
  const [row] = (await sql.query<{ now: number }>(CLOCK)).rows
  if (!row) throw new Error('the clock statement gave no row')
  return row.now
}
