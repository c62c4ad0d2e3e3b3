import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decideCommand } from '../../src/cli/decide.ts'
import { candidate, imageCandidate, imageInput, input, type Json } from './build.ts'

const good = () => input([candidate('a'), candidate('d', { tier: 'degraded' })], { task: { attempts: [] } })

/** The input with the value at a path such as `candidates.0.supply.health` replaced; undefined takes it away. */
function put(json: Json, path: string, value: unknown): Json {
  const copy = structuredClone(json)
  const keys = path.split('.')
  const last = keys.pop() ?? ''
  let at: Record<string, unknown> = copy
  for (const key of keys) at = at[key] as Record<string, unknown>
  if (value === undefined) delete at[last]
  else at[last] = value
  return copy
}

const complaint = (json: unknown) => {
  const { status, stdout, stderr } = decideCommand(JSON.stringify(json))
  expect([status, stdout]).toEqual([2, ''])
  return stderr
}

describe('yardmaster decide refuses what is malformed, with its path', () => {
  const attempt = {
    supply_id: 's',
    channel_id: 'c',
    outcome: 'failed',
    category: 'supply',
    scope: 'supply',
    may_change_supply: true,
    cost: '0',
  }
  it.each([
    ['now', undefined],
    ['now', 'yesterday'],
    ['now', '2026-13-01T00:00:00Z'],
    ['task', undefined],
    ['task', []],
    ['task.admitted', 'yes'],
    ['task.attempts', {}],
    ['task.attempts', [{ ...attempt, outcome: 'maybe' }], 'task.attempts[0].outcome'],
    ['task.attempts', [{ ...attempt, cost: '-1' }], 'task.attempts[0].cost'],
    ['task.attempts', [{ ...attempt, cost: 1 }], 'task.attempts[0].cost'],
    ['task.attempts', [{ ...attempt, category: 'weather' }], 'task.attempts[0].category'],
    ['caller.groups', [1], 'caller.groups[0]'],
    ['request.media', 'audio'],
    ['request.duration_seconds', undefined],
    ['request.duration_seconds', 1.5],
    ['request.duration_seconds', -1],
    ['request.billing_mode', 'per_week'],
    ['request.inputs.reference_images', -1],
    ['request.inputs.reference_images', 1.5],
    ['request.inputs.reference_images', '1'],
    ['model.policy.strategy', 'random'],
    ['model.policy.max_attempts', 1.5],
    ['model.policy.assumed_success_rate', '0.95'],
    ['model.policy.assumed_success_rate', 0.1234567],
    ['model.policy.absolute_cost_limit', 5],
    ['model.policy.absolute_cost_limit', '1.0000001'],
    ['model.policy.absolute_cost_limit', '-1'],
    ['model.policy.absolute_cost_limit', '1e3'],
    ['model.limits.modes', undefined],
    ['model.degradation', 'always'],
    ['degradation_rules.0.operations', [{ op: 'eval' }], 'degradation_rules[0].operations[0].op'],
    ['candidates', undefined],
    ['candidates.0.tier', 'silver', 'candidates[0].tier'],
    ['candidates.0.priority', -1, 'candidates[0].priority'],
    ['candidates.0.supply.health', 'fine', 'candidates[0].supply.health'],
    ['candidates.0.supply.concurrency', 0, 'candidates[0].supply.concurrency'],
    ['candidates.0.supply.in_use', -1, 'candidates[0].supply.in_use'],
    ['candidates.0.supply.in_use', null, 'candidates[0].supply.in_use'],
    ['candidates.0.channel.admin_state', undefined, 'candidates[0].channel.admin_state'],
    ['candidates.0.channel.not_before', 17, 'candidates[0].channel.not_before'],
    ['candidates.0.supply.real_person', 'some', 'candidates[0].supply.real_person'],
    ['candidates.0.supply.samples.successes', 0.5, 'candidates[0].supply.samples.successes'],
    ['candidates.0.cost_rule.prices', [{ price: 1 }], 'candidates[0].cost_rule.prices[0].price'],
    ['candidates.0.cost_rule.prices', [{ price: '-1' }], 'candidates[0].cost_rule.prices[0].price'],
    [
      'candidates.0.supply.capability.modes',
      [{}],
      'candidates[0].supply.capability.modes[0].duration_seconds',
    ],
    ['candidates.1.degradation_rule_id', null, 'candidates[1].degradation_rule_id'],
    ['candidates.1.degradation_rule_id', undefined, 'candidates[1].degradation_rule_id'],
    ['candidates.1.binding_id', 'b_a', 'candidates[1].binding_id'],
  ] as [string, unknown, string?][])('%s = %j', (path, value, named) => {
    expect(complaint(put(good(), path, value))).toContain(`line 1: ${named ?? path}: `)
  })

  it.each([
    ['probing', 2],
    ['probing', -1],
    ['recovering', 1],
    ['recovering', 5],
  ])('recovery_successes that %s does not have: %i', (health, recovery_successes) => {
    const level = { health, recovery_successes }
    expect(complaint(input([candidate('a', { supply: level })]))).toContain(
      'candidates[0].supply.recovery_successes',
    )
    expect(complaint(input([candidate('a', { channel: level })]))).toContain(
      'candidates[0].channel.recovery_successes',
    )
  })

  it('a supply twice within exact, within fallback, or with one rule in degraded; across them it may be', () => {
    const twice = (tier: string) => [
      candidate('a', { tier }),
      candidate('b', { tier, supply: { id: 's_a' } }),
    ]
    for (const tier of ['exact', 'fallback', 'degraded'])
      expect(complaint(input(twice(tier)))).toContain('candidates[1]')
    const across = [
      candidate('a'),
      candidate('b', { tier: 'fallback', supply: { id: 's_a' } }),
      candidate('c', { tier: 'degraded', supply: { id: 's_a' } }),
    ]
    expect(decideCommand(JSON.stringify(input(across))).status).toBe(0)
  })

  it('two rules of one ID, and an admitted task whose request is not of the model’s media', () => {
    const { degradation_rules } = good() as { degradation_rules: Json[] }
    expect(
      complaint(put(good(), 'degradation_rules', [...degradation_rules, ...degradation_rules])),
    ).toContain('degradation_rules[1].id')
    expect(complaint({ ...input([imageCandidate('a')]), model: imageInput([]).model })).toContain(
      'request.media',
    )
  })

  it.each(['null', '[]', '"x"', '17', '', '  ', '{', '{"now":', '\u0000'])('%j', (text) => {
    const { status, stdout, stderr } = decideCommand(text)
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^line 1: /)
  })

  it('lets "or null" fields be absent, and ignores what it does not know', () => {
    const { candidates, model, ...rest } = good() as Json & {
      candidates: Json[]
      model: Json & { policy: Json }
    }
    const { spill_after_seconds: _, ...policy } = model.policy
    const { normal_cost: __, ...sparse } = model
    const text = JSON.stringify({ ...rest, weather: 'fine', candidates, model: { ...sparse, policy } })
    expect(decideCommand(text)).toMatchObject({ status: 0, stderr: '' })
  })

  it('takes JSON lines, and prints nothing where one of them is wrong', () => {
    const line = JSON.stringify(good())
    expect(decideCommand(`${line}\n\n${line}\n`).stdout.trim().split('\n')).toHaveLength(2)
    const bad = JSON.stringify(put(good(), 'candidates.0.supply.health', 'fine'))
    expect(decideCommand(`${line}\n${bad}\n${line}`)).toMatchObject({
      status: 2,
      stdout: '',
      stderr: expect.stringContaining('line 2: candidates[0].supply.health: '),
    })
    expect(decideCommand(JSON.stringify(good(), null, 2)).status).toBe(0)
  })

  it('is not confused by names that objects have by themselves', () => {
    const odd = ['__proto__', 'constructor', 'toString'].map((name) =>
      candidate(name, { more: { binding_id: name }, supply: { id: name, admin_state: 'disabled' } }),
    )
    const text = JSON.stringify(input([candidate('a'), ...odd], { request: { inputs: {} } }))
    const { excluded } = JSON.parse(decideCommand(text).stdout)
    expect(Object.keys(excluded).sort()).toEqual(['__proto__', 'constructor', 'toString'])
    expect(Object.values(excluded)).toEqual(['supply_disabled', 'supply_disabled', 'supply_disabled'])
    const kinds = JSON.stringify(input([candidate('a')])).replace(
      '"inputs":{}',
      '"inputs":{"constructor":0,"__proto__":1}',
    )
    expect(JSON.parse(decideCommand(kinds).stdout).result).toBe('rejected')
  })

  it('is total: any damage ends with a verdict or with a path, and nothing throws', () => {
    const text = JSON.stringify(good())
    const damage = fc.tuple(
      fc.nat(text.length - 1),
      fc.nat(12),
      fc.constantFrom('', '0', '-1', '1e400', 'null', '[]', '{}', '"x"', '\\u0000', 'true', '9'.repeat(30)),
    )
    fc.assert(
      fc.property(damage, ([at, length, instead]) => {
        const { status, stdout, stderr } = decideCommand(
          text.slice(0, at) + instead + text.slice(at + length),
        )
        expect(status === 0 ? stderr : stdout).toBe('')
        if (status === 2) expect(stderr).toMatch(/^line \d+: \S/)
      }),
      { numRuns: 5000, seed: 7 },
    )
    const values = fc.anything({ maxDepth: 3 })
    const paths = [
      'task',
      'caller',
      'request',
      'model',
      'model.policy',
      'model.limits',
      'candidates',
      'candidates.0',
      'candidates.0.supply',
      'candidates.0.cost_rule',
      'degradation_rules',
    ]
    fc.assert(
      fc.property(fc.constantFrom(...paths), values, (path, value) => {
        const json = JSON.stringify(put(good(), path, value === undefined ? null : value), (_, each) =>
          typeof each === 'bigint' ? String(each) : each,
        )
        expect([0, 2]).toContain(decideCommand(json).status)
      }),
      { numRuns: 3000, seed: 8 },
    )
  })
})
