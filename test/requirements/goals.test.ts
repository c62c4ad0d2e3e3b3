/** The goals, each by the shortest case that shows it: what stands elsewhere rule by rule, here as what it is for. */
import { afterEach, describe, expect, it } from 'vitest'
import { candidate, end, input, type Json, VIDEO_MODE, verdict } from '../decision/build.ts'
import { admitted, attemptsOf, ended, fault, healthOf, leaveOnly } from '../runtime/facts.ts'
import { rowsOf, type System, startSystem } from '../system/kit.ts'

const open = { health: 'circuit_open' }
const rule = (more: Json = {}): Json => ({
  id: 'rule',
  published: true,
  from_profile: '933',
  to_profile: '900',
  operations: [{ op: 'drop_inputs', inputs: ['reference_videos'] }],
  ...more,
})

describe('the goals of a decision', () => {
  it('GOAL-1: what cannot do it is never chosen, however cheap it is and however alone', () => {
    const small = candidate('small', {
      price: '0.01',
      supply: {
        capability: { billing_mode: 'per_second', modes: [{ ...VIDEO_MODE, resolutions: ['480p'] }] },
      },
    })
    expect(end(input([small, candidate('able')]))).toBe('b_able')
    expect(end(input([small]))).toBe('rejected/no_capable_supply')
  })

  it('GOAL-5: the cost is estimated before anything is sent, and what is over the limit is not sent', () => {
    expect(verdict(input([candidate('a')]))).toMatchObject({ binding_id: 'b_a', quote: '5' })
    expect(end(input([candidate('a')], { policy: { absolute_cost_limit: '5' } }))).toBe('b_a')
    const under = { policy: { absolute_cost_limit: '4.999999' } }
    expect(end(input([candidate('a')], { ...under, task: { admitted: false } }))).toBe(
      'rejected/cost_limit_exceeded',
    )
    // Let in at another price, it waits.
    expect(end(input([candidate('a')], under))).toBe('wait/cost')
  })

  it('GOAL-6: every candidate is accounted for, by its place in the ranking or by one reason', () => {
    const all = [
      candidate('chosen'),
      candidate('second', { price: '2' }),
      candidate('open', { supply: open }),
      candidate('off', { channel: { admin_state: 'disabled' } }),
      candidate('full', { supply: { in_use: 5, in_use_epoch: 5 } }),
    ]
    const { binding_id, ranking, excluded, decided_by } = verdict(input(all))
    expect(binding_id).toBe('b_chosen')
    expect(decided_by).toBe('expected_cost')
    expect(ranking).toEqual(['b_chosen', 'b_second'])
    expect(Object.keys(excluded ?? {}).sort()).toEqual(['b_full', 'b_off', 'b_open'])
    expect(new Set(Object.values(excluded ?? {})).size).toBe(3)
  })

  it('GOAL-7, DEG-1: with no exact supply left a published rule delivers; an unpublished one never, nor to who said strict', () => {
    const yard = [candidate('exact', { supply: open }), candidate('less', { tier: 'degraded' })]
    expect(end(input(yard))).toBe('b_less')
    expect(end(input(yard, { rules: [rule({ published: false })] }))).toBe('wait/health')
    expect(end(input(yard, { request: { degradation: 'strict' } }))).toBe('wait/health')
    expect(end(input(yard, { model: { degradation: 'strict' } }))).toBe('wait/health')
  })
})

describe('the goals of a yard', () => {
  let system: System
  afterEach(() => system?.stop())

  it('GOAL-3: one refused key isolates its account; the task, and all after it, go elsewhere', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
    await leaveOnly(system, ['seedance-north', 'seedance-south'])
    await fault(system, {
      on: 'create',
      account: 'south',
      times: 'forever',
      fault: { kind: 'error', name: 'unauthorized' },
    })
    const engine = system.engine()
    await engine.start()
    const first = await admitted(system, engine)
    expect(await ended(system, first)).toMatchObject({ state: 'succeeded', attempts: 2 })
    expect(await healthOf(system, 'channel', 'ark-south')).toMatchObject({ state: 'circuit_open' })
    for (let n = 0; n < 3; n += 1)
      expect(await ended(system, await admitted(system, engine))).toMatchObject({
        state: 'succeeded',
        attempts: 1,
      })
    const south = (await attemptsOf(system)).filter((attempt) => attempt.channel_id === 'ark-south')
    expect(south).toHaveLength(1)
  })

  it('GOAL-4: what is free at several supplies is taken at all of them in one scan', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 60_000 } } })
    await leaveOnly(system, ['seedance-north', 'seedance-south', 'seedance-south-priority'])
    await rowsOf(system.db, `update supply set concurrency = 2 where id like 'seedance-%'`)
    const engine = system.engine({ roles: ['api'] })
    await engine.start()
    for (let n = 0; n < 7; n += 1) await admitted(system, engine)
    await engine.dispatchOnce()
    const live = await rowsOf(
      system.db,
      `select supply_id, count(*)::int as n from capacity_lease where released_at is null group by 1 order by 1`,
    )
    expect(live).toEqual([
      { supply_id: 'seedance-north', n: 2 },
      { supply_id: 'seedance-south', n: 2 },
      { supply_id: 'seedance-south-priority', n: 2 },
    ])
  })
})
