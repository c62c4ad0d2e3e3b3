/**
 * What holds of every decision. The generator draws from small sets, so that candidates collide, layers fill up and every
 * kind of result comes about; that it did is asserted at the end.
 */
import fc from 'fast-check'
import { afterAll, describe, expect, it } from 'vitest'
import { decide, decideWithFigures } from '../../src/core/decide.ts'
import { parseDecisionInput, printVerdict } from '../../src/core/decision-json.ts'
import type { DecisionInput } from '../../src/core/verdict.ts'
import { candidate, failed, input, type Json, type Verdict, VIDEO_MODE, verdict } from './build.ts'

const RUNS = 4000
const seen = new Map<string, number>()

const health = fc.constantFrom(
  { health: 'healthy', recovery_successes: 0 },
  { health: 'healthy', recovery_successes: 0 },
  { health: 'degraded', recovery_successes: 0 },
  { health: 'circuit_open', recovery_successes: 0 },
  { health: 'probing', recovery_successes: 1 },
  { health: 'recovering', recovery_successes: 3 },
  { health: 'disabled', recovery_successes: 0 },
)
const load = fc.constantFrom(
  { in_use: 0, in_use_epoch: 0 },
  { in_use: 1, in_use_epoch: 1 },
  { in_use: 3, in_use_epoch: 0 },
  { in_use: 5, in_use_epoch: 5 },
)
const hold = fc.constantFrom(
  null,
  null,
  null,
  '2026-12-01T08:00:59Z',
  '2026-12-01T08:01:40Z',
  '2026-12-01T08:03:00Z',
)
const granted = fc.constantFrom(null, '2026-12-01T08:00:00Z', '2026-12-01T08:00:59Z')
const aLevel = fc
  .tuple(health, load, hold, granted, fc.constantFrom('enabled', 'enabled', 'enabled', 'enabled', 'disabled'))
  .map(([h, l, not_before, last_granted_at, admin_state]) => ({
    ...h,
    ...l,
    not_before,
    last_granted_at,
    admin_state,
  }))
const modes = fc.constantFrom(
  [VIDEO_MODE],
  [VIDEO_MODE],
  [{ ...VIDEO_MODE, resolutions: ['480p'] }],
  [{ ...VIDEO_MODE, inputs: { reference_images: { max: 9 } } }],
)

const aCandidate = fc
  .record({
    tier: fc.constantFrom('exact', 'exact', 'fallback', 'degraded'),
    price: fc.constantFrom('0', '1', '1', '1.5', '2', '4'),
    bills: fc.boolean(),
    priced: fc.constantFrom(true, true, true, true, false),
    priority: fc.constantFrom(0, 0, 5),
    enabled: fc.constantFrom(true, true, true, false),
    real_person: fc.constantFrom('allowed', 'allowed', 'restricted', 'denied'),
    samples: fc.constantFrom(
      { successes: 0, failures: 0 },
      { successes: 100, failures: 0 },
      { successes: 60, failures: 40 },
      { successes: 0, failures: 30 },
    ),
    supply: aLevel,
    channel: aLevel,
    modes,
  })
  .map(
    (drawn) =>
      (name: string, channel: string): Json =>
        candidate(name, {
          tier: drawn.tier,
          priority: drawn.priority,
          supply: {
            ...drawn.supply,
            real_person: drawn.real_person,
            samples: drawn.samples,
            capability: { billing_mode: 'per_second', modes: drawn.modes },
          },
          channel: { ...drawn.channel, id: channel },
          more: {
            enabled: drawn.enabled,
            cost_rule: drawn.priced
              ? { mode: 'per_second', bills_failures: drawn.bills, prices: [{ price: drawn.price }] }
              : null,
          },
        }),
  )

const anInput = fc
  .record({
    makers: fc.array(aCandidate, { minLength: 0, maxLength: 6 }),
    strategy: fc.constantFrom('stable_first', 'cost_first', 'manual_priority'),
    real_person: fc.boolean(),
    strict: fc.constantFrom(null, null, 'strict', 'best_effort'),
    admitted: fc.constantFrom(true, true, false),
    attempts: fc.constantFrom(
      [],
      [],
      [],
      [failed('a')],
      [failed('b', { scope: 'channel' })],
      [failed('a', { category: 'content' })],
      [failed('a', { outcome: 'uncertain' })],
      [failed('a'), failed('b')],
    ),
    limits: fc.constantFrom(
      {},
      {},
      { absolute_cost_limit: '8' },
      { task_cost_limit: '8' },
      { stable_cost_multiplier_limit: 1.2, fallback_cost_multiplier: 2 },
    ),
    spill: fc.constantFrom(null, 60, 600),
    degrade: fc.constantFrom(null, 0, 600),
    probe: fc.constantFrom(null, 30),
    override: fc.boolean(),
    modelMode: fc.constantFrom('best_effort', 'best_effort', 'best_effort', 'strict'),
    inputs: fc.constantFrom({}, { reference_images: 2, reference_videos: 1 }),
  })
  .map(
    (drawn): Json =>
      input(
        // Two channels for all, so that they share; the names cross, so that no key follows another.
        drawn.makers.map((make, at) => make('abcdef'[at] ?? 'x', at % 2 === 0 ? 'c_a' : `c_${'abcdef'[at]}`)),
        {
          task: { admitted: drawn.admitted, attempts: drawn.attempts },
          request: { real_person: drawn.real_person, degradation: drawn.strict, inputs: drawn.inputs },
          model: { emergency_cost_override: drawn.override, degradation: drawn.modelMode },
          policy: {
            strategy: drawn.strategy,
            spill_after_seconds: drawn.spill,
            degrade_after_seconds: drawn.degrade,
            probe_interval_seconds: drawn.probe,
            ...drawn.limits,
          },
        },
      ),
  )

function check(property: (json: Json, found: Verdict) => void, runs = RUNS) {
  fc.assert(
    fc.property(anInput, (json) => {
      const found = verdict(json)
      const kind = found.pass ?? found.reason ?? found.code ?? '?'
      seen.set(kind, (seen.get(kind) ?? 0) + 1)
      property(json, found)
    }),
    { numRuns: runs, seed: 20261201 },
  )
}

const candidatesOf = (json: Json) => json.candidates as Json[]
const of = (json: Json, binding: string) =>
  candidatesOf(json).find((each) => each.binding_id === binding) as Json & {
    supply: Json
    channel: Json
    cost_rule: Json
  }

describe('of every decision', () => {
  it('STR-9: does not depend on the order of the candidates', () => {
    check((json, found) => {
      const candidates = candidatesOf(json)
      const turned = [
        [...candidates].reverse(),
        [...candidates.slice(1), ...candidates.slice(0, 1)],
        [...candidates].sort(byHealth),
      ]
      for (const order of turned)
        expect(sorted(verdict({ ...json, candidates: order }))).toEqual(sorted(found))
    })
  })

  it('ORD-15: every candidate is in exactly one of ranking and excluded, where candidates were looked at', () => {
    check((json, found) => {
      if (found.excluded === undefined) return
      const names = [...(found.ranking ?? []), ...Object.keys(found.excluded)].sort()
      expect(names).toEqual(
        candidatesOf(json)
          .map((each) => each.binding_id)
          .sort(),
      )
    })
  })

  it('ORD-4 to ORD-11: no ranked candidate breaks a rule, checked by a second hand', () => {
    check((json, found) => {
      for (const binding of found.ranking ?? [])
        expect(brokenBy(json, of(json, binding), found), binding).toEqual([])
    })
  })

  it('STR-1, STR-2, STR-3, ORD-12: the ranking falls by the strategy’s keys, in their order', () => {
    check((json, found) => {
      const ranking = (found.ranking ?? []).map((binding) => keysOf(json, of(json, binding)))
      for (let i = 1; i < ranking.length; i += 1)
        expect(compare(ranking[i - 1] ?? [], ranking[i] ?? [])).toBeLessThan(0)
    })
  })

  it('DEG-1: strict never degrades, whichever side says it', () => {
    check((json, found) => {
      const strict = { ...json, request: { ...(json.request as Json), degradation: 'strict' } }
      expect(verdict(strict).degraded ?? null).toBeNull()
      const sides = [(json.request as Json).degradation, (json.model as Json).degradation]
      if (found.degraded != null) expect(sides).not.toContain('strict')
    })
  })

  /** Whoever it stood before, it still stands before, and the chosen one is still chosen. */
  it('STR-1: more free capacity never makes a candidate lose to one that it beat', () => {
    check((json, found) => {
      for (const binding of found.ranking ?? []) {
        const roomier = change(json, binding, (each) => ({
          ...each,
          supply: { ...each.supply, concurrency: 50 },
        }))
        expectNoLoss(found, verdict(roomier), binding)
      }
    })
  })

  /**
   * True where the baseline is an explicit one. The middle quote moves with a price, and with it the limits and the turn
   * to be probed of all others: a held supply may then go over its limit, keep nothing shut any more, and open a layer
   * that comes before.
   */
  it('STR-1, COST-3: a lower price never makes a candidate lose to one that it beat', () => {
    check((json) => {
      const normal_cost = { mode: 'per_second', bills_failures: false, prices: [{ price: '2' }] }
      const fixed = { ...json, model: { ...(json.model as Json), normal_cost } }
      const before = verdict(fixed)
      for (const binding of before.ranking ?? []) {
        for (const price of ['0', '0.000001', '0.9']) {
          const [old] = of(fixed, binding).cost_rule.prices as { price: string }[]
          if (Number(price) > Number(old?.price)) continue
          const cheaper = change(fixed, binding, (each) => ({
            ...each,
            cost_rule: { ...each.cost_rule, prices: [{ price }] },
          }))
          expectNoLoss(before, verdict(cheaper), binding)
        }
      }
    })
  })

  it('IN-1, IN-2: the same input gives the same verdict, with figures or without', () => {
    check((json, found) => {
      const parsed: DecisionInput = parseDecisionInput(json)
      expect(printVerdict(decideWithFigures(parsed).verdict)).toEqual(found)
      expect(printVerdict(decide(parsed))).toEqual(found)
      const figures = decideWithFigures(parsed).figures.map((each) => each.bindingId)
      expect(figures).toEqual(
        found.excluded === undefined ? [] : candidatesOf(json).map((each) => each.binding_id),
      )
    })
  })

  it('UNK-3, RTY-2: whatever the candidates, nothing is chosen beside an attempt that may be alive', () => {
    check((json, found) => {
      const attempts = (json.task as Json).attempts as Json[]
      if (attempts.some((each) => each.outcome !== 'failed')) expect(found.code).toBe('attempt_open')
    })
  })

  afterAll(() => {
    for (const kind of [
      'untried',
      'untried_recovering',
      'tried',
      'override_untried',
      'degraded_untried',
      'degraded_tried',
      'degraded_override_untried',
      'capacity',
      'health',
      'disabled',
      'cost',
      'no_capable_supply',
      'cost_limit_exceeded',
      'attempts_exhausted',
      'attempt_open',
    ])
      expect(seen.get(kind) ?? 0, `how often the generator brought about ${kind}`).toBeGreaterThan(5)
  })
})

function byHealth(a: Json, b: Json): number {
  return String((a.supply as Json).health) < String((b.supply as Json).health) ? -1 : 1
}

/** Where the others are still ranked at all: an earlier layer may have opened for this one. */
function expectNoLoss(before: Verdict, after: Verdict, binding: string): void {
  const [was, is] = [before.ranking ?? [], after.ranking ?? []]
  const beaten = was.slice(was.indexOf(binding) + 1)
  if (is.includes(binding))
    for (const other of beaten.filter((each) => is.includes(each)))
      expect(is.indexOf(binding)).toBeLessThan(is.indexOf(other))
  else for (const other of beaten) expect(is).not.toContain(other)
  if (before.binding_id === binding) expect(after.binding_id).toBe(binding)
}

function sorted(found: Verdict) {
  return { ...found, excluded: Object.entries(found.excluded ?? {}).sort() }
}

function change(
  json: Json,
  binding: string,
  edit: (each: Json & { supply: Json; cost_rule: Json }) => Json,
): Json {
  return {
    ...json,
    candidates: candidatesOf(json).map((each) =>
      each.binding_id === binding ? edit(each as Json & { supply: Json; cost_rule: Json }) : each,
    ),
  }
}

/** The rules again, naively, from the text. */
function brokenBy(
  json: Json,
  each: Json & { supply: Json; channel: Json; cost_rule: Json },
  found: Verdict,
): string[] {
  const broken: string[] = []
  const request = json.request as Json & { inputs: Record<string, number> }
  const { policy, ...model } = json.model as Json & { policy: Json }
  if (each.enabled !== true) broken.push('binding')
  for (const level of [each.supply, each.channel]) {
    if (level.admin_state !== 'enabled') broken.push('switch')
    if (level.health === 'circuit_open' || level.health === 'disabled') broken.push('health')
    if (level.not_before !== null && String(level.not_before) > '2026-12-01T08:01:00') broken.push('held')
    if (Number(level.in_use) >= Number(level.concurrency)) broken.push('full')
    const limit = level.health === 'probing' ? 1 : level.health === 'recovering' ? 3 : null
    if (limit !== null && Number(level.in_use_epoch) >= limit) broken.push('rung')
  }
  if (request.real_person === true && each.supply.real_person === 'denied') broken.push('denied')
  const strict = request.degradation === 'strict'
  const inputs = each.tier === 'degraded' ? { ...request.inputs, reference_videos: 0 } : request.inputs
  if (each.tier === 'degraded' && strict) broken.push('strict')
  const [mode] = (
    each.supply.capability as { modes: { resolutions: string[]; inputs: Record<string, unknown> }[] }
  ).modes
  if (!mode?.resolutions.includes('720p')) broken.push('resolution')
  for (const [kind, count] of Object.entries(inputs))
    if (count > 0 && !(kind in (mode?.inputs ?? {}))) broken.push(kind)
  const cost = 5 * Number((each.cost_rule.prices as { price: string }[])[0]?.price)
  if (
    policy.absolute_cost_limit !== null &&
    cost > Number(policy.absolute_cost_limit) &&
    model.emergency_cost_override !== true
  )
    broken.push('absolute')
  if (policy.task_cost_limit !== null && cost > Number(policy.task_cost_limit)) broken.push('task')
  if (each.tier !== found.tier) broken.push('tier')
  return broken
}

const HEALTHS = ['healthy', 'degraded', 'recovering', 'probing']

/** The figures that the strategy compares, the smaller the better; IDs as text. */
function keysOf(
  json: Json,
  each: Json & { supply: Json; channel: Json; cost_rule: Json },
): (number | string)[] {
  const { policy } = json.model as { policy: Json }
  const one = decideWithFigures(parseDecisionInput(json)).figures.find(
    (figures) => figures.bindingId === each.binding_id,
  )
  const worst = Math.max(
    HEALTHS.indexOf(String(each.supply.health)),
    HEALTHS.indexOf(String(each.channel.health)),
  )
  const rate = one?.secondClass === true ? 1 : 0
  const cost = one?.expectedCost == null ? Number.POSITIVE_INFINITY : Number(one.expectedCost)
  const free = -Number(one?.freeCapacity)
  const turn = one?.probeTurn === true ? 0 : 1
  const ids = [String(each.supply.id), String(each.binding_id)]
  const costFirst = [cost, worst, rate, free]
  if (policy.strategy === 'stable_first') return [turn, worst, rate, cost, free, ...ids]
  return policy.strategy === 'cost_first'
    ? [turn, ...costFirst, ...ids]
    : [turn, -Number(each.priority), ...costFirst, ...ids]
}

function compare(a: (number | string)[], b: (number | string)[]): number {
  for (const [at, left] of a.entries()) {
    const right = b[at] ?? 0
    if (left !== right) return left < right ? -1 : 1
  }
  return 0
}
