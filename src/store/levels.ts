/**
 * Channels and supplies as they stand: read without a lock for a decision, and again under the lock for a grant. Leases
 * held are the count. Lock and count are two statements, since one statement counts by a snapshot that is older than
 * its lock and over-admits.
 */
import type { AdminState, HealthState, RealPersonPolicy } from '../core/catalog.ts'
import type { LevelJson, SupplyLevelJson } from '../core/frozen.ts'
import { healthFromColumns, samples } from '../core/health.ts'
import type { Sql } from './database.ts'

/** Channels and supplies by ID. */
export interface Levels {
  readonly now: number
  readonly channels: Readonly<Record<string, LevelJson>>
  readonly supplies: Readonly<Record<string, SupplyLevelJson>>
}

interface LevelRow {
  id: string
  admin_state: AdminState
  concurrency: number
  state: HealthState
  epoch: bigint
  recovery_successes: number
  not_before: number | null
  last_granted_at: number | null
  in_use: number
  in_use_epoch: number
  now: number
}

interface SupplyRow extends LevelRow {
  real_person: RealPersonPolicy
  price_list_version_id: bigint | null
  open_until: number | null
  counters: Record<string, unknown>
}

const COUNT = (level: 'channel' | 'supply') => `
  left join lateral (
    select count(*)::int as n, (count(*) filter (where l.${level}_epoch = h.epoch))::int as e
    from capacity_lease l where l.${level}_id = c.id and l.released_at is null) used on true`

// What was archived is as good as switched off for those who still wait by an older release.
const COMMON = `c.id, case when c.archived_at is null then c.admin_state else 'disabled' end as admin_state, c.concurrency,
    h.state, h.epoch, h.recovery_successes, h.not_before, h.last_granted_at,
    used.n as in_use, used.e as in_use_epoch, clock_timestamp() as now`

const CHANNELS = {
  name: 'channels-now',
  text: `select ${COMMON} from channel c join channel_health h on h.channel_id = c.id ${COUNT('channel')}
    where c.id = any($1::text[])`,
}

const SUPPLIES = {
  name: 'supplies-now',
  text: `select ${COMMON}, c.real_person, c.price_list_version_id, h.open_until, h.counters
    from supply c join supply_health h on h.supply_id = c.id ${COUNT('supply')}
    where c.id = any($1::text[])`,
}

const LOCK_CHANNELS = {
  name: 'lock-channels',
  text: `select channel_id from channel_health where channel_id = any($1::text[]) order by channel_id for no key update`,
}

const LOCK_SUPPLIES = {
  name: 'lock-supplies',
  text: `select supply_id from supply_health where supply_id = any($1::text[]) order by supply_id for no key update`,
}

const FREE = {
  name: 'any-supply-free',
  text: `select exists (
    select from supply s join supply_health sh on sh.supply_id = s.id
    join channel c on c.id = s.channel_id join channel_health ch on ch.channel_id = c.id
    where s.id = any($1::text[]) and s.admin_state = 'enabled' and c.admin_state = 'enabled'
      and s.archived_at is null and c.archived_at is null
      and sh.state in ('healthy', 'degraded') and ch.state in ('healthy', 'degraded')
      and coalesce(sh.not_before, '-infinity') <= clock_timestamp() and coalesce(ch.not_before, '-infinity') <= clock_timestamp()
      and (select count(*) from capacity_lease l where l.supply_id = s.id and l.released_at is null) < s.concurrency
      and (select count(*) from capacity_lease l where l.channel_id = c.id and l.released_at is null) < c.concurrency) as free`,
}

/** Whether one of these supplies could take a task now (RTY-6): a hint for a backoff, not a reservation. */
export async function anySupplyFree(sql: Sql, supplyIds: readonly string[]): Promise<boolean> {
  if (supplyIds.length === 0) return false
  return (await sql.query<{ free: boolean }>(FREE, [supplyIds])).rows[0]?.free ?? false
}

export interface LevelIds {
  readonly channels: readonly string[]
  readonly supplies: readonly string[]
}

/** The rule of lock order, in one place: channels by ID, then supplies by ID. Tasks and attempts were locked before. */
export async function lockLevels(tx: Sql, ids: LevelIds): Promise<void> {
  await Promise.all([
    ids.channels.length > 0 && tx.query(LOCK_CHANNELS, [[...ids.channels].sort()]),
    ids.supplies.length > 0 && tx.query(LOCK_SUPPLIES, [[...ids.supplies].sort()]),
  ])
}

export async function readLevels(sql: Sql, ids: LevelIds): Promise<Levels> {
  const [{ rows: channels }, { rows: supplies }] = await Promise.all([
    sql.query<LevelRow>(CHANNELS, [ids.channels]),
    sql.query<SupplyRow>(SUPPLIES, [ids.supplies]),
  ])
  const now = Math.max(0, ...channels.map((row) => row.now), ...supplies.map((row) => row.now))
  return {
    now,
    channels: Object.fromEntries(channels.map((row) => [row.id, levelJson(row)])),
    supplies: Object.fromEntries(supplies.map((row) => [row.id, supplyJson(row, now)])),
  }
}

function levelJson(row: LevelRow): LevelJson {
  return {
    a: row.admin_state,
    h: row.state,
    r: row.recovery_successes,
    c: row.concurrency,
    u: row.in_use,
    e: row.in_use_epoch,
    ep: Number(row.epoch),
    g: row.last_granted_at,
    n: row.not_before,
  }
}

function supplyJson(row: SupplyRow, now: number): SupplyLevelJson {
  const counted = samples(healthFromColumns({ ...row, epoch: Number(row.epoch) }), now)
  return {
    ...levelJson(row),
    p: row.real_person,
    s: [counted.successes, counted.failures],
    l: row.price_list_version_id === null ? null : String(row.price_list_version_id),
  }
}
