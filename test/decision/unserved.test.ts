import { describe, expect, it } from 'vitest'
import { candidate, end, failed, input, type Json, VIDEO_MODE, verdict } from './build.ts'

const open = { health: 'circuit_open' }
const full = { in_use: 5, in_use_epoch: 5 }
const off = { admin_state: 'disabled' }
const held = { not_before: '2026-12-01T08:01:10.000Z' }
const poor = { capability: { billing_mode: 'per_second', modes: [{ ...VIDEO_MODE, resolutions: ['480p'] }] } }
const dear = { policy: { absolute_cost_limit: '1' } }
const lifted = { ...dear, model: { emergency_cost_override: true } }
const door = { task: { admitted: false } }

describe('nothing chosen', () => {
  it.each([
    ['1 full', [candidate('a', { supply: full })], {}, 'wait/capacity'],
    ['1 held', [candidate('a', { supply: held })], {}, 'wait/capacity'],
    [
      '1 a busy probe',
      [candidate('a', { supply: { health: 'probing', in_use: 1, in_use_epoch: 1 } })],
      {},
      'wait/capacity',
    ],
    ['1 at the door too', [candidate('a', { supply: full })], door, 'wait/capacity'],
    ['1 full and lifted', [candidate('a', { supply: full })], lifted, 'wait/capacity'],
    [
      '1 not: full, but its channel is open',
      [candidate('a', { supply: full, channel: open })],
      {},
      'wait/health',
    ],
    ['1 not: full, but over a limit', [candidate('a', { supply: full })], dear, 'wait/cost'],
    ['2 circuit', [candidate('a', { supply: open })], {}, 'wait/health'],
    ['2 channel circuit', [candidate('a', { channel: open })], {}, 'wait/health'],
    ['2 circuit, at the door too', [candidate('a', { supply: open })], door, 'wait/health'],
    [
      '2 only too early',
      [candidate('d', { tier: 'degraded' })],
      { policy: { degrade_after_seconds: 90 } },
      'wait/health',
    ],
    [
      '2 too early and lifted',
      [candidate('d', { tier: 'degraded' })],
      { ...lifted, policy: { absolute_cost_limit: '1', degrade_after_seconds: 90 } },
      'wait/health',
    ],
    [
      '2 not: a level disabled beside the circuit',
      [candidate('a', { supply: open, channel: { health: 'disabled' } })],
      {},
      'wait/disabled',
    ],
    [
      '1 before 2',
      [candidate('a', { supply: open }), candidate('b', { tier: 'fallback', supply: held })],
      {},
      'wait/capacity',
    ],
    ['3 switched off', [candidate('a', { supply: off })], {}, 'wait/disabled'],
    ['3 channel off', [candidate('a', { channel: off })], {}, 'wait/disabled'],
    ['3 binding off', [candidate('a', { more: { enabled: false } })], {}, 'wait/disabled'],
    ['3 health disabled', [candidate('a', { supply: { health: 'disabled' } })], {}, 'wait/disabled'],
    ['3 not at the door', [candidate('a', { supply: off })], door, 'rejected/no_capable_supply'],
    ['3 not where it could not be paid', [candidate('a', { supply: off })], dear, 'wait/cost'],
    ['3 lifted', [candidate('a', { supply: off })], lifted, 'wait/disabled'],
    ['2 before 3', [candidate('a', { supply: off }), candidate('b', { supply: open })], {}, 'wait/health'],
    ['4 over a limit', [candidate('a')], dear, 'wait/cost'],
    ['4 no price', [candidate('a', { more: { cost_rule: null } })], {}, 'wait/cost'],
    [
      '4 not for the task limit',
      [candidate('a')],
      { policy: { task_cost_limit: '4' } },
      'rejected/cost_limit_exceeded',
    ],
    ['4 not at the door', [candidate('a')], { ...door, ...dear }, 'rejected/cost_limit_exceeded'],
    [
      '5 no price at the door is no limit',
      [candidate('a', { more: { cost_rule: null } })],
      door,
      'rejected/no_capable_supply',
    ],
    [
      '3 before 4',
      [candidate('a', { supply: off }), candidate('b', { price: '9' })],
      { policy: { absolute_cost_limit: '8' } },
      'wait/disabled',
    ],
    ['6 nothing fits', [candidate('a', { supply: poor })], {}, 'rejected/no_capable_supply'],
    ['6 nothing there', [], {}, 'rejected/no_capable_supply'],
    [
      '6 refused before',
      [candidate('z')],
      { task: { attempts: [failed('z', { category: 'content' })] } },
      'rejected/no_capable_supply',
    ],
    [
      '6 refused before, and over a limit',
      [candidate('z')],
      { ...dear, task: { attempts: [failed('z', { category: 'content' })] } },
      'rejected/no_capable_supply',
    ],
  ] as const)('LAY-5: %s', (_, candidates, parts, what) => {
    expect(end(input([...candidates] as Json[], parts as Json))).toBe(what)
  })

  it('LAY-5: a rejection says what was excluded, and alerts, exactly where candidates were looked at', () => {
    expect(verdict(input([candidate('a', { supply: poor })]))).toMatchObject({
      excluded: { b_a: 'capability_mismatch' },
      alerts: [],
    })
  })
})

describe('alerts', () => {
  const alerts = (candidates: readonly Json[], parts: Json = {}) => verdict(input(candidates, parts)).alerts

  it.each([
    [
      'every capable exact one has a circuit open',
      [candidate('a', { supply: open })],
      {},
      ['exact_unavailable'],
    ],
    [
      'a fallback serves meanwhile',
      [candidate('a', { supply: open }), candidate('f', { tier: 'fallback' })],
      {},
      ['exact_unavailable'],
    ],
    ['one of them has none', [candidate('a', { supply: open }), candidate('b', { supply: full })], {}, []],
    [
      'none is capable',
      [candidate('a', { supply: { ...open, ...poor } }), candidate('f', { tier: 'fallback' })],
      {},
      [],
    ],
    [
      'health disabled counts',
      [candidate('a', { supply: { health: 'disabled' } })],
      {},
      ['exact_unavailable'],
    ],
    [
      'degraded',
      [candidate('a', { supply: poor }), candidate('d', { tier: 'degraded' })],
      {},
      ['exact_unavailable', 'degradation_used'],
    ],
    ['override', [candidate('a')], lifted, ['emergency_cost_override']],
    [
      'a limit blocks every exact one',
      [candidate('a', { price: '9' }), candidate('f', { tier: 'fallback' })],
      { policy: { absolute_cost_limit: '8' } },
      ['cost_limit_blocks'],
    ],
    [
      'another exact one is payable',
      [candidate('a', { price: '9' }), candidate('b')],
      { policy: { absolute_cost_limit: '8' } },
      [],
    ],
    [
      'the payable one has its circuit open',
      [
        candidate('a', { price: '9' }),
        candidate('b', { supply: open }),
        candidate('f', { tier: 'fallback' }),
      ],
      { policy: { absolute_cost_limit: '8' } },
      ['cost_limit_blocks'],
    ],
    [
      'a price is missing',
      [candidate('a', { more: { cost_rule: null } }), candidate('b')],
      {},
      ['price_missing'],
    ],
    [
      'of one that cannot serve it is not missed',
      [candidate('a', { supply: off, more: { cost_rule: null } }), candidate('b')],
      {},
      [],
    ],
    [
      'no baseline',
      [candidate('f', { tier: 'fallback' })],
      { policy: { fallback_cost_multiplier: 3 } },
      ['baseline_missing'],
    ],
    [
      'no baseline, but an absolute limit',
      [candidate('f', { tier: 'fallback' })],
      { policy: { fallback_cost_multiplier: 3, absolute_cost_limit: '9' } },
      [],
    ],
    ['no baseline, no multiplier', [candidate('f', { tier: 'fallback' })], {}, []],
    [
      'no baseline, inherited multiplier',
      [candidate('f', { tier: 'fallback' })],
      { policy: { stable_cost_multiplier_limit: 2 } },
      ['baseline_missing'],
    ],
    [
      'inherited, but not under cost_first',
      [candidate('f', { tier: 'fallback' })],
      { policy: { strategy: 'cost_first', stable_cost_multiplier_limit: 2 } },
      [],
    ],
    [
      'it is free',
      [candidate('f', { tier: 'fallback', price: '0' })],
      { policy: { fallback_cost_multiplier: 3 } },
      [],
    ],
  ] as const)('DEG-4, COST-6: %s', (_, candidates, parts, expected) => {
    expect(alerts([...candidates] as Json[], parts as Json)).toEqual(expected)
  })

  it('DEG-4: several come in their order', () => {
    const candidates = [
      candidate('a', { supply: open }),
      candidate('n', { tier: 'fallback', supply: off }),
      candidate('p', { tier: 'fallback', supply: open, more: { cost_rule: null } }),
      candidate('d', { tier: 'degraded', price: '9' }),
    ]
    const parts = { policy: { absolute_cost_limit: '8' }, model: { emergency_cost_override: true } }
    expect(alerts(candidates, parts)).toEqual([
      'exact_unavailable',
      'degradation_used',
      'emergency_cost_override',
      'price_missing',
    ])
  })
})
