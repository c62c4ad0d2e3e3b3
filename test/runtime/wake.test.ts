/**
 * Wake-ups between processes, on real PostgreSQL. Where a hint must explain what happens, the process that is woken scans
 * once a minute, which is longer than any wait here; where hints are lost, its scan is short and nothing else is.
 */
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterEach, describe, expect, it } from 'vitest'
import type { Engine, EngineOptions } from '../../src/runtime/engine.ts'
import { TIMING_DEFAULTS } from '../../src/runtime/timing.ts'
import { Wake } from '../../src/runtime/wake.ts'
import { type AttemptEnd, endAttempts } from '../../src/store/attempts.ts'
import type { Sql } from '../../src/store/database.ts'
import { Listener } from '../../src/store/listener.ts'
import { flushHints, type Told, toldText, WAKE_CHANNEL } from '../../src/store/wake.ts'
import { muteProxy } from '../store/mute-proxy.ts'
import { rowsOf, type System, startSystem, until } from '../system/kit.ts'
import { startGateway } from '../system/processes.ts'
import { admitted, attemptIn, attemptsOf, ended } from './facts.ts'
import { withSecondModel } from './second-model.ts'

let system: System
const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
  await system.stop()
})

const A_MINUTE = 60_000
/** Beats once a second. */
const QUICK = { ...TIMING_DEFAULTS, claimSeconds: 5 }

async function started(more: Partial<EngineOptions>): Promise<Engine> {
  const engine = system.engine({ listenUrl: system.url, timing: QUICK, ...more })
  await engine.start()
  return engine
}

/** B: it dispatches, and nothing but a hint wakes it within a minute. */
async function sleeper(more: Partial<EngineOptions> = {}): Promise<Engine> {
  const engine = await started({ roles: ['dispatch'], scanMs: A_MINUTE, ...more })
  if (more.hints !== false && more.listenUrl === undefined)
    await until('it to listen', async () => engine.wakeFigures.hears)
  return engine
}

/** A: it admits, polls and settles, and never dispatches. Starts after B, and so knows of it. */
const teller = (more: Partial<EngineOptions> = {}) => started({ roles: ['api', 'poll'], ...more })

const JOB_MS = 400

async function oneSlot(more: Parameters<typeof startSystem>[0] = {}) {
  system = await startSystem({ simulator: { defaults: { duration_ms: JOB_MS } }, ...more })
  await only('seedance-north')
}

async function only(supply: string): Promise<void> {
  await rowsOf(
    system.db,
    `update supply set concurrency = 1, admin_state = case when id = $1 then 'enabled' else 'disabled' end where media = 'video'`,
    [supply],
  )
}

/** Of a process that is not registered, and listens to nobody. */
function wakeOf(ports: { db: Sql; hints: boolean }): Wake {
  const journal = { note() {}, fault: (_: string, error: unknown) => expect.unreachable(String(error)) }
  return new Wake({ ...ports, id: randomUUID(), journal, listenUrl: null, scan() {} })
}

const hints = () => rowsOf<{ writer: string }>(system.db, 'select writer from wake_hint')

async function hintsEver(): Promise<boolean> {
  const [row] = await rowsOf<{ is_called: boolean }>(system.db, 'select is_called from wake_hint_id_seq')
  return row?.is_called ?? false
}

/** ms from the end of the first task's attempt to the grant of the second's, by the database's clock. */
async function handedOn(first: string, second: string): Promise<number> {
  const [row] = await rowsOf<{ ms: number }>(
    system.db,
    `select (extract(epoch from b.submitting_at - l.released_at) * 1000)::float8 as ms
      from attempt a join capacity_lease l on l.attempt_id = a.id, attempt b where a.task_id = $1 and b.task_id = $2`,
    [first, second],
  )
  return row?.ms ?? Number.NaN
}

const CANCELLED: AttemptEnd = {
  state: 'cancelled',
  category: null,
  scope: null,
  retryable: null,
  mayChangeSupply: null,
  code: null,
  message: null,
  providerCode: null,
  httpStatus: null,
  requestId: null,
  cost: 0n,
  reported: null,
  fingerprint: null,
}

const DEAD_PORT = 'postgres://nobody@127.0.0.1:1/nowhere'

async function endListeners(): Promise<number> {
  const rows = await rowsOf<{ gone: boolean }>(
    system.db,
    `select pg_terminate_backend(pid) as gone from pg_stat_activity
      where application_name = 'yardmaster listener' and datname = current_database()`,
  )
  return rows.length
}

describe('a hint wakes another process', () => {
  it('WAKE-3: what A queues, and what A frees, B submits without waiting for its scan', async () => {
    await oneSlot()
    const b = await sleeper()
    const a = await teller()
    const first = await admitted(system, a)
    await attemptIn(system, first, 'accepted')
    const second = await admitted(system, a)
    await ended(system, second)
    expect(await attemptsOf(system, second)).toMatchObject([{ state: 'succeeded' }])
    expect(await handedOn(first, second)).toBeLessThan(1000)
    expect(a.wakeFigures).toMatchObject({ hears: false, heard: 0 })
    expect(a.wakeFigures.told).toBeGreaterThanOrEqual(2)
    expect(b.wakeFigures.heard).toBeGreaterThanOrEqual(2)
    expect(system.faults).toEqual([])
  })

  it('WAKE-3: a process that has just come is known at once, and not only at the next heartbeat', async () => {
    await oneSlot()
    const hour = { ...TIMING_DEFAULTS, claimSeconds: 3600 }
    const a = await teller({ roles: ['api', 'dispatch', 'poll'], timing: hour, submissions: 0 })
    await until('A to listen', async () => a.wakeFigures.hears)
    const b = await sleeper()
    const task = await until('B to be woken', async () => {
      const id = await admitted(system, a)
      return b.wakeFigures.heard > 0 && id
    })
    await ended(system, task)
  })

  it('WAKE-3: where no other process dispatches, no hint is ever written', async () => {
    await oneSlot()
    const alone = await started({ roles: ['api', 'dispatch', 'poll'] })
    await started({ roles: ['api', 'poll'] })
    const first = await admitted(system, alone)
    const second = await admitted(system, alone)
    await ended(system, first)
    await ended(system, second)
    expect(await hintsEver()).toBe(false)
  })

  it('WAKE-3: a transaction that is rolled back wakes nobody', async () => {
    await oneSlot({ simulator: { defaults: { duration_ms: A_MINUTE } } })
    const b = await sleeper()
    const a = await teller()
    const first = await admitted(system, a)
    const attempt = await attemptIn(system, first, 'accepted')
    await admitted(system, a)
    await until('the outbox to be empty', async () => (await hints()).length === 0)
    const writer = randomUUID()
    const rolledBack = system.db.transaction(async (tx) => {
      await endAttempts(tx, [{ id: attempt.id, end: CANCELLED }], writer)
      expect((await tx.query('select from wake_hint')).rowCount).toBe(1)
      throw new Error('rolled back')
    })
    await expect(rolledBack).rejects.toThrow('rolled back')
    expect(await flushHints(system.db, writer)).toEqual({ taken: 0, told: false })
    // The same, committed, does: so it was the rollback.
    await system.db.transaction((tx) => endAttempts(tx, [{ id: attempt.id, end: CANCELLED }], writer))
    const { heard } = b.wakeFigures
    expect(await flushHints(system.db, writer)).toEqual({ taken: 1, told: true })
    await until('B to hear of it', async () => b.wakeFigures.heard > heard)
  })

  it('WAKE-3: what nothing waits for wakes nobody', async () => {
    await oneSlot()
    const b = await sleeper()
    const a = await teller()
    const lonely = await admitted(system, a)
    await attemptIn(system, lonely, 'accepted')
    const { told } = a.wakeFigures
    await ended(system, lonely)
    await until('the hint to be taken', async () => (await hints()).length === 0)
    expect(await hintsEver()).toBe(true)
    expect(a.wakeFigures.told).toBe(told)
    expect(b.wakeFigures.swept).toBe(0)
  })
})

describe('hints that are lost', () => {
  it('WAKE-1, WAKE-2: with hints switched off the scan carries everything, and nothing is written', async () => {
    await oneSlot()
    const b = await sleeper({ hints: false, scanMs: 500 })
    const a = await teller({ hints: false })
    const first = await admitted(system, a)
    await attemptIn(system, first, 'accepted')
    const second = await admitted(system, a)
    await ended(system, second)
    expect(await hintsEver()).toBe(false)
    for (const engine of [a, b])
      expect(engine.wakeFigures).toEqual({ hears: false, told: 0, heard: 0, swept: 0 })
  })

  it('WAKE-2: a process that cannot listen finds the work by its scan', async () => {
    await oneSlot()
    const b = await sleeper({ listenUrl: DEAD_PORT, scanMs: 500 })
    const a = await teller()
    const first = await admitted(system, a)
    await attemptIn(system, first, 'accepted')
    const second = await admitted(system, a)
    await ended(system, second)
    expect(b.wakeFigures).toMatchObject({ hears: false, heard: 0 })
    // Told, and heard by nobody.
    expect(a.wakeFigures.told).toBeGreaterThan(0)
    expect(await hints()).toEqual([])
    expect(system.notes.map((note) => note.event)).toContain('wake.not_listening')
  })

  it('WAKE-2, WAKE-3: a connection that was cut is replaced, and what was told meanwhile is looked for', async () => {
    await oneSlot()
    const proxy = await muteProxy(system.url)
    closing.push(() => proxy.close())
    const b = await sleeper({ listenUrl: proxy.url, scanMs: A_MINUTE })
    await until('B to listen', async () => b.wakeFigures.hears)
    const a = await teller()
    // While B hears nothing, A tells it of a task.
    proxy.mute = true
    expect(await endListeners()).toBe(1)
    await until('B to know that it hears nothing', async () => !b.wakeFigures.hears)
    const first = await admitted(system, a)
    await until('A to have told', async () => a.wakeFigures.told > 0)
    expect(b.wakeFigures.heard).toBe(0)
    proxy.mute = false
    // No hint and no scan of its own: only the look that comes with listening again finds it.
    await attemptIn(system, first, 'accepted')
    await until('B to listen again', async () => b.wakeFigures.hears)
    const second = await admitted(system, a)
    await ended(system, second)
    expect(b.wakeFigures.heard).toBeGreaterThan(0)
  })

  it('WAKE-3: a connection that died without a word is noticed, since it does not hear itself', async () => {
    const { proxy, listener, lost, heard, turns } = await listening()
    proxy.mute = true
    await until('it to notice', async () => lost.length > 0)
    expect(String(lost[0])).toContain('does not come back')
    expect(listener.hears).toBe(false)
    proxy.mute = false
    await until('it to listen again', async () => turns() === 2)
    await tell(toldText({ kind: 'work', from: 'b' }))
    await tell('something else')
    await tell(toldText({ kind: 'work', from: 'a' }))
    await until('it to hear', async () => heard.length > 0)
    // Neither its own word nor what it does not understand.
    expect(heard).toEqual([{ kind: 'work', from: 'a' }])
  })

  it('WAKE-3: behind a pooler where every statement is answered and nothing is ever heard, it says so', async () => {
    const { proxy, listener, lost, turns } = await listening()
    proxy.deaf = true
    await endListeners()
    await until('it to notice', async () => lost.some((error) => String(error).includes('pooler')))
    expect(listener.hears).toBe(false)
    expect(turns()).toBe(1)
    proxy.deaf = false
    await until('it to listen again', async () => turns() === 2)
  })
})

/** A listener that hears, behind a proxy. */
async function listening() {
  system = await startSystem()
  const proxy = await muteProxy(system.url)
  closing.push(() => proxy.close())
  const heard: Told[] = []
  const lost: unknown[] = []
  let turns = 0
  const listener = new Listener({
    url: proxy.url,
    process: 'b',
    heard: (told) => heard.push(told),
    listening: () => {
      turns += 1
    },
    lost: (error) => lost.push(error),
    checkMs: 50,
  })
  closing.push(() => listener.stop())
  listener.start()
  await until('it to listen', async () => listener.hears)
  return { proxy, listener, heard, lost, turns: () => turns }
}

async function tell(text: string): Promise<void> {
  await rowsOf(system.db, 'select pg_notify($1, $2)', [WAKE_CHANNEL, text])
}

describe('hints that were left behind', () => {
  it('WAKE-3: any process clears them away, and they never pile up', async () => {
    await oneSlot()
    await rowsOf(
      system.db,
      `insert into wake_hint (writer, model_id, created_at)
        select gen_random_uuid(), 'seedance-2.0-933', clock_timestamp() - interval '2 seconds' from generate_series(1, 5500)`,
    )
    // Neither one that wakes others nor one that hears them.
    const anyone = wakeOf({ db: system.db, hints: false })
    await anyone.beat()
    expect(await hints()).toEqual([])
    expect(anyone.figures).toMatchObject({ swept: 5500, told: 0 })
    const b = await started({ roles: ['api'], hints: false })
    await rowsOf(
      system.db,
      `insert into wake_hint (writer, model_id) values (gen_random_uuid(), 'seedance-2.0-933')`,
    )
    await until('a process to do so by itself', async () => b.wakeFigures.swept === 1)
  })

  it('WAKE-3: however much there is to tell, one word each 15 ms', async () => {
    await oneSlot()
    let flushes = 0
    // Each word has the next one to tell.
    const busy: Sql = {
      query: async (statement, values) => {
        const answer = await system.db.query(statement, values)
        if (typeof statement === 'object' && statement.name === 'flush-wake-hints') flushes += 1
        wake.written()
        return answer as never
      },
    }
    await started({ roles: ['dispatch'] })
    const wake = wakeOf({ db: busy, hints: true })
    await wake.start()
    const from = performance.now()
    wake.written()
    await until('five words', async () => flushes >= 5)
    // A timer may be a millisecond early.
    expect((performance.now() - from) / (flushes - 1)).toBeGreaterThanOrEqual(14)
    await wake.stop()
  })

  it('WAKE-3: a burst leaves nothing in the outbox, and is heard', async () => {
    await oneSlot()
    const b = await sleeper()
    const a = await teller()
    await Promise.all(Array.from({ length: 60 }, () => admitted(system, a)))
    await until('the outbox to be empty', async () => (await hints()).length === 0)
    await until('B to hear', async () => b.wakeFigures.heard === a.wakeFigures.told)
    expect(b.wakeFigures.heard).toBeGreaterThan(0)
  })

  it('WAKE-3: two who take at once take each hint once, and wait for nobody', async () => {
    await oneSlot()
    const writer = randomUUID()
    await rowsOf(
      system.db,
      `insert into wake_hint (writer, model_id) select $1, 'seedance-2.0-933' from generate_series(1, 3)`,
      [writer],
    )
    const client = new pg.Client({ connectionString: system.url })
    await client.connect()
    closing.push(() => client.end())
    await client.query('begin')
    await client.query('select from wake_hint order by id limit 1 for update')
    expect(await flushHints(system.db, writer)).toEqual({ taken: 2, told: false })
    await client.query('rollback')
    expect(await flushHints(system.db, writer)).toEqual({ taken: 1, told: false })
  })

  it('WAKE-3: a process that is killed before it could tell loses nothing but time', async () => {
    await oneSlot()
    const { db } = system
    const b = await sleeper()
    const gateway = await startGateway(system, 'api,poll')
    closing.push(() => gateway.kill('SIGKILL'))
    const door = system.engine({ roles: ['api'] })
    const first = await admitted(system, door)
    const second = await admitted(system, door)
    // From here on nobody can take a hint, so that the gateway frees the slot and dies without a word.
    await db.query(`create function nobody_takes() returns trigger language plpgsql as
      $$ begin raise exception 'nobody takes a hint now'; end $$;
      create trigger nobody_takes before delete on wake_hint for each row execute function nobody_takes()`)
    await b.dispatchOnce()
    await ended(system, first)
    expect(await hints()).toHaveLength(1)
    await gateway.kill('SIGKILL')
    expect(await attemptsOf(system, second)).toEqual([])
    await db.query('drop trigger nobody_takes on wake_hint')
    await attemptIn(system, second, 'accepted')
    expect(await hints()).toEqual([])
    expect(b.wakeFigures).toMatchObject({ swept: 1 })
  })
})

describe('hints and a long backlog', () => {
  it('WAKE-4: twenty thousand tasks of a saturated model do not delay the wake-up of another', async () => {
    await oneSlot({ catalog: withSecondModel })
    const { db } = system
    await only('seedance-relay')
    const door = system.engine({ roles: ['api'] })
    await admitted(system, door)
    await db.query(`insert into task (kind, customer_id, api_key_id, model_id, release_id, state, lane, facts)
      select 'video', customer_id, api_key_id, model_id, release_id, 'queued', lane || n % 40, facts from task, generate_series(1, 20000) n`)
    await db.query(`update binding set enabled = false where model_id = 'seedance-2.0-933'`)
    await db.query('analyze task')
    const b = await sleeper()
    const a = await teller()
    const other = { modelId: 'another-model' }
    const first = await admitted(system, a, other)
    await attemptIn(system, first, 'accepted')
    const second = await admitted(system, a, other)
    await ended(system, second)
    expect(await handedOn(first, second)).toBeLessThan(1000)
    expect(b.wakeFigures.heard).toBeGreaterThanOrEqual(2)
    expect(
      await rowsOf(
        db,
        `select from attempt a join task t on t.id = a.task_id where t.model_id <> 'another-model'`,
      ),
    ).toEqual([])
  })
})
