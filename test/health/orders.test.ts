/**
 * Invariants over orders and figures that the search through every state leaves out: times, limits and the order in which
 * outcomes are committed, for random values.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { effectiveConcurrency } from '../../src/core/concurrency.ts'
import { applyNews, coolDownOver } from '../../src/core/health.ts'
import type { HealthNews } from '../../src/core/health-news.ts'
import { HEALTH_DEFAULTS, type HealthRow, type LevelKind, NEW_ROW } from '../../src/core/health-row.ts'

const START = 1_800_000_000_000_000
const MILLI = 1000
const kinds = fc.constantFrom<LevelKind[]>('channel', 'supply')

function success(kind: LevelKind, epoch: number): HealthNews {
  const of = { epoch, calledAt: START }
  return kind === 'channel' ? { ...of, kind: 'accepted' } : { ...of, kind: 'finished', durationMs: 1 }
}

function failure(epoch: number, fingerprint: string): HealthNews {
  return { epoch, calledAt: START, kind: 'failed', cause: 'ordinary', code: 'upstream_error', fingerprint }
}

/** News one after another, `gapMs` apart. */
function tell(kind: LevelKind, row: HealthRow, news: readonly HealthNews[], gapMs = 2000): HealthRow {
  return news.reduce((now, one, at) => applyNews(kind, now, one, START + (at + 1) * gapMs * MILLI).row, row)
}

function probing(kind: LevelKind): HealthRow {
  const open = tell(
    kind,
    NEW_ROW,
    Array.from({ length: 5 }, (_, n) => failure(0, `f${n}`)),
  )
  return coolDownOver(open, START + 1e9).row
}

describe('orders and figures', () => {
  it('INV-29, HLT-8: one failure among the outcomes of a recovery ends open, in whatever order they are committed', () => {
    fc.assert(
      fc.property(kinds, fc.nat({ max: 4 }), fc.nat({ max: 3 }), (kind, before, after) => {
        const row = probing(kind)
        const news = [
          ...Array.from({ length: before }, () => success(kind, row.epoch)),
          failure(row.epoch, 'g'),
          ...Array.from({ length: after }, () => success(kind, row.epoch)),
        ]
        expect(tell(kind, row, news)).toMatchObject({ state: 'circuit_open', epoch: row.epoch + 1 })
      }),
    )
  })

  it('INV-28, HLT-15: within one hold its end only moves later', () => {
    const asks = fc.array(fc.option(fc.nat({ max: 60_000 })), { minLength: 1, maxLength: 20 })
    fc.assert(
      fc.property(kinds, asks, (kind, retries) => {
        let row: HealthRow = NEW_ROW
        for (const [at, retryAfterMs] of retries.entries()) {
          const before = row.hold?.notBefore ?? 0
          const news = {
            epoch: 0,
            calledAt: START,
            code: 'rate_limited',
            fingerprint: '429',
            retryAfterMs,
          } as const
          row = applyNews(kind, row, { ...news, kind: 'capacity' }, START + at * MILLI).row
          expect(row.hold?.notBefore).toBeGreaterThanOrEqual(before)
          // All of them were called before the hold was over, save where the first asked for none.
          if (row.hold !== null && row.hold.notBefore <= START) return
        }
        expect(row.state).toBe('healthy')
      }),
    )
  })

  it('INV-30, INV-31, HLT-7: limits rise with rung and concurrency, also where the limit is changed in the middle', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 500 }), fc.integer({ min: 2, max: 4 }), (concurrency, rung) => {
        const limit = effectiveConcurrency('recovering', rung, concurrency)
        expect(limit).toBeGreaterThanOrEqual(1)
        expect(limit).toBeLessThanOrEqual(Math.max(1, concurrency - 1))
        expect(effectiveConcurrency('recovering', rung, concurrency + 1)).toBeGreaterThanOrEqual(limit)
        if (rung < 4)
          expect(effectiveConcurrency('recovering', rung + 1, concurrency)).toBeGreaterThanOrEqual(limit)
      }),
    )
  })

  it('INV-33, HLT-14: a burst of the same failure counts once, failures a second apart each', () => {
    fc.assert(
      fc.property(kinds, fc.integer({ min: 1, max: 4 }), (kind, count) => {
        const burst = Array.from({ length: count }, () => failure(0, 'f'))
        expect(tell(kind, NEW_ROW, burst, 1).counters.consecutiveFailures).toBe(1)
        expect(tell(kind, NEW_ROW, burst, 1000).counters.consecutiveFailures).toBe(count)
      }),
    )
  })

  it('INV-25: only the instant that is given counts, and one that goes back opens nothing earlier', () => {
    const open = tell(
      'channel',
      NEW_ROW,
      Array.from({ length: 5 }, (_, n) => failure(0, `f${n}`)),
    )
    const opened = START + 5 * 2000 * MILLI
    expect(open).toMatchObject({ openUntil: opened + HEALTH_DEFAULTS.coolDownMs * MILLI })
    expect(coolDownOver(open, 0).applied).toBe(false)
    expect(coolDownOver(open, opened + HEALTH_DEFAULTS.coolDownMs * MILLI).applied).toBe(true)
  })
})
