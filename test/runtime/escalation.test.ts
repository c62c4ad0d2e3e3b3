/** What several levels say together: one error on several supplies, and most channels out of reach at once. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { HEALTH_DEFAULTS } from '../../src/core/health-row.ts'
import { rowsOf, type System, type SystemOptions, startSystem, until } from '../system/kit.ts'
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

let system: System
afterEach(() => system?.stop())

const HEALTH = { ...HEALTH_DEFAULTS, sameFailureMs: 1 }

async function start(options: SystemOptions = {}) {
  system = await startSystem({ simulator: { defaults: { duration_ms: 100 } }, ...options })
  const engine = system.engine({ health: HEALTH, scanMs: 50 })
  await engine.start()
  return engine
}

/** Two places at the one supply of the channel, so that the third task goes to the other. */
const TWO_AND_MORE = (text: string) => text.replace('    concurrency: 8\n', '    concurrency: 2\n')

async function threeTasks(rule: { on: string } & Record<string, unknown>) {
  const engine = await start({ catalog: TWO_AND_MORE })
  await leaveOnly(system, ['seedance-south', 'seedance-south-priority'])
  await fault(system, rule)
  return Promise.all([1, 2, 3].map(() => admitted(system, engine)))
}

describe('the same error on several supplies of a channel', () => {
  it('HLT-16, HLT-2: three at the very same time open it once, however they race', async () => {
    const tasks = await threeTasks({
      on: 'create',
      times: 'forever',
      fault: [
        { kind: 'delay', ms: 400 },
        { kind: 'respond', status: 500, body: '' },
      ],
    })
    for (const task of tasks) await attemptIn(system, task, 'submission_uncertain')
    const suppliers = new Set((await attemptsOf(system)).map((attempt) => attempt.supply_id))
    expect(suppliers).toEqual(new Set(['seedance-south', 'seedance-south-priority']))
    const events = await eventsOf(system, 'ark-south')
    expect(events.filter((event) => event.applied)).toMatchObject([
      { kind: 'opened', from_state: 'healthy', to_state: 'circuit_open' },
    ])
    expect(await healthOf(system, 'channel', 'ark-south')).toMatchObject({ state: 'circuit_open', epoch: 1n })
    const [left] = await rowsOf<{ seconds: number }>(
      system.db,
      `select extract(epoch from open_until - updated_at)::float8 as seconds from channel_health where channel_id = 'ark-south'`,
    )
    expect(left?.seconds).toBeCloseTo(30, 0)
    expect(await alertCodes(system)).toContain('channel_circuit_open')
    // Each supply keeps its own state.
    for (const supply of suppliers)
      expect((await healthOf(system, 'supply', supply)).state).not.toBe('circuit_open')
  })

  it('HLT-16: two are not enough, and a third by another cause is no third', async () => {
    const engine = await start({ catalog: TWO_AND_MORE })
    await leaveOnly(system, ['seedance-south', 'seedance-south-priority'])
    await fault(system, { on: 'create', times: 2, fault: { kind: 'respond', status: 500, body: '' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'respond', status: 502, body: '' } })
    for (const task of await Promise.all([1, 2, 3].map(() => admitted(system, engine))))
      await attemptIn(system, task, 'submission_uncertain')
    expect(await healthOf(system, 'channel', 'ark-south')).toMatchObject({ state: 'healthy' })
  })

  it('HLT-16, HLT-9: refusals of the content never open it', async () => {
    const tasks = await threeTasks({
      on: 'create',
      times: 'forever',
      fault: { kind: 'error', name: 'content_refused' },
    })
    for (const task of tasks)
      expect(await ended(system, task)).toMatchObject({ error_code: 'content_refused' })
    expect(await healthOf(system, 'channel', 'ark-south')).toMatchObject({ state: 'healthy' })
    expect(await eventsOf(system, 'ark-south')).toEqual([])
  })

  it('HLT-16: a process of our own that died says nothing of the channel', async () => {
    const engine = await start({ catalog: TWO_AND_MORE })
    await leaveOnly(system, ['seedance-south', 'seedance-south-priority'])
    await fault(system, { on: 'create', times: 'forever', fault: { kind: 'delay', ms: 2000 } })
    const tasks = await Promise.all([1, 2, 3].map(() => admitted(system, engine)))
    for (const task of tasks) await attemptIn(system, task, 'submitting')
    for (const attempt of await attemptsOf(system))
      await engine.settle.apply(attempt.id, attempt.fence, { kind: 'lost' })
    for (const task of tasks) await attemptIn(system, task, 'submission_uncertain')
    expect(await healthOf(system, 'channel', 'ark-south')).toMatchObject({ state: 'healthy' })
  })
})

async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no port')
  return address.port
}

/** As other processes would have noted it a moment ago. */
async function unreached(channels: readonly string[]): Promise<void> {
  await rowsOf(
    system.db,
    `with calls as (update channel_health set last_granted_at = clock_timestamp() where channel_id = any($1::text[]))
      insert into channel_reach (channel_id) select unnest($1::text[])
      on conflict (channel_id) do update set failed_at = clock_timestamp()`,
    [channels],
  )
}

async function withClosedNorth() {
  const port = await closedPort()
  const engine = await start({
    catalog: (text) => text.replace(/127\.0\.0\.1:\S+(?=\/ark\/north)/, `127.0.0.1:${port}`),
  })
  await leaveOnly(system, ['seedance-north'])
  return engine
}

describe('most channels out of reach at once', () => {
  it('HLT-16: no circuit is opened for it; operators are told, and told when it is over', async () => {
    const engine = await withClosedNorth()
    await unreached(['ark-south', 'relay'])
    await ended(system, await admitted(system, engine))
    await unreached(['ark-south', 'relay'])
    await ended(system, await admitted(system, engine))
    const events = await eventsOf(system, 'ark-north')
    expect(events.length).toBeGreaterThanOrEqual(2)
    expect(new Set(events.map((event) => [event.kind, event.applied].join()))).toEqual(
      new Set(['ignored,false']),
    )
    expect(await healthOf(system, 'channel', 'ark-north')).toMatchObject({ state: 'healthy' })
    expect(await alertCodes(system)).toContain('own_network_suspected')
    await rowsOf(system.db, `update channel_reach set failed_at = clock_timestamp() - interval '31 seconds'`)
    await until(
      'the suspicion to end',
      async () => !(await alertCodes(system)).includes('own_network_suspected'),
    )
  })

  it('HLT-16, HLT-8: a channel that is being tried out is not opened again by it', async () => {
    const engine = await withClosedNorth()
    await rowsOf(
      system.db,
      `update channel_health set state = 'probing', epoch = 1 where channel_id = 'ark-north'`,
    )
    for (let n = 0; n < 2; n += 1) {
      await unreached(['ark-south', 'relay'])
      await ended(system, await admitted(system, engine))
    }
    expect(await healthOf(system, 'channel', 'ark-north')).toMatchObject({ state: 'probing', epoch: 1n })
    // Once the others answer, it is the channel's own failure, and the first is enough.
    await rowsOf(system.db, 'delete from channel_reach')
    await admitted(system, engine)
    await until(
      'it to be opened again',
      async () => (await healthOf(system, 'channel', 'ark-north')).state === 'circuit_open',
    )
  })

  it('HLT-16, HLT-14: a free call that cannot connect lengthens no cooldown', async () => {
    await withClosedNorth()
    const all = ['ark-north', 'ark-south', 'relay']
    await unreached(all)
    await rowsOf(
      system.db,
      `update channel_health set state = 'circuit_open', epoch = 1, open_until = clock_timestamp(),
        counters = '{"ping_first": true, "persistent_openings": 1}' where channel_id = 'ark-north'`,
    )
    const rest = async () => {
      const { state, epoch, counters, open_until } = await healthOf(system, 'channel', 'ark-north')
      return { state, epoch, counters, open_until }
    }
    const before = await rest()
    const noted = async () => {
      const [row] = await rowsOf<{ failed_at: number }>(
        system.db,
        `select failed_at from channel_reach where channel_id = 'ark-north'`,
      )
      return row?.failed_at ?? 0
    }
    for (let n = 0; n < 2; n += 1) {
      await unreached(all)
      const last = await noted()
      await until('a free call', async () => (await noted()) > last)
    }
    expect(await rest()).toEqual(before)
    await rowsOf(system.db, `delete from channel_reach where channel_id <> 'ark-north'`)
    await until('the cooldown to be longer', async () =>
      (await eventsOf(system, 'ark-north')).some((event) => event.kind === 'ping_failed'),
    )
  })

  it('HLT-2, HLT-16: a single channel out of reach is opened at its second failure', async () => {
    const engine = await withClosedNorth()
    await rowsOf(system.db, `update channel_health set last_granted_at = clock_timestamp()`)
    await ended(system, await admitted(system, engine))
    expect(await healthOf(system, 'channel', 'ark-north')).toMatchObject({ state: 'circuit_open' })
    expect(await alertCodes(system)).not.toContain('own_network_suspected')
  })

  it('HLT-16, HLT-10: polls that cannot connect are set aside as well', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'stuck' } })
    const task = await admitted(system, engine)
    await attemptIn(system, task, 'accepted')
    const port = await closedPort()
    await rowsOf(
      system.db,
      `update channel set base_url = 'http://127.0.0.1:' || $1 || '/ark/north/api/v3' where id = 'ark-north'`,
      [String(port)],
    )
    const failures = async () =>
      (await rowsOf<{ n: number }>(system.db, 'select poll_failures as n from attempt'))[0]?.n ?? 0
    for (let n = 1; n <= 4; n += 1) {
      await unreached(['ark-south', 'relay'])
      await rowsOf(system.db, `update attempt set next_poll_at = clock_timestamp() where poll_owner is null`)
      await until('a poll to fail', async () => (await failures()) >= n)
      // Each of them shows that the channel is out of reach, also before three in a row are news.
      expect(await rowsOf(system.db, 'select channel_id from channel_reach order by 1')).toMatchObject([
        { channel_id: 'ark-north' },
        { channel_id: 'ark-south' },
        { channel_id: 'relay' },
      ])
    }
    expect(await eventsOf(system, 'ark-north')).toMatchObject([{ kind: 'ignored', applied: false }])
    expect(await healthOf(system, 'channel', 'ark-north')).toMatchObject({ state: 'healthy' })
  })

  it('HLT-16: a channel that answers again is in reach', async () => {
    const engine = await start()
    await unreached(['ark-north'])
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'query', times: 1, fault: { kind: 'html_502' } })
    await ended(system, await admitted(system, engine))
    expect(await rowsOf(system.db, 'select channel_id from channel_reach')).toEqual([])
  })
})
