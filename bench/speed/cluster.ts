/**
 * The one PostgreSQL of a run: the product's own embedded one with the product's settings, durable, in a folder of its own.
 * Contestants get a database each, copied from a template that was filled once, so that every round begins alike.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Embedded, startEmbedded } from '../../src/store/embedded.ts'

export interface Counters {
  /** Bytes of WAL, of which `fullPages` images of whole pages were written. */
  readonly wal: number
  readonly fullPages: number
  readonly commits: number
}

export interface Cluster {
  readonly version: string
  /** Scratch space for files of the run, deleted at its end. */
  readonly dir: string
  /** A new database from a template; `fill` makes the template the first time that its name is asked for. */
  copyOf(template: string, fill: (url: string) => Promise<void>): Promise<BenchDatabase>
  /** One statement, by a connection of its own. */
  run(url: string, sql: string): Promise<void>
  /** Parameters that the product does not set, for a profile only; restarts the server. */
  withStatements(): Promise<void>
  stop(): Promise<void>
}

export interface BenchDatabase {
  readonly url: string
  readonly name: string
  rows<Row extends pg.QueryResultRow>(sql: string, values?: unknown[]): Promise<Row[]>
  counters(): Promise<Counters>
  drop(): Promise<void>
}

const QUIET = { info() {}, warn: console.error, error: console.error }

export async function startCluster(): Promise<Cluster> {
  const dir = await mkdtemp(join(tmpdir(), 'yardmaster-bench-'))
  const cluster = new OwnCluster(dir, await startEmbedded({ dataDir: join(dir, 'data'), log: QUIET }))
  return cluster
}

class OwnCluster implements Cluster {
  readonly dir: string
  readonly #templates = new Map<string, Promise<void>>()
  #server: Embedded
  #admin: pg.Pool
  #made = 0

  constructor(dir: string, server: Embedded) {
    this.dir = dir
    this.#server = server
    this.#admin = this.#pool(server.url)
  }

  get version(): string {
    return this.#server.version
  }

  async copyOf(template: string, fill: (url: string) => Promise<void>): Promise<BenchDatabase> {
    const filled = this.#templates.get(template) ?? this.#fill(template, fill)
    this.#templates.set(template, filled)
    await filled
    this.#made += 1
    const name = `round_${this.#made}`
    await this.#admin.query(`create database ${name} template ${template} strategy file_copy`)
    await this.#admin.query('checkpoint')
    return this.#open(name)
  }

  async run(url: string, sql: string): Promise<void> {
    const pool = this.#pool(url)
    try {
      await pool.query(sql)
    } finally {
      await pool.end()
    }
  }

  async withStatements(): Promise<void> {
    await this.#admin.query(`alter system set shared_preload_libraries = 'pg_stat_statements'`)
    await this.#admin.query(`alter system set pg_stat_statements.track = 'top'`).catch(() => undefined)
    await this.#admin.end()
    await this.#server.stop()
    this.#server = await startEmbedded({ dataDir: join(this.dir, 'data'), log: QUIET })
    this.#admin = this.#pool(this.#server.url)
  }

  async stop(): Promise<void> {
    await this.#admin.end()
    await this.#server.stop()
    await rm(this.dir, { recursive: true, force: true })
  }

  async #fill(template: string, fill: (url: string) => Promise<void>): Promise<void> {
    await this.#admin.query(`create database ${template}`)
    await fill(urlOf(this.#server.url, template))
    const pool = this.#pool(urlOf(this.#server.url, template))
    await pool.query('vacuum analyze')
    await pool.end()
  }

  #open(name: string): BenchDatabase {
    const url = urlOf(this.#server.url, name)
    const pool = this.#pool(url)
    return {
      url,
      name,
      rows: async (sql, values) => (await pool.query(sql, values)).rows,
      counters: () => this.#counters(name),
      drop: async () => {
        await pool.end()
        await this.#admin.query(`drop database if exists ${name} with (force)`)
      },
    }
  }

  /** From outside the database, so that looking is not counted. */
  async #counters(name: string): Promise<Counters> {
    const { rows } = await this.#admin.query<Record<keyof Counters, string>>(
      `select pg_current_wal_lsn() - '0/0'::pg_lsn as wal,
        (select sum(wal_fpi) from pg_stat_wal) as "fullPages",
        (select xact_commit from pg_stat_database where datname = $1) as commits`,
      [name],
    )
    const [row] = rows
    if (!row) throw new Error(`no counters of ${name}`)
    return { wal: Number(row.wal), fullPages: Number(row.fullPages), commits: Number(row.commits) }
  }

  #pool(url: string): pg.Pool {
    const pool = new pg.Pool({ connectionString: url, max: 2, application_name: 'bench' })
    pool.on('error', () => undefined)
    return pool
  }
}

/** The path of such a URL is what comes between its host, which may be empty, and its query. */
export function urlOf(url: string, database: string): string {
  return url.replace(/^([^/]+:\/\/[^/?]*)(\/[^?]*)?/, `$1/${database}`)
}
