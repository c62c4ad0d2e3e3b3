import { afterEach, describe, expect, it } from 'vitest'
import { rowsOf, type System, startSystem, until, VIDEO, videoRequest } from '../system/kit.ts'
import { withSecondModel } from './second-model.ts'

let system: System
afterEach(() => system.stop())

const granted = () =>
  rowsOf<{ task_id: string; supply_id: string }>(
    system.db,
    `select task_id, supply_id from attempt where state <> 'abandoned' order by task_id`,
  )

async function queued(facts: Partial<typeof VIDEO> = {}, modelId = 'seedance-2.0-933'): Promise<string> {
  const door = system.engine({ roles: ['api'] })
  const answer = await door.admitVideo(
    videoRequest(system.customer, { modelId, facts: { ...VIDEO, ...facts } }),
  )
  if (answer.kind !== 'admitted') throw new Error(JSON.stringify(answer))
  return answer.taskId
}

async function scanner() {
  const engine = system.engine({ roles: ['api'] })
  await engine.start()
  return engine
}

const only = (supply: string, concurrency: number) =>
  system.db.query(
    `update supply set admin_state = case when id = '${supply}' then 'enabled' else 'disabled' end, concurrency = case when id = '${supply}' then ${concurrency} else concurrency end where media = 'video'`,
  )

describe('the order of waiting tasks', () => {
  it('STR-12: first come, first served within a model, also across requests of different shapes', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    await only('seedance-north', 7)
    // Two lanes, interleaved, each longer than a page of the scan could be for many lanes.
    const order: string[] = []
    for (let n = 0; n < 12; n += 1) order.push(await queued({ durationSeconds: n % 2 === 0 ? 5 : 6 }))
    await (await scanner()).dispatchOnce()
    expect((await granted()).map((row) => row.task_id)).toEqual(order.slice(0, 7))
  })

  it('STR-12: a task that cannot be served now never holds back one behind it that can', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const stuck = await queued({ realPerson: true })
    const behind = await queued()
    await only('seedance-north', 5)
    // With a real person, a supply that takes none is out.
    await system.db.query(`update supply set real_person = 'denied' where id = 'seedance-north'`)
    await (await scanner()).dispatchOnce()
    expect((await granted()).map((row) => row.task_id)).toEqual([behind])
    expect(await rowsOf(system.db, 'select wait_reason from task where id = $1', [stuck])).toEqual([
      { wait_reason: 'disabled' },
    ])
  })

  it('STR-12: tasks on their second attempt go first', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    await only('seedance-north', 1)
    const older = await queued()
    const retried = await queued()
    await system.db.query(`update task set turn = 0, lane = 'retried' where id = '${retried}'`)
    await (await scanner()).dispatchOnce()
    expect((await granted()).map((row) => row.task_id)).toEqual([retried])
    expect((await rowsOf(system.db, 'select state from task where id = $1', [older]))[0]?.state).toBe(
      'queued',
    )
  })

  it('WAKE-4: twenty thousand tasks of a saturated model delay no task of another, and are not read', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } }, catalog: withSecondModel })
    const { db } = system
    await db.query(
      `update supply set admin_state = 'disabled' where media = 'video' and id <> 'seedance-relay'`,
    )
    await queued()
    await db.query(`insert into task (kind, customer_id, api_key_id, model_id, release_id, state, lane, facts)
      select 'video', customer_id, api_key_id, model_id, release_id, 'queued', lane, facts from task, generate_series(1, 20000)`)
    await db.query('analyze task')
    await db.query(`update channel set admin_state = 'disabled' where id = 'relay'`)
    const engine = await scanner()
    await engine.dispatchOnce()
    expect(await granted()).toEqual([])
    await db.query(`update channel set admin_state = 'enabled' where id = 'relay'`)
    await db.query(`update binding set enabled = false where model_id = 'seedance-2.0-933'`)
    const other = await queued({}, 'another-model')
    await engine.dispatchOnce()
    expect(await granted()).toMatchObject([{ task_id: other }])
    // One head of the long lane was evaluated at each scan, and its verdict stored when it changed (ORD-18).
    const [rounds] = await rowsOf<{ n: number }>(
      db,
      `select count(distinct task_id)::int as n from round where outcome = 'wait'`,
    )
    expect(rounds?.n).toBe(1)
  })

  it('WAKE-4: the scan reads the queue by its index alone, however long it is', async () => {
    system = await startSystem()
    const { db } = system
    const { SCAN } = await import('../../src/store/tasks.ts')
    const plan = async () => {
      const { rows } = await db.query<{ 'QUERY PLAN': string }>(`explain ${SCAN.text.replace('$1', '32')}`)
      return rows.map((row) => row['QUERY PLAN']).join('\n')
    }
    await queued()
    for (const count of [0, 1000, 20_000]) {
      await db.query(`insert into task (kind, customer_id, api_key_id, model_id, release_id, state, lane, facts)
        select 'video', customer_id, api_key_id, model_id, release_id, 'queued', lane, facts from (select * from task limit 1) t, generate_series(1, ${count})`)
      await db.query('analyze task')
      if (count === 0) continue
      expect(await plan()).not.toMatch(/Seq Scan on task/)
      expect(await plan()).toMatch(/using task_queue on task t\b/)
    }
  })

  it('WAKE-1, WAKE-2: without any hint a freed slot is taken by the next scan, also after a restart', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const { db } = system
    await only('seedance-north', 1)
    const first = await queued()
    const second = await queued()
    const engine = system.engine({ roles: ['dispatch'] })
    await engine.start()
    await until('the first to be granted', async () => (await granted()).length === 1)
    await engine.stop()
    // Another process takes over; the lease is released behind its back.
    await system.engine({ roles: ['dispatch'] }).start()
    await db.query(`update capacity_lease set released_at = clock_timestamp(), released_why = 'test'`)
    await until(
      'the second to be granted',
      async () => (await granted()).some((row) => row.task_id === second),
      10,
    )
    expect((await granted()).map((row) => row.task_id)).toEqual([first, second])
    await db.query(
      `update capacity_lease set released_at = null, released_why = null where attempt_id in (select id from attempt where task_id = '${first}')`,
    )
  })
})

describe('rounds of tasks that wait', () => {
  it('ORD-18: a round only when the verdict changes, and at most one every ten seconds', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const { db } = system
    const id = await queued()
    const behind = await queued()
    await only('seedance-north', 5)
    await db.query(`update supply set admin_state = 'disabled'`)
    const engine = await scanner()
    const rounds = () =>
      rowsOf<{ reason: string }>(db, 'select reason from round where task_id = $1 order by number', [id])
    await engine.dispatchOnce()
    await engine.dispatchOnce()
    expect(await rounds()).toEqual([{ reason: 'disabled' }])
    // Changed, but too soon.
    await db.query(`update supply set admin_state = 'enabled' where id = 'seedance-north'`)
    await db.query(
      `update supply_health set state = 'circuit_open', open_until = clock_timestamp() + interval '1 hour' where supply_id = 'seedance-north'`,
    )
    await engine.dispatchOnce()
    expect(await rounds()).toHaveLength(1)
    await db.query(`update task set wait_round_at = wait_round_at - interval '10 seconds'`)
    await engine.dispatchOnce()
    await engine.dispatchOnce()
    expect(await rounds()).toEqual([{ reason: 'disabled' }, { reason: 'health' }])
    // Long enough ago, but nothing changed.
    await db.query(`update task set wait_round_at = wait_round_at - interval '10 minutes'`)
    await engine.dispatchOnce()
    expect(await rounds()).toHaveLength(2)
    expect(await rowsOf(db, 'select * from round where task_id = $1', [behind])).toEqual([])
  })

  it('ORD-19: what happens after admission does not kill a queue; a suspended user does', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const { db } = system
    const id = await queued()
    await db.query(`update supply set admin_state = 'disabled'`)
    const engine = await scanner()
    await db.query(`update model set enabled = false, published = false`)
    await db.query(`update api_key set revoked_at = clock_timestamp()`)
    await engine.dispatchOnce()
    expect(await rowsOf(db, 'select state, wait_reason from task where id = $1', [id])).toEqual([
      { state: 'queued', wait_reason: 'disabled' },
    ])
    await db.query(`update customer set active = false`)
    await engine.dispatchOnce()
    expect(await rowsOf(db, 'select state, error_code from task where id = $1', [id])).toEqual([
      { state: 'failed', error_code: 'access_denied' },
    ])
    expect(await rowsOf(db, 'select result, error_code from usage_record')).toEqual([
      { result: 'failed', error_code: 'access_denied' },
    ])
  })

  it('RTY-3: a task that waited too long ends with its own code', async () => {
    system = await startSystem()
    const { db } = system
    const id = await queued()
    await db.query(`update task set created_at = created_at - interval '20 minutes 1 second'`)
    await (await scanner()).dispatchOnce()
    expect(await rowsOf(db, 'select state, error_code from task where id = $1', [id])).toEqual([
      { state: 'failed', error_code: 'retry_window_expired' },
    ])
  })
})
