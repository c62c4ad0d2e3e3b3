/** What only a mutant showed to be untested: see test/mutation. */
import { describe, expect, it } from 'vitest'
import { decideWithFigures } from '../../src/core/decide.ts'
import { parseDecisionInput } from '../../src/core/decision-json.ts'
import { candidate, end, imageCandidate, imageInput, input, type Json, VIDEO_MODE, verdict } from './build.ts'

const full = { in_use: 5, in_use_epoch: 5 }
const samples = (successes: number, failures: number) => ({ samples: { successes, failures } })
const failedOn = (name: string) => ({
  supply_id: `s_${name}`,
  channel_id: `c_${name}`,
  outcome: 'failed',
  category: 'supply',
  scope: 'supply',
  may_change_supply: true,
  cost: '0',
})

describe('search', () => {
  const spill = { spill_after_seconds: 0 }

  it('LAY-2: beyond the first three passes a saturated layer ends the search, though the time to spill has come', () => {
    const model = { emergency_cost_override: true }
    const policy = { ...spill, absolute_cost_limit: '1' }
    expect(
      end(input([candidate('a', { supply: full }), candidate('f', { tier: 'fallback' })], { model, policy })),
    ).toBe('wait/capacity')
    // Both tried: the same supply in both tiers.
    const tried = [candidate('z', { supply: full }), candidate('y', { tier: 'fallback' })]
    expect(
      end(input(tried, { model, policy, task: { attempts: [{ ...failedOn('z') }, { ...failedOn('y') }] } })),
    ).toBe('rejected/attempts_exhausted')
    expect(
      end(
        input(tried, {
          model,
          policy: { ...policy, max_attempts: 3 },
          task: { attempts: [failedOn('z'), failedOn('y')] },
        }),
      ),
    ).toBe('wait/capacity')
  })

  it.each([
    ['degraded_untried', {}, {}],
    ['degraded_tried', { attempts: [failedOn('a'), failedOn('r')] }, { max_attempts: 3 }],
    ['degraded_override_untried', {}, { absolute_cost_limit: '1' }],
    [
      'degraded_override_tried',
      { attempts: [failedOn('a'), failedOn('r')] },
      { absolute_cost_limit: '1', max_attempts: 3 },
    ],
  ])(
    'LAY-3, DEG-7: in %s a full allowed layer ends the search, though the time to spill has come',
    (_, task, policy) => {
      const candidates = [
        candidate('a', { tier: 'degraded', supply: full }),
        candidate('r', { tier: 'degraded', supply: { real_person: 'restricted' } }),
      ]
      const parts = {
        task,
        request: { real_person: true },
        model: { emergency_cost_override: true },
        policy: { ...spill, ...policy },
      }
      expect(end(input(candidates, parts))).toBe('wait/capacity')
    },
  )

  it('COST-6, LAY-4: a tried supply over a limit comes before an untried degraded one', () => {
    const parts = {
      task: { attempts: [failedOn('z')] },
      model: { emergency_cost_override: true },
      policy: { absolute_cost_limit: '8' },
    }
    expect(
      verdict(input([candidate('z', { price: '3' }), candidate('d', { tier: 'degraded' })], parts)),
    ).toMatchObject({ binding_id: 'b_z', pass: 'override_tried' })
  })

  it('LAY-4: a hold of a microsecond is a hold', () => {
    const held = candidate('e', { supply: { not_before: '2026-12-01T08:01:00.000001Z' } })
    expect(end(input([held, candidate('d', { tier: 'degraded' })]))).toBe('wait/capacity')
  })
})

describe('success rates', () => {
  const order = (min: number, ...pairs: [number, number][]) =>
    verdict(
      input(
        pairs.map(([x, f], at) => candidate(String.fromCharCode(122 - at), { supply: samples(x, f) })),
        { policy: { success_min_samples: min } },
      ),
    )
      .ranking?.map((id) => id.slice(2))
      .join(' ')

  it('STR-9: one outcome is enough where the policy says so, none never is', () => {
    // With a third candidate that counts, 84 of 100 is not clearly worse than 97; with two that count it is.
    expect(order(1, [97, 3], [84, 16], [1, 0])).toBe('x y z')
    expect(order(0, [97, 3], [84, 16], [0, 0])).toBe('x z y')
  })

  it('STR-9: the bounds of Wilson’s interval, near both ends', () => {
    // Lower bound of 20 of 20 at 1.96 is 0.8389; upper bounds of others just on either side of it.
    expect(order(20, [20, 0], [14, 6])).toBe('y z')
    expect(order(20, [20, 0], [12, 8])).toBe('z y')
    expect(order(20, [20, 0], [13, 7])).toBe('z y')
    expect(order(20, [300, 300], [20, 0], [60, 40])).toBe('y x z')
    // Six and more: 2.576. At 3 and more it would not be clearly worse any more.
    const equal: [number, number][] = [
      [97, 3],
      [97, 3],
      [97, 3],
      [97, 3],
    ]
    expect(order(20, [97, 3], [79, 21], ...equal)).toBe('u v w x z y')
  })

  it('STR-9: each term of the interval decides somewhere', () => {
    expect(order(20, [10, 15], [1, 19])).toBe('y z')
    expect(order(20, [12, 13], [2, 18])).toBe('y z')
    expect(order(20, [10, 10], [2, 18])).toBe('y z')
    expect(order(20, [18, 7], [6, 14])).toBe('z y')
    expect(order(20, [10, 10], [3, 22])).toBe('y z')
  })

  it('STR-10: one outcome is a rate where the policy says so', () => {
    const billed = (x: number, f: number) => ({
      supply: samples(x, f),
      more: { cost_rule: { mode: 'per_second', bills_failures: true, prices: [{ price: '1' }] } },
    })
    const first = (a: Json, b: Json, min: number) =>
      verdict(
        input([candidate('z', a), candidate('a', b)], {
          policy: { strategy: 'cost_first', success_min_samples: min },
        }),
      ).binding_id
    // Rate 1 of one outcome: 5, against 5 ÷ 0.95.
    expect(first(billed(1, 0), billed(0, 0), 1)).toBe('b_z')
    expect(first(billed(0, 0), { price: '1.06' }, 0)).toBe('b_z')
    expect(first(billed(0, 0), { price: '1.05' }, 0)).toBe('b_a')
  })
})

describe('obstacles and alerts', () => {
  const figures = (json: Json) =>
    Object.fromEntries(
      decideWithFigures(parseDecisionInput(json)).figures.map((each) => [each.bindingId, each.obstacles]),
    )

  it('ORD-9: a hold of a microsecond holds a channel too', () => {
    const held = candidate('e', { channel: { not_before: '2026-12-01T08:01:00.000001Z' } })
    expect(end(input([held]))).toBe('wait/capacity')
  })

  it('ORD-15: what health has stopped is not called full as well', () => {
    for (const health of ['circuit_open', 'disabled'])
      expect(figures(input([candidate('a', { supply: { health, ...full } })]))).toEqual({
        b_a: [health === 'disabled' ? 'supply_health_disabled' : 'supply_circuit_open'],
      })
  })

  it('ORD-15: a level that health has stopped has no slot to show', () => {
    for (const health of ['circuit_open', 'disabled']) {
      const { figures: all } = decideWithFigures(
        parseDecisionInput(input([candidate('a', { supply: { health } })])),
      )
      expect(all.map((each) => each.freeCapacity)).toEqual([0])
    }
  })

  it('ORD-12: one supply under two rules is told apart by its binding', () => {
    const rule = (id: string) => ({
      id,
      published: true,
      from_profile: '933',
      to_profile: '900',
      operations: [],
    })
    const two = ['y', 'x'].map((name) =>
      candidate(name, {
        tier: 'degraded',
        supply: { id: 's' },
        channel: { id: 'c' },
        more: { degradation_rule_id: `rule-${name}` },
      }),
    )
    const found = verdict(input(two, { rules: [rule('rule-x'), rule('rule-y')] }))
    expect(found).toMatchObject({ ranking: ['b_x', 'b_y'], decided_by: 'binding_id' })
  })

  it('ORD-15, DEG-7: without its rule there is no transformed request that could fit or not', () => {
    const poor = { capability: { billing_mode: 'per_second', modes: [] } }
    expect(figures(input([candidate('d', { tier: 'degraded', supply: poor })], { rules: [] }))).toEqual({
      b_d: ['degradation_rule_unavailable'],
    })
  })

  it('COST-6: the override’s alert comes before that of the limit that blocks', () => {
    const candidates = [candidate('a', { price: '9' }), candidate('f', { tier: 'fallback', price: '3' })]
    const parts = {
      model: { emergency_cost_override: true },
      policy: { task_cost_limit: '40', absolute_cost_limit: '8' },
    }
    expect(verdict(input(candidates, parts)).alerts).toEqual(['emergency_cost_override', 'cost_limit_blocks'])
  })

  it('RTY-3: a task of this very instant is not late for a window of no length', () => {
    const task = { created_at: '2026-12-01T08:01:00.000Z' }
    expect(end(input([candidate('a')], { task, policy: { retry_window_seconds: 0 } }))).toBe('b_a')
  })
})

describe('why a usable candidate was passed over', () => {
  const person = { request: { real_person: true } }
  const briefly = { not_before: '2026-12-01T08:01:05Z' }
  const restricted = (name: string, tier: string, supply: Json = {}) =>
    candidate(name, { tier, supply: { real_person: 'restricted', ...supply } })
  const reason = (candidates: Json[], parts: Json = person) => verdict(input(candidates, parts)).excluded?.b_r

  it('LAY-3: real_person_layer needs a capable allowed one of that tier', () => {
    const waiting = candidate('a', { supply: briefly })
    expect(reason([waiting, restricted('r', 'fallback')])).toBe('layer_not_reached')
    const off = candidate('f', { tier: 'fallback', supply: { admin_state: 'disabled' } })
    expect(reason([waiting, restricted('r', 'fallback'), off])).toBe('layer_not_reached')
    const open = candidate('f', { tier: 'fallback', supply: { health: 'circuit_open' } })
    expect(reason([waiting, restricted('r', 'fallback'), open])).toBe('real_person_layer')
  })

  it('LAY-3: is said of restricted ones alone, and of requests with a real person alone', () => {
    const task = { attempts: [failedOn('z')] }
    const recovering = { health: 'recovering', recovery_successes: 2 }
    expect(reason([candidate('a'), candidate('r', { supply: recovering })], { ...person, task })).toBe(
      'layer_not_reached',
    )
    expect(reason([candidate('a'), restricted('r', 'exact', recovering)], { task })).toBe('layer_not_reached')
    expect(reason([candidate('a'), restricted('r', 'exact', recovering)], { ...person, task })).toBe(
      'real_person_layer',
    )
  })

  it('LAY-4: in each pass of tried candidates another tried one is not called already_tried', () => {
    const task = { attempts: [failedOn('l'), failedOn('r')] }
    const policy = { absolute_cost_limit: '8', max_attempts: 3 }
    for (const tier of ['exact', 'degraded']) {
      // h keeps restricted ones shut; r could serve, was tried, and is passed over.
      const h = candidate('h', { tier, supply: briefly })
      const l = candidate('l', { tier, price: '3' })
      const parts = { ...person, task, policy, model: { emergency_cost_override: true } }
      const found = verdict(input([h, l, restricted('r', tier)], parts))
      expect(found.pass).toBe(tier === 'exact' ? 'override_tried' : 'degraded_override_tried')
      expect(found.excluded?.b_r).toBe('real_person_layer')
    }
    const pair = [candidate('l', { tier: 'degraded' }), restricted('r', 'degraded')]
    expect(reason(pair, { ...person, task, policy })).toBe('real_person_layer')
  })
})

describe('prices of another media', () => {
  const rows = (prices: Json[], mode: string) => ({
    more: { cost_rule: { mode, bills_failures: false, prices } },
  })
  const image = (parts: Json) => verdict(imageInput([imageCandidate('a', parts)])).excluded?.b_a
  const video = (parts: Json) => verdict(input([candidate('a', parts)])).excluded?.b_a

  it('COST-4, COST-7: a list of another billing mode gives no price', () => {
    expect(video(rows([{ price: '1' }], 'per_image'))).toBe('no_quote')
    for (const mode of ['per_second', 'per_request'])
      expect(image(rows([{ price: '1' }], mode))).toBe('no_quote')
  })

  it.each([{ size: ['1024x1024'] }, { quality: ['high'] }])('COST-7: %j holds of no video', (when) => {
    expect(video(rows([{ when, price: '1' }], 'per_second'))).toBe('no_quote')
  })

  it.each([{ resolution: ['720p'] }, { generate_audio: false }, { duration_seconds: { min: 0 } }])(
    'COST-7: %j holds of no image',
    (when) => {
      expect(image(rows([{ when, price: '1' }], 'per_image'))).toBe('no_quote')
    },
  )
})

describe('the baseline', () => {
  it('COST-3: a normal cost of a micro-unit is one', () => {
    const normal_cost = { mode: 'per_request', bills_failures: false, prices: [{ price: '0.000001' }] }
    const perRequest = {
      supply: { capability: { billing_mode: 'per_request', modes: [VIDEO_MODE] } },
      more: { cost_rule: { ...normal_cost, prices: [{ price: '1' }] } },
    }
    const parts = { model: { normal_cost }, request: { billing_mode: 'per_request' } }
    expect(verdict(input([candidate('a', perRequest)], parts)).baseline).toBe('0.000001')
    const cheap = { ...perRequest, more: { cost_rule: normal_cost } }
    expect(verdict(input([candidate('a', cheap)], { request: parts.request })).baseline).toBe('0.000001')
  })
})

describe('health', () => {
  it.each([
    [{ health: 'degraded' }, { health: 'recovering', recovery_successes: 4 }],
    [{ health: 'recovering', recovery_successes: 2 }, { health: 'probing' }],
  ])('STR-9: %j comes before %j, though it costs more', (better, worse) => {
    const found = verdict(
      input([candidate('z', { supply: better, price: '2' }), candidate('a', { supply: worse })]),
    )
    expect(found).toMatchObject({ ranking: ['b_z', 'b_a'], decided_by: 'health' })
  })
})
