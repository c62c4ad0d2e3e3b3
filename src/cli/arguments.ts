/** Arguments of commands, checked where they are read: misuse ends with status 2 and says what would be right. */
import { InvalidArgumentError } from 'commander'
import { MODEL_ID, SLUG } from '../catalog/format.ts'
import { parseInstant, printInstant } from '../core/time.ts'

export function slugArgument(text: string): string {
  if (SLUG.test(text)) return text
  throw new InvalidArgumentError(
    'An ID has lower-case letters, digits, ".", "_" and "-", at most 63, the first a letter or digit.',
  )
}

export function modelArgument(text: string): string {
  if (MODEL_ID.test(text)) return text
  throw new InvalidArgumentError(
    'A model is named by letters, digits and ".", "_", ":", "/", "-", at most 128.',
  )
}

export function concurrencyArgument(text: string): number {
  const value = Number(text)
  if (/^\d{1,7}$/.test(text) && value >= 1 && value <= 1_000_000) return value
  throw new InvalidArgumentError('Expected a whole number from 1 to 1000000.')
}

export function collect(text: string, so: readonly string[]): string[] {
  return [...so, slugArgument(text)]
}

const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 } as const
const LONGEST_DAYS = 3650

/** `24h`, `30m`, `7d`, `0` → seconds. */
export function durationArgument(text: string): number {
  const parts = /^(\d{1,9})([smhd])?$/.exec(text)
  const unit = parts?.[2]
  const seconds = Number(parts?.[1]) * (unit === 'm' || unit === 'h' || unit === 'd' ? UNITS[unit] : 1)
  const named = unit !== undefined || Number(parts?.[1]) === 0
  if (parts && named && seconds <= LONGEST_DAYS * UNITS.d) return seconds
  throw new InvalidArgumentError('Expected a duration such as 24h, 30m, 7d or 0.')
}

/** A day, or an instant in UTC → RFC 3339. */
export function instantArgument(text: string): string {
  const found = parseInstant(/^\d{4}-\d{2}-\d{2}$/.test(text) ? `${text}T00:00:00Z` : text)
  if (found !== null) return printInstant(found)
  throw new InvalidArgumentError('Expected a day (2026-11-01) or an instant in UTC (2026-11-01T08:00:00Z).')
}
