/** An image inside its one request: what it tries again, what it does not, and when it only says that there is no room. */
import { randomBytes, randomUUID } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { imageRequest, rowsOf, type System, type SystemOptions, startSystem } from '../system/kit.ts'
import { attemptsOf, fault, ledger } from './facts.ts'

let system: System
afterEach(() => system?.stop())

async function start(options: SystemOptions = {}) {
  system = await startSystem(options)
  const engine = system.engine()
  await engine.start()
  return engine
}

function refuse(name: string, times: number | 'forever' = 1) {
  return fault(system, { on: 'image', times, fault: { kind: 'error', name } })
}

describe('an image', () => {
  it('RTY-5: changes supply once inside its request', async () => {
    const engine = await start()
    await refuse('model_missing')
    expect(await engine.runImage(imageRequest(system.customer))).toMatchObject({ kind: 'finished' })
    const attempts = await attemptsOf(system)
    expect(attempts).toMatchObject([{ state: 'failed' }, { state: 'succeeded' }])
    expect(new Set(attempts.map((attempt) => attempt.supply_id)).size).toBe(2)
    expect(await ledger(system)).toMatchObject({ posts: 2 })
  })

  it('RTY-5: changes it no second time', async () => {
    const engine = await start()
    await refuse('model_missing', 'forever')
    const answer = await engine.runImage(imageRequest(system.customer))
    expect(answer).toMatchObject({ kind: 'failed', code: 'attempts_exhausted', submitted: true })
    expect(await ledger(system)).toMatchObject({ posts: 2 })
  })

  it('RTY-5: begins no second call that its total timeout has no room for', async () => {
    const engine = await start({
      catalog: (text) =>
        text.replace('    limits: *seedream\n', '    limits: *seedream\n    image_timeout_seconds: 3\n'),
    })
    const slowly = [
      { kind: 'delay', ms: 2200 },
      { kind: 'error', name: 'model_missing' },
    ]
    await fault(system, { on: 'image', times: 1, fault: slowly })
    const answer = await engine.runImage(imageRequest(system.customer))
    expect(answer).toMatchObject({ kind: 'failed', code: 'generation_timeout', submitted: true })
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it.each([
    ['content_refused', 'content_refused'],
    ['bad_parameter', 'invalid_request'],
  ])('RTY-5: %s is not tried again', async (name, code) => {
    const engine = await start()
    await refuse(name)
    expect(await engine.runImage(imageRequest(system.customer))).toMatchObject({ kind: 'failed', code })
    expect(await attemptsOf(system)).toHaveLength(1)
    expect(await ledger(system)).toMatchObject({ posts: 1 })
    expect(await rowsOf(system.db, 'select * from health_events')).toEqual([])
  })

  it.each([
    [
      'capacity',
      `update supply_health set not_before = clock_timestamp() + interval '20 seconds',
      counters = counters || '{"holds": 1}'`,
    ],
    [
      'health',
      `update supply_health set state = 'circuit_open', open_until = clock_timestamp() + interval '1 hour'`,
    ],
  ])(
    'RTY-5: without %s it is told to wait at once: nothing is submitted, and its key is free',
    async (reason, sql) => {
      const engine = await start()
      await system.db.query(sql)
      const idempotency = { endpoint: 'images', key: randomUUID(), payloadDigest: randomBytes(32) }
      const answer = await engine.runImage(imageRequest(system.customer, { idempotency }))
      expect(answer).toMatchObject({ kind: 'wait', reason, retryAfterSeconds: expect.any(Number) })
      expect(await attemptsOf(system)).toEqual([])
      expect(await rowsOf(system.db, 'select * from idempotency_claim')).toEqual([])
      expect(await ledger(system)).toMatchObject({ posts: 0 })
    },
  )
})
