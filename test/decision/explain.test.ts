import { describe, expect, it } from 'vitest'
import { decideWithFigures } from '../../src/core/decide.ts'
import { parseDecisionInput } from '../../src/core/decision-json.ts'
import { type ExplainedRound, explainRound } from '../../src/core/explain.ts'
import { candidate, failed, imageCandidate, imageInput, input, type Json } from './build.ts'

function explained(json: Json): ExplainedRound {
  const parsed = parseDecisionInput(json)
  return explainRound(parsed, decideWithFigures(parsed))
}

const words = (round: ExplainedRound) => round.steps.flatMap((step) => [step.title, ...step.lines]).join('\n')

describe('a round in words', () => {
  it('ORD-16: four steps, in their order', () => {
    expect(explained(input([candidate('a')])).steps.map(({ step }) => step)).toEqual([
      'hard_capabilities',
      'health_and_capacity',
      'strategy',
      'change_of_supply',
    ])
  })

  it('ORD-16: a video shows the real-person policy, an image does not know the field', () => {
    expect(words(explained(input([candidate('a')])))).toMatch(/real-person/i)
    expect(words(explained(input([candidate('a')], { request: { real_person: true } })))).toMatch(
      /shows a real person/,
    )
    expect(
      words(explained(imageInput([imageCandidate('a')], { request: { real_person: true } }))),
    ).not.toMatch(/real.person/i)
  })

  it('ORD-15: each candidate that was passed over has one sentence, with the figures that decided', () => {
    const round = explained(
      input(
        [
          candidate('a'),
          candidate('b', { supply: { in_use: 5 } }),
          candidate('c', { supply: { not_before: '2026-12-01T08:02:00Z' } }),
          candidate('d', { channel: { health: 'circuit_open' } }),
          candidate('e', { price: '9' }),
          candidate('f', { tier: 'fallback' }),
          candidate('g', { supply: { capability: { billing_mode: 'per_second', modes: [] } } }),
        ],
        { policy: { absolute_cost_limit: '8' } },
      ),
    )
    const why = Object.fromEntries(round.candidates.map((each) => [each.binding_id, each.why]))
    expect(why.b_a).toMatch(/^Chosen, quote 5/)
    expect(why.b_b).toContain('5 of 5 in use')
    expect(why.b_c).toContain('2026-12-01T08:02:00')
    expect(why.b_d).toBe('The circuit of channel c_d is open.')
    expect(why.b_e).toMatch(/over the absolute limit.*45.*8/)
    expect(why.b_f).toContain('could serve')
    expect(why.b_g).toContain('cannot do this')
    for (const each of round.candidates) expect(words(round)).toContain(each.why)
  })

  it('ORD-16: says how many attempts were made, and where the next was found', () => {
    const round = explained(input([candidate('a')], { task: { attempts: [failed('z')] } }))
    expect(words(round)).toContain('1 of at most 2 attempts were made: s_z (failed, supply).')
    expect(words(round)).toContain('Found among supplies that this task has not tried.')
  })

  it('ORD-16: a refusal at the door looks at no supply, and says why', () => {
    const round = explained(input([candidate('a')], { caller: { user_active: false } }))
    expect(round.candidates).toEqual([])
    expect(round.conclusion).toMatch(/^Refused: user, key or group/)
  })

  it('COST-1: figures of every candidate: quote, baseline, cost so far, obstacles', () => {
    const parsed = parseDecisionInput(
      input(
        [
          candidate('a'),
          candidate('b', {
            price: '2',
            supply: { health: 'circuit_open', in_use: 5, not_before: '2026-12-01T09:00:00Z' },
          }),
        ],
        { task: { attempts: [failed('z', { cost: '3' })] } },
      ),
    )
    const { baseline, costSoFar, figures } = decideWithFigures(parsed)
    expect([baseline, costSoFar]).toEqual([5_000_000n, 3_000_000n])
    expect(figures.map((each) => [each.bindingId, each.quote, each.obstacles])).toEqual([
      ['b_a', 5_000_000n, []],
      ['b_b', 10_000_000n, ['supply_circuit_open', 'supply_held']],
    ])
  })
})
