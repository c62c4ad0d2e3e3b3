/** Attempts that a living process lost out of its hands, because its database went away at the wrong moment. */
import { afterEach, describe, expect, it } from 'vitest'
import { Dispatcher } from '../../src/runtime/dispatcher.ts'
import type { Engine } from '../../src/runtime/engine.ts'
import { Granter } from '../../src/runtime/granter.ts'
import { settleOwnOrphans } from '../../src/runtime/own-orphans.ts'
import type { Database } from '../../src/store/database.ts'
import { Releases } from '../../src/store/releases.ts'
import { imageRequest, rowsOf, type System, startSystem, VIDEO } from '../system/kit.ts'
import { admitted, attemptIn, attemptsOf, ended, ledger } from './facts.ts'

let system: System
afterEach(() => system?.stop())

/** The database, of which the statement of that name fails the first times as if the server were being killed. */
function failing(db: Database, name: string, times: number): Database {
  let left = times
  return new Proxy(db, {
    get(target, property) {
      const value = Reflect.get(target, property)
      if (property !== 'query') return typeof value === 'function' ? value.bind(target) : value
      return (statement: { name?: string } | string, values?: unknown[]) => {
        if (typeof statement === 'object' && statement.name === name && left-- > 0)
          throw new Error('Connection terminated unexpectedly')
        return target.query(statement as never, values)
      }
    },
  })
}

/** The database, of which the first answer of any rows to that statement is lost after it was carried out. */
function answerLost(db: Database, name: string): Database {
  let left = 1
  return new Proxy(db, {
    get(target, property) {
      const value = Reflect.get(target, property)
      if (property !== 'query') return typeof value === 'function' ? value.bind(target) : value
      return async (statement: { name?: string } | string, values?: unknown[]) => {
        const answer = await target.query(statement as never, values)
        const isIt = typeof statement === 'object' && statement.name === name && (answer.rowCount ?? 0) > 0
        if (isIt && left-- > 0) throw new Error('Connection terminated unexpectedly')
        return answer
      }
    },
  })
}

/** Grants as that engine's own process would, and never hears of the commit. */
async function grantedAndForgotten(engine: Engine): Promise<void> {
  const dispatcher = new Dispatcher({
    db: system.db,
    releases: new Releases(),
    granter: new Granter(system.db, engine.id),
    submit: () => undefined,
    room: () => 10,
    reject: async () => undefined,
  })
  await dispatcher.tick()
}

const orphans = (engine: Engine, inHand: ReadonlySet<string> = new Set()) =>
  settleOwnOrphans({ db: system.db, owner: engine.id, inHand, settle: engine.settle }, 0)

describe('an attempt whose owner lives and does not know of it', () => {
  it('UNK-6: only reserved, it goes back to the queue uncounted, and the task is served', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
    const engine = system.engine()
    const task = await admitted(system, engine)
    await grantedAndForgotten(engine)
    const attempt = await attemptIn(system, task, 'reserved')
    // Not while it is in hand.
    await orphans(engine, new Set([attempt.id]))
    expect(await attemptIn(system, task, 'reserved')).toMatchObject({ lease_held: true })
    await orphans(engine)
    expect((await attemptsOf(system, task))[0]).toMatchObject({
      state: 'abandoned',
      number: null,
      lease_held: false,
    })
    await engine.start()
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 1 })
  })

  it('UNK-6: having said `submitting`, it is uncertain, and never posted again', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
    const engine = system.engine()
    const task = await admitted(system, engine)
    await grantedAndForgotten(engine)
    const attempt = await attemptIn(system, task, 'reserved')
    await rowsOf(
      system.db,
      `with said as (update task set attempts = 1) update attempt set state = 'submitting', number = 1, submitting_at = clock_timestamp()`,
    )
    await orphans(engine)
    expect(await attemptIn(system, task, 'submission_uncertain')).toMatchObject({
      id: attempt.id,
      lease_held: true,
    })
    expect(await ledger(system)).toMatchObject({ posts: 0 })
  })

  it('UNK-6: what is younger, or another process’s, is left alone', async () => {
    system = await startSystem()
    const engine = system.engine()
    const other = system.engine()
    const task = await admitted(system, engine)
    await grantedAndForgotten(engine)
    await orphans(other)
    await settleOwnOrphans({ db: system.db, owner: engine.id, inHand: new Set(), settle: engine.settle }, 30)
    expect(await attemptIn(system, task, 'reserved')).toMatchObject({ lease_held: true })
  })
})

describe('a database that goes away', () => {
  it('UNK-6: between an image’s grant and its call leaves an attempt that was none; the request goes on', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
    const engine = system.engine({ db: failing(system.db, 'content-for-submission', 1) })
    await engine.start()
    const answer = await engine.runImage(imageRequest(system.customer))
    expect(answer.kind).toBe('finished')
    const attempts = await attemptsOf(system)
    expect(attempts.map((attempt) => attempt.state)).toEqual(['abandoned', 'succeeded'])
    expect(await ledger(system)).toMatchObject({ posts: 1, accepted: 1 })
  })

  it.each(['content-for-submission', 'credential-by-id'])(
    'UNK-6: as a video is prepared (%s) gives it back to the queue, and blames nobody',
    async (name) => {
      system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
      const engine = system.engine({ db: failing(system.db, name, 1) })
      await engine.start()
      const task = await admitted(system, engine)
      expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 1 })
      expect((await attemptsOf(system, task)).map((attempt) => attempt.state)).toEqual([
        'abandoned',
        'succeeded',
      ])
    },
  )

  it.each(['claim-polls'])(
    'RTY-7: as a job is looked after (%s) leaves it in nobody’s hands, and the job is looked after again within seconds',
    async (name) => {
      system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
      const engine = system.engine({ db: answerLost(system.db, name) })
      await engine.start()
      const task = await admitted(system, engine)
      // A poll’s claim is good for a minute, that of a download for five.
      const since = performance.now()
      await ended(system, task)
      expect(performance.now() - since).toBeLessThan(30_000)
      expect((await attemptsOf(system, task)).map((attempt) => attempt.state)).toEqual(['succeeded'])
      expect(system.faults.length).toBeGreaterThan(0)
    },
  )

  it('a request that cannot be opened for another reason ends, as before', async () => {
    system = await startSystem()
    const engine = system.engine()
    await engine.start()
    const content = {
      prompt: 'x',
      inputs: { first_frame: [{ asset: 'f'.repeat(64), contentType: 'image/png', filename: 'a' }] },
      metadata: {},
      echo: {},
    }
    const facts = { ...VIDEO, inputs: { first_frame: 1 } }
    const task = await admitted(system, engine, { content, facts })
    expect(await ended(system, task)).toMatchObject({ state: 'failed', error_code: 'internal_error' })
  })
})
