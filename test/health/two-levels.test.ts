/** A channel and its supplies in every state that they can reach together (HLT-2, HLT-3, HLT-13, HLT-16). */
import { describe, expect, it } from 'vitest'
import * as concurrency from '../../src/core/concurrency.ts'
import * as escalation from '../../src/core/escalation.ts'
import * as health from '../../src/core/health.ts'
import * as news from '../../src/core/health-news.ts'
import { exploreTwoLevels } from './two-levels.ts'

// With two supplies at concurrency 3 and 4 (in one step) 82,671 and 215,672 states, none broken: too long for each run.
describe('every reachable state of a channel with its supplies', () => {
  it.each([
    { supplies: 1, concurrency: 1, twoCauses: true, twoSteps: true },
    { supplies: 2, concurrency: 1, twoCauses: true, twoSteps: true },
    { supplies: 3, concurrency: 1, twoCauses: false, twoSteps: true },
    { supplies: 2, concurrency: 2, twoCauses: false, twoSteps: true },
    { supplies: 2, concurrency: 2, twoCauses: false, twoSteps: false },
  ])('HLT-16: no invariant is broken with $supplies supplies at concurrency $concurrency', (size) => {
    const explored = exploreTwoLevels({ health, news, concurrency, escalation }, size)
    expect(explored.states).toBeGreaterThan(500)
    const expected = ['grant', 'accepted', 'finished', 'failed', 'connection', 'aside', 'content', 'cool']
    const withSteps = expected.filter((name) => size.twoSteps || name !== 'accepted')
    expect([...explored.names]).toEqual(expect.arrayContaining(withSteps))
    expect(explored.names.has('escalated')).toBe(size.supplies > 1)
  })
})
