import { describe, expect, it } from 'vitest'
import { type Lease, leaseAfter } from './lease.ts'

const HELD: Lease = { state: 'held', heldUntil: null }

describe('lease', () => {
  it('UNK-2, UNK-5: held as long as the attempt is alive, uncertain or not', () => {
    for (const state of ['reserved', 'submitting', 'submission_uncertain', 'accepted'] as const) {
      expect(leaseAfter(HELD, state, 1e15)).toBe(HELD)
    }
  })

  it('WAKE-2: released with the reason when the attempt ends', () => {
    for (const state of ['succeeded', 'failed', 'abandoned', 'cancelled'] as const) {
      expect(leaseAfter(HELD, state, 5)).toEqual({ state: 'released', releasedAt: 5, why: state })
    }
  })

  it('RTY-7: of a job that nobody waits for any more, until the provider’s maximum life is over', () => {
    const lease: Lease = { state: 'held', heldUntil: 100 }
    expect(leaseAfter(lease, 'accepted', 99)).toBe(lease)
    expect(leaseAfter(lease, 'accepted', 100)).toEqual({
      state: 'released',
      releasedAt: 100,
      why: 'life_over',
    })
    expect(leaseAfter(lease, 'succeeded', 50)).toMatchObject({ why: 'succeeded' })
  })

  it('is released once', () => {
    const lease: Lease = { state: 'released', releasedAt: 5, why: 'failed' }
    expect(leaseAfter(lease, 'accepted', 9)).toBe(lease)
    expect(leaseAfter(lease, 'succeeded', 9)).toBe(lease)
  })
})
