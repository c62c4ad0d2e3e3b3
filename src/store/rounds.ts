/** Stored rounds, read for explanation and for replay. */
import type { Dynamic } from '../core/frozen.ts'
import type { FiguresJson } from '../core/record.ts'
import type { Sql } from './database.ts'
import { type Recorded, readRecords } from './round-record.ts'

interface RoundFacts {
  readonly task_id: string
  readonly number: number
  readonly at: number
  readonly admitted: boolean
  readonly decider: number
  readonly release_id: bigint
  readonly outcome: 'granted' | 'reservation_failed' | 'wait' | 'rejected' | 'asked'
  readonly result: 'selected' | 'wait' | 'rejected'
  readonly reason: string | null
  readonly attempt_id: string | null
  readonly reservation: object | null
}

export interface StoredRound extends RoundFacts, Recorded {}

interface RoundRow extends RoundFacts {
  readonly record_id: string | null
  readonly place: number | null
  /** Of a round stored before there were records. */
  readonly dynamic: Dynamic | null
  readonly verdict: object | null
  readonly figures: FiguresJson | null
}

const OF_TASK = { name: 'rounds-of-task', text: 'select * from round where task_id = $1 order by number' }

export async function roundsOf(sql: Sql, taskId: string): Promise<StoredRound[]> {
  return complete(sql, (await sql.query<RoundRow>(OF_TASK, [taskId])).rows)
}

const PAGE = {
  name: 'rounds-page',
  text: `select * from round where (task_id, number) > ($1::uuid, $2) and task_id >= time_id_floor($3::timestamptz)
    order by task_id, number limit $4`,
}

/** All rounds of tasks created at or after `since` (RFC 3339), in order, a page at a time. */
export async function* allRounds(sql: Sql, since: string, pageSize = 500): AsyncGenerator<StoredRound> {
  let after: { task_id: string; number: number } = {
    task_id: '00000000-0000-0000-0000-000000000000',
    number: 0,
  }
  for (;;) {
    const { rows } = await sql.query<RoundRow>(PAGE, [after.task_id, after.number, since, pageSize])
    yield* await complete(sql, rows)
    const last = rows.at(-1)
    if (!last || rows.length < pageSize) return
    after = last
  }
}

async function complete(sql: Sql, rows: readonly RoundRow[]): Promise<StoredRound[]> {
  const ids = [...new Set(rows.flatMap((row) => row.record_id ?? []))]
  const records = await readRecords(sql, ids)
  return rows.map(({ record_id, place, dynamic, verdict, figures, ...facts }) => {
    const recorded =
      record_id === null || place === null
        ? dynamic && verdict && figures && { dynamic, verdict, figures }
        : records.get(record_id)?.[place]
    if (!recorded) throw new Error(`round ${facts.number} of task ${facts.task_id} has lost its record`)
    return { ...facts, ...recorded }
  })
}
