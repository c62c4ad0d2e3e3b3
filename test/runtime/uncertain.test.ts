/** Submissions of which nobody knows whether they were accepted: held, never repeated, and given up only at their deadline. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { NOT_ACCEPTED } from '../../src/core/retry.ts'
import { Dispatcher } from '../../src/runtime/dispatcher.ts'
import { Granter } from '../../src/runtime/granter.ts'
import { TIMING_DEFAULTS } from '../../src/runtime/timing.ts'
import { Releases } from '../../src/store/releases.ts'
import { imageRequest, rowsOf, type System, type SystemOptions, startSystem, until } from '../system/kit.ts'
import {
  admitted,
  alertCodes,
  attemptIn,
  attemptsOf,
  customerSees,
  ended,
  eventsOf,
  fault,
  healthOf,
  leaveOnly,
  ledger,
  ledgerOf,
  taskOf,
} from './facts.ts'

let system: System
afterEach(() => system?.stop())

async function start(options: SystemOptions = {}) {
  system = await startSystem({ simulator: { defaults: { duration_ms: 100 } }, ...options })
  const engine = system.engine()
  await engine.start()
  return engine
}

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

describe('an unknown submission', () => {
  it.each([
    ['a bare 500', { kind: 'respond', status: 500, body: '' }],
    ['a 502 with a page', { kind: 'html_502' }],
    ['accepted, and the connection dropped', { kind: 'accept_then_drop' }],
    ['a 2xx that is cut off', { kind: 'truncated_json' }],
  ])(
    'UNK-1, UNK-2, UNK-3, UNK-10: %s is uncertain, holds its lease and is never posted again',
    async (_, played) => {
      const engine = await start()
      await fault(system, { on: 'create', times: 1, fault: played })
      const task = await admitted(system, engine)
      const attempt = await attemptIn(system, task, 'submission_uncertain')
      expect(attempt).toMatchObject({
        category: 'unknown',
        scope: 'attempt',
        retryable: false,
        lease_held: true,
      })
      // Whoever looks at it now finds nothing to do.
      const other = system.engine()
      await other.start()
      for (let scan = 0; scan < 3; scan += 1) await other.dispatchOnce()
      // A later task goes all the way: both processes have worked meanwhile.
      expect(await ended(system, await admitted(system, other))).toMatchObject({ state: 'succeeded' })
      expect(await attemptsOf(system, task)).toMatchObject([
        { state: 'submission_uncertain', lease_held: true, number: 1 },
      ])
      expect(await ledgerOf(system, attempt.id)).toMatchObject({ posts: 1 })
      expect(await ledger(system)).toMatchObject({ posts: 2 })
      // UNK-6.
      expect(await customerSees(system, task)).toContain('"status":"in_progress"')
      expect(await taskOf(system, task)).toMatchObject({ state: 'running', error_code: null })
    },
  )

  it('UNK-5: at its deadline the task fails with an alert, and only then is the lease released; UNK-8: what comes later is an orphan', async () => {
    const engine = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'submission_uncertain')
    expect(await alertCodes(system)).not.toContain('submission_unresolved')
    const [left] = await rowsOf<{ seconds: number }>(
      system.db,
      'select extract(epoch from uncertain_deadline - uncertain_at)::float8 as seconds from attempt where id = $1',
      [attempt.id],
    )
    expect(left?.seconds).toBeCloseTo(3600, 0)
    await system.db.query(
      `update attempt set uncertain_deadline = clock_timestamp() where state = 'submission_uncertain'`,
    )
    expect(await ended(system, task)).toMatchObject({ state: 'failed', error_code: 'submission_unresolved' })
    expect(await alertCodes(system)).toContain('submission_unresolved')
    const [over] = await attemptsOf(system, task)
    expect(over).toMatchObject({ state: 'failed', lease_held: false, cost_micros: attempt.quote_micros })
    const late = { kind: 'accepted', providerTaskId: 'cgt-late', requestId: null } as const
    expect(await engine.settle.apply(attempt.id, over?.fence ?? 0n, late)).toEqual({ kind: 'stale' })
    expect(
      await rowsOf(system.db, 'select attempt_id, task_id, how, cost_micros from orphan_result'),
    ).toEqual([
      { attempt_id: attempt.id, task_id: task, how: 'late_accepted', cost_micros: attempt.quote_micros },
    ])
    expect(await taskOf(system, task)).toMatchObject({ state: 'failed', error_code: 'submission_unresolved' })
    expect(await rowsOf(system.db, 'select * from task_output')).toEqual([])
    expect((await attemptsOf(system, task))[0]).toMatchObject({ state: 'failed' })
    expect(await alertCodes(system)).toContain('orphan_result')
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('UNK-8: it counts as one failure of its supply, when it is seen, and its later luck proves nothing', async () => {
    const engine = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'submission_uncertain')
    const failures = async () =>
      (await eventsOf(system, attempt.supply_id)).map((event) => [event.level, event.kind, event.attempt_id])
    expect(await failures()).toEqual([['supply', 'failure_counted', attempt.id]])
    expect(await eventsOf(system, attempt.channel_id)).toEqual([])
    const before = await healthOf(system, 'supply', attempt.supply_id)
    const jobs = (await system.control('GET', `/ledger/${attempt.id}`)) as { jobs: string[] }
    const found = { kind: 'accepted', providerTaskId: jobs.jobs[0] ?? '', requestId: null } as const
    expect(await engine.settle.apply(attempt.id, attempt.fence, found)).toEqual({ kind: 'open' })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    expect(await healthOf(system, 'supply', attempt.supply_id)).toMatchObject({ counters: before.counters })
    expect(await failures()).toHaveLength(1)
    expect(await ledgerOf(system, attempt.id)).toMatchObject({ posts: 1, accepted: 1 })
  })

  /** Looked for by nobody, so that the test alone says what was found. */
  async function lost(tasks: number) {
    await start()
    await leaveOnly(system, ['seedance-north'])
    const timing = { ...TIMING_DEFAULTS, lookupMs: 3_600_000, lookupMaxMs: 3_600_000 }
    const engine = system.engine({ timing })
    await fault(system, { on: 'create', times: tasks, fault: { kind: 'reset' } })
    const attempts = []
    for (let n = 0; n < tasks; n += 1)
      attempts.push(await attemptIn(system, await admitted(system, engine), 'submission_uncertain'))
    return { engine, attempts }
  }

  it('UNK-9: that is found at the very same time as another one, under the same job, is not given it too', async () => {
    const { engine, attempts } = await lost(2)
    const found = { resolver: 'time', note: null } as const
    const settled = await Promise.all(
      attempts.map((attempt) =>
        engine.settle.apply(attempt.id, attempt.fence, {
          kind: 'accepted',
          providerTaskId: 'cgt-of-one',
          requestId: null,
          found,
        }),
      ),
    )
    expect(settled.map((one) => one.kind).sort()).toEqual(['open', 'stale'])
    const holders = (await attemptsOf(system)).filter((one) => one.provider_task_id === 'cgt-of-one')
    expect(holders).toMatchObject([{ state: 'accepted' }])
  })

  it('UNK-6: of which a callback came after the look that found nothing, is not taken for refused', async () => {
    const { engine, attempts } = await lost(1)
    const [attempt] = attempts
    if (!attempt) throw new Error('one was lost')
    await rowsOf(system.db, 'update attempt set called_back_at = clock_timestamp() where id = $1', [
      attempt.id,
    ])
    const absent = { resolver: 'client_id', note: 'the account has no such job' } as const
    const refused = { kind: 'refused', fault: NOT_ACCEPTED, requestId: null } as const
    expect(await engine.settle.apply(attempt.id, attempt.fence, { ...refused, found: absent })).toEqual({
      kind: 'stale',
    })
    expect(await attemptsOf(system)).toMatchObject([{ state: 'submission_uncertain', lease_held: true }])
    const byHand = { resolver: 'operator', note: null } as const
    expect(await engine.settle.apply(attempt.id, attempt.fence, { ...refused, found: byHand })).toMatchObject(
      { kind: 'retry' },
    )
  })
})

describe('a process that dies', () => {
  it('UNK-6: in `reserved`, its attempt is abandoned, not counted, and the task goes back to the queue', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 100 } } })
    const { db } = system
    const task = await admitted(system, system.engine({ roles: ['api'] }))
    // It grants, and dies before it submits.
    const dead = new Dispatcher({
      db,
      releases: new Releases(),
      granter: new Granter(db, randomUUID()),
      submit: () => undefined,
      room: () => 10,
      reject: async () => undefined,
    })
    await dead.tick()
    const reserved = await attemptIn(system, task, 'reserved')
    expect(reserved.lease_held).toBe(true)
    await system.engine({ roles: ['reconcile'] }).start()
    const given = await attemptIn(system, task, 'abandoned')
    expect(given).toMatchObject({ id: reserved.id, number: null, lease_held: false, cost_micros: 0n })
    expect(await taskOf(system, task)).toMatchObject({ state: 'queued', attempts: 0 })
    expect(await ledger(system)).toMatchObject({ posts: 0 })
    await system.engine().start()
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 1 })
    expect((await attemptsOf(system, task)).map((attempt) => [attempt.state, attempt.number])).toEqual([
      ['abandoned', null],
      ['succeeded', 1],
    ])
  })

  it('UNK-6: in `submitting`, its attempt is uncertain and is never posted again', async () => {
    const engine = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'slow_answer', ms: 4000 } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'submitting')
    await until('the provider to have it', async () => (await ledger(system)).accepted === 1)
    await system.db.query(`update attempt set owner = '${randomUUID()}' where state = 'submitting'`)
    const doubtful = await attemptIn(system, task, 'submission_uncertain')
    expect(doubtful).toMatchObject({ id: attempt.id, error_code: 'process_lost', lease_held: true })
    expect(await taskOf(system, task)).toMatchObject({ state: 'running', attempts: 1 })
    // The answer comes after all: of the same attempt, so that it is taken.
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 1 })
    expect(await ledger(system)).toMatchObject({ posts: 1, accepted: 1 })
  })
})

describe('how far a request got', () => {
  it('UNK-7, RTY-2: a refused connection was not sent: a failure of the channel, and another supply takes over', async () => {
    const port = await closedPort()
    const engine = await start({
      catalog: (text) =>
        text.replace(
          /http:\/\/127\.0\.0\.1:\$\{SIMULATOR_PORT:-8090\}\/ark\/south/,
          `http://127.0.0.1:${port}/ark/south`,
        ),
    })
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    const [first, second] = await attemptsOf(system, task)
    expect(first).toMatchObject({
      state: 'failed',
      channel_id: 'ark-south',
      category: 'supply',
      scope: 'channel',
      retryable: true,
      lease_held: false,
      cost_micros: 0n,
    })
    expect(second).toMatchObject({ state: 'succeeded' })
    expect(second?.channel_id).not.toBe('ark-south')
    expect(await eventsOf(system, 'ark-south')).toMatchObject([
      { level: 'channel', kind: 'failure_counted', attempt_id: first?.id },
    ])
    expect(await eventsOf(system, first?.supply_id ?? '')).toEqual([])
  })

  it('UNK-7: of an image unknown is final: the request fails, its lease stays held, nothing is posted again', async () => {
    const engine = await start()
    await fault(system, { on: 'image', times: 1, fault: { kind: 'accept_then_drop' } })
    const answer = await engine.runImage(imageRequest(system.customer))
    expect(answer).toMatchObject({ kind: 'failed', code: 'submission_unresolved', submitted: true })
    expect(await attemptsOf(system)).toMatchObject([{ state: 'submission_uncertain', lease_held: true }])
    expect(await ledger(system)).toMatchObject({ posts: 1 })
    await system.db.query(
      `update attempt set uncertain_deadline = clock_timestamp() where state = 'submission_uncertain'`,
    )
    await until('its lease to be released', async () => (await attemptsOf(system))[0]?.lease_held === false)
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })
})
