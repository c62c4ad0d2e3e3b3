/**
 * The connection to PostgreSQL, and what a transaction means here. Two things are stricter than a driver's own:
 * values keep their exactness (int8 is bigint, timestamptz is integer microseconds), and an error after COMMIT was sent is
 * never taken for a rollback: it is read back by the transaction's ID, and never repeated blindly.
 *
 * Nothing rests on the state of a session (no LISTEN, no session locks, no SET outside a transaction), so that a pooler in
 * transaction mode may stand between; hints, on which nothing rests either, have a connection of their own (listener.ts). Such a URL says `pgbouncer=true`: then no startup parameters and no named
 * prepared statements are used, and limits are set in each transaction.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { CommitUnknown, finallyRolledBack, NotCommitted, sqlState } from './database-errors.ts'
import { typeParsers } from './type-parsers.ts'

/** SQL with the name under which the server may keep its plan. The name must be unique to the text. */
export interface Statement {
  readonly name: string
  readonly text: string
}

export interface Answer<Row> {
  readonly rows: Row[]
  /** Rows that the statement returned or touched. */
  readonly rowCount: number
}

/**
 * Where statements run: a transaction, or the database itself, where each statement is its own transaction. There, a write
 * whose connection broke may or may not have happened: what must be known is written in a `transaction`.
 */
export interface Sql {
  /**
   * A text without a name and without values may hold several statements. In a transaction statements run in the order in
   * which they are given, each by a snapshot of its own, and may be given together (`Promise.all`): one round trip then
   * serves them all, and after one that fails the others fail too, with the error of the first. Never await them singly.
   */
  query<Row extends pg.QueryResultRow>(
    statement: Statement | string,
    values?: readonly unknown[],
  ): Promise<Answer<Row>>
}

export interface TransactionOptions<T> {
  /** Run the body again when the transaction was surely rolled back by a conflict with others. */
  readonly retry?: boolean
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable'
  readonly readOnly?: boolean
  /**
   * Looks for the transaction's effect, where its ID cannot tell (the database failed over in between). null: it is not
   * there, and will not be.
   */
  readonly readBack?: (db: Sql) => Promise<T | null>
}

export interface Database extends Sql {
  /**
   * Runs the body between BEGIN and COMMIT. Whatever it throws, and whatever the server says before COMMIT was sent,
   * means rolled back. After that: the body's value once the commit is known to have happened, `NotCommitted` once it is
   * known not to have, `CommitUnknown` when neither could be learnt in time.
   */
  transaction<T>(body: (tx: Sql) => Promise<T>, options?: TransactionOptions<T>): Promise<T>
  /** Waits for running statements, then closes all connections. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  readonly url: string
  /** Connections at most; 10 where absent. */
  readonly poolSize?: number
  readonly applicationName?: string
  /** Milliseconds; 0 switches one off. */
  readonly statementTimeout?: number
  readonly lockTimeout?: number
  readonly idleInTransactionTimeout?: number
  /** How long an unknown commit is asked about, in milliseconds. */
  readonly readBackTimeout?: number
  /** Whether the server keeps plans under the statements' names; on unless the URL says pgbouncer=true. */
  readonly namedStatements?: boolean
  /** From 0 up to 1: spreads retries. */
  readonly random?: () => number
  /** Hears of connections that broke while idle; they are replaced by themselves. */
  readonly onIdleError?: (error: Error) => void
}

const MOST_RUNS = 5
const FIRST_PAUSE = 10
const LONGEST_PAUSE = 2000
const ABORTED = '25P02'
const CONFLICTS: ReadonlySet<string | undefined> = new Set(['40001', '40P01', '55P03'])
// The timeline tells a failover: the new primary may have given the same ID to another transaction.
const WHERE = `left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)`
const WHO = `select pg_current_xact_id()::text as id, ${WHERE} as timeline`
const FATE = {
  name: 'transaction-fate',
  text: `select pg_xact_status($1::text::xid8) as fate, ${WHERE} as timeline`,
}

interface TransactionId {
  readonly id: string
  readonly timeline: string
}

/** Opens no connection yet: the first statement does. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  return new PooledDatabase(options)
}

class PooledDatabase implements Database {
  readonly #pool: pg.Pool
  readonly #named: boolean
  readonly #limits: string
  readonly #readBackTimeout: number
  readonly #random: () => number

  constructor(options: DatabaseOptions) {
    const pooler = /[?&]pgbouncer=(true|1)(&|$)/.test(options.url)
    const limits = {
      statement_timeout: options.statementTimeout ?? 30_000,
      lock_timeout: options.lockTimeout ?? 10_000,
      idle_in_transaction_session_timeout: options.idleInTransactionTimeout ?? 30_000,
    }
    this.#pool = new pg.Pool({
      connectionString: options.url,
      max: options.poolSize ?? 10,
      application_name: options.applicationName ?? 'yardmaster',
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
      // Statements leave as they are given, not one by one as the one before is answered.
      pipeline: true,
      types: typeParsers,
      ...(pooler ? {} : { ...limits, options: '-c DateStyle=ISO -c TimeZone=UTC' }),
    })
    this.#pool.on('error', (error) => options.onIdleError?.(error))
    this.#named = options.namedStatements ?? !pooler
    this.#limits = pooler ? setLocal({ ...limits, DateStyle: 'ISO', TimeZone: 'UTC' }) : ''
    this.#readBackTimeout = options.readBackTimeout ?? 90_000
    this.#random = options.random ?? Math.random
  }

  query<Row extends pg.QueryResultRow>(statement: Statement | string, values?: readonly unknown[]) {
    return run<Row>(this.#pool, this.#config(statement), values)
  }

  async transaction<T>(body: (tx: Sql) => Promise<T>, options: TransactionOptions<T> = {}): Promise<T> {
    for (let runs = 1; ; runs++) {
      try {
        return await this.#once(body, options)
      } catch (error) {
        const again = error instanceof NotCommitted || CONFLICTS.has(sqlState(error))
        if (!options.retry || !again || runs === MOST_RUNS) throw error
        await this.#pause(runs)
      }
    }
  }

  close() {
    return this.#pool.end()
  }

  async #once<T>(body: (tx: Sql) => Promise<T>, options: TransactionOptions<T>): Promise<T> {
    const client = await this.#pool.connect()
    // A connection that breaks while the body works elsewhere also says so by an event, which must have a hearer.
    client.on('error', ignore)
    const tx = new OpenTransaction(client, (statement) => this.#config(statement))
    let value: T
    let id: TransactionId | null
    try {
      id = await begin(client, options, this.#limits)
      value = await body(tx)
      tx.mustBeQuiet()
    } catch (error) {
      tx.end()
      await rollBack(client)
      throw error
    }
    tx.end()
    return this.#commit(client, { value, id }, options)
  }

  async #commit<T>(
    client: pg.PoolClient,
    done: { value: T; id: TransactionId | null },
    options: TransactionOptions<T>,
  ) {
    let cause: unknown
    try {
      const { command } = await client.query('commit')
      release(client, false)
      if (command === 'COMMIT') return done.value
      cause = new Error('a statement in it had failed, and its error was passed over')
    } catch (error) {
      const rolledBack = finallyRolledBack(error)
      release(client, !rolledBack)
      if (rolledBack) throw error
      // It only read, so there is nothing to know.
      return done.id === null
        ? done.value
        : this.#readBack(done.value, { id: done.id, cause: error }, options)
    }
    throw new NotCommitted(cause)
  }

  async #readBack<T>(
    value: T,
    lost: { id: TransactionId; cause: unknown },
    options: TransactionOptions<T>,
  ): Promise<T> {
    const until = performance.now() + this.#readBackTimeout
    for (let tries = 1; ; tries++) {
      const fate = await this.#fate(lost.id)
      if (fate === 'committed') return value
      if (fate === 'aborted') throw new NotCommitted(lost.cause)
      if (fate === 'another history') return this.#lookFor(lost, options)
      if (performance.now() > until) throw new CommitUnknown(lost.id.id, lost.cause)
      await this.#pause(tries)
    }
  }

  /** null: cannot be told yet, either because the server is still at it or because it cannot be reached. */
  async #fate(lost: TransactionId): Promise<'committed' | 'aborted' | 'another history' | null> {
    try {
      const { rows } = await this.query<{ fate: string | null; timeline: string }>(FATE, [lost.id])
      const { fate, timeline } = rows[0] ?? { fate: null, timeline: lost.timeline }
      if (timeline !== lost.timeline) return 'another history'
      return fate === 'committed' || fate === 'aborted' ? fate : null
    } catch (error) {
      // "transaction ID is in the future": this primary has never had it.
      return sqlState(error) === '22023' ? 'another history' : null
    }
  }

  async #lookFor<T>(lost: { id: TransactionId; cause: unknown }, options: TransactionOptions<T>): Promise<T> {
    if (!options.readBack) throw new CommitUnknown(lost.id.id, lost.cause)
    const found = await options.readBack(this)
    if (found === null) throw new NotCommitted(lost.cause)
    return found
  }

  #config(statement: Statement | string) {
    if (typeof statement === 'string') return { text: statement }
    return this.#named ? statement : { text: statement.text }
  }

  /** Doubling, with full jitter above half of it, so that those who collided do not meet again. */
  #pause(runs: number) {
    const longest = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** runs)
    return sleep(longest * (0.5 + this.#random() / 2))
  }
}

/** Statements of one transaction; of no use after its end, when the connection already serves another. */
class OpenTransaction implements Sql {
  readonly #client: pg.PoolClient
  readonly #config: (statement: Statement | string) => { text: string }
  #ended = false
  #unanswered = 0
  #cause: unknown
  #gathering = false

  constructor(client: pg.PoolClient, config: (statement: Statement | string) => { text: string }) {
    this.#client = client
    this.#config = config
  }

  async query<Row extends pg.QueryResultRow>(statement: Statement | string, values?: readonly unknown[]) {
    if (this.#ended) throw new Error('a statement was sent in a transaction that has already ended')
    this.#unanswered += 1
    this.#gather()
    try {
      return await run<Row>(this.#client, this.#config(statement), values)
    } catch (error) {
      throw this.#causeOf(error)
    } finally {
      this.#unanswered -= 1
    }
  }

  /** What was sent behind a statement that failed only hears that the transaction is aborted: the failure says why. */
  #causeOf(error: unknown): unknown {
    if (sqlState(error) === ABORTED) return this.#cause ?? error
    this.#cause ??= error
    return error
  }

  /** COMMIT must not follow a statement whose answer nobody has seen: it may have failed, or not be over. */
  mustBeQuiet() {
    if (this.#unanswered > 0)
      throw new Error(`a transaction was to be committed with ${this.#unanswered} statements unanswered`)
  }

  end() {
    this.#ended = true
  }

  /** What is sent in one turn leaves in one packet. */
  #gather() {
    if (this.#gathering) return
    const { stream } = this.#client.connection
    this.#gathering = true
    stream.cork()
    queueMicrotask(() => {
      this.#gathering = false
      stream.uncork()
    })
  }
}

async function run<Row extends pg.QueryResultRow>(
  on: pg.Pool | pg.PoolClient,
  config: { text: string },
  values: readonly unknown[] | undefined,
): Promise<Answer<Row>> {
  const result = await on.query<Row>(values === undefined ? config : { ...config, values: [...values] })
  return { rows: result.rows, rowCount: result.rowCount ?? 0 }
}

function setLocal(settings: Record<string, string | number>): string {
  return Object.entries(settings)
    .map(([name, value]) => `; set local ${name} = '${value}'`)
    .join('')
}

/** Answers the transaction's ID; null for one that only reads. One message to the server, so that it costs no time. */
async function begin(
  client: pg.PoolClient,
  options: { isolation?: string; readOnly?: boolean },
  limits: string,
): Promise<TransactionId | null> {
  const isolation = options.isolation ?? 'read committed'
  if (options.readOnly) {
    await client.query(`begin isolation level ${isolation} read only${limits}`)
    return null
  }
  const answers: unknown = await client.query(`begin isolation level ${isolation}${limits}; ${WHO}`)
  const last: unknown = Array.isArray(answers) ? answers.at(-1) : undefined
  return transactionIdIn(last)
}

/** The driver's types do not tell that several statements have several answers. */
function transactionIdIn(answer: unknown): TransactionId {
  const rows = hasRows(answer) ? answer.rows : []
  const [row] = rows
  if (!isTransactionId(row)) throw new Error('the server did not tell the transaction’s ID')
  return row
}

function hasRows(answer: unknown): answer is { rows: unknown[] } {
  return typeof answer === 'object' && answer !== null && 'rows' in answer && Array.isArray(answer.rows)
}

function isTransactionId(row: unknown): row is TransactionId {
  return (
    typeof row === 'object' &&
    row !== null &&
    'id' in row &&
    typeof row.id === 'string' &&
    'timeline' in row &&
    typeof row.timeline === 'string'
  )
}

async function rollBack(client: pg.PoolClient): Promise<void> {
  try {
    await client.query('rollback')
    release(client, false)
  } catch {
    release(client, true)
  }
}

function release(client: pg.PoolClient, broken: boolean): void {
  client.off('error', ignore)
  // The pool listens again from here on; a broken connection is closed and replaced.
  client.release(broken)
}

function ignore(): void {}
