/**
 * Time is an argument. An instant is a whole number of microseconds since 1970-01-01T00:00:00Z, PostgreSQL's own
 * resolution, held in a double (exact until the year 2255); a duration is in the unit that its name says.
 */
export type Instant = number
