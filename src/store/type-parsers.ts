/** How values arrive from PostgreSQL, for our pools alone: the driver's own table is shared by the whole process. */
import pg from 'pg'
import { toInstant } from './instants.ts'

type Parser = (text: string) => unknown

const INT8 = 20
const INT8_ARRAY = 1016
const TIMESTAMPTZ = 1184
const TIMESTAMPTZ_ARRAY = 1185
const DATE = 1082
const TIMESTAMP = 1114
const NUMERIC = 1700
const NUMERIC_ARRAY = 1231

const asText: Parser = (text) => text

const OURS: ReadonlyMap<number, Parser> = new Map<number, Parser>([
  // Money and fences: a double would lose the last digits.
  [INT8, BigInt],
  [INT8_ARRAY, arrayOf(BigInt)],
  [TIMESTAMPTZ, toInstant],
  [TIMESTAMPTZ_ARRAY, arrayOf(toInstant)],
  [NUMERIC, asText],
  [NUMERIC_ARRAY, arrayOf(asText)],
  // The driver would read these in the time zone of the process.
  [DATE, asText],
  [TIMESTAMP, asText],
])

/** Arrays of these types hold no quotes, braces or commas inside an element, save the quotes around a time. */
function arrayOf(parse: Parser): Parser {
  return (text) => {
    const inside = text.slice(1, -1)
    if (inside === '') return []
    return inside.split(',').map((item) => (item === 'NULL' ? null : parse(item.replaceAll('"', ''))))
  }
}

function getTypeParser(oid: number, format?: 'text' | 'binary') {
  const ours = format === 'binary' ? undefined : OURS.get(oid)
  return ours ?? pg.types.getTypeParser(oid, format)
}

export const typeParsers = { getTypeParser }
