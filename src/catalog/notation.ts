/**
 * Short ways to write figures in the catalog: ranges as `4-15`, amounts exactly as they stand in the text. What is
 * stored is the JSON of the decision contract.
 */
import { parseMicros, printMicros } from '../core/money.ts'

/** A range as it is stored. */
export type RangeJson =
  | { readonly min?: number; readonly max?: number }
  | { readonly values: readonly number[] }

const SPAN = /^(\d{1,9})-(\d{1,9})?$/

/** `5` → exactly 5; `4-15` → both ends included; `4-` → at least 4; `[5, 10]` → one of them. null: none of these. */
export function rangeOf(written: number | string | readonly number[]): RangeJson | null {
  if (typeof written === 'number') return { min: written, max: written }
  if (typeof written !== 'string') return { values: [...new Set(written)].sort((a, b) => a - b) }
  const parts = SPAN.exec(written)
  if (parts === null) return null
  const min = Number(parts[1])
  if (parts[2] === undefined) return { min }
  const max = Number(parts[2])
  return min <= max ? { min, max } : null
}

/** The shortest way to write it. */
export function writeRange(range: RangeJson): number | string | number[] {
  if ('values' in range) return [...range.values]
  const { min = 0, max } = range
  if (max === undefined) return `${min}-`
  return min === max ? min : `${min}-${max}`
}

/** An amount of money or a multiplier as micro-units, from a whole number or from text. null: no such decimal. */
export function decimalOf(written: number | string): bigint | null {
  return parseMicros(String(written))
}

/** The one way to spell an amount: no trailing zeros. */
export function canonicalDecimal(written: number | string): string | null {
  const value = decimalOf(written)
  return value === null ? null : printMicros(value)
}

const RATE_DECIMALS = 12
const RATE = /^(0|[1-9]\d{0,11})(?:\.(\d{1,12}))?$/

/** A rate of exchange in units of 10⁻¹², above 0. null: no such decimal. */
export function rateOf(written: number | string): bigint | null {
  const parts = RATE.exec(String(written))
  if (parts === null) return null
  const rate = BigInt((parts[1] ?? '') + (parts[2] ?? '').padEnd(RATE_DECIMALS, '0'))
  return rate > 0n ? rate : null
}

export function canonicalRate(written: number | string): string | null {
  const rate = rateOf(written)
  if (rate === null) return null
  const digits = rate.toString().padStart(RATE_DECIMALS + 1, '0')
  const whole = digits.slice(0, -RATE_DECIMALS)
  const fraction = digits.slice(-RATE_DECIMALS).replace(/0+$/, '')
  return fraction === '' ? whole : `${whole}.${fraction}`
}

/** An amount in another currency, in the base currency, rounded up to a micro-unit (STR-10). */
export function convert(amount: string, rate: string): string {
  const micros = decimalOf(amount)
  const exact = rateOf(rate)
  if (micros === null || exact === null) throw new Error(`no amount to convert: ${amount} at ${rate}`)
  const unit = 10n ** BigInt(RATE_DECIMALS)
  return printMicros((micros * exact + unit - 1n) / unit)
}
