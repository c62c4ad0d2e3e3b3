import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { divideUp, parseMicros, printMicros } from './money.ts'

describe('money', () => {
  it.each([
    ['0', 0n],
    ['7.5', 7_500_000n],
    ['0.000001', 1n],
    ['12', 12_000_000n],
    ['01', null],
    ['1.', null],
    ['.5', null],
    ['1.0000001', null],
    ['-1', null],
    ['1e3', null],
    ['', null],
  ])('STR-10: %j is %s micro-units', (text, amount) => {
    expect(parseMicros(text)).toBe(amount)
  })

  it('STR-10: an amount of a thousand characters is read, a longer one is none', () => {
    expect(parseMicros('9'.repeat(1000))).toBe(BigInt('9'.repeat(1000)) * 1_000_000n)
    expect(parseMicros('9'.repeat(1001))).toBeNull()
  })

  it.each([
    [0n, '0'],
    [7_500_000n, '7.5'],
    [10_000_000n, '10'],
    [1n, '0.000001'],
    [-1_250_000n, '-1.25'],
    [-1n, '-0.000001'],
  ])('STR-10: %s micro-units are printed without a zero too many', (amount, text) => {
    expect(printMicros(amount)).toBe(text)
  })

  it('STR-10: what is printed is read again', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 30n }), (amount) => {
        expect(parseMicros(printMicros(amount))).toBe(amount)
      }),
    )
  })

  it.each([
    [0n, 3n, 0n],
    [1n, 3n, 1n],
    [3n, 3n, 1n],
    [4n, 3n, 2n],
    [6n, 3n, 2n],
    [7n, 1n, 7n],
  ])('STR-10: %s divided by %s, rounded up, is %s', (numerator, denominator, quotient) => {
    expect(divideUp(numerator, denominator)).toBe(quotient)
  })
})
