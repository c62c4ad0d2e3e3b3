import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Fault } from './outcome.ts'
import {
  afterFailure,
  codeOfFault,
  costOfAttempt,
  type FailedAttempt,
  mayChangeSupply,
  NOT_ACCEPTED,
  pollDelayMs,
} from './retry.ts'

const FAULT: Fault = {
  category: 'supply',
  scope: 'supply',
  retryable: true,
  certainty: 'rejected',
  impact: 'failure',
  code: 'upstream_error',
  message: '',
  providerCode: null,
  httpStatus: 500,
  fingerprint: 'supply|supply|http|500',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}
const CONTENT = { category: 'content', scope: 'request', retryable: false, impact: 'none' } as const

const next = (fault: Partial<Fault>, rest: Partial<FailedAttempt> = {}) => {
  return afterFailure({
    media: 'video',
    fault: { ...FAULT, ...fault },
    attemptsCounted: 1,
    policy: { maxAttempts: 2, retryWindowSeconds: 1200 },
    realPersonRefusal: 'stop',
    taskAgeMs: 60_000,
    otherSupplyFree: true,
    deadlineMsLeft: null,
    ...rest,
  })
}
const final = (code: string) => ({ kind: 'final', code })
const retry = (notBeforeMs: number) => ({ kind: 'retry', notBeforeMs })

describe('after a failed attempt', () => {
  it('RTY-1, RTY-4: one change of supply; the second failure is final', () => {
    expect(next({})).toEqual(retry(0))
    expect(next({}, { attemptsCounted: 2 })).toEqual(final('attempts_exhausted'))
    expect(next({}, { policy: { maxAttempts: 1, retryWindowSeconds: 1200 } })).toEqual(
      final('attempts_exhausted'),
    )
  })

  it('RTY-2: only supply and capacity errors that are retryable', () => {
    expect(next({ category: 'capacity', impact: 'capacity', code: 'rate_limited' })).toEqual(retry(0))
    expect(next({ retryable: false })).toEqual(final('attempts_exhausted'))
    expect(next({ category: 'capacity', retryable: false })).toEqual(final('attempts_exhausted'))
  })

  it('RTY-2, GOAL-2: content and request errors are final under their own code, also when called retryable', () => {
    for (const retryable of [true, false]) {
      expect(next({ ...CONTENT, code: 'content_refused', retryable })).toEqual(final('content_refused'))
      expect(next({ ...CONTENT, code: 'input_unreadable', category: 'request', retryable })).toEqual(
        final('invalid_request'),
      )
    }
    expect(next({ ...CONTENT, code: 'content_refused' }, { attemptsCounted: 2 })).toEqual(
      final('content_refused'),
    )
  })

  it('RTY-3: no second attempt later than the window, to the millisecond', () => {
    expect(next({}, { taskAgeMs: 1_200_000 })).toEqual(retry(0))
    expect(next({}, { taskAgeMs: 1_200_001 })).toEqual(final('retry_window_expired'))
    expect(next({}, { taskAgeMs: 1_200_001, attemptsCounted: 2 })).toEqual(final('attempts_exhausted'))
  })

  it('RTY-6: at once where another supply is free, else after Retry-After, capped', () => {
    const full = {
      category: 'capacity',
      impact: 'capacity',
      code: 'rate_limited',
      retryAfterMs: 7000,
    } as const
    expect(next(full)).toEqual(retry(0))
    expect(next(full, { otherSupplyFree: false })).toEqual(retry(7000))
    expect(next({ ...full, retryAfterMs: 3_600_000 }, { otherSupplyFree: false })).toEqual(retry(60_000))
    expect(next({ ...full, retryAfterMs: null }, { otherSupplyFree: false })).toEqual(retry(5000))
    expect(next({}, { otherSupplyFree: false })).toEqual(retry(5000))
  })

  it('RTY-5: an image tries again at once, and only inside its total timeout', () => {
    const image = { media: 'image', taskAgeMs: 0, otherSupplyFree: false } as const
    expect(next({}, { ...image, deadlineMsLeft: 1 })).toEqual(retry(0))
    expect(next({}, { ...image, deadlineMsLeft: 0 })).toEqual(final('generation_timeout'))
    expect(next({}, { ...image, deadlineMsLeft: 9000, attemptsCounted: 2 })).toEqual(
      final('attempts_exhausted'),
    )
    expect(next({ ...CONTENT, code: 'content_refused' }, { ...image, deadlineMsLeft: 9000 })).toEqual(
      final('content_refused'),
    )
    expect(next({ retryAfterMs: 30_000 }, { ...image, deadlineMsLeft: 9000 })).toEqual(retry(0))
  })

  it('UNK-3: an unknown outcome is never submitted again by itself, whatever else it says', () => {
    fc.assert(
      fc.property(
        fc.record({
          retryable: fc.boolean(),
          otherSupplyFree: fc.boolean(),
          media: fc.constantFrom('video' as const, 'image' as const),
          realPerson: fc.boolean(),
          realPersonRefusal: fc.constantFrom('stop' as const, 'change_supply' as const),
        }),
        ({ retryable, realPerson, ...rest }) => {
          const unknown = {
            category: 'unknown',
            scope: 'attempt',
            certainty: 'unknown',
            retryable,
            realPerson,
          } as const
          expect(next(unknown, { ...rest, deadlineMsLeft: 9000 })).toEqual(final('submission_unresolved'))
        },
      ),
    )
  })

  it('UNK-6: one that was found not to have been accepted may change supply, and gives health no second news', () => {
    expect(next(NOT_ACCEPTED)).toEqual(retry(0))
    expect(NOT_ACCEPTED).toMatchObject({
      category: 'supply',
      retryable: true,
      impact: 'none',
      realPerson: false,
      connection: false,
    })
  })

  it('ERR-4: a refusal over a real person stops, or changes supply where the policy says so', () => {
    const refused = { ...CONTENT, code: 'real_person_refused', realPerson: true } as const
    expect(next(refused)).toEqual(final('real_person_refused'))
    expect(next(refused, { realPersonRefusal: 'change_supply' })).toEqual(retry(0))
    expect(next(refused, { realPersonRefusal: 'change_supply', attemptsCounted: 2 })).toEqual(
      final('real_person_refused'),
    )
    expect(mayChangeSupply({ ...FAULT, ...CONTENT }, 'change_supply')).toBe(false)
  })

  it('CUS-3, ERR-3: our own mistakes and unexplained ends are not blamed on the customer', () => {
    expect(codeOfFault({ ...FAULT, category: 'request', code: 'call_misbuilt' })).toBe('attempts_exhausted')
    expect(
      codeOfFault({ ...FAULT, category: 'unknown', certainty: 'rejected', code: 'generation_failed' }),
    ).toBe('attempts_exhausted')
  })
})

describe('when a job is looked at again', () => {
  const pace = { expectedMs: 400_000, elapsedMs: 0, failures: 0, spread: 0 }

  it('RTY-7: more often around the expected end than long before or long after', () => {
    expect(pollDelayMs({ ...pace, expectedMs: 100_000 })).toBe(10_000)
    expect(pollDelayMs({ ...pace, expectedMs: 100_000, elapsedMs: 49_999 })).toBe(10_000)
    expect(pollDelayMs({ ...pace, expectedMs: 100_000, elapsedMs: 50_000 })).toBe(5000)
    expect(pollDelayMs({ ...pace, expectedMs: 100_000, elapsedMs: 200_000 })).toBe(5000)
    expect(pollDelayMs({ ...pace, expectedMs: 100_000, elapsedMs: 220_000 })).toBe(22_000)
    expect(pollDelayMs({ ...pace, expectedMs: 1000 })).toBe(1000)
    expect(pollDelayMs({ ...pace, expectedMs: 1500 })).toBe(1500)
    expect(pollDelayMs({ ...pace, expectedMs: 1500, elapsedMs: 600 })).toBe(1000)
    expect(pollDelayMs({ ...pace, expectedMs: 100_000, spread: 7 })).toBe(12_500)
    expect(pollDelayMs({ ...pace, expectedMs: 100_000, spread: -7 })).toBe(10_000)
    expect(pollDelayMs({ ...pace, expectedMs: 20_000, elapsedMs: 15_000, failures: 3 })).toBe(8000)
  })

  it('RTY-7: always 1 to 30 s, spread over a quarter, and never sooner after a failure', () => {
    const times = fc.nat({ max: 10_000_000 })
    fc.assert(
      fc.property(
        times,
        times,
        fc.nat({ max: 1000 }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (expectedMs, elapsedMs, failures, spread) => {
          const at = { expectedMs, elapsedMs, failures, spread }
          const delay = pollDelayMs(at)
          expect(delay).toBeGreaterThanOrEqual(1000)
          expect(delay).toBeLessThanOrEqual(30_000)
          expect(pollDelayMs({ ...at, failures: failures + 1 })).toBeGreaterThanOrEqual(delay)
          const [soonest, latest] = [pollDelayMs({ ...at, spread: 0 }), pollDelayMs({ ...at, spread: 1 })]
          expect(latest).toBe(Math.round(soonest * 1.25))
          expect(delay >= soonest && delay <= latest).toBe(true)
        },
      ),
    )
  })
})

describe('what an attempt cost', () => {
  const terms = { quote: 7_000_000n, billsFailures: false }
  const billing = { ...terms, billsFailures: true }

  it('COST-7: nothing if it was refused, or failed where failures are not billed', () => {
    expect(costOfAttempt({ kind: 'refused' }, terms)).toBe(0n)
    expect(costOfAttempt({ kind: 'refused' }, billing)).toBe(0n)
    expect(costOfAttempt({ kind: 'failed' }, terms)).toBe(0n)
    expect(costOfAttempt({ kind: 'failed' }, billing)).toBe(7_000_000n)
  })

  it('COST-7: its quote if it was delivered, and what it may cost while that is open', () => {
    expect(costOfAttempt({ kind: 'delivered', delivered: 1, asked: 1 }, terms)).toBe(7_000_000n)
    expect(costOfAttempt({ kind: 'open' }, terms)).toBe(7_000_000n)
  })

  it('COST-7: a partial batch of images pro rata, exactly, rounded up to a micro-unit', () => {
    expect(costOfAttempt({ kind: 'delivered', delivered: 3, asked: 4 }, terms)).toBe(5_250_000n)
    expect(costOfAttempt({ kind: 'delivered', delivered: 2, asked: 3 }, terms)).toBe(4_666_667n)
    expect(costOfAttempt({ kind: 'delivered', delivered: 0, asked: 3 }, terms)).toBe(0n)
    fc.assert(
      fc.property(
        fc.bigInt({ min: 0n, max: 10n ** 30n }),
        fc.integer({ min: 1, max: 50 }),
        fc.nat({ max: 60 }),
        (quote, asked, delivered) => {
          const cost = costOfAttempt({ kind: 'delivered', delivered, asked }, { ...terms, quote })
          const share = BigInt(Math.min(delivered, asked)) * quote
          expect(cost * BigInt(asked) >= share && (cost - 1n) * BigInt(asked) < share).toBe(true)
          expect(cost <= quote).toBe(true)
        },
      ),
    )
  })
})

it('UNK-6, UNK-8: what was found not to have been accepted is a refusal that may change supply, and no news of health', () => {
  expect(NOT_ACCEPTED).toMatchObject({
    category: 'supply',
    scope: 'supply',
    certainty: 'rejected',
    impact: 'none',
    code: 'upstream_error',
  })
})
