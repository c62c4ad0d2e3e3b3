/**
 * timestamptz to and from core's instants, without losing a microsecond. A JavaScript Date holds milliseconds only, and a
 * task that is due at .000400 would look due at .000000.
 */
import { type Instant, printInstant } from '../core/time.ts'

const MICROS_PER_MILLI = 1000
const MICROS_PER_SECOND = 1_000_000
// ISO output of PostgreSQL in whatever TimeZone the session has; before 1900 offsets have seconds.
const TIMESTAMPTZ =
  /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?$/

/**
 * PostgreSQL's text of a timestamptz as integer microseconds since 1970; `infinity` is Infinity. Throws RangeError for
 * anything but the ISO form with a year of four digits AD, which includes a DateStyle that is not ISO.
 */
export function toInstant(text: string): Instant {
  if (text === 'infinity') return Number.POSITIVE_INFINITY
  if (text === '-infinity') return Number.NEGATIVE_INFINITY
  const parts = TIMESTAMPTZ.exec(text)
  if (parts === null) {
    throw new RangeError(
      `not a timestamptz in ISO form of the years 0001 to 9999: "${text}" (is DateStyle ISO?)`,
    )
  }
  const [, year, month, day, hour, minute, second, fraction = '', sign, hours, minutes = 0, seconds = 0] =
    parts
  // setUTCFullYear, since Date.UTC takes the years 0 to 99 for 1900 to 1999.
  const date = new Date(Date.UTC(2000, 0, 1, Number(hour), Number(minute), Number(second)))
  date.setUTCFullYear(Number(year), Number(month) - 1, Number(day))
  const offset = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
  const east = sign === '-' ? -offset : offset
  return date.getTime() * MICROS_PER_MILLI - east * MICROS_PER_SECOND + Number(fraction.padEnd(6, '0'))
}

/** The text of a timestamptz parameter. Throws RangeError for anything but a whole number of microseconds. */
export function fromInstant(instant: Instant): string {
  if (!Number.isSafeInteger(instant)) throw new RangeError(`not an instant in whole microseconds: ${instant}`)
  return printInstant(instant)
}
