import { describe, expect, it } from 'vitest'
import { escalates, type Sign, suspectsOwnNetwork } from './escalation.ts'

const NOW = 1_800_000_000_000_000
const SECOND = 1_000_000
const failed = (supplyId: string, secondsAgo: number, fingerprint = 'f'): Sign => ({
  kind: 'failed',
  supplyId,
  at: NOW - secondsAgo * SECOND,
  fingerprint,
})
const finished = (supplyId: string, secondsAgo: number): Sign => ({
  kind: 'finished',
  supplyId,
  at: NOW - secondsAgo * SECOND,
})
const accepted = (supplyId: string, secondsAgo: number): Sign => ({
  kind: 'accepted',
  supplyId,
  at: NOW - secondsAgo * SECOND,
})
const THREE = [failed('a', 20), failed('b', 10), failed('a', 0)]

describe('the same error on several supplies', () => {
  it('HLT-16: three failures of two supplies by one cause are the channel’s', () => {
    expect(escalates(THREE, 'f', NOW)).toBe(true)
  })

  it.each([
    ['one supply alone', [failed('a', 3), failed('a', 2), failed('a', 1)]],
    ['two failures', [failed('a', 3), failed('b', 2)]],
    ['another cause among the three', [failed('a', 3), failed('b', 2), failed('b', 1, 'g')]],
    ['the first more than a minute ago', [failed('a', 60.1), failed('b', 10), failed('a', 0)]],
    [
      'fewer than half of the active supplies',
      [...THREE, finished('c', 5), finished('d', 5), finished('e', 5)],
    ],
    ['an acceptance since the first', [...THREE, accepted('b', 15)]],
    [
      'the first a microsecond more than a minute ago',
      [failed('a', 60.000001), failed('b', 10), failed('a', 0)],
    ],
    ['an acceptance together with the first', [...THREE, accepted('b', 20)]],
    ['nothing at all', []],
  ])('HLT-16: %s is not', (_, signs) => {
    expect(escalates(signs, 'f', NOW)).toBe(false)
  })

  it.each([
    ['the first just a minute ago', [failed('a', 60), failed('b', 10), failed('a', 0)]],
    ['half of the active supplies', [...THREE, finished('c', 5), finished('d', 5)]],
    [
      'other supplies that were active more than a minute ago',
      [...THREE, ...['c', 'd', 'e'].map((id) => finished(id, 61))],
    ],
    ['an acceptance before the first', [...THREE, accepted('b', 21)]],
    ['results of older jobs meanwhile', [...THREE, finished('a', 1), finished('b', 1)]],
    ['enough since an acceptance', [failed('a', 30), accepted('a', 25), ...THREE]],
  ])('HLT-16: %s is', (_, signs) => {
    expect(escalates(signs, 'f', NOW)).toBe(true)
  })

  it('HLT-16: an acceptance counts as activity of its supply', () => {
    const others = ['c', 'd', 'e'].map((id) => accepted(id, 30))
    expect(escalates([...THREE, ...others], 'f', NOW)).toBe(false)
  })
})

describe('most channels out of reach at once', () => {
  const reach = (unreachable: number, all: number) =>
    Array.from({ length: all }, (_, n) => ({ channelId: `c${n}`, unreachable: n < unreachable }))

  it.each([
    [3, 3],
    [3, 5],
    [4, 7],
  ])('HLT-16: %d of %d suggest our own network', (unreachable, all) => {
    expect(suspectsOwnNetwork(reach(unreachable, all))).toBe(true)
  })

  it.each([
    [2, 2],
    [2, 3],
    [3, 6],
    [3, 7],
    [0, 5],
  ])('HLT-16: %d of %d do not', (unreachable, all) => {
    expect(suspectsOwnNetwork(reach(unreachable, all))).toBe(false)
  })
})
