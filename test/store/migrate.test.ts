/** Migrations: in order, once, by whoever comes first, and never over a schema that is not ours. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { migrate, migrationStatus, SchemaMismatch } from '../../src/store/migrate.ts'
import { emptyDatabase, type TestDatabase } from './database.ts'

const OURS = new URL('../../src/store/migrations', import.meta.url).pathname

describe('migrations', () => {
  let test: TestDatabase
  let files: string
  beforeEach(async () => {
    test = await emptyDatabase()
    files = await mkdtemp(join(tmpdir(), 'migrations-'))
    await writeFile(join(files, '0001_a.sql'), 'create table a (id int); create table a2 (id int);')
    await writeFile(join(files, '0002_b.sql'), 'create table b (id int);')
  })
  afterEach(async () => {
    await test.drop()
    await rm(files, { recursive: true })
  })

  it('applies all files in order, once', async () => {
    expect(await migrate(test.db, files)).toEqual(['0001_a.sql', '0002_b.sql'])
    expect(await migrate(test.db, files)).toEqual([])
    await writeFile(join(files, '0003_c.sql'), 'alter table b add column name text;')
    expect(await migrationStatus(test.db, files)).toEqual({
      applied: ['0001_a.sql', '0002_b.sql'],
      pending: ['0003_c.sql'],
      faults: [],
    })
    expect(await migrate(test.db, files)).toEqual(['0003_c.sql'])
  })

  it('says what is missing without changing anything', async () => {
    expect(await migrationStatus(test.db, files)).toMatchObject({
      applied: [],
      pending: ['0001_a.sql', '0002_b.sql'],
    })
    const { rows } = await test.db.query(`select to_regclass('schema_migration') as ledger`)
    expect(rows).toEqual([{ ledger: null }])
  })

  it('applies a file whole or not at all, and names the one that failed', async () => {
    await writeFile(join(files, '0002_b.sql'), 'create table b (id int); create table a (id int);')
    await expect(migrate(test.db, files)).rejects.toThrow(
      /migration 0002_b\.sql failed: relation "a" already exists/,
    )
    const { rows } = await test.db.query(
      `select to_regclass('a') is not null as a, to_regclass('b') is null as no_b`,
    )
    expect(rows).toEqual([{ a: true, no_b: true }])
    expect((await migrationStatus(test.db, files)).applied).toEqual(['0001_a.sql'])
  })

  it('refuses an applied file that was changed', async () => {
    await migrate(test.db, files)
    await writeFile(join(files, '0001_a.sql'), 'create table a (id bigint);')
    await writeFile(join(files, '0003_c.sql'), 'create table c (id int);')
    await expect(migrate(test.db, files)).rejects.toThrow(/0001_a\.sql was changed after it had been applied/)
    expect((await migrationStatus(test.db, files)).pending).toEqual(['0003_c.sql'])
  })

  it('refuses an applied file that is missing', async () => {
    await migrate(test.db, files)
    await rm(join(files, '0001_a.sql'))
    await expect(migrate(test.db, files)).rejects.toThrow(/0001_a\.sql was applied, but its file is missing/)
  })

  it('refuses a schema that is newer than the program', async () => {
    await migrate(test.db, files)
    await rm(join(files, '0002_b.sql'))
    await expect(migrate(test.db, files)).rejects.toThrow(SchemaMismatch)
    await expect(migrate(test.db, files)).rejects.toThrow(
      /0002_b\.sql, which this program does not know.*newer/,
    )
  })

  it('refuses a new file that comes before an applied one', async () => {
    await migrate(test.db, files)
    await writeFile(join(files, '0001_z.sql'), 'create table z (id int);')
    await expect(migrate(test.db, files)).rejects.toThrow(/0001_z\.sql comes before 0002_b\.sql/)
  })

  it('brings an empty database to the schema of this program', async () => {
    const applied = await migrate(test.db)
    expect(applied[0]).toBe('0001_ground.sql')
    expect((await migrationStatus(test.db)).pending).toEqual([])
  })

  it('lets several processes migrate at once: each file is applied by one of them', async () => {
    await cp(OURS, files, { recursive: true })
    await rm(join(files, '0001_a.sql'))
    await rm(join(files, '0002_b.sql'))
    const programs = await Promise.all([1, 2, 3, 4].map(() => migrateInProcess(test.url, files)))
    const expected = (await migrationStatus(test.db, files)).applied
    expect(programs.flat().sort()).toEqual([...expected])
    expect(expected.length).toBeGreaterThan(5)
  })
})

async function migrateInProcess(url: string, files: string): Promise<string[]> {
  const code = `
    const { openDatabase } = await import(${JSON.stringify(new URL('../../src/store/database.ts', import.meta.url).href)})
    const { migrate } = await import(${JSON.stringify(new URL('../../src/store/migrate.ts', import.meta.url).href)})
    const db = await openDatabase({ url: process.argv[1] })
    console.log(JSON.stringify(await migrate(db, process.argv[2])))
    await db.close()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code, url, files], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  const [status] = await once(child, 'close')
  if (status !== 0) throw new Error(`the process ended with status ${status}`)
  return JSON.parse(said)
}
