/** Partitions: made ahead, made on demand, let go whole, and never under a task that has not ended. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/store/database.ts'
import { maintainPartitions, withPartition } from '../../src/store/partitions.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { insertCatalog, insertHealthEvent, insertRound, insertTask } from './rows.ts'

const DAY = 86_400_000_000
const KEEP = { aheadDays: 7, retainDays: { round: 30, health_events: 30 } }

let test: TestDatabase
beforeEach(async () => {
  test = await testDatabase()
  await insertCatalog(test.db)
})
afterEach(() => test.drop())

async function partitions(): Promise<string[]> {
  const { rows } = await test.db.query<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent in ('round'::regclass, 'health_events'::regclass, 'round_record'::regclass) order by 1`,
  )
  return rows.map((row) => row.name)
}

async function databaseNow(): Promise<number> {
  return (await test.db.query<{ now: number }>('select clock_timestamp() as now')).rows[0]?.now ?? 0
}

function nameOf(parent: string, at: number): string {
  return `${parent}_${new Date(at / 1000).toISOString().slice(0, 10).replaceAll('-', '')}`
}

async function endTask(id: string): Promise<void> {
  await test.db.query(`update task set state = 'cancelled', ended_at = clock_timestamp() where id = $1`, [id])
}

describe('maintenance', () => {
  it('makes today’s partition and as many days ahead as asked, once', async () => {
    const first = await maintainPartitions(test.db, KEEP)
    expect(first.created).toHaveLength(3 * 8)
    expect(await partitions()).toEqual([...first.created].sort())
    expect(first.warning).toBeNull()
    expect(await maintainPartitions(test.db, KEEP)).toEqual({
      created: [],
      dropped: [],
      kept: [],
      failed: [],
      warning: null,
    })
  })

  it('gives each row the partition of its day, across midnight', async () => {
    const now = await databaseNow()
    await maintainPartitions(test.db, KEEP)
    const midnight = Math.ceil(now / DAY) * DAY
    for (const at of [midnight - 1000, midnight, midnight + DAY - 1000]) {
      const { rows } = await test.db.query<{ name: string }>(
        `insert into round (task_id, number, admitted, decider, release_id, outcome, result, dynamic, verdict, figures)
         values (time_id_floor(to_timestamp($1 / 1000000.0)), 1, true, 1, 1, 'wait', 'wait', '{}', '{}', '{}')
         returning tableoid::regclass::text as name`,
        [at],
      )
      expect(rows[0]?.name).toBe(nameOf('round', at))
    }
  })

  it('warns early when fewer than three days were ahead', async () => {
    await maintainPartitions(test.db, KEEP)
    const now = await databaseNow()
    expect((await maintainPartitions(test.db, { ...KEEP, now: now + 4 * DAY })).warning).toBeNull()
    const late = await maintainPartitions(test.db, { ...KEEP, now: now + 9 * DAY })
    expect(late.warning).toMatch(/round had 2, health_events had 2, round_record had 2/)
  })

  it('lets whole old days go, each table by its own retention', async () => {
    await maintainPartitions(test.db, KEEP)
    const now = await databaseNow()
    const task = await insertTask(test.db)
    await insertRound(test.db, task)
    await insertHealthEvent(test.db)
    await endTask(task)
    const later = { aheadDays: 0, retainDays: { round: 10, health_events: 3 } }
    const onDay3 = await maintainPartitions(test.db, { ...later, now: now + 3 * DAY })
    expect(onDay3.dropped).toEqual([])
    const onDay4 = await maintainPartitions(test.db, { ...later, now: now + 4 * DAY })
    expect(onDay4.dropped).toEqual([nameOf('health_events', now)])
    const onDay11 = await maintainPartitions(test.db, { ...later, now: now + 11 * DAY })
    expect(onDay11.dropped).toContain(nameOf('round', now))
    expect(onDay11.failed).toEqual([])
    expect(await partitions()).not.toContain(nameOf('round', now))
    const { rows } = await test.db.query('select count(*) as rounds from round')
    expect(rows).toEqual([{ rounds: 0n }])
  })

  it('never drops rounds of a task that has not ended', async () => {
    await maintainPartitions(test.db, KEEP)
    const now = await databaseNow()
    const [ended, queued] = [await insertTask(test.db), await insertTask(test.db)]
    await insertRound(test.db, queued)
    await endTask(ended)
    const later = { aheadDays: 0, retainDays: { round: 1, health_events: 1 }, now: now + 5 * DAY }
    const first = await maintainPartitions(test.db, later)
    // And their records, of that day and of later ones.
    const kept = [nameOf('round', now), nameOf('round_record', now)]
    expect(first.kept).toEqual(expect.arrayContaining(kept))
    await endTask(queued)
    const second = await maintainPartitions(test.db, later)
    expect(second.kept).toEqual([])
    expect(second.dropped).toEqual(expect.arrayContaining(kept))
  })

  it('finishes what an interrupted run had half detached, or detached and not dropped', async () => {
    await maintainPartitions(test.db, KEEP)
    const now = await databaseNow()
    const [first, second] = [nameOf('health_events', now), nameOf('health_events', now + DAY)]
    await test.db.query(`alter table health_events detach partition ${second}`)
    await interruptDetach(first)
    const work = await maintainPartitions(test.db, {
      ...KEEP,
      retainDays: { round: 60, health_events: 1 },
      now: now + 9 * DAY,
    })
    expect(work.failed).toEqual([])
    expect(work.dropped).toEqual(expect.arrayContaining([first, second]))
    const { rows } = await test.db.query('select to_regclass($1) as one, to_regclass($2) as two', [
      first,
      second,
    ])
    expect(rows).toEqual([{ one: null, two: null }])
  })

  it('runs in several processes at once', async () => {
    const works = await Promise.all([1, 2, 3].map(() => maintainPartitions(test.db, KEEP)))
    expect(works.flatMap((work) => work.created).sort()).toEqual(await partitions())
  })
})

describe('on demand', () => {
  it('makes the partition that is missing, and runs the transaction again', async () => {
    const task = await insertTask(test.db)
    const made: string[] = []
    let runs = 0
    const work = () =>
      test.db.transaction(async (tx) => {
        runs++
        await insertRound(tx, task)
        await insertHealthEvent(tx)
        return 'done'
      })
    expect(await withPartition(test.db, work, (parent) => made.push(parent))).toBe('done')
    expect({ runs, made }).toEqual({ runs: 3, made: ['round', 'health_events'] })
    const { rows } = await test.db.query(
      'select (select count(*) from round) as r, (select count(*) from health_events) as h',
    )
    expect(rows).toEqual([{ r: 1n, h: 1n }])
  })

  it('serves many at once', async () => {
    const task = await insertTask(test.db)
    const others = await Promise.all([1, 2, 3].map(() => openDatabase({ url: test.url, poolSize: 2 })))
    await Promise.all(
      others.flatMap((db, at) =>
        [1, 2].map((n) => withPartition(db, () => db.transaction((tx) => insertRound(tx, task, at * 2 + n)))),
      ),
    )
    await Promise.all(others.map((db) => db.close()))
    expect((await test.db.query('select count(*) as n from round')).rows).toEqual([{ n: 6n }])
  })

  it('makes none for an ID that is of no day near today', async () => {
    const wrong = ['ffffffff-0000-7000-8000-000000000000', '00000000-0000-7000-8000-000000000000']
    for (const id of wrong) {
      await expect(withPartition(test.db, () => insertRound(test.db, id))).rejects.toMatchObject({
        code: '23514',
      })
    }
    expect(await partitions()).toEqual([])
  })

  it('leaves the refusals of CHECK constraints alone', async () => {
    await maintainPartitions(test.db, KEEP)
    const task = await insertTask(test.db)
    let runs = 0
    const work = () => {
      runs++
      return insertRound(test.db, task, 0)
    }
    await expect(withPartition(test.db, work)).rejects.toMatchObject({
      code: '23514',
      constraint: 'round_number_check',
    })
    expect(runs).toBe(1)
  })
})

/** Leaves a partition as a process does that is killed between the two transactions of DETACH CONCURRENTLY. */
async function interruptDetach(name: string): Promise<void> {
  const reader = await openDatabase({ url: test.url, poolSize: 1 })
  const detacher = await openDatabase({ url: test.url, poolSize: 1, statementTimeout: 300 })
  await reader.transaction(async (tx) => {
    await tx.query('select count(*) from health_events')
    await expect(
      detacher.query(`alter table health_events detach partition ${name} concurrently`),
    ).rejects.toThrow()
  })
  await Promise.all([reader.close(), detacher.close()])
  const { rows } = await test.db.query(
    'select inhdetachpending as pending from pg_inherits where inhrelid = $1::regclass',
    [name],
  )
  expect(rows).toEqual([{ pending: true }])
}
