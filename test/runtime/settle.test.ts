/** What an outcome makes of its attempt and of its task: who is blamed, who tries again, and what the customer is told. */
import { afterEach, describe, expect, it } from 'vitest'
import { rowsOf, type System, type SystemOptions, startSystem, until, VIDEO } from '../system/kit.ts'
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

function refuse(name: string, more: object = {}, rule: object = {}) {
  return fault(system, { on: 'create', times: 1, fault: { kind: 'error', name, ...more }, ...rule })
}

async function noNewsOfFailure(): Promise<void> {
  const told = await rowsOf(
    system.db,
    `select level_id, kind from health_events where kind not in ('restored', 'recovered')`,
  )
  expect(told).toEqual([])
}

describe('a refusal of the content', () => {
  it('ERR-1, ERR-2, ERR-3, RTY-2: is final, touches no health, and is told in our words alone', async () => {
    const engine = await start()
    await refuse('content_refused')
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({
      state: 'failed',
      error_code: 'content_refused',
      attempts: 1,
    })
    const attempts = await attemptsOf(system, task)
    expect(attempts).toMatchObject([
      {
        state: 'failed',
        category: 'content',
        scope: 'request',
        retryable: false,
        lease_held: false,
        cost_micros: 0n,
      },
    ])
    await noNewsOfFailure()
    const [raw] = await rowsOf<{ provider_code: string; error_message: string; provider: string }>(
      system.db,
      'select provider_code, error_message, provider from attempt where task_id = $1::uuid',
      [task],
    )
    expect(raw?.provider_code).toMatch(/SensitiveContent/)
    const seen = await customerSees(system, task)
    expect(seen).toContain('"code":"content_refused"')
    for (const secret of [raw?.provider_code, raw?.error_message, attempts[0]?.supply_id, 'doubao', '"ark'])
      expect(seen).not.toContain(secret ?? 'there is nothing to compare with')
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('ERR-2: counts no more when it comes after several polls', async () => {
    const engine = await start()
    await fault(system, { on: 'create', fault: { kind: 'content_refused_later', after_polls: 3 } })
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'failed', error_code: 'content_refused' })
    const [attempt] = await attemptsOf(system, task)
    expect(attempt).toMatchObject({ category: 'content', polls: 3 })
    await noNewsOfFailure()
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('ERR-4: of a real person stops by default; the third in a day by a supply marked allowed raises an alert', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north'])
    await refuse('real_person', {}, { times: 3 })
    for (const alerts of [false, false, true]) {
      const task = await admitted(system, engine, { facts: { ...VIDEO, realPerson: true } })
      expect(await ended(system, task)).toMatchObject({ error_code: 'real_person_refused', attempts: 1 })
      expect((await alertCodes(system)).includes('real_person_policy')).toBe(alerts)
    }
    await noNewsOfFailure()
  })

  it('ERR-4: of a real person changes supply where the policy says so', async () => {
    const engine = await start({
      catalog: (text) => text.replace('video: {}', 'video: { real_person_refusal: change_supply }'),
    })
    await refuse('real_person')
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    const [first, second] = await attemptsOf(system, task)
    expect(second?.supply_id).not.toBe(first?.supply_id)
  })
})

describe('a failure that another supply may not have', () => {
  it('RTY-1: changes supply once', async () => {
    const engine = await start()
    await refuse('model_missing')
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2, error_code: null })
    const [first, second] = await attemptsOf(system, task)
    expect(first).toMatchObject({
      state: 'failed',
      number: 1,
      category: 'supply',
      scope: 'supply',
      retryable: true,
    })
    expect(second).toMatchObject({ state: 'succeeded', number: 2 })
    expect(second?.supply_id).not.toBe(first?.supply_id)
    expect(await eventsOf(system, first?.supply_id ?? '')).toMatchObject([{ kind: 'failure_counted' }])
  })

  it('RTY-4: the second failure is final, and both attempts are kept', async () => {
    const engine = await start()
    await refuse('model_missing', {}, { times: 'forever' })
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({
      state: 'failed',
      error_code: 'attempts_exhausted',
      attempts: 2,
    })
    expect(await attemptsOf(system, task)).toMatchObject([
      { number: 1, state: 'failed', error_code: 'model_missing' },
      { number: 2, state: 'failed', error_code: 'model_missing' },
    ])
    expect(await ledger(system)).toMatchObject({ posts: 2 })
  })

  it('RTY-2: a bad parameter does not', async () => {
    const engine = await start()
    await refuse('bad_parameter')
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({
      state: 'failed',
      error_code: 'invalid_request',
      attempts: 1,
    })
    await noNewsOfFailure()
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('HLT-15, RTY-6: a first 429 holds its supply and is no failure; on the only supply the task waits as long', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north'])
    await refuse('rate_limited', { retry_after_s: 40 })
    const task = await admitted(system, engine)
    const first = await attemptIn(system, task, 'failed')
    expect(first).toMatchObject({ category: 'capacity', scope: 'supply', retryable: true, lease_held: false })
    expect(await healthOf(system, 'supply', first.supply_id)).toMatchObject({ state: 'healthy', held: true })
    expect(await eventsOf(system, first.supply_id)).toMatchObject([{ kind: 'held', to_state: 'healthy' }])
    const [wait] = await rowsOf<{ seconds: number }>(
      system.db,
      'select extract(epoch from next_action_at - clock_timestamp())::float8 as seconds from task where id = $1::uuid',
      [task],
    )
    expect(wait?.seconds).toBeGreaterThan(20)
    expect(wait?.seconds).toBeLessThanOrEqual(40)
    expect(await taskOf(system, task)).toMatchObject({ state: 'queued', attempts: 1 })
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('RTY-6: with another supply free, it goes there at once', async () => {
    const engine = await start()
    await refuse('rate_limited', { retry_after_s: 40 })
    const task = await admitted(system, engine)
    // Long before the 40 s are over, which `ended` would not outwait with its attempt where it was.
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    const [first, second] = await attemptsOf(system, task)
    expect(second?.supply_id).not.toBe(first?.supply_id)
    const [gap] = await rowsOf<{ seconds: number }>(
      system.db,
      `select extract(epoch from max(submitting_at) - min(ended_at))::float8 as seconds from attempt where task_id = $1::uuid`,
      [task],
    )
    expect(gap?.seconds).toBeLessThan(20)
  })
})

describe('a job that has been accepted', () => {
  async function overdue() {
    const engine = await start()
    await fault(system, { on: 'create', fault: { kind: 'stuck' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'accepted')
    await system.db.query(`update attempt set run_deadline = clock_timestamp() where state = 'accepted'`)
    expect(await ended(system, task)).toMatchObject({ state: 'failed', error_code: 'generation_timeout' })
    expect(await alertCodes(system)).toContain('generation_timeout')
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'accepted', lease_held: true }])
    const [held] = await rowsOf<{ seconds: number }>(
      system.db,
      'select extract(epoch from held_until - clock_timestamp())::float8 as seconds from capacity_lease where attempt_id = $1',
      [attempt.id],
    )
    // It is still asked about, for as long as the provider may work on it.
    expect(held?.seconds).toBeGreaterThan(3600)
    return { task, attempt }
  }

  it('RTY-7: past max_run_seconds it fails its task, holds its lease, and its late result is an orphan with its cost', async () => {
    const { task, attempt } = await overdue()
    await system.control('POST', `/jobs/${attempt.provider_task_id}/end`, { state: 'succeeded' })
    await until('the orphan', async () => {
      await system.db.query(
        `update attempt set next_poll_at = clock_timestamp() where state = 'accepted' and poll_owner is null`,
      )
      return (await rowsOf(system.db, 'select 1 as one from orphan_result')).length === 1
    })
    expect(await rowsOf(system.db, 'select attempt_id, how, cost_micros from orphan_result')).toEqual([
      { attempt_id: attempt.id, how: 'finished', cost_micros: attempt.quote_micros },
    ])
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'succeeded', lease_held: false }])
    expect(await taskOf(system, task)).toMatchObject({ state: 'failed', error_code: 'generation_timeout' })
    expect(await rowsOf(system.db, 'select * from task_output')).toEqual([])
    expect(await rowsOf(system.db, 'select result, cost_micros from usage_record')).toEqual([
      { result: 'failed', cost_micros: attempt.quote_micros },
    ])
    expect(await alertCodes(system)).toContain('orphan_result')
  })

  it("RTY-7: its lease is released at the end of the provider's maximum life", async () => {
    const { task } = await overdue()
    await system.db.query('update capacity_lease set held_until = clock_timestamp()')
    await attemptIn(system, task, 'failed')
    expect(await attemptsOf(system, task)).toMatchObject([
      { lease_held: false, error_code: 'generation_timeout' },
    ])
  })

  it('that fails after a cancellation that its provider left unanswered ends cancelled, and is not tried again', async () => {
    const engine = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'stuck', in: 'queued' } })
    const task = await admitted(system, engine)
    const attempt = await attemptIn(system, task, 'accepted')
    await fault(system, { on: 'cancel', times: 'forever', fault: { kind: 'reset' } })
    expect(await engine.cancelTask(task)).toEqual({ kind: 'refused', why: 'provider_silent' })
    await system.control('POST', `/jobs/${attempt.provider_task_id}/end`, { state: 'failed' })
    expect(await ended(system, task)).toMatchObject({ state: 'cancelled', error_code: null, attempts: 1 })
    // Another supply is free, and would have had the next attempt, were the cancellation forgotten.
    expect(await attemptsOf(system, task)).toMatchObject([
      { state: 'failed', category: 'supply', retryable: true, lease_held: false },
    ])
    expect(await ledger(system)).toMatchObject({ posts: 1 })
  })

  it('ERR-1: with a status that nobody knows it is asked about again, with an alert', async () => {
    const engine = await start()
    await fault(system, { on: 'create', fault: { kind: 'unknown_status', status: 'reviewing', at_poll: 1 } })
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 1 })
    expect(await alertCodes(system)).toContain('unknown_status')
    expect((await attemptsOf(system, task))[0]?.polls).toBeGreaterThan(1)
  })
})
