import { describe, expect, it } from 'vitest'
import {
  candidate,
  end,
  failed,
  imageCandidate,
  imageInput,
  input,
  type Json,
  VIDEO_MODE,
  verdict,
} from './build.ts'

const list = (prices: Json[], more: Json = {}) => ({
  more: { cost_rule: { mode: 'per_second', bills_failures: false, prices, ...more } },
})
const quote = (parts: Parameters<typeof candidate>[1], request: Json = {}) =>
  verdict(input([candidate('a', parts)], { request })).quote
const open = { health: 'circuit_open' }

describe('quotes', () => {
  it.each([
    [list([{ price: '1.5' }]), {}, '7.5'],
    [list([{ price: '0' }]), {}, '0'],
    [list([{ price: '0.000001' }]), {}, '0.000005'],
    [list([{ when: { resolution: ['1080p'] }, price: '9' }, { price: '1' }]), {}, '5'],
    [list([{ when: { resolution: ['1080p', '720p'] }, price: '9' }, { price: '1' }]), {}, '45'],
    [list([{ price: '1' }, { when: { resolution: ['720p'] }, price: '9' }]), {}, '5'],
    [list([{ when: { generate_audio: true }, price: '9' }, { price: '1' }]), {}, '5'],
    [list([{ when: { generate_audio: false }, price: '9' }, { price: '1' }]), {}, '45'],
    [list([{ when: { duration_seconds: { max: 4 } }, price: '9' }, { price: '1' }]), {}, '5'],
    [list([{ when: { duration_seconds: { min: 5, max: 5 } }, price: '9' }, { price: '1' }]), {}, '45'],
    [list([{ when: { duration_seconds: { values: [4, 6] } }, price: '9' }, { price: '1' }]), {}, '5'],
    [list([{ when: { inputs: { reference_images: { min: 1 } } }, price: '9' }, { price: '1' }]), {}, '5'],
    [
      list([{ when: { inputs: { reference_images: { min: 1 } } }, price: '9' }, { price: '1' }]),
      { inputs: { reference_images: 1, reference_videos: 1 } },
      '45',
    ],
    [list([{ when: { resolution: ['720p'], generate_audio: true }, price: '9' }, { price: '1' }]), {}, '5'],
  ])('COST-7, ORD-10: %j', (parts, request, expected) => {
    expect(quote(parts, request)).toBe(expected)
  })

  it('COST-2: a fixed price for a range is the whole price', () => {
    const perRequest = {
      supply: { capability: { billing_mode: 'per_request', modes: [VIDEO_MODE] } },
      ...list([{ when: { duration_seconds: { min: 4, max: 15 } }, price: '6' }], { mode: 'per_request' }),
    }
    expect(quote(perRequest, { billing_mode: 'per_request' })).toBe('6')
    expect(quote(perRequest, { billing_mode: 'per_request', duration_seconds: 15 })).toBe('6')
  })

  it('COST-4: no row, no list, or a list of another mode is no price, and never 0', () => {
    const parts = [
      list([{ when: { resolution: ['480p'] }, price: '1' }]),
      list([]),
      { more: { cost_rule: null } },
      list([{ price: '1' }], { mode: 'per_request' }),
    ]
    for (const each of parts) expect(verdict(input([candidate('a', each)])).excluded?.b_a).toBe('no_quote')
  })

  it('COST-7: an image costs by the piece; a null quality is in no list', () => {
    const rows = [
      { when: { quality: ['high'] }, price: '5' },
      { when: { size: ['2048x2048'] }, price: '3' },
      { price: '2' },
    ]
    const a = imageCandidate('a', {
      more: { cost_rule: { mode: 'per_image', bills_failures: false, prices: rows } },
    })
    expect(verdict(imageInput([a], { request: { count: 3 } })).quote).toBe('6')
    expect(verdict(imageInput([a], { request: { quality: 'high' } })).quote).toBe('5')
    expect(verdict(imageInput([a], { request: { size: '2048x2048' } })).quote).toBe('3')
  })

  it('DEG-7: a degraded candidate is quoted for the transformed request', () => {
    const d = candidate('d', {
      tier: 'degraded',
      ...list([{ when: { inputs: { reference_videos: { min: 1 } } }, price: '9' }, { price: '1' }]),
    })
    const parts = { ...d, tier: 'degraded', degradation_rule_id: 'rule' }
    expect(verdict(input([parts], { request: { inputs: { reference_videos: 1 } } })).quote).toBe('5')
  })
})

describe('the baseline', () => {
  const baseline = (candidates: Json[], parts: Json = {}) => verdict(input(candidates, parts)).baseline
  const at = (name: string, price: string, more: Parameters<typeof candidate>[1] = {}) =>
    candidate(name, { price, ...more })

  it.each([
    ['the middle one', [at('a', '1'), at('b', '2'), at('c', '9')], '10'],
    ['of an even number the lower middle', [at('a', '1'), at('b', '2'), at('c', '3'), at('d', '9')], '10'],
    ['what costs nothing is not counted', [at('a', '0'), at('b', '2'), at('c', '3')], '10'],
    [
      'fallback is not counted',
      [at('a', '2'), at('b', '9', { tier: 'fallback' }), at('c', '9', { tier: 'fallback' })],
      '10',
    ],
    [
      'switched off counts',
      [
        at('a', '1'),
        at('b', '2', { supply: { admin_state: 'disabled' } }),
        at('c', '3', { more: { enabled: false } }),
      ],
      '10',
    ],
    [
      'an open circuit counts',
      [at('a', '1'), at('b', '2', { supply: open }), at('c', '3', { channel: open })],
      '10',
    ],
    [
      'full counts',
      [at('a', '1'), at('b', '2', { supply: { in_use: 5 } }), at('c', '3', { supply: { in_use: 5 } })],
      '10',
    ],
    [
      'what does not fit does not',
      [at('a', '2'), at('b', '9', { supply: { capability: { billing_mode: 'per_second', modes: [] } } })],
      '10',
    ],
  ])('COST-3: %s', (_, candidates, expected) => {
    expect(baseline(candidates)).toBe(expected)
  })

  it('COST-3: an explicit normal cost counts, if it is above 0; without one there is none', () => {
    const normal = (price: string) => ({
      model: { normal_cost: { mode: 'per_second', bills_failures: false, prices: [{ price }] } },
    })
    expect(baseline([at('a', '1')], normal('7'))).toBe('35')
    expect(baseline([at('a', '1')], normal('0'))).toBe('5')
    expect(baseline([at('f', '1', { tier: 'fallback' })])).toBe(null)
    expect(baseline([at('a', '0')])).toBe(null)
  })

  it('COST-3: tried ones count', () => {
    const task = { attempts: [failed('a')] }
    expect(baseline([at('a', '1'), at('b', '2'), at('c', '3')], { task })).toBe('10')
  })
})

describe('limits', () => {
  const normal_cost = { mode: 'per_second', bills_failures: false, prices: [{ price: '2' }] }
  const why = (parts: Parameters<typeof candidate>[1], policy: Json, more: Json = {}) =>
    verdict(
      input([candidate('a', parts)], { policy, ...more, model: { normal_cost, ...(more.model as Json) } }),
    ).excluded?.b_a

  it.each(
    [
      ['exact at the multiplier', { price: '3' }, { stable_cost_multiplier_limit: 1.5 }, undefined],
      ['exact above it', { price: '3.000001' }, { stable_cost_multiplier_limit: 1.5 }, 'over_stable_limit'],
      [
        'a multiplier of six places, exactly',
        { price: '2.000001' },
        { stable_cost_multiplier_limit: 1.0000005 },
        null,
      ],
      [
        'not under cost_first',
        { price: '9' },
        { strategy: 'cost_first', stable_cost_multiplier_limit: 1.5 },
        undefined,
      ],
      [
        'under manual_priority too',
        { price: '9' },
        { strategy: 'manual_priority', stable_cost_multiplier_limit: 1.5 },
        'over_stable_limit',
      ],
      [
        'fallback by its own',
        { tier: 'fallback', price: '9' },
        { stable_cost_multiplier_limit: 1.5, fallback_cost_multiplier: 5 },
        undefined,
      ],
      [
        'fallback above its own',
        { tier: 'fallback', price: '10.1' },
        { fallback_cost_multiplier: 5 },
        'over_fallback_limit',
      ],
      [
        'fallback by its own under cost_first too',
        { tier: 'fallback', price: '10.1' },
        { strategy: 'cost_first', fallback_cost_multiplier: 5 },
        'over_fallback_limit',
      ],
      [
        'fallback inherits the stable one',
        { tier: 'fallback', price: '4' },
        { stable_cost_multiplier_limit: 1.5 },
        'over_fallback_limit',
      ],
      [
        'but not under cost_first',
        { tier: 'fallback', price: '4' },
        { strategy: 'cost_first', stable_cost_multiplier_limit: 1.5 },
        undefined,
      ],
      [
        'the fallback multiplier is none for exact',
        { price: '9' },
        { fallback_cost_multiplier: 1.5 },
        undefined,
      ],
      [
        'degraded as fallback',
        { tier: 'degraded', price: '10.1' },
        { fallback_cost_multiplier: 5 },
        'over_fallback_limit',
      ],
      ['absolute, exactly', { price: '2' }, { absolute_cost_limit: '10' }, undefined],
      ['absolute, above', { price: '2.000001' }, { absolute_cost_limit: '10' }, 'over_absolute_limit'],
      ['task, exactly', { price: '2' }, { task_cost_limit: '10' }, undefined],
      ['task, above', { price: '2' }, { task_cost_limit: '9.999999' }, 'over_task_limit'],
    ].filter(([, , , reason]) => reason !== null) as [string, Json, Json, string | undefined][],
  )('COST-4, COST-5, STR-4, ORD-11: %s', (_, parts, policy, reason) => {
    expect(why(parts, policy)).toBe(reason)
  })

  it('COST-4: without a baseline the multipliers do not apply', () => {
    expect(
      end(
        input([candidate('f', { tier: 'fallback', price: '99' })], {
          policy: { fallback_cost_multiplier: 1 },
        }),
      ),
    ).toBe('b_f')
  })

  it('COST-4, COST-6: the task limit counts what earlier attempts cost, and no override lifts it', () => {
    const task = { attempts: [failed('z', { cost: '4' })] }
    expect(why({}, { task_cost_limit: '9' }, { task })).toBeUndefined()
    expect(why({}, { task_cost_limit: '8.999999' }, { task })).toBe('over_task_limit')
    expect(why({}, { task_cost_limit: '8' }, { task, model: { emergency_cost_override: true } })).toBe(
      'over_task_limit',
    )
  })

  it.each([
    ['stable', {}, { stable_cost_multiplier_limit: 0.5 }],
    ['fallback', { tier: 'fallback' }, { fallback_cost_multiplier: 0.5 }],
    ['absolute', {}, { absolute_cost_limit: '1' }],
  ])('COST-6: the override lifts the %s limit, with an alert', (_, parts, policy) => {
    const found = verdict(
      input([candidate('a', { price: '3', ...parts })], {
        policy,
        model: { normal_cost: { ...normal_cost, prices: [{ price: '2' }] }, emergency_cost_override: true },
      }),
    )
    expect(found).toMatchObject({
      binding_id: 'b_a',
      pass: 'override_untried',
      alerts: ['emergency_cost_override'],
    })
  })

  it('COST-6: a missing price is not lifted', () => {
    expect(
      end(
        input([candidate('a', { more: { cost_rule: null } })], { model: { emergency_cost_override: true } }),
      ),
    ).toBe('wait/cost')
  })
})
