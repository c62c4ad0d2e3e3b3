import { describe, expect, it } from 'vitest'
import { microsOfSeconds, parseInstant, printInstant } from './time.ts'

const AT = 1_796_112_060_000_000

describe('an instant', () => {
  it.each([
    ['2026-12-01T08:01:00Z', AT],
    ['2026-12-01t08:01:00z', AT],
    ['2026-12-01T08:01:00+00:00', AT],
    ['2026-12-01T08:01:00.5Z', AT + 500_000],
    ['2026-12-01T08:01:00.000001Z', AT + 1],
    ['2026-12-01T08:01:00.123456+00:00', AT + 123_456],
    ['2024-02-29T00:00:00Z', 1_709_164_800_000_000],
    ['1969-12-31T23:59:59.999999Z', -1],
  ])('IN-2: %s is read', (text, instant) => {
    expect(parseInstant(text)).toBe(instant)
  })

  it.each([
    ['', 'nothing'],
    ['2026-12-01', 'no time'],
    ['2026-12-01 08:01:00Z', 'no T'],
    ['2026-12-01T08:01:00', 'no zone'],
    ['2026-12-01T08:01:00+08:00', 'another zone'],
    ['2026-12-01T08:01:00.Z', 'a point and no digit'],
    ['2026-12-01T08:01:00.1234567Z', 'seven digits'],
    ['2026-12-01T08:01Z', 'no seconds'],
    ['2026-02-30T00:00:00Z', 'no such day'],
    ['2025-02-29T00:00:00Z', 'no leap year'],
    ['2026-13-01T00:00:00Z', 'no such month'],
    ['2026-12-01T24:00:00Z', 'midnight of the next day'],
    ['2026-12-01T08:60:00Z', 'no such minute'],
    ['x2026-12-01T08:01:00Z', 'something before'],
    ['2026-12-01T08:01:00Zx', 'something after'],
  ])('IN-2: %j is not: %s', (text) => {
    expect(parseInstant(text)).toBeNull()
  })

  it.each([
    [0, '1970-01-01T00:00:00.000Z'],
    [AT, '2026-12-01T08:01:00.000Z'],
    [AT + 5000, '2026-12-01T08:01:00.005Z'],
    [AT + 1, '2026-12-01T08:01:00.000001Z'],
    [AT + 10, '2026-12-01T08:01:00.000010Z'],
    [AT + 123_999, '2026-12-01T08:01:00.123999Z'],
    [-1, '1969-12-31T23:59:59.999999Z'],
  ])('IN-2: %d is printed as %s, and read back', (instant, text) => {
    expect(printInstant(instant)).toBe(text)
    expect(parseInstant(text)).toBe(instant)
  })
})

it('a second is a million microseconds', () => {
  expect([0, 1, 1.5, 600].map(microsOfSeconds)).toEqual([0, 1_000_000, 1_500_000, 600_000_000])
})
