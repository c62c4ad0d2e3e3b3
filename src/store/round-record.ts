/**
 * The bulk of rounds: what was dynamic, the verdict and its figures (IN-2). Those of one transaction are stored together,
 * compressed, in a row that is never changed; each round names its place in it.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib'
import type { Dynamic } from '../core/frozen.ts'
import type { DecisionRecord, FiguresJson } from '../core/record.ts'
import type { Sql } from './database.ts'

/** A decision about one task, ready to be stored. */
export interface DecidedRound {
  readonly releaseId: string
  readonly decider: number
  readonly dynamic: Dynamic
  readonly record: DecisionRecord
}

/** As it is stored and read back. */
export interface Recorded {
  readonly dynamic: Dynamic
  readonly verdict: object
  readonly figures: FiguresJson
}

/** Rounds encoded before their transaction begins, since no lock should wait for it. */
export interface EncodedRecord {
  readonly content: Buffer
  readonly places: ReadonlyMap<DecidedRound, number>
}

export interface StoredRecord {
  readonly id: string
  readonly places: ReadonlyMap<DecidedRound, number>
}

// They differ in little from each other: the fastest level makes them as small as they need to be.
const LEVEL = 1

export function encodeRecord(rounds: readonly DecidedRound[]): EncodedRecord {
  const entries = rounds.map(({ dynamic, record }) => [dynamic, record.verdict, record.figures])
  return {
    content: deflateRawSync(JSON.stringify(entries), { level: LEVEL }),
    places: new Map(rounds.map((round, place) => [round, place])),
  }
}

const STORE = {
  name: 'store-round-record',
  text: 'insert into round_record (content) values ($1) returning id',
}

export async function storeRecord(tx: Sql, { content, places }: EncodedRecord): Promise<StoredRecord> {
  const [row] = (await tx.query<{ id: string }>(STORE, [content])).rows
  if (!row) throw new Error('a record of rounds was stored without an ID')
  return { id: row.id, places }
}

const READ = {
  name: 'round-records',
  text: 'select id, content from round_record where id = any($1::uuid[])',
}

/** By ID, each in the order of places. */
export async function readRecords(
  sql: Sql,
  ids: readonly string[],
): Promise<ReadonlyMap<string, readonly Recorded[]>> {
  if (ids.length === 0) return new Map()
  const { rows } = await sql.query<{ id: string; content: Buffer }>(READ, [ids])
  return new Map(rows.map((row) => [row.id, decode(row.content)]))
}

function decode(content: Buffer): Recorded[] {
  const entries: [Dynamic, object, FiguresJson][] = JSON.parse(inflateRawSync(content).toString('utf8'))
  return entries.map(([dynamic, verdict, figures]) => ({ dynamic, verdict, figures }))
}
