/** An error after COMMIT was sent is not a rollback: it is read back, and nothing is ever done twice. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Database, openDatabase, type Sql } from '../../src/store/database.ts'
import { CommitUnknown, NotCommitted } from '../../src/store/database-errors.ts'
import { type CommitProxy, commitProxy } from './commit-proxy.ts'
import { emptyDatabase, type TestDatabase } from './database.ts'

describe('a commit whose answer is lost', () => {
  let test: TestDatabase
  let proxy: CommitProxy
  let db: Database
  beforeEach(async () => {
    test = await emptyDatabase()
    await test.db.query('create table entry (note text)')
    proxy = await commitProxy(test.url)
    db = await openDatabase({ url: proxy.url, poolSize: 2 })
  })
  afterEach(async () => {
    await db.close()
    await proxy.close()
    await test.drop()
  })

  const insert = (retry = false) =>
    db.transaction(
      async (tx) => {
        await tx.query('insert into entry values ($1)', ['one'])
        return 'value'
      },
      { retry },
    )
  const count = async () => (await test.db.query<{ n: bigint }>('select count(*) as n from entry')).rows[0]?.n

  it('ORD-13: had committed, so its value is answered and nothing is repeated', async () => {
    proxy.cutNext('after the answer')
    expect(await insert(true)).toBe('value')
    expect(await count()).toBe(1n)
    expect(proxy.commits()).toBe(1)
  })

  it('ORD-13: had not committed, which is proved and said', async () => {
    proxy.cutNext('before')
    await expect(insert()).rejects.toThrow(NotCommitted)
    expect(await count()).toBe(0n)
    expect(proxy.commits()).toBe(1)
  })

  it('is run again once it is proved not to have committed, where the caller allows it', async () => {
    proxy.cutNext('before')
    expect(await insert(true)).toBe('value')
    expect(await count()).toBe(1n)
    expect(proxy.commits()).toBe(2)
  })

  it('is waited for while the server is still at it', async () => {
    await test.db.query(`
      create function slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.7); return null; end $$;
      create constraint trigger slow after insert on entry deferrable initially deferred for each row execute function slow()`)
    proxy.cutNext('at once')
    const began = performance.now()
    expect(await insert(true)).toBe('value')
    expect(performance.now() - began).toBeGreaterThan(600)
    expect(await count()).toBe(1n)
    expect(proxy.commits()).toBe(1)
  })

  it('is unknown at first, too, when the server ends the connection by an error of its own', async () => {
    await test.db.query(`
      create function fatal() returns trigger language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$;
      create constraint trigger fatal after insert on entry deferrable initially deferred for each row execute function fatal()`)
    await expect(insert()).rejects.toThrow(/^the transaction was not committed: terminating connection/)
    expect(await count()).toBe(0n)
  })

  it('stays unknown when it cannot be asked about in time, and is not repeated', async () => {
    const impatient = await openDatabase({ url: proxy.url, readBackTimeout: 200 })
    proxy.cutNext('after the answer', 'postgres://nobody@127.0.0.1:1/none')
    const lost = impatient.transaction((tx) => tx.query(`insert into entry values ('one')`), { retry: true })
    await expect(lost).rejects.toThrow(CommitUnknown)
    expect(await count()).toBe(1n)
    expect(proxy.commits()).toBe(1)
    await impatient.close()
  })

  it('of a transaction that only read needs no proof', async () => {
    proxy.cutNext('before')
    const body = async (tx: Sql) => (await tx.query<{ n: number }>('select 7 as n')).rows[0]?.n
    const read = db.transaction(body, { readOnly: true })
    expect(await read).toBe(7)
  })
})

describe('a transaction that failed before COMMIT was sent', () => {
  let test: TestDatabase
  beforeEach(async () => {
    test = await emptyDatabase({ random: () => 0 })
    await test.db.query('create table entry (id int unique deferrable initially deferred)')
  })
  afterEach(() => test.drop())

  const failing = (code: string, times: number) => {
    let runs = 0
    return async (tx: { query(text: string, values?: readonly unknown[]): Promise<unknown> }) => {
      await tx.query('insert into entry values ($1)', [++runs])
      if (runs <= times) await tx.query(`do $$ begin raise 'conflict' using errcode = '${code}'; end $$`)
      return runs
    }
  }
  const ids = async () =>
    (await test.db.query<{ id: number }>('select id from entry')).rows.map((row) => row.id)

  it.each(['40001', '40P01', '55P03'])('is run again after %s, where the caller allows it', async (code) => {
    expect(await test.db.transaction(failing(code, 2), { retry: true })).toBe(3)
    expect(await ids()).toEqual([3])
  })

  it('is not run again without leave, nor after another error', async () => {
    await expect(test.db.transaction(failing('40001', 1))).rejects.toMatchObject({ code: '40001' })
    await expect(test.db.transaction(failing('22012', 1), { retry: true })).rejects.toMatchObject({
      code: '22012',
    })
    expect(await ids()).toEqual([])
  })

  it('is run five times at most', async () => {
    let runs = 0
    const body = async (tx: { query(text: string): Promise<unknown> }) => {
      runs++
      await tx.query(`do $$ begin raise 'conflict' using errcode = '40001'; end $$`)
    }
    await expect(test.db.transaction(body, { retry: true })).rejects.toMatchObject({ code: '40001' })
    expect(runs).toBe(5)
  })

  it('passes on what the body throws, and leaves nothing', async () => {
    const body = async (tx: { query(text: string): Promise<unknown> }) => {
      await tx.query('insert into entry values (1)')
      throw new Error('thought better of it')
    }
    await expect(test.db.transaction(body)).rejects.toThrow('thought better of it')
    expect(await ids()).toEqual([])
  })

  it('is not taken for committed when the body passed over the error of a statement', async () => {
    const body = async (tx: { query(text: string): Promise<unknown> }) => {
      await tx.query('insert into entry values (1)')
      await tx.query('select 1 / 0').catch(() => {})
    }
    await expect(test.db.transaction(body)).rejects.toThrow(/not committed: .*passed over/)
    expect(await ids()).toEqual([])
  })

  it('refused by COMMIT itself is an ordinary error, and rolled back', async () => {
    const twice = async (tx: { query(text: string): Promise<unknown> }) => {
      await tx.query('insert into entry values (1), (1)')
    }
    await expect(test.db.transaction(twice, { retry: true })).rejects.toMatchObject({ code: '23505' })
    expect(await ids()).toEqual([])
  })

  it('is refused while a statement of it is unanswered: it may have failed, or not be over', async () => {
    let left: Promise<unknown> | undefined
    const body = async (tx: Sql) => {
      left = tx.query('insert into entry select 1 from pg_sleep(0.1)')
    }
    await expect(test.db.transaction(body)).rejects.toThrow(/committed with 1 statements unanswered/)
    await left
    expect(await ids()).toEqual([])
  })

  it('runs statements given together in their order, each seeing what the one before it wrote', async () => {
    const body = (tx: Sql) =>
      Promise.all([
        tx.query('insert into entry values (1)'),
        tx.query('insert into entry select max(id) + 1 from entry'),
        tx.query<{ ids: number[] }>('select array_agg(id order by id) as ids from entry'),
      ])
    const [, , { rows }] = await test.db.transaction(body)
    expect(rows).toEqual([{ ids: [1, 2] }])
    expect(await ids()).toEqual([1, 2])
  })

  it('says the error of the one that failed, not of those given with it, and leaves nothing', async () => {
    const body = (tx: Sql) =>
      Promise.all([
        tx.query('insert into entry values (1)'),
        tx.query('select 1 / 0'),
        tx.query('insert into entry values (2)'),
      ])
    await expect(test.db.transaction(body)).rejects.toMatchObject({ code: '22012' })
    expect(await ids()).toEqual([])
    await test.db.transaction((tx) => tx.query('insert into entry values (3)'))
    expect(await ids()).toEqual([3])
  })

  it('is run again after a conflict, also where those given with the statement are heard before it', async () => {
    const inTurns = async (answer: Promise<unknown>) => {
      const settled = await Promise.allSettled([answer])
      for (let turn = 0; turn < 20; turn++) await null
      return settled
    }
    let runs = 0
    const body = async (tx: Sql) => {
      const first = ++runs === 1 ? `do $$ begin raise 'conflict' using errcode = '40P01'; end $$` : 'select 1'
      await Promise.all([inTurns(tx.query(first)), tx.query('insert into entry values (1)')])
      return runs
    }
    expect(await test.db.transaction(body, { retry: true })).toBe(2)
    expect(await ids()).toEqual([1])
  })

  it('does not let a late statement into another’s transaction', async () => {
    let late: { query(text: string): Promise<unknown> } | undefined
    await test.db.transaction(async (tx) => {
      late = tx
    })
    await expect(late?.query('insert into entry values (9)')).rejects.toThrow(/already ended/)
    expect(await ids()).toEqual([])
  })
})

it('CommitUnknown and NotCommitted name their cause', () => {
  const cause = new Error('Connection terminated unexpectedly')
  expect(new NotCommitted(cause).message).toContain('Connection terminated')
  expect(new CommitUnknown('77', cause)).toMatchObject({ transactionId: '77', cause })
})
