/** The running programs: one row for each, kept alive by heartbeats. Claims of a process that is not alive are taken over (UNK-6). */
import type { Instant } from '../core/time.ts'
import type { Sql } from './database.ts'

export interface NewProcess {
  /** A UUID, new for each run of the program. */
  readonly id: string
  readonly roles: readonly string[]
  readonly host: string
  readonly pid: number
  readonly version: string
}

export interface ProcessRow {
  readonly id: string
  readonly roles: string[]
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly started_at: Instant
  readonly alive_until: Instant
  readonly stopped_at: Instant | null
}

const REGISTER = {
  name: 'register-process',
  text: `insert into process (id, roles, host, pid, version, alive_until)
    values ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6))`,
}
const HEARTBEAT = {
  name: 'heartbeat',
  text: `with before as (select id, alive_until from process where id = $1 and stopped_at is null for update)
    update process p set alive_until = clock_timestamp() + make_interval(secs => $2)
    from before where p.id = before.id
    returning before.alive_until > clock_timestamp() as was_alive`,
}
const STOP = {
  name: 'stop-process',
  text: `update process set stopped_at = clock_timestamp(), alive_until = least(alive_until, clock_timestamp())
    where id = $1 and stopped_at is null`,
}
const ALIVE = {
  name: 'processes-alive',
  text: `select id, roles, host, pid, version, started_at, alive_until, stopped_at from process
    where alive_until > clock_timestamp() and stopped_at is null order by started_at, id`,
}
const FORGET = {
  name: 'forget-processes',
  text: `delete from process where alive_until < clock_timestamp() - make_interval(days => $1)`,
}

/** From now on its claims are good, for `seconds` after each heartbeat. */
export async function registerProcess(sql: Sql, process: NewProcess, seconds: number): Promise<void> {
  const { id, roles, host, pid, version } = process
  await sql.query(REGISTER, [id, [...roles], host, pid, version, seconds])
}

/**
 * `alive`; `lapsed`: it comes too late, so that others may have taken over what this process had claimed; `unknown`: no
 * such process is registered, or it has stopped.
 */
export async function heartbeat(
  sql: Sql,
  id: string,
  seconds: number,
): Promise<'alive' | 'lapsed' | 'unknown'> {
  const { rows } = await sql.query<{ was_alive: boolean }>(HEARTBEAT, [id, seconds])
  const [row] = rows
  if (!row) return 'unknown'
  return row.was_alive ? 'alive' : 'lapsed'
}

/** What it still claims can be taken over at once. */
export async function stopProcess(sql: Sql, id: string): Promise<void> {
  await sql.query(STOP, [id])
}

/** The oldest first. */
export async function aliveProcesses(sql: Sql): Promise<ProcessRow[]> {
  return (await sql.query<ProcessRow>(ALIVE)).rows
}

/** Removes rows of processes that have been gone for that many days; answers how many. */
export async function forgetProcesses(sql: Sql, days: number): Promise<number> {
  return (await sql.query(FORGET, [days])).rowCount
}
