/**
 * Brings a database to the schema of this program: plain .sql files, forward only, in the order of their names, each in
 * one transaction. An applied file is never edited: its checksum is kept, and a difference is refused, since nobody could
 * say which schema the database then has.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Database, Sql } from './database.ts'

export interface Migration {
  readonly name: string
  readonly text: string
  readonly checksum: string
}

export interface MigrationStatus {
  readonly applied: readonly string[]
  readonly pending: readonly string[]
  /** Why the program cannot use this database, each a sentence; empty where it can. */
  readonly faults: readonly string[]
}

/** The database was migrated by another program than this: newer, or with files that have since been changed. */
export class SchemaMismatch extends Error {
  constructor(faults: readonly string[]) {
    super(`the database does not fit this program: ${faults.join('; ')}`)
    this.name = 'SchemaMismatch'
  }
}

const OURS = fileURLToPath(new URL('./migrations', import.meta.url))
// Any number that no other program on this database is likely to lock.
const LOCK = `select pg_advisory_xact_lock(7926504118230172)`
const LEDGER = `create table if not exists schema_migration (
  name text primary key,
  checksum text not null,
  applied_at timestamptz not null default clock_timestamp()
)`
const HAS_LEDGER = `select to_regclass('schema_migration') is not null as present`
const APPLIED = `select name, checksum from schema_migration order by name`
const RECORD = `insert into schema_migration (name, checksum) values ($1, $2)`

/**
 * Applies what is missing and answers the names, in order. Several processes may do so at once: each file is applied by
 * one of them while the others wait. Throws SchemaMismatch; an error in a file names the file.
 */
export async function migrate(db: Database, directory = OURS): Promise<string[]> {
  const files = await readMigrations(directory)
  const applied: string[] = []
  for (;;) {
    const name = await db.transaction((tx) => applyNext(tx, files))
    if (name === null) return applied
    applied.push(name)
  }
}

/** What is applied, what is missing, and what does not fit. Changes nothing. */
export async function migrationStatus(db: Sql, directory = OURS): Promise<MigrationStatus> {
  const files = await readMigrations(directory)
  const { rows } = await db.query<{ present: boolean }>(HAS_LEDGER)
  return compare(files, rows[0]?.present ? await readLedger(db) : [])
}

/** One file in each transaction, since some changes of schema must be committed before the next may use them. */
async function applyNext(tx: Sql, files: readonly Migration[]): Promise<string | null> {
  await tx.query(`set local lock_timeout = 0; set local statement_timeout = 0`)
  await tx.query(LOCK)
  await tx.query(LEDGER)
  const { pending, faults } = compare(files, await readLedger(tx))
  if (faults.length > 0) throw new SchemaMismatch(faults)
  const next = files.find((file) => file.name === pending[0])
  if (!next) return null
  await apply(tx, next)
  return next.name
}

async function apply(tx: Sql, file: Migration): Promise<void> {
  try {
    await tx.query(file.text)
  } catch (error) {
    throw new Error(`migration ${file.name} failed: ${error instanceof Error ? error.message : error}`, {
      cause: error,
    })
  }
  await tx.query(RECORD, [file.name, file.checksum])
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(`${directory}/${name}`, 'utf8')
      return { name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

interface Entry {
  name: string
  checksum: string
}

async function readLedger(sql: Sql): Promise<Entry[]> {
  return (await sql.query<Entry>(APPLIED)).rows
}

function compare(files: readonly Migration[], applied: readonly Entry[]): MigrationStatus {
  const known = new Map(files.map((file) => [file.name, file]))
  const done = new Set(applied.map((entry) => entry.name))
  const pending = files.map((file) => file.name).filter((name) => !done.has(name))
  const newestFile = files.at(-1)?.name ?? ''
  const newestApplied = applied.at(-1)?.name ?? ''
  const faults = applied.flatMap((entry) => {
    const file = known.get(entry.name)
    if (!file && entry.name > newestFile) {
      return [
        `it has migration ${entry.name}, which this program does not know: the schema is newer; use a newer program`,
      ]
    }
    if (!file) return [`migration ${entry.name} was applied, but its file is missing`]
    if (file.checksum === entry.checksum) return []
    return [
      `migration ${entry.name} was changed after it had been applied; put the file back and add a new one instead`,
    ]
  })
  const late = pending.filter((name) => name < newestApplied)
  return {
    applied: [...done],
    pending,
    faults: [
      ...faults,
      ...late.map((name) => `migration ${name} comes before ${newestApplied}, which was already applied`),
    ],
  }
}
