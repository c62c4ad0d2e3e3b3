import { describe, expect, it } from 'vitest'
import { candidate, failed, input, type Json, verdict } from './build.ts'

const samples = (successes: number, failures: number) => ({ samples: { successes, failures } })
const ranked = (candidates: Json[], parts: Json = {}) => {
  const { ranking, decided_by } = verdict(input(candidates, parts))
  return [ranking?.map((id) => id.slice(2)).join(' '), decided_by]
}
const policy = (strategy: string, more: Json = {}) => ({ policy: { strategy, ...more } })

describe('the keys of the strategies, in their order', () => {
  // Each row: a is better by this key, b by every key behind it.
  const worse = { supply: { health: 'degraded', ...samples(50, 50), in_use: 4 }, price: '2' }
  const best = { supply: samples(100, 0), price: '1' }

  it.each([
    [
      'stable_first: health',
      'stable_first',
      { supply: { ...samples(50, 50), in_use: 4 }, price: '2' },
      { supply: { ...samples(100, 0), health: 'degraded' }, price: '1' },
      'health',
    ],
    [
      'stable_first: success rate',
      'stable_first',
      { supply: { ...samples(100, 0), in_use: 4 }, price: '2' },
      { supply: samples(50, 50), price: '1' },
      'success_rate',
    ],
    [
      'stable_first: expected cost',
      'stable_first',
      { supply: { in_use: 4 }, price: '1' },
      { price: '2' },
      'expected_cost',
    ],
    [
      'stable_first: free capacity',
      'stable_first',
      { supply: { in_use: 1 } },
      { supply: { in_use: 2 } },
      'free_capacity',
    ],
    [
      'cost_first: expected cost',
      'cost_first',
      { ...worse, price: '1' },
      { ...best, price: '2' },
      'expected_cost',
    ],
    [
      'cost_first: health',
      'cost_first',
      { supply: { ...samples(50, 50), in_use: 4 } },
      { supply: { ...samples(100, 0), health: 'degraded' } },
      'health',
    ],
    [
      'cost_first: success rate',
      'cost_first',
      { supply: { ...samples(100, 0), in_use: 4 } },
      { supply: samples(50, 50) },
      'success_rate',
    ],
    [
      'cost_first: free capacity',
      'cost_first',
      { supply: { in_use: 1 } },
      { supply: { in_use: 2 } },
      'free_capacity',
    ],
    [
      'manual_priority: priority',
      'manual_priority',
      { ...worse, priority: 2 },
      { ...best, priority: 1 },
      'priority',
    ],
    [
      'manual_priority: then as cost_first',
      'manual_priority',
      { supply: { health: 'degraded' }, price: '1' },
      { price: '2' },
      'expected_cost',
    ],
  ] as const)('STR-1, STR-2, STR-3, ORD-12: %s', (_, strategy, a, b, key) => {
    // Named so that the ID would decide the other way round.
    expect(ranked([candidate('z_a', a as Json), candidate('a_b', b as Json)], policy(strategy))).toEqual([
      'z_a a_b',
      key,
    ])
  })

  it('STR-1: supply ID, then binding ID, by code point', () => {
    const named = (binding: string, supply: string, channel = 'c') =>
      candidate('a', { supply: { id: supply }, channel: { id: channel }, more: { binding_id: binding } })
    expect(verdict(input([named('b1', 's2'), named('b2', 's1')]))).toMatchObject({
      ranking: ['b2', 'b1'],
      decided_by: 'supply_id',
    })
    // U+FF5E comes before U+1F600 by code point, and after it by UTF-16 unit.
    expect(verdict(input([named('b1', '\u{1F600}'), named('b2', '\uFF5E')])).ranking).toEqual(['b2', 'b1'])
    expect(verdict(input([named('B', 'sB'), named('a', 'sa')])).ranking).toEqual(['B', 'a'])
  })

  it('STR-3: the others never read priority; it ranks within its layer only', () => {
    const pair = [candidate('a', { priority: 0 }), candidate('b', { priority: 1_000_000 })]
    for (const strategy of ['stable_first', 'cost_first'])
      expect(ranked(pair, policy(strategy))).toEqual(['a b', 'supply_id'])
    expect(
      verdict(
        input([candidate('a'), candidate('f', { tier: 'fallback', priority: 9 })], policy('manual_priority')),
      ).binding_id,
    ).toBe('b_a')
    expect(
      ranked(
        [candidate('a', { priority: 9, supply: { health: 'circuit_open' } }), candidate('b')],
        policy('manual_priority'),
      ),
    ).toEqual(['b', 'only_candidate'])
  })

  it('STR-9: healthy, degraded, recovering, probing, the worse of channel and supply', () => {
    const states = [
      candidate('p', { channel: { health: 'probing' } }),
      candidate('r', {
        supply: { health: 'recovering', recovery_successes: 2 },
        channel: { health: 'degraded' },
      }),
      candidate('d', { channel: { health: 'degraded' } }),
      candidate('h'),
    ]
    expect(ranked(states)).toEqual(['h d r p', 'health'])
  })
})

describe('success rates', () => {
  const order = (...pairs: [number, number][]) =>
    ranked(pairs.map(([x, f], at) => candidate(String.fromCharCode(122 - at), { supply: samples(x, f) })))

  it('STR-9: clearly worse ranks behind, by confidence and by five points', () => {
    expect(order([100, 0], [50, 50])).toEqual(['z y', 'success_rate'])
    expect(order([100, 0], [95, 5])).toEqual(['y z', 'supply_id'])
    expect(order([9500, 500], [9000, 1000])).toEqual(['z y', 'success_rate'])
    expect(order([9500, 500], [9001, 999])).toEqual(['y z', 'supply_id'])
  })

  it('STR-9: too small a sample is no evidence, and one candidate with enough is none either', () => {
    expect(order([19, 0], [0, 100])).toEqual(['y z', 'supply_id'])
    expect(order([20, 0], [0, 20])).toEqual(['z y', 'success_rate'])
    expect(order([20, 0], [0, 19])).toEqual(['y z', 'supply_id'])
    expect(
      ranked([candidate('z', { supply: samples(1, 0) }), candidate('a', { supply: samples(0, 0) })], {
        policy: { success_min_samples: 0 },
      }),
    ).toEqual(['a z', 'supply_id'])
  })

  it('STR-9: three compare with the best, never pair by pair, at a wider interval', () => {
    // Best by its lower bound: 54 of 62. Of two alone 20 of 30 is clearly worse; among three it takes more.
    expect(order([54, 8], [20, 10])).toEqual(['y z', 'supply_id'])
    expect(order([95, 5], [72, 28])).toEqual(['z y', 'success_rate'])
    // By hand: 84 of 100 is clearly worse than 97 at z = 1.96, and not at 2.33; 81 is at 2.33, and not at 2.576.
    const far: [number, number] = [90, 10]
    expect(order([97, 3], [84, 16])).toEqual(['z y', 'success_rate'])
    expect(order([97, 3], [84, 16], far)).toEqual(['x y z', 'supply_id'])
    expect(order([97, 3], [81, 19], far)).toEqual(['x z y', 'supply_id'])
    expect(order([97, 3], [81, 19], far, far, far)).toEqual(['v w x z y', 'supply_id'])
    expect(order([97, 3], [81, 19], far, far, far, far)).toEqual(['u v w x y z', 'supply_id'])
  })

  it('STR-10: expected cost of success, rounded up, only where failures are billed', () => {
    const billed = (x: number, f: number, price = '1') => ({
      supply: samples(x, f),
      more: { cost_rule: { mode: 'per_second', bills_failures: true, prices: [{ price }] } },
    })
    const plain = (price: string, x = 0, f = 0) => ({ price, supply: samples(x, f) })
    const first = (a: Json, b: Json) => ranked([candidate('z', a), candidate('a', b)], policy('cost_first'))
    // 5 ÷ (15/20) = 6.666667, against 6.666666 and 6.666667.
    expect(first(plain('1.3333332'.slice(0, 8)), billed(15, 5))).toEqual(['z a', 'expected_cost'])
    // Below the sample size the assumed rate counts: 5 ÷ 0.95 = 5.263158.
    expect(first(plain('1.0526314'.slice(0, 8)), billed(1, 18))).toEqual(['z a', 'expected_cost'])
    expect(first(plain('1.052632'), billed(1, 18))).toEqual(['a z', 'expected_cost'])
    expect(first(plain('99'), billed(0, 20))).toEqual(['z a', 'expected_cost'])
    expect(first(plain('1', 10, 10), plain('1.1', 20, 0))).toEqual(['z a', 'expected_cost'])
  })
})

describe('probe turn', () => {
  const probing = (supply: Json = {}, parts: Parameters<typeof candidate>[1] = {}) =>
    candidate('p', { ...parts, supply: { health: 'probing', ...supply } })
  const turn = (p: Json, parts: Json = {}) => {
    const found = verdict(
      input([candidate('h'), p], {
        ...parts,
        policy: { probe_interval_seconds: 30, ...(parts.policy as Json) },
      }),
    )
    return [found.binding_id, found.decided_by, found.probe_turn]
  }
  const first = ['b_p', 'probe_turn', true]
  const last = ['b_h', 'health', false]

  it.each([
    ['never granted', probing(), {}, first],
    ['granted exactly the interval ago', probing({ last_granted_at: '2026-12-01T08:00:30Z' }), {}, first],
    ['granted just less ago', probing({ last_granted_at: '2026-12-01T08:00:30.000001Z' }), {}, last],
    ['recovering', probing({ health: 'recovering', recovery_successes: 3 }), {}, first],
    ['its channel is being tried', candidate('p', { channel: { health: 'probing' } }), {}, first],
    [
      'both, one of them granted lately',
      probing({}, { channel: { health: 'probing', last_granted_at: '2026-12-01T08:00:59Z' } }),
      {},
      last,
    ],
    [
      'a healthy level’s last grant is not read',
      probing({}, { channel: { last_granted_at: '2026-12-01T08:00:59Z' } }),
      {},
      first,
    ],
    ['degraded is not being tried', candidate('p', { supply: { health: 'degraded' } }), {}, last],
    ['switched off', probing(), { policy: { probe_interval_seconds: null } }, last],
    [
      'at the normal price times two',
      probing({}, { price: '2' }),
      { model: { normal_cost: price('1') } },
      first,
    ],
    ['above it', probing({}, { price: '2.000001' }), { model: { normal_cost: price('1') } }, last],
    [
      'at the policy’s own multiplier, under every strategy',
      probing({}, { price: '3' }),
      {
        model: { normal_cost: price('1') },
        policy: { strategy: 'cost_first', stable_cost_multiplier_limit: 3 },
      },
      first,
    ],
  ] as const)('STR-11: %s', (_, p, parts, expected) => {
    expect(turn(p as Json, parts as Json)).toEqual(expected)
  })

  it('STR-11: for a task on its first attempt only', () => {
    const task = { attempts: [failed('x')] }
    const found = verdict(
      input([probing(), candidate('q', { supply: { health: 'probing' }, price: '0.5' })], {
        task,
        policy: { probe_interval_seconds: 30 },
      }),
    )
    expect(found).toMatchObject({ probe_turn: false, decided_by: 'expected_cost' })
  })

  it('STR-11: not with a cost obstacle that the override lifts', () => {
    const parts = {
      model: { emergency_cost_override: true },
      policy: { absolute_cost_limit: '1', probe_interval_seconds: 30 },
    }
    expect(verdict(input([candidate('h'), probing()], parts))).toMatchObject({
      binding_id: 'b_h',
      probe_turn: false,
    })
  })

  it('STR-11: without a baseline any price will do', () => {
    const found = verdict(
      input([candidate('f', { tier: 'fallback' }), probing({}, { tier: 'fallback', price: '99' })], {
        policy: { probe_interval_seconds: 30 },
      }),
    )
    expect(found).toMatchObject({ binding_id: 'b_p', probe_turn: true })
  })
})

function price(amount: string) {
  return { mode: 'per_second', bills_failures: false, prices: [{ price: amount }] }
}
