/** Recovery does not starve: what is being tried out gets a task in its turn, though others are better (STR-11). */
import { afterEach, describe, expect, it } from 'vitest'
import { roundsOf } from '../../src/store/rounds.ts'
import { rowsOf, type System, startSystem } from '../system/kit.ts'
import { admitted, attemptsOf, ended, eventsOf, healthOf } from './facts.ts'

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

function lastGranted(secondsAgo: number): Promise<unknown> {
  return rowsOf(
    system.db,
    `update supply_health set last_granted_at = clock_timestamp() - make_interval(secs => $2) where supply_id = $1`,
    [SUPPLY, secondsAgo],
  )
}

async function served(engine: Awaited<ReturnType<typeof start>>) {
  const task = await admitted(system, engine)
  expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
  const [attempt] = await attemptsOf(system, task)
  const round = (await roundsOf(system.db, task)).find((one) => one.outcome === 'granted')
  const turn = round?.figures.candidates['seedance-933-north']?.probe_turn
  return { task, supply: attempt?.supply_id, turn }
}

describe('a turn', () => {
  it('STR-11, HLT-6: a probing supply recovers by its turns alone, one task in each interval', async () => {
    const engine = await start()
    await rowsOf(
      system.db,
      `update supply_health set state = 'probing', epoch = 1, recovery_successes = 0 where supply_id = $1`,
      [SUPPLY],
    )
    await lastGranted(10)
    expect((await served(engine)).supply).not.toBe(SUPPLY)
    for (let successes = 1; successes <= 5; successes += 1) {
      await lastGranted(301)
      expect(await served(engine)).toMatchObject({ supply: SUPPLY, turn: true })
      // It has had its turn: the next task goes where it is served best.
      const next = await served(engine)
      if (successes < 5)
        expect(next).toMatchObject({ supply: expect.not.stringMatching(SUPPLY), turn: false })
    }
    expect((await eventsOf(system, SUPPLY)).map((event) => event.kind)).toEqual([
      'probe_succeeded',
      'recovery_started',
      'rung_climbed',
      'rung_climbed',
      'recovered',
    ])
    expect(await healthOf(system, 'supply', SUPPLY)).toMatchObject({ state: 'healthy' })
  })

  it('STR-11: a channel that is being tried out has its turn through its supplies', async () => {
    const engine = await start()
    await rowsOf(
      system.db,
      `update channel_health set state = 'recovering', epoch = 1, recovery_successes = 2,
        last_granted_at = clock_timestamp() - interval '301 seconds' where channel_id = $1`,
      [CHANNEL],
    )
    await lastGranted(301)
    expect(await served(engine)).toMatchObject({ supply: SUPPLY, turn: true })
    expect(await healthOf(system, 'channel', CHANNEL)).toMatchObject({ recovery_successes: 3 })
    expect((await served(engine)).supply).not.toBe(SUPPLY)
  })
})
