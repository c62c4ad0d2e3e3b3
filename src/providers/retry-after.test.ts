import { describe, expect, it } from 'vitest'
import { retryAfterMs } from './retry-after.ts'

const NOW = Date.parse('2026-12-01T06:00:00Z')
const HOUR = 3_600_000

describe('HLT-15: how long a provider asks us to wait', () => {
  it.each([
    ['seconds', { 'retry-after': '7' }, 7_000],
    ['zero', { 'retry-after': '0' }, 0],
    ['a date', { 'retry-after': 'Tue, 01 Dec 2026 06:01:30 GMT' }, 90_000],
    ['a date that has passed', { 'retry-after': 'Tue, 01 Dec 2026 05:00:00 GMT' }, 0],
    ['milliseconds, before seconds', { 'retry-after-ms': '1500', 'retry-after': '9' }, 1_500],
    ['more than an hour', { 'retry-after': '86400' }, HOUR],
    ['more than an hour, by date', { 'retry-after': 'Wed, 02 Dec 2026 06:00:00 GMT' }, HOUR],
    ['bad milliseconds beside good seconds', { 'retry-after-ms': 'soon', 'retry-after': '2' }, 2_000],
    ['nothing', {}, null],
    ['words', { 'retry-after': 'soon' }, null],
    ['a negative number', { 'retry-after': '-5' }, null],
    ['a fraction', { 'retry-after': '1.5' }, null],
    ['too many digits', { 'retry-after': '9999999999' }, null],
    ['another form of date', { 'retry-after': '2026-12-01T06:01:00Z' }, null],
    ['an impossible date', { 'retry-after': 'Tue, 99 Dec 2026 06:01:30 GMT' }, null],
  ])('%s', (_, headers, expected) => {
    expect(retryAfterMs(headers, NOW)).toBe(expected)
  })
})
