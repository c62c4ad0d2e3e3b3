import { expect, it } from 'vitest'
import { fromInstant, toInstant } from './instants.ts'

it('reads every fraction and offset that PostgreSQL prints', () => {
  const at = Date.UTC(2026, 11, 1, 8, 1, 2) * 1000
  expect(toInstant('2026-12-01 08:01:02+00')).toBe(at)
  expect(toInstant('2026-12-01 08:01:02.5+00')).toBe(at + 500_000)
  expect(toInstant('2026-12-01 08:01:02.000001+00')).toBe(at + 1)
  expect(toInstant('2026-12-01 13:31:02+05:30')).toBe(at)
  expect(toInstant('2026-12-01 04:31:02-03:30')).toBe(at)
  expect(toInstant('1890-01-01 00:53:28+00:53:28')).toBe(Date.UTC(1890, 0, 1) * 1000)
  expect(toInstant('infinity')).toBe(Number.POSITIVE_INFINITY)
  expect(toInstant('-infinity')).toBe(Number.NEGATIVE_INFINITY)
})

it('refuses what it cannot read exactly', () => {
  for (const text of [
    '0044-03-15 12:00:00+00 BC',
    'Tue Dec 01 08:01:02 2026 UTC',
    '2026-12-01 08:01:02',
    '',
  ]) {
    expect(() => toInstant(text)).toThrow(RangeError)
  }
})

it('writes whole microseconds only', () => {
  expect(fromInstant(1)).toBe('1970-01-01T00:00:00.000001Z')
  for (const instant of [0.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 60]) {
    expect(() => fromInstant(instant)).toThrow(RangeError)
  }
})
