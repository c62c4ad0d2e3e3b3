/**
 * The outbox of wake-ups (WAKE-3). A hint is a row of the transaction that makes work possible, so that a transaction that
 * is rolled back wakes nobody; NOTIFY follows in a transaction of its own, since within the task's it would make all commits
 * wait for each other. Nothing rests on it: the scan of a second finds the same (WAKE-1, WAKE-2).
 */
import type { Sql } from './database.ts'

/** The channel of LISTEN and NOTIFY; PostgreSQL keeps those of its databases apart. */
export const WAKE_CHANNEL = 'yardmaster_wake'

/** What one process tells the others: that it is there, or that something may have become possible. */
export interface Told {
  readonly kind: 'here' | 'work'
  /** The process that tells it. */
  readonly from: string
}

export function toldText(told: Told): string {
  return `${told.kind} ${told.from}`
}

/** Undefined: another program's, or a newer one's. */
export function parseTold(text: string): Told | undefined {
  const [kind, from] = text.split(' ')
  if ((kind !== 'here' && kind !== 'work') || from === undefined) return undefined
  return { kind, from }
}

const BESIDE = {
  name: 'dispatchers-beside',
  text: `select exists (select from process where id <> $1 and 'dispatch' = any(roles) and stopped_at is null
      and alive_until > clock_timestamp()) as found`,
}

/** Whether another process that dispatches is alive. */
export async function dispatchersBeside(sql: Sql, process: string): Promise<boolean> {
  const { rows } = await sql.query<{ found: boolean }>(BESIDE, [process])
  return rows[0]?.found ?? false
}

// What is taken is told only where a model waits that it can serve: one walk over the heads of the lanes, as the scan does
// it, instead of a scan by every process. What is queued later has a hint of its own. A hint that a crash of the server
// brings back does no harm, so that its commit need not wait for the disk.
const TELL = `
    lane as (
      (select turn, lane, model_id from task where state = 'queued' and kind = 'video' order by turn, lane limit 1)
      union all
      select next.turn, next.lane, next.model_id from lane, lateral (
        select turn, lane, model_id from task where state = 'queued' and kind = 'video' and (turn, lane) > (lane.turn, lane.lane)
        order by turn, lane limit 1) next),
    aim as (select distinct channel_id, model_id from taken),
    served as (
      select 1 from lane where exists (select from aim where aim.model_id = lane.model_id)
        or exists (select from binding b join supply s on s.id = b.supply_id join aim on aim.channel_id = s.channel_id
          where b.model_id = lane.model_id)
      limit 1)
    select (select count(*)::int from taken) as taken, set_config('synchronous_commit', 'off', true),
      case when exists (select from served) then pg_notify($2, $3)::text end is not null as told`

const FLUSH = {
  name: 'flush-wake-hints',
  text: `with recursive taken as (
      delete from wake_hint where (writer, id) in (
        select writer, id from wake_hint where writer = $1 order by id limit 1000 for update skip locked)
      returning channel_id, model_id),${TELL}`,
}

const SWEEP = {
  name: 'sweep-wake-hints',
  text: `with recursive taken as (
      delete from wake_hint where (writer, id) in (
        select writer, id from wake_hint where created_at < clock_timestamp() - make_interval(secs => $1)
        order by writer, id limit 1000 for update skip locked)
      returning channel_id, model_id),${TELL}`,
}

export interface Taken {
  /** Hints that are gone from the outbox now. */
  readonly taken: number
  /** Whether the others were woken: not where nothing waits that could be served. */
  readonly told: boolean
}

/** How many hints one call takes at most. */
export const MOST_HINTS = 1000

/** Take out what this process wrote, and wake the others. One statement, and so a transaction of its own. */
export function flushHints(db: Sql, process: string): Promise<Taken> {
  return tell(db, FLUSH, [process, WAKE_CHANNEL, toldText({ kind: 'work', from: process })])
}

/** The same for what nobody has told within `seconds`: its writer died, or could not. */
export function sweepHints(db: Sql, process: string, seconds: number): Promise<Taken> {
  return tell(db, SWEEP, [seconds, WAKE_CHANNEL, toldText({ kind: 'work', from: process })])
}

async function tell(db: Sql, statement: typeof FLUSH, values: readonly unknown[]): Promise<Taken> {
  const [row] = (await db.query<{ taken: number; told: boolean }>(statement, values)).rows
  if (!row) throw new Error('the outbox of wake-ups gave no row')
  return { taken: row.taken, told: row.told }
}
