/**
 * Rows that grow for ever lie in one partition for each day, by the instant in their UUID of version 7. Maintenance makes
 * partitions ahead and lets whole old ones go, which is the only way in which such rows ever go (ORD-17); and where
 * maintenance has died, whoever needs a partition makes it.
 */
import pg from 'pg'
import { type Instant, microsOfSeconds } from '../core/time.ts'
import type { Database, Sql } from './database.ts'
import { fromInstant } from './instants.ts'

export const PARTITIONED = ['round', 'health_events', 'round_record'] as const
export type Partitioned = (typeof PARTITIONED)[number]

export interface PartitionOptions {
  readonly aheadDays: number
  /** Whole days that rows are kept, after the day they are of; the records of rounds as long as these. */
  readonly retainDays: Readonly<Record<Exclude<Partitioned, 'round_record'>, number>>
  /** The database's clock where absent. */
  readonly now?: Instant
}

export interface PartitionWork {
  readonly created: readonly string[]
  readonly dropped: readonly string[]
  /** Expired, but some task of that day has not ended. */
  readonly kept: readonly string[]
  /** What could not be let go this time; the next run tries again. */
  readonly failed: readonly { readonly partition: string; readonly why: string }[]
  /** An early alert: maintenance had not run for days when this run began. null when all was well. */
  readonly warning: string | null
}

const FEWEST_AHEAD = 3
const SECONDS_PER_DAY = 86_400
/** A clock may be wrong by that much, or a task that old may still be queued; any other ID was not made by new_time_id. */
const AHEAD_AT_MOST = 2
const BEHIND_AT_MOST = 400

// Attached partitions, those half detached by a run that was interrupted, and those detached but not yet dropped.
const LIST = {
  name: 'partitions',
  text: `select parent.name as parent, c.relname as name, right(c.relname, 8) as day,
      case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'half_detached' else 'attached' end as state
    from unnest($1::text[]) parent(name)
    join pg_class c on c.relname ~ ('^' || parent.name || '_[0-9]{8}$') and c.relkind = 'r'
      and c.relnamespace = (select relnamespace from pg_class where oid = to_regclass(parent.name))
    left join pg_inherits i on i.inhrelid = c.oid
    order by c.relname`,
}
const NOW = { name: 'partition-clock', text: `select coalesce($1::timestamptz, clock_timestamp()) as now` }
const ENSURE = { name: 'ensure-partition', text: `select ensure_day_partition($1, $2::date) as made` }
const UNENDED = {
  name: 'unended-on-day',
  text: `select exists (select from task where id >= time_id_floor($1::timestamptz)
      and id < time_id_floor($1::timestamptz + interval '1 day') and state in ('queued', 'running')) as found`,
}
const ENSURE_FOR = {
  name: 'ensure-partition-for',
  text: `select ensure_day_partition($1, (time_id_instant($2::uuid) at time zone 'UTC')::date) as made
    where time_id_instant($2::uuid) between clock_timestamp() - make_interval(days => $3) and clock_timestamp() + make_interval(days => $4)`,
}

interface Partition {
  parent: Partitioned
  name: string
  /** "20261201". */
  day: string
  state: 'attached' | 'half_detached' | 'detached'
}

/** One run of maintenance. Several processes may run it at once; what fails is told, and tried again by the next run. */
export async function maintainPartitions(db: Database, options: PartitionOptions): Promise<PartitionWork> {
  const { rows: clock } = await db.query<{ now: Instant }>(NOW, [
    options.now === undefined ? null : fromInstant(options.now),
  ])
  const now = clock[0]?.now ?? 0
  const { rows: present } = await db.query<Partition>(LIST, [PARTITIONED])
  const warning = warnEarly(present, now)
  const created = await makeAhead(db, now, options.aheadDays)
  const retained = { ...options.retainDays, round_record: options.retainDays.round }
  const expired = present.filter(({ parent, day }) => day < dayOf(now, -retained[parent])).sort(recordsLast)
  const kept: string[] = []
  const dropped: string[] = []
  const failed: { partition: string; why: string }[] = []
  for (const partition of expired) {
    if (await isNeeded(db, partition, kept.concat(failed.map((one) => one.partition))))
      kept.push(partition.name)
    else {
      const why = await letGo(db, partition)
      if (why === null) dropped.push(partition.name)
      else failed.push({ partition: partition.name, why })
    }
  }
  return { created, dropped, kept, failed, warning }
}

/**
 * Runs `work`, and where it fails for want of a partition makes that and runs it again. Safe for a transaction only: it
 * failed before its COMMIT was sent. `onDemand` hears of each partition that maintenance ought to have made.
 */
export async function withPartition<T>(
  db: Database,
  work: () => Promise<T>,
  onDemand: (parent: Partitioned) => void = () => {},
): Promise<T> {
  for (let missing = 0; ; missing++) {
    try {
      return await work()
    } catch (error) {
      const lack = partitionLackedBy(error)
      if (lack === null || missing === PARTITIONED.length) throw error
      if (!(await makeFor(db, lack))) throw error
      onDemand(lack.parent)
    }
  }
}

interface Lack {
  readonly parent: Partitioned
  readonly id: string
}

/** Told by code, table and row, not by the sentence, which may be in another language. */
function partitionLackedBy(error: unknown): Lack | null {
  if (!(error instanceof pg.DatabaseError) || error.code !== '23514' || error.constraint) return null
  const parent = PARTITIONED.find((name) => name === error.table)
  const id = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(error.detail ?? '')?.[0]
  return parent && id ? { parent, id } : null
}

/** false: that ID is of no day near today, so it is the row that is wrong. */
async function makeFor(db: Database, lack: Lack): Promise<boolean> {
  const values = [lack.parent, lack.id, BEHIND_AT_MOST, AHEAD_AT_MOST]
  const { rowCount } = await db.transaction((tx) => tx.query(ENSURE_FOR, values), { retry: true })
  return rowCount === 1
}

function dayOf(now: Instant, offset: number): string {
  const at = (now + microsOfSeconds(offset * SECONDS_PER_DAY)) / 1000
  return new Date(Math.floor(at)).toISOString().slice(0, 10).replaceAll('-', '')
}

function warnEarly(present: readonly Partition[], now: Instant): string | null {
  // A fresh database has none, and nothing is late.
  if (present.length === 0) return null
  const short = PARTITIONED.flatMap((parent) => {
    const names = new Set(present.filter((one) => one.state === 'attached').map((one) => one.name))
    let ahead = 0
    while (names.has(`${parent}_${dayOf(now, ahead + 1)}`)) ahead++
    return ahead < FEWEST_AHEAD ? [`${parent} had ${ahead}`] : []
  })
  if (short.length === 0) return null
  return `fewer than ${FEWEST_AHEAD} days of partitions were made ahead (${short.join(', ')}): maintenance has not run for days`
}

async function makeAhead(db: Database, now: Instant, aheadDays: number): Promise<string[]> {
  const created: string[] = []
  for (const parent of PARTITIONED) {
    for (let offset = 0; offset <= aheadDays; offset++) {
      const day = dayOf(now, offset)
      const { rows } = await db.transaction((tx) => tx.query<{ made: boolean }>(ENSURE, [parent, day]), {
        retry: true,
      })
      if (rows[0]?.made) created.push(`${parent}_${day}`)
    }
  }
  return created
}

function recordsLast(one: Partition, other: Partition): number {
  return Number(one.parent === 'round_record') - Number(other.parent === 'round_record')
}

/**
 * The rounds of a task that has not ended are never dropped, however old they are; nor are their records, which are of the
 * same day or a later one.
 */
async function isNeeded(sql: Sql, partition: Partition, still: readonly string[]): Promise<boolean> {
  if (partition.parent === 'round_record')
    return still.some((name) => name.startsWith('round_') && name <= `round_${partition.day}`)
  if (partition.parent !== 'round' || partition.state !== 'attached') return false
  const { day } = partition
  const since = `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6)} 00:00:00+00`
  return (await sql.query<{ found: boolean }>(UNENDED, [since])).rows[0]?.found ?? true
}

/**
 * Detach, then drop: each can be interrupted, and is taken up where it was left. CONCURRENTLY blocks no insert, and is
 * therefore no part of a transaction. Answers why it could not be done.
 */
async function letGo(sql: Sql, { parent, name, state }: Partition): Promise<string | null> {
  try {
    if (state === 'half_detached') await sql.query(`alter table ${parent} detach partition ${name} finalize`)
    if (state === 'attached') await sql.query(`alter table ${parent} detach partition ${name} concurrently`)
    await sql.query(`drop table ${name}`)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
