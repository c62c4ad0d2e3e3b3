import { describe, expect, it } from 'vitest'
import { type Counters, HEALTH_DEFAULTS, NO_COUNTERS, type Outcome } from './health-row.ts'
import { reaches, windowShare, withOutcome } from './health-window.ts'

const NOW = 1_800_000_000_000_000
const MILLI = 1000

const failed = (agoMs: number): Outcome => ({ at: NOW - agoMs * MILLI, ok: false })
const succeeded = (agoMs: number, durationMs: number | null): Outcome => ({
  at: NOW - agoMs * MILLI,
  ok: true,
  durationMs,
})
const counters = (outcomes: readonly Outcome[]): Counters => ({
  ...NO_COUNTERS,
  outcomes,
  sinceOpening: outcomes.length,
})

describe('the window', () => {
  it('HLT-14: reaches its share from exactly there on, and never of nothing', () => {
    expect(reaches({ total: 5, failures: 1 }, 20)).toBe(true)
    expect(reaches({ total: 101, failures: 20 }, 20)).toBe(false)
    expect(reaches({ total: 1, failures: 1 }, 100)).toBe(true)
    expect(reaches({ total: 0, failures: 0 }, 20)).toBe(false)
  })

  it('HLT-14: holds a single outcome, and none before there was one', () => {
    expect(windowShare(counters([]), NOW, HEALTH_DEFAULTS)).toEqual({ total: 0, failures: 0 })
    expect(windowShare(counters([failed(0)]), NOW, HEALTH_DEFAULTS)).toEqual({ total: 1, failures: 1 })
    const opened = { ...counters([failed(0)]), sinceOpening: 0 }
    expect(windowShare(opened, NOW, HEALTH_DEFAULTS)).toEqual({ total: 0, failures: 0 })
  })

  it('HLT-14: is three times the 95th percentile of the durations old, an observed one', () => {
    // Of 39 the 38th: 3,800 s.
    const durations = Array.from({ length: 39 }, (_, n) => succeeded(0, (n + 1) * 100_000))
    const settings = { ...HEALTH_DEFAULTS, windowSize: 100 }
    const share = (agoMs: number) => windowShare(counters([failed(agoMs), ...durations]), NOW, settings)
    expect(share(3 * 3_800_000)).toEqual({ total: 40, failures: 1 })
    expect(share(3 * 3_800_000 + 1)).toEqual({ total: 39, failures: 0 })
  })

  it('HLT-14, STR-9: a supply keeps its samples, a channel its window', () => {
    const full = counters(Array.from({ length: 100 }, () => failed(1)))
    const next = succeeded(0, null)
    const kept = (kind: 'channel' | 'supply') => withOutcome(full, next, { kind, settings: HEALTH_DEFAULTS })
    expect(kept('supply')).toMatchObject({ sinceOpening: 20 })
    expect(kept('supply').outcomes).toHaveLength(100)
    expect(kept('channel').outcomes).toHaveLength(20)
    expect(kept('channel').outcomes.at(-1)).toBe(next)
  })
})
