/**
 * The composition root: the only file that knows everybody. It opens the database, joins store, providers, runtime and
 * API, and takes them down again in the reverse order.
 */
import { createHmac, randomBytes } from 'node:crypto'
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { LinkSigner } from './api/public/links.ts'
import { storedModels } from './api/public/ports.ts'
import { buildServer } from './api/server.ts'
import type { Config } from './config.ts'
import type { Log } from './journal.ts'
import { openMetrics } from './metrics.ts'
import { createCaller } from './providers/call.ts'
import { createProviders } from './providers/registry.ts'
import { Callbacks } from './runtime/callbacks.ts'
import { Engine, type Role } from './runtime/engine.ts'
import { explainTask } from './runtime/explain.ts'
import { AssetStore } from './store/assets.ts'
import { type Database, openDatabase } from './store/database.ts'
import { startEmbedded } from './store/embedded.ts'
import { migrationStatus } from './store/migrate.ts'
import { DataDirectoryInUse } from './store/postgres/one-at-a-time.ts'
import { type Keyring, ownKeyring, parseKeyring, readKeyring } from './store/secrets.ts'

export const VERSION = '0.1.0'

/** An open database, whoever runs it. */
export interface OpenDatabase {
  readonly db: Database
  /** With its password: never to be printed. */
  readonly url: string
  /** In words, without secrets. */
  readonly where: string
  close(): Promise<void>
}

const URL_FILE = 'database.url'
/** How long a signed link to an image is good. */
const LINK_SECONDS = 3600
const MS_PER_HOUR = 3_600_000

/**
 * The external PostgreSQL of DATABASE_URL; else the embedded one of the data directory: started here, or shared with the
 * process that runs it already.
 */
export async function openStore(config: Config, log: Log, applicationName: string): Promise<OpenDatabase> {
  if (config.databaseUrl !== null) return external(config, config.databaseUrl, log, applicationName)
  try {
    return await embedded(config, log, applicationName)
  } catch (error) {
    if (!(error instanceof DataDirectoryInUse)) throw error
    const url = await readFile(join(config.dataDir, URL_FILE), 'utf8').catch(() => null)
    if (url === null) throw error
    const shared = await external(config, url.trim(), log, applicationName)
    return { ...shared, where: `the PostgreSQL that another process runs in ${config.dataDir}` }
  }
}

async function external(
  config: Config,
  url: string,
  log: Log,
  applicationName: string,
): Promise<OpenDatabase> {
  const db = await openDatabase({
    url,
    poolSize: config.poolSize,
    applicationName,
    onIdleError: (error) => log.warn(error.message),
  })
  return { db, url, where: 'the PostgreSQL of DATABASE_URL', close: () => db.close() }
}

async function embedded(config: Config, log: Log, applicationName: string): Promise<OpenDatabase> {
  const server = await startEmbedded({
    dataDir: config.dataDir,
    log,
    onLost: (error) => log.error(`PostgreSQL is gone: ${error.message}`),
  })
  const urlFile = join(config.dataDir, URL_FILE)
  await writePrivately(urlFile, `${server.url}\n`)
  const db = await openDatabase({
    url: server.url,
    poolSize: config.poolSize,
    applicationName,
    onIdleError: (error) => log.warn(error.message),
  })
  return {
    db,
    url: server.url,
    where: `PostgreSQL ${server.version}, embedded, in ${server.cluster}`,
    close: async () => {
      await db.close()
      await rm(urlFile, { force: true })
      await server.stop()
    },
  }
}

async function writePrivately(path: string, text: string): Promise<void> {
  await writeFile(path, text, { mode: 0o600 })
  await chmod(path, 0o600)
}

/** The keys that seal credentials: of the setting, of its file, or the data directory's own. */
export async function openKeyring(config: Config): Promise<Keyring> {
  if (config.masterKey !== null) return parseKeyring(config.masterKey, 'MASTER_KEY')
  if (config.masterKeyFile !== null) return readKeyring(config.masterKeyFile)
  await mkdir(config.dataDir, { recursive: true })
  return ownKeyring(config.dataDir)
}

/** A secret of this installation, kept in the data directory and made at the first start. */
export async function keptSecret(dataDir: string, name: string, prefix: string): Promise<string> {
  const path = join(dataDir, name)
  const fresh = `${prefix}${randomBytes(32).toString('base64url')}`
  await mkdir(dataDir, { recursive: true })
  try {
    await writeFile(path, `${fresh}\n`, { mode: 0o600, flag: 'wx' })
    return fresh
  } catch {
    return (await readFile(path, 'utf8')).trim()
  }
}

export interface Service {
  /** Where it listens, without a slash at the end. */
  readonly url: string
  readonly adminToken: string
  readonly engine: Engine
  stop(): Promise<void>
}

export interface ServiceOptions {
  readonly config: Config
  readonly roles: readonly Role[]
  readonly log: Log
  readonly store: OpenDatabase
  readonly keyring: Keyring
}

/** An engine that is not started, with what it needs; commands use it for a single act. */
export function openEngine(options: ServiceOptions) {
  const { config, log, store, keyring, roles } = options
  const { db } = store
  const assets = new AssetStore(db, join(config.dataDir, 'assets'))
  const caller = createCaller()
  const alertCaller = createCaller({ maxAnswerBytes: 64 * 1024 })
  const providers = createProviders(caller)
  const callbacks = new Callbacks(keyring, providers)
  const { publicUrl } = config
  const engine = new Engine({
    db,
    keyring,
    assets,
    providers,
    // Without an address at which it is reached from outside, nobody is told to call back.
    callbackUrl: (attemptId) => (publicUrl === null ? null : `${publicUrl}${callbacks.path(attemptId)}`),
    journal: log,
    roles,
    version: VERSION,
    retainDays: { round: config.roundRetentionDays, health_events: config.eventRetentionDays },
    resultLifeMs: config.resultLifeHours * MS_PER_HOUR,
    largestResultBytes: config.largestResultBytes,
    timing: config.timing,
    health: config.health,
    hints: config.wakeHints,
    listenUrl: config.listenUrl ?? store.url,
    alertCaller,
  })
  return { engine, assets, callbacks, close: () => Promise.all([caller.close(), alertCaller.close()]) }
}

/** Start the engine, and listen. The schema must be there. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { engine, assets, callbacks, close } = openEngine(options)
  const end = async () => {
    await engine.stop()
    await close()
  }
  await engine.start()
  try {
    return await serveWith({ ...options, engine, assets, callbacks, end })
  } catch (error) {
    // Its loops would go on without anybody to stop them, and keep the process from ending.
    await end()
    throw error
  }
}

interface Serving
  extends ServiceOptions,
    Pick<ReturnType<typeof openEngine>, 'engine' | 'assets' | 'callbacks'> {
  readonly end: () => Promise<void>
}

async function serveWith({ engine, assets, callbacks, end, ...options }: Serving): Promise<Service> {
  const { config, log, store, keyring } = options
  const { db } = store
  const adminToken = config.adminToken ?? (await keptSecret(config.dataDir, 'admin.token', 'yma_'))
  let draining = false
  const server = buildServer({
    public: {
      sql: db,
      dispatching: engine,
      models: storedModels(db, engine.releases),
      assets,
      links: new LinkSigner(createHmac('sha256', keyring.current.digest).update('links').digest()),
      linkSeconds: LINK_SECONDS,
      publicUrl: config.publicUrl,
      spoolDirectory: join(config.dataDir, 'spool'),
    },
    admin: {
      sql: db,
      token: adminToken,
      dispatching: engine,
      desk: engine.desk,
      outbox: engine.outbox,
      keyring,
      explainTask: (taskId) => explainTask(db, engine.releases, taskId),
    },
    operation: {
      sql: db,
      metrics: openMetrics(db, () => engine.wakeFigures),
      migrated: async () => (await migrationStatus(db)).pending.length === 0,
      draining: () => draining,
    },
    callback: (called) => callbacks.take(db, called),
    version: VERSION,
    log,
    servesApi: options.roles.includes('api'),
  })
  const url = await server.listen({ host: config.host, port: config.port })
  return {
    url,
    adminToken,
    engine,
    stop: async () => {
      draining = true
      await server.close()
      await end()
    },
  }
}
