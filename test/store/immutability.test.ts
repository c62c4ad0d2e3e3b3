/**
 * ORD-17, HLT-12: what was decided cannot be rewritten, by whoever and by whatever way. Each way is tried as the owner of
 * the tables and as a superuser, on the parent and on partitions, with rows that match and without.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase, type Sql } from '../../src/store/database.ts'
import { maintainPartitions, withPartition } from '../../src/store/partitions.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { insertCatalog, insertHealthEvent, insertRound, insertRoundRecord, insertTask } from './rows.ts'

interface Target {
  readonly table: string
  /** An immutable table's column that could be changed, and its key. */
  readonly column: string
  readonly key: string
}

const LOGS: Target[] = [
  { table: 'round', column: 'decider', key: 'task_id, number' },
  { table: 'round_record', column: 'format', key: 'id' },
  { table: 'health_events', column: 'epoch_after', key: 'id' },
]
const VERSIONED: Target[] = [
  { table: 'capability_version', column: 'version', key: 'id' },
  { table: 'price_list_version', column: 'version', key: 'id' },
  { table: 'policy_version', column: 'version', key: 'id' },
  { table: 'degradation_rule_version', column: 'version', key: 'id' },
  { table: 'model_version', column: 'version', key: 'id' },
  { table: 'release', column: 'number', key: 'id' },
  { table: 'credential', column: 'reference', key: 'id' },
]

/** Every statement that could change or remove a row. `where` is the condition on which rows. */
function ways({ table, column, key }: Target, where: string): Record<string, string> {
  const same = key
    .split(', ')
    .map((name) => `t.${name} = s.${name}`)
    .join(' and ')
  // A number that PostgreSQL gives itself can be changed to the next one only.
  const moved =
    key === 'id' && !table.startsWith('health_events') && !table.startsWith('round_record')
      ? 'id = default'
      : `${key.split(', ')[0]} = gen_random_uuid()`
  const source = `(select * from ${table} where ${where}) s on ${same}`
  return {
    UPDATE: `update ${table} set ${column} = ${column} where ${where}`,
    'UPDATE of the key': `update ${table} set ${moved} where ${where}`,
    DELETE: `delete from ${table} where ${where}`,
    'UPDATE within a query': `with changed as (update ${table} set ${column} = ${column} where ${where} returning 1) select count(*) from changed`,
    'DELETE within a query': `with gone as (delete from ${table} where ${where} returning 1) select count(*) from gone`,
    'MERGE that updates': `merge into ${table} t using ${source} when matched then update set ${column} = t.${column}`,
    'MERGE that deletes': `merge into ${table} t using ${source} when matched then delete`,
    upsert: `insert into ${table} overriding system value select * from ${table} where ${where} on conflict (${key}) do update set ${column} = excluded.${column}`,
    TRUNCATE: `truncate ${table} cascade`,
  }
}

async function everyWayIsRefused(sql: Sql, target: Target): Promise<void> {
  for (const where of ['true', 'false']) {
    for (const [way, text] of Object.entries(ways(target, where))) {
      const outcome = await sql.query(text).then(
        () => 'it was done',
        (error: unknown) => (error instanceof Error && 'code' in error ? error.code : error),
      )
      expect(outcome, `${way} on ${target.table} where ${where}`).toBe('YM017')
    }
  }
}

/** How many rows there are, and what they hold. */
async function contents(sql: Sql, table: string): Promise<unknown> {
  return (
    await sql.query(
      `select count(*) as n, md5(string_agg(t::text, '|' order by t::text)) as held from ${table} t`,
    )
  ).rows
}

describe.each(['superuser', 'owner'])('as %s of the tables', (who) => {
  let test: TestDatabase
  let db: Database
  let partitions: Target[]
  beforeAll(async () => {
    test = await testDatabase()
    db = who === 'superuser' ? test.db : await openAsOwner(test)
    await insertCatalog(db)
    // One partition made ahead, one made on demand.
    await maintainPartitions(db, { aheadDays: 1, retainDays: { round: 30, health_events: 30 } })
    await insertRound(db, await insertTask(db))
    await withPartition(db, async () => insertRound(db, await insertTask(db, 3)))
    await insertHealthEvent(db)
    await insertRoundRecord(db)
    const { rows } = await db.query<{ parent: string; name: string }>(
      `select inhparent::regclass::text as parent, inhrelid::regclass::text as name from pg_inherits
       where inhparent in ('round'::regclass, 'health_events'::regclass, 'round_record'::regclass)`,
    )
    partitions = rows.flatMap(({ parent, name }) =>
      LOGS.filter((log) => log.table === parent).map((log) => ({ ...log, table: name })),
    )
  })
  afterAll(async () => {
    if (who === 'owner') {
      await db.close()
      await test.db.query('reassign owned by table_owner to current_user; drop owned by table_owner')
    }
    await test.drop()
  })

  it('ORD-17, HLT-12: no way to change or remove a round, its record or an event, through the parent', async () => {
    for (const target of LOGS) {
      const before = await contents(db, target.table)
      await everyWayIsRefused(db, target)
      expect(await contents(db, target.table)).toEqual(before)
    }
  })

  it('ORD-17, HLT-12: nor through a partition, be it made ahead or on demand', async () => {
    const filled = new Set(partitions.map((one) => one.table))
    expect(filled.size).toBeGreaterThanOrEqual(7)
    for (const target of partitions) {
      const before = await contents(db, target.table)
      await everyWayIsRefused(db, target)
      expect(await contents(db, target.table)).toEqual(before)
    }
  })

  it('ORD-17: versioned rows never change either', async () => {
    for (const target of VERSIONED) {
      const before = await contents(db, target.table)
      await everyWayIsRefused(db, target)
      expect(await contents(db, target.table)).toEqual(before)
    }
  })

  it('ORD-17: a cascade from another table does not reach them', async () => {
    await expect(
      db.query('truncate customer, task, channel, supply, model, policy cascade'),
    ).rejects.toMatchObject({
      code: 'YM017',
    })
    await expect(db.query(`delete from policy where id = 'policy-a'`)).rejects.toMatchObject({
      code: '23503',
    })
    await expect(db.query(`update policy set id = 'other'`)).rejects.toMatchObject({ code: '23503' })
  })

  it('ORD-17: new rows are still accepted', async () => {
    await insertRound(db, await insertTask(db))
    await insertHealthEvent(db)
  })

  if (who === 'superuser') {
    it('ORD-17: COPY adds rows and carries no change out', async () => {
      for (const { table, column } of [...LOGS, ...VERSIONED]) {
        const change = `update ${table} set ${column} = ${column} returning 1`
        await expect(db.query(`copy (${change}) to '/dev/null'`)).rejects.toMatchObject({ code: 'YM017' })
      }
    })

    it('ORD-17, HLT-12: switching triggers off for replication switches these not off', async () => {
      for (const target of [...LOGS, ...partitions, ...VERSIONED]) {
        for (const where of ['true', 'false']) {
          for (const [way, text] of Object.entries(ways(target, where))) {
            const outcome = db.transaction(async (tx) => {
              await tx.query('set local session_replication_role = replica')
              await tx.query(text)
            })
            await expect(outcome, `${way} on ${target.table}`).rejects.toMatchObject({ code: 'YM017' })
          }
        }
      }
    })
  }
})

/** The tables given to a role that is no superuser, and a connection of that role. */
async function openAsOwner(test: TestDatabase): Promise<Database> {
  await test.db.query(`
    do $$ begin create role table_owner; exception when duplicate_object then null; end $$;
    do $$ declare name text; begin
      for name in select c.oid::regclass::text from pg_class c where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') loop
        execute format('alter table %s owner to table_owner', name);
      end loop;
      execute format('grant create, usage on schema public to table_owner');
      grant usage on all sequences in schema public to table_owner;
    end $$`)
  const db = await openDatabase({ url: test.url, poolSize: 1 })
  await db.query('set role table_owner')
  const { rows } = await db.query(
    `select current_user as who, rolsuper as super from pg_roles where rolname = current_user`,
  )
  expect(rows).toEqual([{ who: 'table_owner', super: false }])
  return db
}
