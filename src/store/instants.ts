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
 * anything but the ISO form, which includes a DateStyle that is not ISO, and outside of the years 1684 to 2255, where a
 * double does not hold every microsecond.
 */
export function toInstant(text: string): Instant {
  if (text === 'infinity') return Number.POSITIVE_INFINITY
  if (text === '-infinity') return Number.NEGATIVE_INFINITY
  const parts = TIMESTAMPTZ.exec(text)
  if (parts === null) {
    throw new RangeError(`not a timestamptz in ISO form: "${text}" (is DateStyle ISO?)`)
  }
  const [, year, month, day, hour, minute, second, fraction = '', sign, hours, minutes = 0, seconds = 0] =
    parts
  const midnight = Date.UTC(Number(year), Number(month) - 1, Number(day))
  const east = secondsOf(hours, minutes, seconds) * (sign === '-' ? -1 : 1)
  const sinceMidnight = (secondsOf(hour, minute, second) - east) * MICROS_PER_SECOND
  const instant = midnight * MICROS_PER_MILLI + sinceMidnight + Number(fraction.padEnd(6, '0'))
  if (!Number.isSafeInteger(instant)) throw new RangeError(`${text} is no exact number of microseconds`)
  return instant
}

function secondsOf(hours: unknown, minutes: unknown, seconds: unknown): number {
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds)
}

/** The text of a timestamptz parameter. Throws RangeError for anything but a whole number of microseconds. */
export function fromInstant(instant: Instant): string {
  if (!Number.isSafeInteger(instant)) throw new RangeError(`not an instant in whole microseconds: ${instant}`)
  return printInstant(instant)
}
