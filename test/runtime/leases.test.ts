import { afterEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/store/database.ts'
import { allRounds } from '../../src/store/rounds.ts'
import { commitProxy } from '../store/commit-proxy.ts'
import { audit } from '../system/audit.ts'
import { IMAGE, imageRequest, rowsOf, type System, startSystem, until, videoRequest } from '../system/kit.ts'
import { attemptsOf } from './facts.ts'

let system: System
const opened: { close(): Promise<void> }[] = []
afterEach(async () => {
  await system.stop()
  for (const db of opened.splice(0)) await db.close()
})

const live = () =>
  rowsOf<{ supply_id: string; n: number }>(
    system.db,
    `select supply_id, count(*)::int as n from capacity_lease where released_at is null group by 1 order by 1`,
  )

describe('granting leases', () => {
  it('ORD-13, STR-7, STR-8: many dispatchers at once never go over a limit, and no task is granted twice', async () => {
    // Nine slots on the channel, for supplies of 8 and 3: the channel's own limit is the smaller one.
    system = await startSystem({
      simulator: { defaults: { duration_ms: 60_000 } },
      catalog: (text) => text.replace('concurrency: 20', 'concurrency: 9'),
    })
    const door = system.engine({ roles: ['api'] })
    for (let n = 0; n < 40; n += 1) await door.admitVideo(videoRequest(system.customer))
    const engines = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const db = await openDatabase({ url: system.url, poolSize: 3 })
        opened.push(db)
        const engine = system.engine({ roles: ['api'], db })
        await engine.start()
        return engine
      }),
    )
    for (let n = 0; n < 4; n += 1) await Promise.all(engines.map((engine) => engine.dispatchOnce()))
    const held = await live()
    const of = (id: string) => held.find((row) => row.supply_id === id)?.n ?? 0
    expect(of('seedance-north')).toBe(5)
    expect(of('seedance-south') + of('seedance-south-priority')).toBe(9)
    expect(of('seedance-south')).toBeLessThanOrEqual(8)
    expect(of('seedance-south-priority')).toBeLessThanOrEqual(3)
    const attempts = await rowsOf<{ n: number }>(
      system.db,
      `select count(distinct task_id)::int as n from attempt where state <> 'abandoned'`,
    )
    expect(attempts).toEqual([{ n: 14 }])
    expect(await audit(system)).toEqual([])
    expect(system.faults).toEqual([])
  })

  it('ORD-13: decisions of one batch see the grants made before them', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const engine = system.engine({ roles: ['api'] })
    await engine.start()
    for (let n = 0; n < 16; n += 1) await engine.admitVideo(videoRequest(system.customer))
    await engine.dispatchOnce()
    const supplies = new Map((await attemptsOf(system)).map((attempt) => [attempt.id, attempt.supply_id]))
    const rounds: { supply: string | undefined; seen: number | undefined }[] = []
    for await (const { attempt_id, dynamic } of allRounds(system.db, '1970-01-01')) {
      const supply = supplies.get(attempt_id ?? '')
      if (supply !== undefined) rounds.push({ supply, seen: dynamic.supplies[supply]?.u })
    }
    expect(rounds).toHaveLength(16)
    for (const supply of ['seedance-north', 'seedance-south', 'seedance-south-priority']) {
      const seen = rounds.filter((round) => round.supply === supply).map((round) => round.seen)
      expect(seen).toEqual(seen.map((_, at) => at))
    }
  })

  it('ORD-14: a reservation that fails keeps its round, and a new round follows', async () => {
    system = await startSystem()
    const { db, customer } = system
    const door = system.engine({ roles: ['api'] })
    await door.admitVideo(videoRequest(customer))
    let first = true
    // An operator switches the cheapest supply off between the decision and the lock, once.
    const hurried = system.engine({
      roles: ['api'],
      db: {
        query: (statement, values) => db.query(statement, values),
        transaction: async (body, options) => {
          if (first && (await rowsOf(db, 'select * from process')).length > 0) {
            first = false
            await db.query(`update supply set admin_state = 'disabled' where id = 'seedance-south'`)
          }
          return db.transaction(body, options)
        },
        close: async () => {},
      },
    })
    await hurried.start()
    first = true
    await db.query(`update supply set admin_state = 'enabled' where id = 'seedance-south'`)
    expect(await hurried.dispatchOnce()).toBe(true)
    await hurried.dispatchOnce()
    const rounds = await rowsOf(
      db,
      `select number, outcome, reason, reservation->'lacking'->0->>'why' as why, reservation->'lacking'->0->>'id' as level from round order by number`,
    )
    expect(rounds).toEqual([
      {
        number: 1,
        outcome: 'reservation_failed',
        reason: 'seedance-933-south',
        why: 'switched_off',
        level: 'seedance-south',
      },
      { number: 2, outcome: 'granted', reason: 'seedance-933-north', why: null, level: null },
    ])
  })

  it.each(['after the answer', 'at once', 'before'] as const)(
    'UNK-6, ORD-13: a grant whose commit was cut off (%s) is read back: nothing doubled, nothing lost',
    async (cut) => {
      system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
      const proxy = await commitProxy(system.url)
      const db = await openDatabase({ url: proxy.url, poolSize: 3 })
      opened.push(db, proxy)
      const engine = system.engine({ roles: ['api'], db })
      await engine.start()
      for (let n = 0; n < 4; n += 1)
        await system.engine({ roles: ['api'] }).admitVideo(videoRequest(system.customer))
      proxy.cutNext(cut)
      while (await engine.dispatchOnce());
      await until(
        'four accepted jobs',
        async () => (await rowsOf(system.db, `select 1 from attempt where state = 'accepted'`)).length === 4,
      )
      expect(await rowsOf(system.db, 'select 1 from attempt')).toHaveLength(4)
      expect(await rowsOf(system.db, `select 1 from round where outcome = 'granted'`)).toHaveLength(4)
      expect(await system.control('GET', '/ledger')).toMatchObject({ posts: 4, accepted: 4 })
      expect(await audit(system)).toEqual([])
    },
  )

  it('HLT-13: video and image load the same health, and each applies the effective limits of channel and supply', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const { db, customer } = system
    const engine = system.engine({ roles: ['api'] })
    await engine.start()
    // No acceptance may climb a rung meanwhile: creates are answered when all has been looked at.
    await system.control('POST', '/faults', [
      { on: 'create', times: 'forever', fault: { kind: 'delay', ms: 5000 } },
    ])
    // The channel that serves both is being tried out: one attempt of its epoch in all.
    await db.query(`update channel_health set state = 'probing', epoch = 1 where channel_id = 'ark-north'`)
    await db.query(
      `update supply set admin_state = 'disabled' where id in ('seedance-south', 'seedance-south-priority', 'seedance-relay', 'seedance-mini-south', 'seedream-relay')`,
    )
    for (let n = 0; n < 3; n += 1) await engine.admitVideo(videoRequest(customer))
    await engine.dispatchOnce()
    expect(await live()).toEqual([{ supply_id: 'seedance-north', n: 1 }])
    const answer = await engine.runImage(imageRequest(customer, { facts: IMAGE }))
    expect(answer).toMatchObject({ kind: 'wait', reason: 'capacity' })
    await db.query(
      `update channel_health set state = 'recovering', recovery_successes = 2 where channel_id = 'ark-north'`,
    )
    await engine.dispatchOnce()
    // A quarter of 12 is 3.
    expect(await live()).toEqual([{ supply_id: 'seedance-north', n: 3 }])
    expect(await engine.runImage(imageRequest(customer, { facts: IMAGE }))).toMatchObject({ kind: 'wait' })
  })

  it('IN-3: a change affects later attempts only: one in flight keeps its price, its release and its credential', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 1500 } } })
    const { db, customer } = system
    const engine = system.engine({ scanMs: 200 })
    await engine.start()
    const first = await engine.admitVideo(videoRequest(customer))
    if (first.kind !== 'admitted') throw new Error('not admitted')
    const accepted = () =>
      rowsOf<{ state: string }>(db, `select state from attempt where task_id = $1 and state = 'accepted'`, [
        first.taskId,
      ])
    await until('the first to be accepted', async () => (await accepted()).length === 1)
    const before = await rowsOf(
      db,
      `select quote_micros, price_list_version_id, release_id, credential_id from attempt where task_id = $1`,
      [first.taskId],
    )
    await system.applyText(system.demo.replace('price: 0.95', 'price: 0.97'), {
      SIMULATOR_KEY: 'sk-another-secret',
    })
    const second = await engine.admitVideo(videoRequest(customer))
    if (second.kind !== 'admitted') throw new Error('not admitted')
    const ended = (id: string) =>
      until(
        'the end',
        async () =>
          (await rowsOf(db, `select 1 from task where id = $1 and state = 'succeeded'`, [id])).length === 1,
      )
    await ended(first.taskId)
    await ended(second.taskId)
    expect(
      await rowsOf(
        db,
        `select quote_micros, price_list_version_id, release_id, credential_id from attempt where task_id = $1`,
        [first.taskId],
      ),
    ).toEqual(before)
    const [old] = before
    const [late] = await rowsOf(db, `select quote_micros, credential_id from attempt where task_id = $1`, [
      second.taskId,
    ])
    expect(late?.quote_micros).toBe(4_850_000n)
    expect(old?.quote_micros).toBe(4_750_000n)
    expect(late?.credential_id).not.toBe(old?.credential_id)
  })
})
