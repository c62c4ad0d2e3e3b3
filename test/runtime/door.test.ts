import { randomBytes } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import type { IncomingRequest } from '../../src/runtime/service.ts'
import { openDatabase } from '../../src/store/database.ts'
import { rowsOf, type System, startSystem, until, VIDEO, videoRequest } from '../system/kit.ts'
import { admitted, attemptsOf, taskOf } from './facts.ts'

let system: System
const undo: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
  await system.stop()
})

const count = async (table: string) =>
  (await rowsOf<{ n: number }>(system.db, `select count(*)::int as n from ${table}`))[0]?.n

describe('the door', () => {
  it('ORD-19, CUS-2: a rejection is kept with its verdict and its usage record, and nothing else comes of it', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    const answer = await door.admitVideo(
      videoRequest(system.customer, { facts: { ...VIDEO, durationSeconds: 60 } }),
    )
    expect(answer).toMatchObject({ kind: 'rejected', code: 'invalid_request', param: 'duration_seconds' })
    if (answer.kind !== 'rejected' || answer.taskId === null) throw new Error('no task')
    expect(await taskOf(system, answer.taskId)).toMatchObject({
      state: 'rejected',
      error_code: 'invalid_request',
      error_param: 'duration_seconds',
      attempts: 0,
      rounds: 1,
    })
    expect(await rowsOf(system.db, 'select admitted, outcome, reason from round')).toEqual([
      { admitted: false, outcome: 'rejected', reason: 'invalid_request' },
    ])
    expect(await rowsOf(system.db, 'select result, error_code, cost_micros from usage_record')).toEqual([
      { result: 'rejected', error_code: 'invalid_request', cost_micros: 0n },
    ])
    expect([await count('attempt'), await count('capacity_lease')]).toEqual([0, 0])
  })

  it('ORD-19: a model that was never published has nothing to be judged by, and leaves nothing', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    expect(await door.admitVideo(videoRequest(system.customer, { modelId: 'nobody' }))).toEqual({
      kind: 'rejected',
      taskId: null,
      code: 'model_not_available',
      param: null,
    })
    expect([await count('task'), await count('round'), await count('usage_record')]).toEqual([0, 0, 0])
  })

  it('ORD-19, LAY-5: a video that would have to wait is let in, as one row and without a round, and waits for capacity', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const engine = system.engine({ roles: ['api'] })
    await engine.start()
    await system.db.query(`update supply set concurrency = 1`)
    for (let n = 0; n < 3; n += 1) await admitted(system, engine)
    await engine.dispatchOnce()
    const id = await admitted(system, engine)
    expect(await taskOf(system, id)).toMatchObject({ state: 'queued', rounds: 0 })
    await engine.dispatchOnce()
    expect(await taskOf(system, id)).toMatchObject({ state: 'queued', wait_reason: 'capacity', rounds: 1 })
  })
})

describe('repeats', () => {
  const withKey = (more: Partial<IncomingRequest> = {}, digest = randomBytes(32)) =>
    videoRequest(system.customer, {
      idempotency: { endpoint: 'videos', key: 'click-1', payloadDigest: digest },
      ...more,
    })

  it('CUS-3: one Idempotency-Key used ten times at once makes one task; with another payload it is refused', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    const digest = randomBytes(32)
    const answers = await Promise.all(Array.from({ length: 10 }, () => door.admitVideo(withKey({}, digest))))
    const ids = new Set(answers.map((answer) => ('taskId' in answer ? answer.taskId : 'none')))
    expect(ids.size).toBe(1)
    expect(answers.filter((answer) => answer.kind === 'admitted')).toHaveLength(1)
    expect(await count('task')).toBe(1)
    expect(await door.admitVideo(withKey())).toEqual({ kind: 'key_reused' })
  })

  it('CUS-4: two clicks, each repeated twice by the SDK, are two tasks', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    const fingerprint = randomBytes(32)
    const send = async (times: number) => {
      const answer = await door.admitVideo(
        videoRequest(system.customer, { repeat: { count: times, fingerprint } }),
      )
      return 'taskId' in answer ? `${answer.kind} ${answer.taskId}` : answer.kind
    }
    const [first, second] = [await send(0), await send(0)]
    const tasks = [first, second].map((answer) => answer.replace('admitted ', ''))
    for (const times of [1, 2])
      expect([await send(times), await send(times)].sort()).toEqual(
        tasks.map((id) => `repeated ${id}`).sort(),
      )
    expect(await count('task')).toBe(2)
    // A third of the same count has no first try left, and is a new request.
    expect(await send(2)).toMatch(/^admitted /)
  })

  it('CUS-4: a repeat waits for its first try while that is being granted, instead of becoming a second task', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    const fingerprint = randomBytes(32)
    const first = await door.admitVideo(videoRequest(system.customer, { repeat: { count: 0, fingerprint } }))
    if (first.kind !== 'admitted') throw new Error('not admitted')
    const other = await openDatabase({ url: system.url, poolSize: 1 })
    undo.push(() => other.close())
    let repeated: ReturnType<typeof door.admitVideo> | undefined
    await other.transaction(async (tx) => {
      await tx.query(`select 1 from task where id = '${first.taskId}' for update`)
      repeated = door.admitVideo(videoRequest(system.customer, { repeat: { count: 1, fingerprint } }))
      await until(
        'the repeat to wait',
        async () =>
          (
            await rowsOf(
              system.db,
              `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
            )
          ).length > 0,
      )
    })
    expect(await repeated).toEqual({ kind: 'repeated', taskId: first.taskId })
    expect(await count('task')).toBe(1)
  })

  it('CUS-4: another customer’s, an older, and a refused try are no first tries', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    const fingerprint = randomBytes(32)
    const send = async (more: Partial<IncomingRequest>) =>
      (await door.admitVideo(videoRequest(system.customer, { repeat: { count: 1, fingerprint }, ...more })))
        .kind
    await system.db.query(`insert into customer (id, name) values ('other', 'other')`)
    await door.admitVideo(
      videoRequest({ ...system.customer, customerId: 'other' }, { repeat: { count: 0, fingerprint } }),
    )
    expect(await send({})).toBe('admitted')
    const refused = randomBytes(32)
    const facts = { ...VIDEO, durationSeconds: 60 }
    await door.admitVideo(
      videoRequest(system.customer, { facts, repeat: { count: 0, fingerprint: refused } }),
    )
    expect(await send({ repeat: { count: 1, fingerprint: refused } })).toBe('admitted')
  })
})

describe('before the provider hears of it', () => {
  it('ORD-13, UNK-6: the attempt says submitting, committed, when the first byte of its request arrives', async () => {
    const seen: { state: string; held: boolean }[] = []
    const sockets = new Set<Socket>()
    const server = createServer((socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.once('data', async () => {
        const rows = await rowsOf<{ state: string; held: boolean }>(
          system.db,
          'select a.state, l.released_at is null as held from attempt a join capacity_lease l on l.attempt_id = a.id',
        )
        seen.push(...rows)
        socket.destroy()
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    undo.push(
      () => new Promise((resolve) => server.close(resolve)),
      () => sockets.forEach((socket) => void socket.destroy()),
    )
    const address = server.address()
    const port = typeof address === 'object' && address !== null ? address.port : 0
    system = await startSystem({
      catalog: (text) =>
        text.replace(
          /base_url: http:\/\/127\.0\.0\.1:[^/]+\/ark\/south/,
          `base_url: http://127.0.0.1:${port}/ark/south`,
        ),
    })
    const engine = system.engine({ roles: ['api'] })
    await engine.start()
    await admitted(system, engine)
    await engine.dispatchOnce()
    await until('the first byte', async () => seen.length > 0)
    expect(seen).toEqual([{ state: 'submitting', held: true }])
  })

  it('STR-8: the database itself refuses a second open attempt of a task', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    const engine = system.engine({ roles: ['api'] })
    await engine.start()
    const id = await admitted(system, engine)
    await engine.dispatchOnce()
    await until('the attempt', async () => (await attemptsOf(system, id))[0]?.state === 'accepted')
    const again = `insert into attempt (id, task_id, number, round, kind, binding_id, supply_id, channel_id, provider, upstream_model, tier, release_id,
        price_list_version_id, credential_id, state, channel_epoch, supply_epoch, quote_micros, bills_failures, submitting_at, cost_micros)
      select gen_random_uuid(), task_id, 2, round, kind, binding_id, supply_id, channel_id, provider, upstream_model, tier, release_id,
        price_list_version_id, credential_id, 'submitting', channel_epoch, supply_epoch, quote_micros, bills_failures, clock_timestamp(), cost_micros from attempt`
    await expect(system.db.query(again)).rejects.toThrow(/attempt_open/)
  })
})
