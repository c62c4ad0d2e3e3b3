import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { HealthState } from './catalog.ts'
import { effectiveConcurrency } from './concurrency.ts'

const steady: HealthState[] = ['healthy', 'degraded']
const shut: HealthState[] = ['circuit_open', 'disabled']

describe('effective concurrency', () => {
  it('HLT-6: all of it when steady, one while probing, none while open or disabled', () => {
    for (const concurrency of [1, 2, 5, 100]) {
      for (const state of steady) expect(effectiveConcurrency(state, 0, concurrency)).toBe(concurrency)
      for (const state of shut) expect(effectiveConcurrency(state, 0, concurrency)).toBe(0)
      for (const count of [0, 1]) expect(effectiveConcurrency('probing', count, concurrency)).toBe(1)
    }
  })

  it.each([
    [1, [1, 1, 1]],
    [2, [1, 1, 1]],
    [3, [1, 2, 2]],
    [4, [1, 2, 3]],
    [5, [2, 3, 4]],
    [6, [2, 3, 5]],
    [8, [2, 4, 6]],
    [10, [3, 5, 8]],
    [16, [4, 8, 12]],
    [33, [9, 17, 25]],
    [100, [25, 50, 75]],
  ])('HLT-6, HLT-7: of %i, recovering opens %j', (concurrency, limits) => {
    expect([2, 3, 4].map((count) => effectiveConcurrency('recovering', count, concurrency))).toEqual(limits)
  })

  it('HLT-7: recovering keeps a slot closed while there is more than one, and never all of them', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1_000_000 }), fc.constantFrom(2, 3, 4), (concurrency, count) => {
        const limit = effectiveConcurrency('recovering', count, concurrency)
        expect(Number.isInteger(limit)).toBe(true)
        expect(limit).toBeGreaterThanOrEqual(1)
        expect(limit).toBeLessThanOrEqual(Math.max(1, concurrency - 1))
        // Rounded up, but for the slot that stays closed: the least whole number with at least that share.
        const share = BigInt(concurrency) * BigInt(count - 1)
        if (limit < concurrency - 1) expect(BigInt(limit) * 4n >= share).toBe(true)
        if (limit > 1) expect(BigInt(limit - 1) * 4n < share).toBe(true)
      }),
    )
  })

  it('HLT-6: more successes or more configured slots never open fewer', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), fc.constantFrom(2, 3, 4), (concurrency, count) => {
        const limit = effectiveConcurrency('recovering', count, concurrency)
        expect(effectiveConcurrency('recovering', count + 1, concurrency)).toBeGreaterThanOrEqual(limit)
        expect(effectiveConcurrency('recovering', count, concurrency + 1)).toBeGreaterThanOrEqual(limit)
        expect(effectiveConcurrency('probing', 0, concurrency)).toBeLessThanOrEqual(limit)
      }),
    )
  })
})
