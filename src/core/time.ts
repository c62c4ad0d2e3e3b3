/**
 * Time is an argument. An instant is a whole number of microseconds since 1970-01-01T00:00:00Z, PostgreSQL's own
 * resolution, held in a double (exact until the year 2255); a duration is in the unit that its name says.
 */
export type Instant = number

const MICROS_PER_MILLI = 1000
const MICROS_PER_SECOND = 1_000_000
const RFC_3339_UTC = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.(\d{1,6}))?(?:[Zz]|\+00:00)$/

/** Seconds to microseconds, the unit in which instants are subtracted. */
export function microsOfSeconds(seconds: number): number {
  return seconds * MICROS_PER_SECOND
}

/** null for anything but RFC 3339 in UTC with at most six fraction digits, and for a day that does not exist. */
export function parseInstant(text: string): Instant | null {
  const parts = RFC_3339_UTC.exec(text)
  if (parts === null) return null
  const toTheSecond = `${parts[1]}T${parts[2]}`
  const millis = Date.parse(`${toTheSecond}Z`)
  // Date.parse turns 30 February into 2 March, and midnight as 24:00 into the next day.
  if (Number.isNaN(millis) || !new Date(millis).toISOString().startsWith(toTheSecond)) return null
  return millis * MICROS_PER_MILLI + Number((parts[3] ?? '').padEnd(6, '0'))
}

/** "2026-12-01T08:01:00.000Z", with six fraction digits where three would lose something. */
export function printInstant(instant: Instant): string {
  const millis = Math.floor(instant / MICROS_PER_MILLI)
  const text = new Date(millis).toISOString()
  const micros = instant - millis * MICROS_PER_MILLI
  return micros === 0 ? text : `${text.slice(0, -1)}${micros.toString().padStart(3, '0')}Z`
}
