/**
 * Money is a whole number of micro-units of the base currency: 1.5 yuan is 1_500_000n. Nothing in Yardmaster
 * adds or compares prices in floating point (STR-10).
 */
export type Micros = bigint

const MICROS_PER_UNIT = 1_000_000n
const DECIMALS = 6
/** Far above any price, and short enough that parsing one never takes noticeable time. */
const LONGEST_AMOUNT = 1000
const AMOUNT = /^(0|[1-9][0-9]*)(?:\.([0-9]{1,6}))?$/

/** "7.5" → 7_500_000n. null for anything but a decimal of 0 or more with at most six decimals. */
export function parseMicros(text: string): Micros | null {
  if (text.length > LONGEST_AMOUNT) return null
  const parts = AMOUNT.exec(text)
  if (parts === null) return null
  return BigInt((parts[1] ?? '') + (parts[2] ?? '').padEnd(DECIMALS, '0'))
}

/** 7_500_000n → "7.5": no trailing zeros, no point without decimals. */
export function printMicros(amount: Micros): string {
  if (amount < 0n) return `-${printMicros(-amount)}`
  const fraction = (amount % MICROS_PER_UNIT).toString().padStart(DECIMALS, '0').replace(/0+$/, '')
  const whole = (amount / MICROS_PER_UNIT).toString()
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** numerator ÷ denominator, rounded up to a micro-unit (STR-10). Both 0 or more, the denominator above 0. */
export function divideUp(numerator: bigint, denominator: bigint): bigint {
  return (numerator + denominator - 1n) / denominator
}
