/** Every state that a channel or a supply can reach: the rules of health hold in each (HLT-1 to HLT-18). */
import { describe, expect, it } from 'vitest'
import * as concurrency from '../../src/core/concurrency.ts'
import * as health from '../../src/core/health.ts'
import * as news from '../../src/core/health-news.ts'
import type { LevelKind } from '../../src/core/health-row.ts'
import { explore } from './model.ts'

const KINDS: LevelKind[] = ['channel', 'supply']

describe.each(KINDS)('every reachable state of a %s', (kind) => {
  it.each([1, 2, 3, 4])('HLT-1 to HLT-18: no invariant is broken at concurrency %i', (slots) => {
    const explored = explore({ health, news, concurrency }, kind, slots)
    expect(explored.states).toBeGreaterThan(100)
    expect([...explored.transitions]).toEqual(
      expect.arrayContaining([
        'healthy → degraded',
        'healthy → circuit_open',
        'degraded → healthy',
        'degraded → circuit_open',
        'circuit_open → probing',
        'probing → recovering',
        'probing → circuit_open',
        'recovering → healthy',
        'recovering → circuit_open',
        'disabled → recovering',
      ]),
    )
  })
})
