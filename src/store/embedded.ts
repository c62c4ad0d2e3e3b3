/**
 * The embedded PostgreSQL: ready after one call, kept running while we do, and found again after we were killed. It is an
 * ordinary cluster under the data directory, run by programs that npm brought; nothing is installed on the machine.
 *
 * Only our account can connect: the socket lies in a folder of its account, no TCP port is open, and the one role has a
 * random password that only our account can read.
 */
import { realpath } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { chooseAccount } from './postgres/account.ts'
import { findBinaries } from './postgres/binaries.ts'
import { ensureCluster, ROLE } from './postgres/cluster.ts'
import { findHome, makeDataDir, PORT, removeSocketDir } from './postgres/home.ts'
import { holdDirectory } from './postgres/one-at-a-time.ts'
import {
  adoptPostmaster,
  clearTheWay,
  connection,
  type Postmaster,
  type Server,
  startPostmaster,
  stopPostmaster,
} from './postgres/postmaster.ts'

export interface EmbeddedLog {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

export interface EmbeddedOptions {
  readonly dataDir: string
  readonly log: EmbeddedLog
  /** false: a crash of the machine may lose everything. For tests only. */
  readonly durable?: boolean
  /** PostgreSQL died and could not be started again. */
  readonly onLost?: (error: Error) => void
}

export interface Embedded {
  /** With the password: never to be printed. */
  readonly url: string
  /** Whether a PostgreSQL that a killed process had left behind was taken over. */
  readonly adopted: boolean
  /** "18.4". */
  readonly version: string
  /** Where PostgreSQL's files are. */
  readonly cluster: string
  /** Fast shutdown; may be called twice. */
  stop(): Promise<void>
}

const DATABASE = 'yardmaster'
const MOST_RESTARTS = 5
const RESTARTS_COUNT_FOR = 600_000

/**
 * Starts or adopts the PostgreSQL of a data directory, made where there is none. Throws DataDirectoryInUse when another
 * process serves the directory, and an Error that says what to do when PostgreSQL cannot run.
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  await makeDataDir(options.dataDir)
  // Held before its home is looked for: of two that make one on a fresh directory, one would take the other's away.
  const letGo = await holdDirectory(await realpath(options.dataDir))
  try {
    const { home, account } = await findHome(options.dataDir, chooseAccount)
    const binaries = await findBinaries(account, home.libraries)
    const cluster = { home, account, binaries, durable: options.durable ?? true }
    const server = { ...cluster, password: await ensureCluster(cluster) }
    const postmaster = (await adoptPostmaster(server)) ?? (await startPostmaster(server))
    await ensureDatabase(server, postmaster)
    options.log.info(
      `PostgreSQL ${postmaster.version} ${postmaster.adopted ? 'was still running' : 'runs'} in ${home.cluster}`,
    )
    return new Supervisor({ server, letGo, options }, postmaster)
  } catch (error) {
    letGo()
    throw error
  }
}

async function ensureDatabase(server: Server, postmaster: Postmaster): Promise<void> {
  const client = new pg.Client(connection(server, postmaster.socketDir, 'postgres'))
  await client.connect()
  try {
    const { rows } = await client.query('select from pg_database where datname = $1', [DATABASE])
    if (rows.length === 0) await client.query(`create database ${DATABASE}`)
  } finally {
    await client.end()
  }
}

interface Supervised {
  readonly server: Server
  readonly letGo: () => void
  readonly options: EmbeddedOptions
}

class Supervisor implements Embedded {
  readonly url: string
  readonly adopted: boolean
  readonly version: string
  readonly cluster: string
  readonly #of: Supervised
  #postmaster: Postmaster
  #restarts: number[] = []
  #restarting: Promise<void> | undefined
  #stopping = false
  #stopped: Promise<void> | undefined

  constructor(of: Supervised, postmaster: Postmaster) {
    const host = encodeURIComponent(postmaster.socketDir)
    this.url = `postgres://${ROLE}:${of.server.password}@/${DATABASE}?host=${host}&port=${PORT}`
    this.adopted = postmaster.adopted
    this.version = postmaster.version
    this.cluster = of.server.home.cluster
    this.#of = of
    this.#postmaster = postmaster
    void this.#watch()
  }

  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    this.#stopping = true
    try {
      await this.#restarting?.catch(() => {})
      await stopPostmaster(this.#postmaster)
      await removeSocketDir(this.#of.server.home, this.#postmaster.socketDir)
    } finally {
      this.#of.letGo()
    }
  }

  async #watch(): Promise<void> {
    const { log, onLost } = this.#of.options
    for (;;) {
      const how = await this.#postmaster.ended
      if (this.#stopping) return
      log.error(`PostgreSQL ${how} unexpectedly; starting it again`)
      try {
        this.#restarting = this.#restart()
        await this.#restarting
      } catch (error) {
        const lost = error instanceof Error ? error : new Error(String(error))
        log.error(`PostgreSQL could not be started again: ${lost.message}`)
        onLost?.(lost)
        return
      }
    }
  }

  async #restart(): Promise<void> {
    const now = performance.now()
    this.#restarts = [...this.#restarts.filter((at) => now - at < RESTARTS_COUNT_FOR), now]
    if (this.#restarts.length > MOST_RESTARTS) {
      throw new Error(
        `it ended ${this.#restarts.length} times within ten minutes; see its log in ${this.cluster}/log`,
      )
    }
    await sleep(100 * 2 ** (this.#restarts.length - 1))
    await clearTheWay(this.cluster)
    this.#postmaster = await startPostmaster(this.#of.server, this.#postmaster.socketDir)
    this.#of.options.log.warn('PostgreSQL runs again')
  }
}
