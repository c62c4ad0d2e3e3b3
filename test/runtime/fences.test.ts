import { afterEach, describe, expect, it } from 'vitest'
import { TIMING_DEFAULTS } from '../../src/runtime/timing.ts'
import { openDatabase } from '../../src/store/database.ts'
import { IMAGE, imageRequest, rowsOf, type System, startSystem, until, VIDEO } from '../system/kit.ts'
import { admitted, attemptIn, attemptsOf, fault, ledger, taskOf } from './facts.ts'

let system: System
afterEach(() => system.stop())

async function registered() {
  const engine = system.engine({ roles: ['api'] })
  await engine.start()
  return engine
}

describe('every write matches fence and state', () => {
  it('ORD-13: a grant waits for the lock of its level, and counts what was committed before it', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const engine = await registered()
    const id = await admitted(system, engine)
    const other = await openDatabase({ url: system.url, poolSize: 1 })
    let dispatched: Promise<boolean> = Promise.resolve(false)
    // Another session holds the lock of the cheapest supply while the dispatcher comes to it.
    await other.transaction(async (tx) => {
      await tx.query(`select 1 from supply_health where supply_id = 'seedance-south' for update`)
      dispatched = engine.dispatchOnce()
      await until('the grant to wait for the lock', async () => {
        const waiting = await rowsOf(
          system.db,
          `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        return waiting.length > 0
      })
      await tx.query(`update supply set concurrency = 1 where id = 'seedance-south'`)
      await tx.query(`update supply set admin_state = 'disabled' where id = 'seedance-south'`)
    })
    expect(await dispatched).toBe(true)
    await other.close()
    expect(await rowsOf(system.db, 'select outcome from round where task_id = $1', [id])).toEqual([
      { outcome: 'reservation_failed' },
    ])
    expect(await attemptsOf(system, id)).toEqual([])
  })

  it('UNK-6, WAKE-1: news under an old fence changes nothing', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const engine = await registered()
    const id = await admitted(system, engine)
    await engine.dispatchOnce()
    const attempt = await attemptIn(system, id, 'accepted')
    const news = { kind: 'job_cancelled' } as const
    expect(await engine.settle.apply(attempt.id, attempt.fence - 1n, news)).toEqual({ kind: 'stale' })
    expect(await attemptsOf(system, id)).toEqual([attempt])
    expect((await engine.settle.apply(attempt.id, attempt.fence, news)).kind).toBe('ended')
    // And what has ended stays ended, whatever comes under its own fence.
    expect(await engine.settle.apply(attempt.id, attempt.fence, { kind: 'timed_out' })).toEqual({
      kind: 'stale',
    })
  })

  it('UNK-7: a request that was stopped before its first byte was no attempt', async () => {
    system = await startSystem()
    const engine = await registered()
    await fault(system, { on: 'create', fault: { kind: 'delay', ms: 3000 } })
    const id = await admitted(system, engine)
    await engine.dispatchOnce()
    const attempt = await attemptIn(system, id, 'submitting')
    expect(await taskOf(system, id)).toMatchObject({ attempts: 1, state: 'running' })
    expect(await engine.settle.apply(attempt.id, attempt.fence, { kind: 'not_started' })).toEqual({
      kind: 'retry',
      delayMs: 0,
    })
    expect(await taskOf(system, id)).toMatchObject({ attempts: 0, state: 'queued', turn: 1 })
    expect(await attemptsOf(system, id)).toMatchObject([
      { state: 'abandoned', number: null, lease_held: false },
    ])
  })

  it('UNK-6: what was seen as reserved, and has been begun since, is not given back', async () => {
    system = await startSystem()
    const engine = await registered()
    await fault(system, { on: 'create', fault: { kind: 'delay', ms: 3000 } })
    const id = await admitted(system, engine)
    await engine.dispatchOnce()
    const attempt = await attemptIn(system, id, 'submitting')
    expect(await engine.settle.apply(attempt.id, attempt.fence, { kind: 'not_begun' })).toEqual({
      kind: 'stale',
    })
    expect(await attemptsOf(system, id)).toMatchObject([{ state: 'submitting', lease_held: true }])
  })

  it('UNK-6: a claim that lapsed after it said submitting sends nothing, though the process has a new one', async () => {
    system = await startSystem()
    const { db } = system
    let transactions = Number.NEGATIVE_INFINITY
    const beaten = async (after: number): Promise<number | null> => {
      const text = `select max(extract(epoch from alive_until - clock_timestamp()))::float8 as left, max(extract(epoch from alive_until))::float8 as at from process`
      const [row] = await rowsOf<{ left: number; at: number }>(db, text)
      return row && row.left > 0 && row.at > after ? row.at : null
    }
    const paused = system.engine({
      roles: ['api'],
      timing: { ...TIMING_DEFAULTS, claimSeconds: 5 },
      db: {
        query: (statement, values) => db.query(statement, values),
        transaction: async (body, options) => {
          const number = ++transactions
          const value = await db.transaction(body, options)
          if (number !== 2) return value
          // It sleeps past its claim here, and has beaten again before it goes on.
          await db.query(`update process set alive_until = clock_timestamp() - interval '1 second'`)
          let at = 0
          // The second one is sent once the answer of the first has been heard.
          for (const which of ['first', 'second'])
            await until(`the ${which} heartbeat`, async () => {
              const seen = await beaten(at)
              at = seen ?? at
              return seen !== null
            })
          return value
        },
        close: async () => {},
      },
    })
    await paused.start()
    const id = await admitted(system, paused)
    transactions = 0
    await paused.dispatchOnce()
    await attemptIn(system, id, 'abandoned')
    expect((await ledger(system)).posts).toBe(0)
    await paused.stop()
  })

  it('UNK-6: a process that was taken for dead before it said submitting sends nothing', async () => {
    system = await startSystem()
    const { db } = system
    const healthy = await registered()
    let transactions = 0
    const stalled = system.engine({
      roles: ['api'],
      db: {
        query: (statement, values) => db.query(statement, values),
        transaction: async (body, options) => {
          transactions += 1
          // The first grants; before the second, which says submitting, a reconciler has given the attempt back.
          if (transactions === 2) {
            const [attempt] = await attemptsOf(system)
            if (attempt?.state === 'reserved')
              await healthy.settle.apply(attempt.id, attempt.fence, { kind: 'not_begun' })
          }
          return db.transaction(body, options)
        },
        close: async () => {},
      },
    })
    await stalled.start()
    const id = await admitted(system, healthy)
    transactions = 0
    await stalled.dispatchOnce()
    await until('the second transaction', async () => transactions >= 2)
    await stalled.stop()
    expect(await attemptsOf(system, id)).toMatchObject([{ state: 'abandoned' }])
    expect(await taskOf(system, id)).toMatchObject({ state: 'queued', attempts: 0 })
    expect((await ledger(system)).posts).toBe(0)
  })

  it('UNK-7, CUS-2: an image whose outcome is unknown has ended for its customer, with its possible cost', async () => {
    system = await startSystem()
    const engine = await registered()
    await fault(system, { on: 'image', fault: { kind: 'accept_then_drop' } })
    const answer = await engine.runImage(imageRequest(system.customer, { facts: IMAGE }))
    expect(answer).toMatchObject({ kind: 'failed', code: 'submission_unresolved', submitted: true })
    const [attempt] = await attemptsOf(system)
    expect(attempt).toMatchObject({ state: 'submission_uncertain', lease_held: true })
    const rows = await rowsOf(
      system.db,
      `select t.state, t.error_code, u.result, u.cost_micros from task t join usage_record u on u.task_id = t.id`,
    )
    expect(rows).toEqual([
      {
        state: 'failed',
        error_code: 'submission_unresolved',
        result: 'failed',
        cost_micros: attempt?.quote_micros,
      },
    ])
  })

  it('STR-12: beyond a lane that goes on behind its page nothing of its model is granted, so that older tasks come first', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const { db } = system
    const engine = await registered()
    const older: string[] = []
    for (let n = 0; n < 12; n += 1) older.push(await admitted(system, engine))
    for (let n = 0; n < 12; n += 1)
      await admitted(system, engine, { facts: { ...VIDEO, durationSeconds: 6 } })
    // So many lanes that the scan brings only a few tasks of each.
    await db.query(`insert into task (kind, customer_id, api_key_id, model_id, release_id, state, lane, facts)
      select 'video', customer_id, api_key_id, model_id, release_id, 'queued', 'lane ' || n, facts
      from (select * from task order by id limit 1) t, generate_series(1, 200) n`)
    await db.query(
      `update supply set admin_state = case when id = 'seedance-north' then 'enabled' else 'disabled' end, concurrency = 10 where media = 'video'`,
    )
    await db.query(`update supply_health set not_before = clock_timestamp() + interval '1 hour'`)
    await engine.dispatchOnce()
    await db.query(`update supply_health set not_before = null`)
    while (await engine.dispatchOnce());
    const granted = await rowsOf<{ task_id: string }>(
      db,
      `select task_id from attempt where state <> 'abandoned' order by task_id`,
    )
    expect(granted.map((row) => row.task_id)).toEqual(older.slice(0, 10))
  })
})
