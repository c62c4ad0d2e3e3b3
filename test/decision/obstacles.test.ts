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

const open = { health: 'circuit_open' }
const offHealth = { health: 'disabled' }
const off = { admin_state: 'disabled' }
const full = { in_use: 5, in_use_epoch: 5 }
const held = { not_before: '2026-12-01T08:01:10.000Z' }
const poor = { capability: { billing_mode: 'per_second', modes: [{ ...VIDEO_MODE, resolutions: ['480p'] }] } }
const perRequest = { capability: { billing_mode: 'per_request', modes: [VIDEO_MODE] } }

/** The reason of candidate a; candidate z, which is fine, gives the search something to find. */
function reason(
  parts: Parameters<typeof candidate>[1],
  more: Parameters<typeof input>[1] = {},
): string | undefined {
  return verdict(input([candidate('a', parts), candidate('z')], more)).excluded?.b_a
}

describe('obstacles of a candidate', () => {
  // In the order of decision.md: each makes its own reason, and stands before all that follow.
  const rows: [string, Parameters<typeof candidate>[1]][] = [
    ['channel_disabled', { channel: off }],
    ['supply_disabled', { supply: off }],
    ['binding_disabled', { more: { enabled: false } }],
    ['capability_mismatch', { supply: poor }],
    ['channel_circuit_open', { channel: open }],
    ['channel_health_disabled', { channel: offHealth }],
    ['supply_circuit_open', { supply: open }],
    ['supply_health_disabled', { supply: offHealth }],
    ['channel_held', { channel: held }],
    ['channel_saturated', { channel: full }],
    ['supply_held', { supply: held }],
    ['supply_saturated', { supply: full }],
    ['no_quote', { more: { cost_rule: null } }],
  ]
  it.each(rows)('ORD-3, ORD-4, ORD-5, ORD-8, ORD-9, ORD-10: %s', (name, parts) => {
    expect(reason(parts)).toBe(name)
  })

  const together = rows.flatMap(([first, a], i) =>
    rows.slice(i + 1).map(([second, b]) => [first, second, { ...merge(a, b) }] as const),
  )
  const clashing = new Set([
    'channel_circuit_open/channel_health_disabled',
    'supply_circuit_open/supply_health_disabled',
  ])
  it.each(together.filter(([a, b]) => !clashing.has(`${a}/${b}`)))(
    'ORD-15: %s stands before %s',
    (first, second, parts) => {
      // What health has stopped is not called full as well, and what does not fit is not priced.
      expect(reason(parts), second).toBe(first)
    },
  )

  it.each([
    ['billing_mode_mismatch', { supply: perRequest }, {}],
    ['real_person_denied', { supply: { real_person: 'denied' } }, { request: { real_person: true } }],
    [
      'refused_before',
      {},
      { task: { attempts: [failed('a', { category: 'content', may_change_supply: true })] } },
    ],
    ['over_task_limit', { price: '2' }, { policy: { task_cost_limit: '9' } }],
    [
      'over_stable_limit',
      { price: '3' },
      { policy: { stable_cost_multiplier_limit: 2 }, model: { normal_cost: price('1') } },
    ],
    ['over_absolute_limit', { price: '3' }, { policy: { absolute_cost_limit: '10' } }],
  ] as const)('STR-5, ORD-6, ORD-11, ERR: %s', (name, parts, more) => {
    expect(reason(parts, more as Json)).toBe(name)
  })

  it.each([
    [
      'capability_mismatch before billing_mode_mismatch',
      { supply: { ...poor, capability: { ...poor.capability, billing_mode: 'per_request' } } },
      'capability_mismatch',
    ],
    [
      'billing_mode_mismatch before real_person_denied',
      { supply: { ...perRequest, real_person: 'denied' } },
      'billing_mode_mismatch',
    ],
    [
      'real_person_denied before circuit',
      { supply: { real_person: 'denied', ...open } },
      'real_person_denied',
    ],
  ] as const)('ORD-5, ORD-6: %s', (_, parts, name) => {
    expect(reason(parts, { request: { real_person: true } })).toBe(name)
  })

  it('ERR: refused before stands before health; only content refuses, and only by that supply', () => {
    const refused = (more: Json) => ({
      task: { attempts: [failed('a', { may_change_supply: true, ...more })] },
    })
    expect(reason({ supply: open }, refused({ category: 'content' }))).toBe('refused_before')
    expect(reason({}, refused({ category: 'request' }))).toBe('already_tried')
    expect(reason({ supply: { id: 's_other' } }, refused({ category: 'content' }))).toBeUndefined()
  })

  it('ORD-6: without a real person, and for an image, denied is not read', () => {
    expect(reason({ supply: { real_person: 'denied' } })).toBeUndefined()
    const image = imageInput([imageCandidate('a', { supply: { real_person: 'denied' } })], {
      request: { real_person: true },
    })
    expect(end(image)).toBe('b_a')
  })

  it('STR-5: a video that names no billing mode means per_second; per_request must be asked for; an image is per_image', () => {
    const priced = {
      supply: perRequest,
      more: { cost_rule: { mode: 'per_request', bills_failures: false, prices: [{ price: '6' }] } },
    }
    expect(reason(priced, { request: { billing_mode: 'per_request' } })).toBeUndefined()
    expect(reason({}, { request: { billing_mode: 'per_second' } })).toBeUndefined()
    expect(reason({}, { request: { billing_mode: 'per_request' } })).toBe('billing_mode_mismatch')
    expect(end(imageInput([imageCandidate('a')], { request: { billing_mode: 'per_request' } }))).toBe('b_a')
  })

  it('ORD-11: task limit before multiplier before absolute limit', () => {
    const model = { normal_cost: price('1') }
    const limits = { stable_cost_multiplier_limit: 2, absolute_cost_limit: '6' }
    expect(reason({ price: '3' }, { model, policy: { ...limits, task_cost_limit: '7' } })).toBe(
      'over_task_limit',
    )
    expect(reason({ price: '3' }, { model, policy: limits })).toBe('over_stable_limit')
    expect(reason({ price: '3' }, { policy: { absolute_cost_limit: '6' } })).toBe('over_absolute_limit')
  })
})

describe('health and capacity of a level', () => {
  it('HLT-15: held until exactly now is free', () => {
    expect(reason({ supply: { not_before: '2026-12-01T08:01:00.000Z' } })).toBeUndefined()
    expect(reason({ supply: { not_before: '2026-12-01T08:01:00.000001Z' } })).toBe('supply_held')
  })

  it.each([
    ['healthy counts all leases', { concurrency: 2, in_use: 1, in_use_epoch: 0 }, undefined],
    ['healthy, full by old leases', { concurrency: 2, in_use: 2, in_use_epoch: 0 }, 'supply_saturated'],
    [
      'degraded as healthy',
      { health: 'degraded', concurrency: 2, in_use: 2, in_use_epoch: 2 },
      'supply_saturated',
    ],
    [
      'over the limit after it was lowered',
      { concurrency: 1, in_use: 3, in_use_epoch: 3 },
      'supply_saturated',
    ],
    [
      'probing lets one through',
      { health: 'probing', concurrency: 9, in_use: 1, in_use_epoch: 1 },
      'supply_saturated',
    ],
    [
      'probing: old leases do not count',
      { health: 'probing', concurrency: 9, in_use: 4, in_use_epoch: 0 },
      undefined,
    ],
    [
      'probing: but the configured limit does',
      { health: 'probing', concurrency: 4, in_use: 4, in_use_epoch: 0 },
      'supply_saturated',
    ],
    [
      '25 % of 8',
      { health: 'recovering', recovery_successes: 2, concurrency: 8, in_use: 1, in_use_epoch: 1 },
      undefined,
    ],
    [
      '25 % of 8, both taken',
      { health: 'recovering', recovery_successes: 2, concurrency: 8, in_use: 2, in_use_epoch: 2 },
      'supply_saturated',
    ],
    [
      '50 % of 8',
      { health: 'recovering', recovery_successes: 3, concurrency: 8, in_use: 4, in_use_epoch: 4 },
      'supply_saturated',
    ],
    [
      '75 % of 8',
      { health: 'recovering', recovery_successes: 4, concurrency: 8, in_use: 5, in_use_epoch: 5 },
      undefined,
    ],
    [
      '75 % of 8, taken',
      { health: 'recovering', recovery_successes: 4, concurrency: 8, in_use: 6, in_use_epoch: 6 },
      'supply_saturated',
    ],
    [
      '75 % of 2 keeps one closed',
      { health: 'recovering', recovery_successes: 4, concurrency: 2, in_use: 1, in_use_epoch: 1 },
      'supply_saturated',
    ],
    [
      'a limit of 1 stays 1',
      { health: 'recovering', recovery_successes: 4, concurrency: 1, in_use: 0, in_use_epoch: 0 },
      undefined,
    ],
    [
      '25 % of 5 rounds up to 2',
      { health: 'recovering', recovery_successes: 2, concurrency: 5, in_use: 1, in_use_epoch: 1 },
      undefined,
    ],
  ])('ORD-9, HLT-6, HLT-7: %s', (_, supply, name) => {
    expect(verdict(input([candidate('a', { supply })])).excluded?.b_a).toBe(name)
  })

  it('ORD-9: the channel’s capacity counts like the supply’s', () => {
    expect(reason({ channel: { health: 'probing', in_use: 1, in_use_epoch: 1 } })).toBe('channel_saturated')
    expect(reason({ channel: { concurrency: 2, in_use: 2 } })).toBe('channel_saturated')
  })
})

describe('degraded candidates', () => {
  const dropped = { inputs: { reference_images: 2, reference_videos: 1 } }
  const imagesOnly = {
    capability: {
      billing_mode: 'per_second',
      modes: [{ ...VIDEO_MODE, inputs: { reference_images: { max: 9 } } }],
    },
  }
  const rule = (more: Json = {}) => ({
    id: 'rule',
    published: true,
    from_profile: '933',
    to_profile: '900',
    operations: [{ op: 'drop_inputs', inputs: ['reference_videos', 'reference_audios'] }],
    ...more,
  })
  const down = candidate('x', { supply: open })

  it('DEG-1, DEG-2, DEG-3: fits by the transformed request, and says what was dropped, what the request had alone', () => {
    const found = verdict(
      input([down, candidate('a', { tier: 'degraded', supply: imagesOnly })], {
        request: dropped,
        rules: [rule()],
      }),
    )
    expect(found).toMatchObject({ binding_id: 'b_a', tier: 'degraded' })
    expect(found.degraded).toEqual({
      requested_profile: '933',
      actual_profile: '900',
      dropped_inputs: ['reference_videos'],
    })
    expect(found.alerts).toEqual(['exact_unavailable', 'degradation_used'])
  })

  it.each([
    ['request strict', { request: { degradation: 'strict' } }, 'degradation_not_allowed'],
    ['model strict', { model: { degradation: 'strict' } }, 'degradation_not_allowed'],
    [
      'model strict, request best_effort',
      { model: { degradation: 'strict' }, request: { degradation: 'best_effort' } },
      'degradation_not_allowed',
    ],
    ['not published', { rules: [rule({ published: false })] }, 'degradation_rule_unavailable'],
    ['missing', { rules: [rule({ id: 'other' })] }, 'degradation_rule_unavailable'],
    ['from another profile', { rules: [rule({ from_profile: '900' })] }, 'degradation_rule_unavailable'],
    ['strict before the rule', { request: { degradation: 'strict' }, rules: [] }, 'degradation_not_allowed'],
    ['too early', { policy: { degrade_after_seconds: 61 } }, 'degradation_not_yet'],
  ])('DEG-1: %s', (_, more, name) => {
    expect(verdict(input([down, candidate('a', { tier: 'degraded' })], more as Json)).excluded?.b_a).toBe(
      name,
    )
  })

  it('DEG-1: null means the model’s mode, and best_effort asks for no more than the model gives', () => {
    expect(
      end(input([down, candidate('a', { tier: 'degraded' })], { model: { degradation: 'best_effort' } })),
    ).toBe('b_a')
    expect(
      end(input([down, candidate('a', { tier: 'degraded' })], { policy: { degrade_after_seconds: 60 } })),
    ).toBe('b_a')
  })

  it('DEG-7: still passes capability, health, capacity and cost', () => {
    const only = (parts: Json) =>
      verdict(
        input([down, candidate('a', { tier: 'degraded', ...parts })], {
          request: dropped,
          rules: [rule()],
          policy: { absolute_cost_limit: '9' },
        }),
      ).excluded?.b_a
    expect(only({ supply: poor })).toBe('capability_mismatch')
    expect(only({ supply: open })).toBe('supply_circuit_open')
    expect(only({ supply: full })).toBe('supply_saturated')
    expect(only({ price: '2' })).toBe('over_absolute_limit')
  })

  it('DEG-3: a transform that drops nothing still reports the actual profile', () => {
    expect(verdict(input([down, candidate('a', { tier: 'degraded' })])).degraded).toEqual({
      requested_profile: '933',
      actual_profile: '900',
      dropped_inputs: [],
    })
  })
})

function price(amount: string) {
  return { mode: 'per_second', bills_failures: false, prices: [{ price: amount }] }
}

function merge(a: Parameters<typeof candidate>[1] = {}, b: Parameters<typeof candidate>[1] = {}) {
  return {
    ...a,
    ...b,
    supply: { ...a.supply, ...b.supply },
    channel: { ...a.channel, ...b.channel },
    more: { ...a.more, ...b.more },
  }
}
