/** What a connection promises: exact values, limits on time, and nothing that a pooler would break. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDatabase } from '../../src/store/database.ts'
import { fromInstant } from '../../src/store/instants.ts'
import { emptyDatabase, type TestDatabase } from './database.ts'

describe('values', () => {
  let test: TestDatabase
  beforeEach(async () => {
    test = await emptyDatabase()
  })
  afterEach(() => test.drop())

  it('STR-10: money comes back to the last micro-unit', async () => {
    const { rows } = await test.db.query(
      `select 9007199254740993::int8 as one, array[9007199254740993, null]::int8[] as many, 0.1::numeric as rate, array[1.50]::numeric[] as rates`,
    )
    expect(rows).toEqual([
      { one: 9007199254740993n, many: [9007199254740993n, null], rate: '0.1', rates: ['1.50'] },
    ])
  })

  it('instants are whole microseconds in both directions', async () => {
    const instants = [0, 1, 1_796_104_462_629_119, 1_796_104_462_000_000, -1, -2_500_000_000_000_001]
    const { rows } = await test.db.query<{ at: number[] }>('select $1::timestamptz[] as at', [
      instants.map(fromInstant),
    ])
    expect(rows[0]?.at).toEqual(instants)
  })

  it('instants do not depend on the time zone of the session', async () => {
    const at = 1_796_104_462_629_119
    const zones = ['Asia/Kolkata', 'America/St_Johns', 'UTC']
    const seen = await test.db.transaction(async (tx) => {
      const read: (number | undefined)[] = []
      for (const zone of zones) {
        await tx.query(`set local timezone = '${zone}'`)
        read.push(
          (await tx.query<{ at: number }>('select $1::timestamptz as at', [fromInstant(at)])).rows[0]?.at,
        )
      }
      return read
    })
    expect(seen).toEqual([at, at, at])
  })

  it('agrees with the server’s own arithmetic on microseconds', async () => {
    const { rows } = await test.db.query<{ at: number; micros: bigint }>(
      `select t as at, (extract(epoch from t) * 1000000)::int8 as micros
       from generate_series('1890-01-01 00:00:00.123457+00'::timestamptz, '2200-01-01', '97 days 3:17:11.000013') t`,
    )
    expect(rows.length).toBeGreaterThan(1000)
    for (const row of rows) expect(BigInt(row.at)).toBe(row.micros)
  })
})

describe('limits and poolers', () => {
  let test: TestDatabase
  beforeEach(async () => {
    test = await emptyDatabase()
  })
  afterEach(() => test.drop())

  const limits = `select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock,
    current_setting('idle_in_transaction_session_timeout') as idle, current_setting('application_name') as name`
  const open = (url: string) =>
    openDatabase({
      url,
      statementTimeout: 4000,
      lockTimeout: 3000,
      idleInTransactionTimeout: 2000,
      applicationName: 'ym test',
    })

  it('every statement is limited in time', async () => {
    const db = await open(test.url)
    expect((await db.query(limits)).rows).toEqual([
      { statement: '4s', lock: '3s', idle: '2s', name: 'ym test' },
    ])
    await db.close()
  })

  it('behind a pooler the limits hold in each transaction, and the session is left as it was', async () => {
    const db = await open(`${test.url}${test.url.includes('?') ? '&' : '?'}pgbouncer=true`)
    const inside = await db.transaction(async (tx) => (await tx.query(limits)).rows)
    expect(inside).toEqual([{ statement: '4s', lock: '3s', idle: '2s', name: 'ym test' }])
    expect((await db.query(limits)).rows).toMatchObject([{ statement: '0', lock: '0', idle: '0' }])
    await db.close()
  })

  it('named plans are left off behind a pooler, and where asked', async () => {
    const named = { name: 'seven', text: 'select 7 as n' }
    const plans = async (url: string, namedStatements?: boolean) => {
      const db = await openDatabase({
        url,
        poolSize: 1,
        ...(namedStatements === undefined ? {} : { namedStatements }),
      })
      await db.query(named)
      const { rows } = await db.query<{ n: number }>('select count(*)::int as n from pg_prepared_statements')
      await db.close()
      return rows[0]?.n
    }
    expect(await plans(test.url)).toBe(1)
    expect(await plans(test.url, false)).toBe(0)
    expect(await plans(`${test.url}${test.url.includes('?') ? '&' : '?'}pgbouncer=true`)).toBe(0)
  })

  it('a connection that breaks while idle is replaced', async () => {
    const broken: Error[] = []
    const heard = Promise.withResolvers<void>()
    const onIdleError = (error: Error) => {
      broken.push(error)
      heard.resolve()
    }
    const db = await openDatabase({ url: test.url, poolSize: 1, onIdleError })
    const { rows } = await db.query<{ pid: number }>('select pg_backend_pid() as pid')
    await test.db.query('select pg_terminate_backend($1)', [rows[0]?.pid])
    await heard.promise
    expect((await db.query('select 1 as n')).rows).toEqual([{ n: 1 }])
    expect(broken).toHaveLength(1)
    await db.close()
  })
})
