/** What the tests of runtime read of a system: rows as they are stored, and what the simulator says that it received. */
import { toVideo } from '../../src/api/public/video-object.ts'
import type { Engine } from '../../src/runtime/engine.ts'
import { findTask } from '../../src/store/api-reads.ts'
import { rowsOf, type System, until, videoRequest } from '../system/kit.ts'

export interface AttemptFacts extends Record<string, unknown> {
  readonly id: string
  readonly number: number | null
  readonly state: string
  readonly fence: bigint
  readonly supply_id: string
  readonly channel_id: string
  readonly category: string | null
  readonly scope: string | null
  readonly retryable: boolean | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly cost_micros: bigint
  readonly quote_micros: bigint
  readonly polls: number
  readonly provider_task_id: string | null
  readonly lease_held: boolean
}

export interface TaskFacts extends Record<string, unknown> {
  readonly id: string
  readonly state: string
  readonly attempts: number
  readonly error_code: string | null
  readonly error_message: string | null
}

/** Of one task in the order of their rounds, or of all. */
export function attemptsOf(system: System, taskId: string | null = null): Promise<AttemptFacts[]> {
  return rowsOf<AttemptFacts>(
    system.db,
    `select a.*, l.attempt_id is not null and l.released_at is null as lease_held
      from attempt a left join capacity_lease l on l.attempt_id = a.id
      where $1::uuid is null or a.task_id = $1 order by a.round, a.id`,
    [taskId],
  )
}

export async function taskOf(system: System, taskId: string): Promise<TaskFacts> {
  const [task] = await rowsOf<TaskFacts>(system.db, 'select * from task where id = $1::uuid', [taskId])
  if (!task) throw new Error(`there is no task ${taskId}`)
  return task
}

export async function admitted(
  system: System,
  door: Engine,
  more: Parameters<typeof videoRequest>[1] = {},
): Promise<string> {
  const answer = await door.admitVideo(videoRequest(system.customer, more))
  if (answer.kind !== 'admitted') throw new Error(`not admitted: ${JSON.stringify(answer)}`)
  return answer.taskId
}

/** Wait until the newest attempt of the task has this state. */
export function attemptIn(system: System, taskId: string, state: string): Promise<AttemptFacts> {
  return until(`an attempt in ${state}`, async () => {
    const attempt = (await attemptsOf(system, taskId)).at(-1)
    return attempt?.state === state && attempt
  })
}

export function ended(system: System, taskId: string): Promise<TaskFacts> {
  return until('the task to end', async () => {
    const task = await taskOf(system, taskId)
    return task.state !== 'queued' && task.state !== 'running' && task
  })
}

/** Codes of the open alerts, in alphabetical order. */
export async function alertCodes(system: System): Promise<string[]> {
  const rows = await rowsOf<{ code: string }>(
    system.db,
    'select distinct code from alert where resolved_at is null order by code',
  )
  return rows.map((row) => row.code)
}

export interface LevelFacts extends Record<string, unknown> {
  readonly state: string
  readonly epoch: bigint
  readonly recovery_successes: number
  readonly counters: Record<string, unknown>
  readonly held: boolean
}

export async function healthOf(system: System, level: 'channel' | 'supply', id: string): Promise<LevelFacts> {
  const text =
    level === 'channel'
      ? `select *, coalesce(not_before > clock_timestamp(), false) as held from channel_health where channel_id = $1`
      : `select *, coalesce(not_before > clock_timestamp(), false) as held from supply_health where supply_id = $1`
  const [row] = await rowsOf<LevelFacts>(system.db, text, [id])
  if (!row) throw new Error(`${level} ${id} has no health`)
  return row
}

export function eventsOf(system: System, id: string) {
  return rowsOf<{
    level: string
    kind: string
    from_state: string
    to_state: string
    recovery_successes: number
    applied: boolean
    attempt_id: string | null
  }>(
    system.db,
    `select level, kind, from_state, to_state, recovery_successes, applied, attempt_id
      from health_events where level_id = $1 order by at`,
    [id],
  )
}

interface Ledger {
  readonly posts: number
  readonly accepted: number
  readonly request: Record<string, unknown>
}

/** What the simulator says of this attempt: how often it was posted, and what was in it. */
export async function ledgerOf(system: System, attemptId: string): Promise<Ledger> {
  return (await system.control('GET', `/ledger/${attemptId}`)) as Ledger
}

/** Of all attempts. */
export async function ledger(system: System): Promise<{ posts: number; accepted: number }> {
  return (await system.control('GET', '/ledger')) as { posts: number; accepted: number }
}

export function fault(system: System, rule: { on: string } & Record<string, unknown>): Promise<unknown> {
  return system.control('POST', '/faults', rule)
}

/** The task as its customer is shown it, as text. */
export async function customerSees(system: System, taskId: string): Promise<string> {
  const which = { taskId, customerId: system.customer.customerId, kind: 'video' } as const
  const view = await findTask(system.db, which)
  if (!view) throw new Error(`the customer has no task ${taskId}`)
  return JSON.stringify(toVideo(view))
}

/** Open the circuits of all supplies but these, for an hour. */
export async function leaveOnly(system: System, supplies: readonly string[]): Promise<void> {
  await rowsOf(
    system.db,
    `update supply_health set state = 'circuit_open', recovery_successes = 0,
      open_until = clock_timestamp() + interval '1 hour' where not supply_id = any($1::text[])`,
    [supplies],
  )
}
