/** Cancelling, in every state that a task may be in: only what is known not to be under way, or can be stopped, is stopped. */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { rowsOf, type System, startSystem } from '../system/kit.ts'
import { admitted, attemptIn, attemptsOf, ended, fault, leaveOnly, ledger, taskOf } from './facts.ts'

let system: System
afterEach(() => system?.stop())

async function start(simulator: object = { defaults: { duration_ms: 100 } }) {
  system = await startSystem({ simulator })
  const engine = system.engine()
  await engine.start()
  return engine
}

const usage = () => rowsOf(system.db, 'select result, error_code, cost_micros from usage_record')
const jobs = async () =>
  ((await system.control('GET', '/jobs')) as { jobs: { state: string }[] }).jobs.map((job) => job.state)

describe('cancelling', () => {
  it('a queued task ends at once, and is never submitted', async () => {
    system = await startSystem()
    const door = system.engine({ roles: ['api'] })
    const task = await admitted(system, door)
    expect(await door.cancelTask(task)).toEqual({ kind: 'cancelled' })
    expect(await taskOf(system, task)).toMatchObject({ state: 'cancelled', error_code: null })
    await door.start()
    await door.dispatchOnce()
    expect(await attemptsOf(system)).toEqual([])
    expect(await ledger(system)).toMatchObject({ posts: 0 })
    expect(await usage()).toEqual([{ result: 'cancelled', error_code: null, cost_micros: 0n }])
  })

  it('UNK-1: one that is being submitted is refused, and goes on', async () => {
    const engine = await start()
    await fault(system, { on: 'create', fault: { kind: 'slow_answer', ms: 2000 } })
    const task = await admitted(system, engine)
    await attemptIn(system, task, 'submitting')
    expect(await engine.cancelTask(task)).toEqual({ kind: 'refused', why: 'submitting' })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', cancel_requested_at: null })
  })

  it('UNK-2: one of unknown outcome is refused, and holds its lease', async () => {
    const engine = await start()
    await fault(system, { on: 'create', fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, engine)
    await attemptIn(system, task, 'submission_uncertain')
    expect(await engine.cancelTask(task)).toEqual({ kind: 'refused', why: 'uncertain' })
    expect(await taskOf(system, task)).toMatchObject({ state: 'running', cancel_requested_at: null })
    expect(await attemptsOf(system, task)).toMatchObject([
      { state: 'submission_uncertain', lease_held: true },
    ])
  })

  it('COST-7: one that its provider has in its queue is stopped there, frees its slot and costs nothing', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', fault: { kind: 'stuck', in: 'queued' } })
    const task = await admitted(system, engine)
    await attemptIn(system, task, 'accepted')
    expect(await engine.cancelTask(task)).toEqual({ kind: 'cancelled' })
    expect(await taskOf(system, task)).toMatchObject({ state: 'cancelled', error_code: null })
    expect(await attemptsOf(system, task)).toMatchObject([
      { state: 'cancelled', lease_held: false, cost_micros: 0n },
    ])
    expect(await jobs()).toEqual(['cancelled'])
    expect(await usage()).toEqual([{ result: 'cancelled', error_code: null, cost_micros: 0n }])
  })

  it('COST-7: where the supply bills failures, the job that was stopped is paid for', async () => {
    const engine = await start({ defaults: { duration_ms: 60_000 } })
    await system.applyText(
      system.demo.replaceAll('prices:\n      rows:', 'prices:\n      bills_failures: true\n      rows:'),
    )
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', fault: { kind: 'stuck', in: 'queued' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'accepted')
    expect(attempt.quote_micros).toBeGreaterThan(0n)
    expect(await engine.cancelTask(task)).toEqual({ kind: 'cancelled' })
    expect(await attemptsOf(system, task)).toMatchObject([
      { state: 'cancelled', cost_micros: attempt.quote_micros },
    ])
    expect(await usage()).toEqual([
      { result: 'cancelled', error_code: null, cost_micros: attempt.quote_micros },
    ])
  })

  it('one that its provider will not stop is refused, and its result is delivered', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', fault: { kind: 'stuck', in: 'running' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'accepted')
    expect(await engine.cancelTask(task)).toEqual({ kind: 'refused', why: 'provider_refused' })
    expect(await taskOf(system, task)).toMatchObject({ state: 'running', cancel_requested_at: null })
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'accepted', lease_held: true }])
    await system.control('POST', `/jobs/${attempt.provider_task_id}/end`, { state: 'succeeded' })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
  })

  it('where the provider does not answer, nothing is said to be cancelled, and the wish is kept', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', fault: { kind: 'stuck', in: 'queued' } })
    const task = await admitted(system, engine)
    await attemptIn(system, task, 'accepted')
    await fault(system, { on: 'cancel', times: 'forever', fault: { kind: 'accept_then_drop' } })
    // What the provider did is found by looking again.
    expect(await engine.cancelTask(task)).toEqual({ kind: 'refused', why: 'provider_silent' })
    expect(await ended(system, task)).toMatchObject({ state: 'cancelled' })
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'cancelled', lease_held: false }])
  })

  it('one that has ended stays as it is', async () => {
    const engine = await start()
    const task = await admitted(system, engine)
    await ended(system, task)
    expect(await engine.cancelTask(task)).toEqual({ kind: 'already_ended', state: 'succeeded' })
    expect(await taskOf(system, task)).toMatchObject({ state: 'succeeded' })
    expect(await usage()).toMatchObject([{ result: 'succeeded' }])
    expect(await engine.cancelTask(randomUUID())).toEqual({ kind: 'not_found' })
  })
})
