/** The cost of all attempts of a task stays inside its limit, also where prices change between them, or beside them. */
import { afterEach, describe, expect, it } from 'vitest'
import { admitted, attemptIn, attemptsOf, ended, fault, ledger } from '../runtime/facts.ts'
import { rowsOf, type System, startSystem, VIDEO } from '../system/kit.ts'

let system: System
afterEach(() => system?.stop())

/** 5 s at 720p cost 4.75 at the first choice and 5 at the next; a failure is billed, so that two fit under 10 and no more. */
const billed = (text: string) =>
  text
    .replace('video: {}', 'video: { task_cost_limit: 10 }')
    .replaceAll('prices:\n      rows:', 'prices:\n      bills_failures: true\n      rows:')
const dearer = (text: string) =>
  billed(text)
    .replace('price: 1.0 }', 'price: 1.2 }')
    .replace('price: 0.95 }', 'price: 1.2 }')
    .replace('price: 1.05 }', 'price: 1.2 }')
// Strict, so that a cheaper, degraded supply does not serve instead.
const STRICT = { facts: { ...VIDEO, degradation: 'strict' as const } }
const LIMIT = 10_000_000n

async function start() {
  system = await startSystem({ catalog: billed, simulator: { defaults: { duration_ms: 100 } } })
  const engine = system.engine({ scanMs: 100 })
  await engine.start()
  return engine
}

describe('the limit of a task', () => {
  it('COST-4, COST-6: a price that rose while the first attempt ran leaves no room for a second: the task ends, and nothing more is sent', async () => {
    const engine = await start()
    const failure = { kind: 'fails', code: 'InternalServiceError', message: 'no', after_ms: 4000 }
    await fault(system, { on: 'create', times: 1, fault: failure })
    const task = await admitted(system, engine, STRICT)
    await attemptIn(system, task, 'accepted')
    await system.applyText(dearer(system.demo))
    expect(await ended(system, task)).toMatchObject({ state: 'failed', error_code: 'cost_limit_exceeded' })
    // The first keeps the price that it was quoted with.
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'failed', cost_micros: 4_750_000n }])
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('COST-4, COST-6: no task goes over it, however prices move while attempts are granted', async () => {
    const engine = await start()
    const failure = { kind: 'fails', code: 'InternalServiceError', message: 'no', after_ms: 300 }
    await fault(system, { on: 'create', times: 6, fault: failure })
    const admissions = Array.from({ length: 12 }, () => admitted(system, engine, STRICT))
    for (const change of [dearer, billed, dearer, billed]) await system.applyText(change(system.demo))
    const tasks = await Promise.all(admissions)
    await Promise.all(tasks.map((task) => ended(system, task)))
    // Whether a second attempt still found the low price is a matter of the moment; that it fitted is not.
    const failed = (await attemptsOf(system)).filter(({ state }) => state === 'failed')
    expect(failed).toHaveLength(6)
    const spent = await rowsOf<{ most: bigint }>(
      system.db,
      'select sum(cost_micros)::bigint as most from attempt group by task_id',
    )
    expect(spent).toHaveLength(12)
    for (const { most } of spent) expect(most).toBeLessThanOrEqual(LIMIT)
  })
})
