/** Circuits as the database keeps them: what opens, closes and probes them, told by real attempts against the simulator. */
import { afterEach, describe, expect, it } from 'vitest'
import { switchLevel } from '../../src/store/switches.ts'
import { rowsOf, type System, startSystem, until, VIDEO } from '../system/kit.ts'
import {
  admitted,
  alertCodes,
  attemptIn,
  attemptsOf,
  ended,
  eventsOf,
  fault,
  healthOf,
  leaveOnly,
} from './facts.ts'

const SUPPLY = 'seedance-north'
const CHANNEL = 'ark-north'

let system: System
afterEach(() => system?.stop())

async function start() {
  system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
  const engine = system.engine()
  await engine.start()
  return engine
}

const circuit = () => healthOf(system, 'supply', SUPPLY)
const events = async () =>
  (await eventsOf(system, SUPPLY)).map((event) => [event.kind, event.to_state, event.recovery_successes])

/** As the machine would have left it after an opening. */
function open(until_: string): Promise<unknown> {
  return rowsOf(
    system.db,
    `update supply_health set state = 'circuit_open', recovery_successes = 0, epoch = epoch + 1,
      open_until = clock_timestamp() + $2::interval where supply_id = $1`,
    [SUPPLY, until_],
  )
}

async function probing(): Promise<void> {
  await leaveOnly(system, [SUPPLY])
  await open('0 seconds')
  await until('probing', async () => (await circuit()).state === 'probing')
}

describe('a circuit', () => {
  it('HLT-5, HLT-12: cools down into probing exactly once, however many reconcilers look', async () => {
    await start()
    for (let n = 0; n < 3; n += 1) await system.engine({ roles: ['reconcile'] }).start()
    const before = await circuit()
    await probing()
    // A round trip through each of the reconcilers: another level cools down, and nothing more is said of the first.
    await rowsOf(
      system.db,
      `update supply_health set open_until = clock_timestamp() where supply_id = 'seedance-south'`,
    )
    await until(
      'the other',
      async () => (await healthOf(system, 'supply', 'seedance-south')).state === 'probing',
    )
    expect(await events()).toEqual([['probing_started', 'probing', 0]])
    expect((await circuit()).epoch).toBe(before.epoch + 2n)
  })

  it('HLT-6, HLT-12: probing lets one through at a time, and each success is a rung with its event', async () => {
    const engine = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'stuck' } })
    await probing()
    const first = await admitted(system, engine)
    const attempt = await attemptIn(system, first, 'accepted')
    const second = await admitted(system, engine)
    for (let scan = 0; scan < 3; scan += 1) await engine.dispatchOnce()
    expect(await attemptsOf(system, second)).toEqual([])
    await system.control('POST', `/jobs/${attempt.provider_task_id}/end`, { state: 'succeeded' })
    expect(await ended(system, first)).toMatchObject({ state: 'succeeded' })
    expect(await ended(system, second)).toMatchObject({ state: 'succeeded' })
    for (let more = 0; more < 3; more += 1)
      expect(await ended(system, await admitted(system, engine))).toMatchObject({ state: 'succeeded' })
    expect(await events()).toEqual([
      ['probing_started', 'probing', 0],
      ['probe_succeeded', 'probing', 1],
      ['recovery_started', 'recovering', 2],
      ['rung_climbed', 'recovering', 3],
      ['rung_climbed', 'recovering', 4],
      ['recovered', 'healthy', 5],
    ])
    expect(await circuit()).toMatchObject({ state: 'healthy', recovery_successes: 0 })
  })

  it('HLT-8, HLT-9: a failure reopens it at once with nothing left of its count; a refusal of the content does not', async () => {
    const engine = await start()
    await probing()
    expect(await ended(system, await admitted(system, engine))).toMatchObject({ state: 'succeeded' })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'error', name: 'content_refused' } })
    await ended(system, await admitted(system, engine))
    expect(await circuit()).toMatchObject({ state: 'probing', recovery_successes: 1 })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'error', name: 'model_missing' } })
    const task = await admitted(system, engine)
    await attemptIn(system, task, 'failed')
    expect(await circuit()).toMatchObject({ state: 'circuit_open', recovery_successes: 0 })
    const [left] = await rowsOf<{ seconds: number }>(
      system.db,
      `select extract(epoch from h.open_until - a.ended_at)::float8 as seconds
        from supply_health h, attempt a where h.supply_id = $1 and a.task_id = $2`,
      [SUPPLY, task],
    )
    expect(left?.seconds).toBeCloseTo(30, 0)
    expect((await events()).at(-1)).toEqual(['reopened', 'circuit_open', 0])
    expect(await alertCodes(system)).toContain('supply_circuit_open')
  })

  it('HLT-4, HLT-10: open, it stops new attempts alone; the old one is polled and delivered, and its success changes nothing', async () => {
    const engine = await start()
    await leaveOnly(system, [SUPPLY])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'takes', after_polls: 2 } })
    const running = await admitted(system, engine)
    await attemptIn(system, running, 'accepted')
    await open('1 hour')
    const before = await circuit()
    const waiting = await admitted(system, engine)
    await until('it to be told to wait', async () => {
      const [task] = await rowsOf(system.db, 'select wait_reason from task where id = $1::uuid', [waiting])
      return task?.wait_reason === 'health'
    })
    expect(await ended(system, running)).toMatchObject({ state: 'succeeded' })
    expect((await attemptsOf(system, running))[0]?.polls).toBe(2)
    expect(await attemptsOf(system, waiting)).toEqual([])
    expect(await circuit()).toEqual(before)
    expect(await eventsOf(system, SUPPLY)).toMatchObject([{ applied: false, to_state: 'circuit_open' }])
  })

  it('HLT-12: an event and the row that it tells of are one transaction', async () => {
    const engine = await start()
    await leaveOnly(system, [SUPPLY])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'error', name: 'model_missing' } })
    await attemptIn(system, await admitted(system, engine), 'failed')
    const [same] = await rowsOf(
      system.db,
      `select e.xmin = h.xmin as event_with_row, e.xmin = a.xmin as event_with_attempt
        from health_events e join supply_health h on h.supply_id = e.level_id join attempt a on a.id = e.attempt_id
        where e.level_id = $1`,
      [SUPPLY],
    )
    expect(same).toEqual({ event_with_row: true, event_with_attempt: true })
  })
})

describe('a level', () => {
  it('HLT-2, HLT-14: a refused key opens the channel at once, and only the channel', async () => {
    const engine = await start()
    await leaveOnly(system, [SUPPLY])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'error', name: 'unauthorized' } })
    await attemptIn(system, await admitted(system, engine), 'failed')
    expect(await healthOf(system, 'channel', CHANNEL)).toMatchObject({ state: 'circuit_open' })
    expect(await circuit()).toMatchObject({ state: 'healthy' })
    expect(await alertCodes(system)).toContain('channel_circuit_open')
  })

  it('HLT-3: a missing model is counted for its supply alone', async () => {
    const engine = await start()
    await leaveOnly(system, [SUPPLY])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'error', name: 'model_missing' } })
    await attemptIn(system, await admitted(system, engine), 'failed')
    expect(await circuit()).toMatchObject({ counters: { consecutive_failures: 1 } })
    expect(await eventsOf(system, CHANNEL)).toEqual([])
  })

  it('HLT-15: an acceptance is the success of its channel, a result that of its supply', async () => {
    const engine = await start()
    await leaveOnly(system, [SUPPLY])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'stuck' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'accepted')
    const successes = async () => [
      (await healthOf(system, 'channel', CHANNEL)).counters.consecutive_successes ?? 0,
      (await circuit()).counters.consecutive_successes ?? 0,
    ]
    expect(await successes()).toEqual([1, 0])
    await system.control('POST', `/jobs/${attempt.provider_task_id}/end`, { state: 'succeeded' })
    await ended(system, task)
    expect(await successes()).toEqual([1, 1])
  })

  it('HLT-1, HLT-11, HLT-17: disabled, it takes no part in recovery; enabled, it is what it was', async () => {
    const engine = await start()
    await leaveOnly(system, [SUPPLY])
    await open('0 seconds')
    const wanted = { kind: 'supply', id: SUPPLY, probe: false } as const
    await switchLevel(system.db, { ...wanted, state: 'disabled' })
    const disabled = await circuit()
    expect(disabled.state).toBe('disabled')
    await rowsOf(
      system.db,
      `update supply_health set open_until = clock_timestamp() where supply_id = 'seedance-south'`,
    )
    await until(
      'the other',
      async () => (await healthOf(system, 'supply', 'seedance-south')).state === 'probing',
    )
    expect(await circuit()).toEqual(disabled)
    const facts = { ...VIDEO, realPerson: true }
    await expect(admitted(system, engine, { facts })).resolves.toBeDefined()
    await engine.dispatchOnce()
    expect((await attemptsOf(system)).filter((attempt) => attempt.supply_id === SUPPLY)).toEqual([])
    await switchLevel(system.db, { ...wanted, state: 'enabled' })
    expect(['circuit_open', 'probing']).toContain((await circuit()).state)
    await until('its own turn', async () => (await circuit()).state === 'probing')
  })
})
