import { describe, expect, it } from 'vitest'
import { candidate, end, failed, imageCandidate, imageInput, input, type Json, verdict } from './build.ts'

const open = { health: 'circuit_open' }
const full = { in_use: 5, in_use_epoch: 5 }
const probing = { health: 'probing' }
const busyProbe = { health: 'probing', in_use: 1, in_use_epoch: 1 }
const busyRung = { health: 'recovering', recovery_successes: 2, in_use: 2, in_use_epoch: 2 }
const heldFor = (seconds: number) => ({
  not_before: new Date(Date.parse('2026-12-01T08:01:00Z') + seconds * 1000).toISOString(),
})
const second = (more: Json = {}) => ({ task: { attempts: [failed('z', more)] } })
const excluded = (json: Json) => verdict(json).excluded

describe('tiers and layers', () => {
  const exact = (supply: Json = {}) => candidate('e', { supply })
  const fallback = (supply: Json = {}) => candidate('f', { tier: 'fallback', supply })
  const degraded = (supply: Json = {}) => candidate('d', { tier: 'degraded', supply })

  it.each([
    ['exact serves', {}, {}, 'b_e'],
    ['an exhausted layer opens the next', open, {}, 'b_f'],
    ['a saturated one makes it wait', full, {}, 'wait/capacity'],
    ['a busy probe holds nobody back', busyProbe, {}, 'b_f'],
    ['nor does a busy rung of recovery', busyRung, {}, 'b_f'],
    ['nor a held level, for a moment', heldFor(5), {}, 'b_f'],
    ['a held one that is full as well is not saturated', { ...full, ...heldFor(5) }, {}, 'b_f'],
    ['degraded health, full, is saturated too', { health: 'degraded', ...full }, {}, 'wait/capacity'],
    ['fallback exhausted opens degraded', open, open, 'b_d'],
    ['fallback saturated does not', open, full, 'wait/capacity'],
  ])('LAY-1, LAY-2, ORD-8, ORD-9: %s', (_, e, f, chosen) => {
    expect(end(input([exact(e), fallback(f), degraded()]))).toBe(chosen)
  })

  it('LAY-2: one usable candidate makes the layer available, though others are full', () => {
    expect(end(input([exact(full), candidate('g'), fallback()]))).toBe('b_g')
  })

  it.each([
    ['not before the time', 61, 'wait/capacity'],
    ['from its very second', 60, 'b_f'],
    ['null: never for a video', null, 'wait/capacity'],
  ])('LAY-2: spill %s', (_, spill_after_seconds, chosen) => {
    expect(end(input([exact(full), fallback()], { policy: { spill_after_seconds } }))).toBe(chosen)
  })

  it('LAY-2: null means at once for an image', () => {
    const e = imageCandidate('e', { supply: full })
    const f = imageCandidate('f', { tier: 'fallback' })
    const task = { created_at: '2026-12-01T08:01:00.000Z' }
    expect(end(imageInput([e, f], { task }))).toBe('b_f')
    expect(end(imageInput([e, f], { task, policy: { spill_after_seconds: 1 } }))).toBe('wait/capacity')
  })

  it('LAY-2: spilling stays within the first three passes: neither override nor degraded', () => {
    const policy = { spill_after_seconds: 0, absolute_cost_limit: '5' }
    const dear = candidate('f', { tier: 'fallback', price: '9' })
    const model = { emergency_cost_override: true }
    expect(end(input([exact(full), dear], { policy, model }))).toBe('wait/capacity')
    expect(end(input([exact(full), degraded()], { policy }))).toBe('wait/capacity')
  })

  it('LAY-2: a saturated override layer makes it wait as well, without spilling', () => {
    const policy = { spill_after_seconds: 0, absolute_cost_limit: '1' }
    const model = { emergency_cost_override: true }
    expect(end(input([exact(full), fallback()], { policy, model }))).toBe('wait/capacity')
    expect(end(input([exact(open), fallback()], { policy, model }))).toBe('b_f')
  })

  it.each([
    ['briefly, to the last second', heldFor(60), 'wait/capacity'],
    ['for longer', heldFor(61), 'b_d'],
  ])('LAY-4, DEG: a healthy full-capability supply that is held %s', (_, hold, chosen) => {
    expect(end(input([exact(hold), degraded()]))).toBe(chosen)
    expect(end(input([fallback(hold), degraded()]))).toBe(chosen)
    expect(end(input([candidate('e', { channel: hold }), degraded()]))).toBe(chosen)
  })

  it('LAY-4: the later of two holds counts; what is not steady, capable or payable keeps nothing shut', () => {
    expect(end(input([candidate('e', { supply: heldFor(5), channel: heldFor(90) }), degraded()]))).toBe('b_d')
    expect(end(input([exact({ ...probing, ...heldFor(5) }), degraded()]))).toBe('b_d')
    expect(end(input([exact({ admin_state: 'disabled', ...heldFor(5) }), degraded()]))).toBe('b_d')
    expect(
      end(
        input([candidate('e', { supply: heldFor(5), price: '9' }), degraded()], {
          policy: { absolute_cost_limit: '8' },
        }),
      ),
    ).toBe('b_d')
    expect(end(input([degraded(heldFor(5)), candidate('g', { tier: 'degraded' }), exact(open)]))).toBe('b_g')
  })

  it('DEG-7: a busy probe does not keep degraded shut', () => {
    expect(end(input([exact(busyProbe), degraded()]))).toBe('b_d')
  })
})

describe('passes', () => {
  it.each([
    [
      'untried before untried_recovering',
      [candidate('a', { supply: probing }), candidate('b', { tier: 'fallback' })],
      second(),
      'b_b',
      'untried',
    ],
    [
      'untried_recovering before tried',
      [candidate('z'), candidate('a', { supply: probing })],
      second(),
      'b_a',
      'untried_recovering',
    ],
    [
      'without an earlier attempt, recovering is untried',
      [candidate('a', { supply: probing }), candidate('b', { tier: 'fallback' })],
      {},
      'b_a',
      'untried',
    ],
    [
      'tried where nothing else serves',
      [candidate('z'), candidate('a', { supply: open })],
      second(),
      'b_z',
      'tried',
    ],
    [
      'tried exact before tried fallback',
      [candidate('z', { tier: 'fallback' }), candidate('y', { supply: { id: 's_z' } })],
      second(),
      'b_y',
      'tried',
    ],
    [
      'tried before override',
      [candidate('z'), candidate('a', { price: '9' })],
      { ...second(), model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_z',
      'tried',
    ],
    [
      'override_untried before override_tried',
      [candidate('z', { price: '3' }), candidate('a', { price: '3' })],
      { ...second(), model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_a',
      'override_untried',
    ],
    [
      'override_tried',
      [candidate('z', { price: '3' })],
      { ...second(), model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_z',
      'override_tried',
    ],
    [
      'override before degraded',
      [candidate('a', { price: '3' }), candidate('d', { tier: 'degraded' })],
      { model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_a',
      'override_untried',
    ],
    [
      'tried before degraded',
      [candidate('z'), candidate('d', { tier: 'degraded' })],
      second(),
      'b_z',
      'tried',
    ],
    [
      'degraded_untried before degraded_tried',
      [candidate('z', { tier: 'degraded' }), candidate('d', { tier: 'degraded' })],
      second(),
      'b_d',
      'degraded_untried',
    ],
    ['degraded_tried', [candidate('z', { tier: 'degraded' })], second(), 'b_z', 'degraded_tried'],
    [
      'degraded_tried before its override',
      [candidate('z', { tier: 'degraded' }), candidate('d', { tier: 'degraded', price: '3' })],
      { ...second(), model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_z',
      'degraded_tried',
    ],
    [
      'degraded_override_untried',
      [candidate('z', { tier: 'degraded', price: '3' }), candidate('d', { tier: 'degraded', price: '3' })],
      { ...second(), model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_d',
      'degraded_override_untried',
    ],
    [
      'degraded_override_tried',
      [candidate('z', { tier: 'degraded', price: '3' })],
      { ...second(), model: { emergency_cost_override: true }, policy: { absolute_cost_limit: '8' } },
      'b_z',
      'degraded_override_tried',
    ],
  ] as const)('LAY-4, COST-6: %s', (_, candidates, parts, chosen, pass) => {
    expect(verdict(input([...candidates] as Json[], parts as Json))).toMatchObject({
      binding_id: chosen,
      pass,
    })
  })

  it('LAY-4: a failure of the channel counts for all its supplies, one of the supply for that alone', () => {
    const shared = candidate('a', { channel: { id: 'c_z' }, price: '0.5' })
    expect(end(input([shared, candidate('b')], second({ scope: 'channel' })))).toBe('b_b')
    expect(end(input([shared, candidate('b')], second({ scope: 'supply' })))).toBe('b_a')
    expect(excluded(input([shared, candidate('b')], second({ scope: 'channel' })))?.b_a).toBe('already_tried')
  })

  it('LAY-4: in a pass of tried candidates, an untried one of another layer was not reached', () => {
    const found = excluded(input([candidate('z'), candidate('d', { tier: 'degraded' })], second()))
    expect(found).toEqual({ b_d: 'layer_not_reached' })
  })

  it('LAY-4: where a tried pass was chosen, a tried one of a later tier was not reached', () => {
    const found = excluded(
      input([candidate('z'), candidate('y', { tier: 'fallback', supply: { id: 's_z' } })], second()),
    )
    expect(found).toEqual({ b_y: 'layer_not_reached' })
  })

  it('STR-8: nothing is decided beside an attempt that may be alive', () => {
    expect(end(input([candidate('a')], second({ outcome: 'uncertain' })))).toBe('rejected/attempt_open')
  })
})

describe('real-person layers', () => {
  const person = { request: { real_person: true } }
  const allowed = (supply: Json = {}, parts: Json = {}) => candidate('a', { supply, ...parts })
  const restricted = (parts: Json = {}) =>
    candidate('r', { price: '0.1', ...parts, supply: { real_person: 'restricted' } })

  it('ORD-7, LAY-3: allowed comes first, whatever the price', () => {
    const found = verdict(input([allowed(), restricted()], person))
    expect(found).toMatchObject({ binding_id: 'b_a', excluded: { b_r: 'real_person_layer' } })
    expect(end(input([allowed(), restricted()]))).toBe('b_r')
  })

  it.each([
    ['exhausted', open, {}, 'b_r'],
    ['full', full, {}, 'wait/capacity'],
    ['full for the spill time', full, { spill_after_seconds: 60 }, 'b_r'],
    ['full, not for so long', full, { spill_after_seconds: 61 }, 'wait/capacity'],
    ['held for a moment', heldFor(60), {}, 'wait/capacity'],
    ['held for longer', heldFor(61), {}, 'b_r'],
    ['held for a moment, but for the spill time', heldFor(60), { spill_after_seconds: 60 }, 'b_r'],
    ['only a busy probe', busyProbe, {}, 'b_r'],
  ])('LAY-3: restricted serves where allowed is %s: %#', (_, supply, policy, chosen) => {
    expect(end(input([allowed(supply), restricted()], { ...person, policy }))).toBe(chosen)
  })

  it('LAY-3: once an allowed supply is worth waiting for, no restricted layer opens, in any tier', () => {
    const fallback = restricted({ tier: 'fallback' })
    expect(end(input([allowed(heldFor(5)), fallback], person))).toBe('wait/capacity')
    expect(end(input([allowed(heldFor(5)), candidate('f', { tier: 'fallback' })], person))).toBe('b_f')
    expect(end(input([allowed(heldFor(61)), fallback], person))).toBe('b_r')
  })

  it('LAY-3: real_person_layer is said only where the search came to that tier, and an allowed one is capable there', () => {
    const r = candidate('r', { tier: 'fallback', supply: { real_person: 'restricted' } })
    const f = candidate('f', { tier: 'fallback' })
    expect(excluded(input([allowed(), r, f], person))?.b_r).toBe('layer_not_reached')
    expect(excluded(input([allowed(open), r, f], person))?.b_r).toBe('real_person_layer')
    expect(end(input([allowed(open), r], person))).toBe('b_r')
  })

  it('ORD-6, ORD-7: an image knows no such policy', () => {
    const r = imageCandidate('r', { price: '0.1', supply: { real_person: 'restricted' } })
    expect(end(imageInput([imageCandidate('a'), r], { request: { real_person: true } }))).toBe('b_r')
  })
})
