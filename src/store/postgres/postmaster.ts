/** One run of PostgreSQL on a cluster: found running or started, known to be ours, and ended. */
import { spawn } from 'node:child_process'
import { open, readdir, readFile, realpath, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { sqlState } from '../database-errors.ts'
import { type ClusterOptions, environment, ROLE, systemIdentifier } from './cluster.ts'
import { makeSocketDir, PORT, removeSocketDir, socketPath } from './home.ts'
import { holdsWithin, isRunning, markProcess, type ProcessMark, processesIn } from './processes.ts'

export interface Postmaster {
  readonly mark: ProcessMark
  readonly socketDir: string
  readonly adopted: boolean
  /** "18.4". */
  readonly version: string
  /** How it ended, in words. */
  readonly ended: Promise<string>
}

/** A cluster, with the password of its role. */
export interface Server extends ClusterOptions {
  readonly password: string
}

/** Crash recovery after much writing takes its time. */
const READY_WITHIN = 120_000
const GONE_WITHIN = 15_000
const FAST_STOP_WITHIN = 30_000
const WATCH_EVERY = 500

/**
 * The PostgreSQL that already runs on the cluster, left behind by a process that was killed; null where there is none,
 * after clearing what a dead one left. Throws when something runs there that is not ours to use.
 */
export async function adoptPostmaster(server: Server): Promise<Postmaster | null> {
  const { cluster } = server.home
  const left = await readPidFile(cluster)
  const answer = left ? await askWhileStarting(server) : null
  const running = await processesIn(cluster)
  if (left && answer) {
    if (!running.includes(left.pid)) {
      throw new Error(
        `another machine or container runs PostgreSQL on ${cluster}; stop it there, or share it by a DATABASE_URL`,
      )
    }
    const mark = await markProcess(left.pid)
    if (mark) return { ...answer, mark, socketDir: left.socketDir, adopted: true, ended: whenGone(mark) }
  }
  // Nothing answers. A postmaster that still runs has lost its socket, so it is ended.
  if (left && running.includes(left.pid)) process.kill(left.pid, 'SIGINT')
  await clearTheWay(cluster)
  if (left) await removeSocketDir(server.home, left.socketDir)
  return null
}

/** Starts PostgreSQL and waits until it answers. `socketDir` is kept over restarts, so that the URL stays good. */
export async function startPostmaster(server: Server, socketDir?: string): Promise<Postmaster> {
  const dir = socketDir ?? (await makeSocketDir(server.home, server.account))
  // The lock of a socket names a process just as postmaster.pid does.
  for (const left of [socketPath(dir), `${socketPath(dir)}.lock`]) await rm(left, { force: true })
  const { child, ended } = await launch(server, dir)
  try {
    const version = await whenReady(server, { socketDir: dir, ended })
    const mark = await markProcess(child.pid ?? 0)
    if (mark === null) throw await startFailure(server, 'ended at once')
    return { mark, socketDir: dir, adopted: false, version, ended }
  } catch (error) {
    child.kill('SIGQUIT')
    throw error
  }
}

async function whenReady(
  server: Server,
  run: { socketDir: string; ended: Promise<string> },
): Promise<string> {
  let early: string | undefined
  let version: string | undefined
  void run.ended.then((how) => {
    early = how
  })
  await holdsWithin(READY_WITHIN, async () => {
    if (early === undefined) version = (await identify(server, run.socketDir))?.version
    return version !== undefined || early !== undefined
  })
  if (version === undefined) throw await startFailure(server, early)
  return version
}

/** Fast shutdown: sessions are ended, data is written. By force only when that takes too long. */
export async function stopPostmaster(postmaster: Postmaster): Promise<void> {
  for (const [signal, time] of [
    ['SIGINT', FAST_STOP_WITHIN],
    ['SIGQUIT', GONE_WITHIN],
  ] as const) {
    if (!(await isRunning(postmaster.mark))) return
    process.kill(postmaster.mark.pid, signal)
    if (await holdsWithin(time, async () => !(await isRunning(postmaster.mark)))) return
  }
  throw new Error(`PostgreSQL (process ${postmaster.mark.pid}) does not stop`)
}

/**
 * Clears the way for a start: waits for the children of a dead postmaster, which end by themselves, and then removes its
 * lock file. PostgreSQL itself would refuse to start if a stranger, or a zombie, had the old process ID.
 */
export async function clearTheWay(cluster: string): Promise<void> {
  if (!(await holdsWithin(GONE_WITHIN, async () => (await processesIn(cluster)).length === 0))) {
    const pids = (await processesIn(cluster)).join(', ')
    throw new Error(
      `processes of an earlier PostgreSQL still work in ${cluster} (${pids}); end them, then start again`,
    )
  }
  await rm(join(cluster, 'postmaster.pid'), { force: true })
}

/** What postmaster.pid says. */
interface Left {
  readonly pid: number
  readonly socketDir: string
  readonly ready: boolean
}

interface Identity {
  readonly version: string
}

async function readPidFile(cluster: string): Promise<Left | null> {
  const text = await readFile(join(cluster, 'postmaster.pid'), 'utf8').catch(() => null)
  const lines = text?.split('\n')
  const pid = Number(lines?.[0])
  return Number.isInteger(pid) && pid > 0
    ? { pid, socketDir: lines?.[4] ?? '', ready: lines?.[7]?.trim() === 'ready' }
    : null
}

/**
 * Our own server may be starting, recovering or ending just now: wait for it, as long as its process is there and it can
 * still be reached.
 */
async function askWhileStarting(server: Server): Promise<Identity | null> {
  let answer: Identity | null = null
  await holdsWithin(READY_WITHIN, async () => {
    const now = await readPidFile(server.home.cluster)
    if (now === null) return true
    answer = now.socketDir ? await identify(server, now.socketDir) : null
    const alive = (await processesIn(server.home.cluster)).includes(now.pid)
    return answer !== null || !alive || (now.ready && (await isMissing(socketPath(now.socketDir))))
  })
  return answer
}

/**
 * Whether what answers at that socket is the server of this very cluster; null when nothing does, or not yet. Throws when
 * it does not know our password.
 */
async function identify(server: Server, socketDir: string): Promise<Identity | null> {
  const client = new pg.Client(connection(server, socketDir, 'postgres'))
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ directory: string; system: string; version: string }>(
      `select current_setting('data_directory') as directory, current_setting('server_version') as version,
        system_identifier::text as system from pg_control_system()`,
    )
    const [row] = rows
    if (!row) return null
    const same =
      (await realpath(row.directory)) === server.home.cluster &&
      row.system === (await systemIdentifier(server.home.cluster))
    return same ? { version: row.version } : null
  } catch (error) {
    if (sqlState(error) !== '28P01') return null
    const { cluster, password } = server.home
    throw new Error(
      `the password in ${password} is not that of the cluster in ${cluster}: put the right file back`,
    )
  } finally {
    await client.end().catch(() => {})
  }
}

export function connection(server: Server, socketDir: string, database: string) {
  const { password } = server
  return {
    host: socketDir,
    port: PORT,
    user: ROLE,
    password,
    database,
    connectionTimeoutMillis: 5000,
    ssl: false,
  }
}

function whenGone(mark: ProcessMark): Promise<string> {
  return new Promise((resolve) => {
    const timer = setInterval(async () => {
      if (await isRunning(mark)) return
      clearInterval(timer)
      resolve('ended')
    }, WATCH_EVERY)
    timer.unref()
  })
}

async function launch(server: Server, socketDir: string) {
  const { home, account, binaries, durable } = server
  const log = await open(home.startLog, 'w', 0o600)
  try {
    // A group of its own: Ctrl-C in a terminal must reach us first.
    const child = spawn(binaries.postgres, ['-D', home.cluster, ...settings(socketDir, durable)], {
      ...account,
      cwd: '/',
      env: environment(binaries),
      detached: true,
      stdio: ['ignore', log.fd, log.fd],
    })
    child.unref()
    const ended = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(`could not be run: ${error.message}`))
      child.once('exit', (code, signal) =>
        resolve(signal ? `was ended by ${signal}` : `ended with status ${code}`),
      )
    })
    return { child, ended }
  } finally {
    await log.close()
  }
}

function settings(socketDir: string, durable: boolean): string[] {
  const ours = {
    unix_socket_directories: `"${socketDir.replaceAll('"', '""')}"`,
    unix_socket_permissions: '0700',
    listen_addresses: '',
    port: PORT,
    ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }),
  }
  return Object.entries(ours).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

async function startFailure(server: Server, early: string | undefined): Promise<Error> {
  const { startLog, cluster } = server.home
  const logs = join(cluster, 'log')
  const said = (await lastLines(startLog)) || (await lastLines(await newestIn(logs)))
  return new Error(
    `PostgreSQL ${early ?? `did not answer within ${READY_WITHIN / 1000} s`}; it said: ${said || '(nothing)'} (its log is in ${logs})`,
  )
}

/** Without the words that only say where the rest is. */
async function lastLines(path: string): Promise<string> {
  const lines = (await readFile(path, 'utf8').catch(() => '')).trim().split('\n')
  return lines
    .filter((line) => !/redirecting log output|Future log output/.test(line))
    .slice(-5)
    .join('\n')
}

async function newestIn(dir: string): Promise<string> {
  const paths = (await readdir(dir).catch(() => [])).map((name) => join(dir, name))
  const dated = await Promise.all(paths.map(async (path) => ({ path, at: (await stat(path)).mtimeMs })))
  return dated.sort((one, other) => other.at - one.at)[0]?.path ?? ''
}

async function isMissing(path: string): Promise<boolean> {
  return stat(path).then(
    () => false,
    () => true,
  )
}
