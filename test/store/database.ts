/** A fresh, migrated database for a test: a copy of the run's template, which takes a fraction of a second. */
import { randomBytes } from 'node:crypto'
import { inject } from 'vitest'
import { type Database, type DatabaseOptions, openDatabase } from '../../src/store/database.ts'
import { migrate } from '../../src/store/migrate.ts'

export interface TestDatabase {
  readonly url: string
  readonly db: Database
  /** Closes `db`, ends what else is connected, and drops the database. */
  drop(): Promise<void>
}

export async function testDatabase(options: Omit<DatabaseOptions, 'url'> = {}): Promise<TestDatabase> {
  return copyOf(inject('template'), options)
}

/** A fresh database without our schema. */
export async function emptyDatabase(options: Omit<DatabaseOptions, 'url'> = {}): Promise<TestDatabase> {
  return copyOf('template0', options)
}

async function copyOf(template: string, options: Omit<DatabaseOptions, 'url'>): Promise<TestDatabase> {
  const adminUrl = inject('adminUrl')
  const name = freshName()
  await asAdmin(adminUrl, (db) => db.query(`create database ${name} template ${template}`))
  const url = urlOf(adminUrl, name)
  const db = await openDatabase({ url, ...options })
  const drop = async () => {
    await db.close()
    await dropDatabase(adminUrl, name)
  }
  return { url, db, drop }
}

/** Makes the template: a migrated database that nobody is connected to. */
export async function makeTemplate(adminUrl: string): Promise<string> {
  const name = freshName()
  await asAdmin(adminUrl, (db) => db.query(`create database ${name} template template0`))
  const db = await openDatabase({ url: urlOf(adminUrl, name) })
  try {
    await migrate(db)
  } finally {
    await db.close()
  }
  return name
}

export async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  await asAdmin(adminUrl, (db) => db.query(`drop database if exists ${name} with (force)`))
}

async function asAdmin(adminUrl: string, work: (db: Database) => Promise<unknown>): Promise<void> {
  const db = await openDatabase({ url: adminUrl, poolSize: 1, lockTimeout: 0 })
  try {
    await work(db)
  } finally {
    await db.close()
  }
}

function freshName(): string {
  return `test_${randomBytes(8).toString('hex')}`
}

/** The same server, another database: the path of a URL is what comes between its host and its query. */
export function urlOf(adminUrl: string, database: string): string {
  return adminUrl.replace(/^([^/]+:\/\/[^/?]*)(\/[^?]*)?/, `$1/${database}`)
}
