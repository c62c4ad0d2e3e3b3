/** The files of a cluster: made once by initdb, and told apart from every other by the number that it gave them. */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Account } from './account.ts'
import type { Binaries } from './binaries.ts'
import { type Home, mkOwned } from './home.ts'

const execute = promisify(execFile)

/** The one role, which owns the database too. */
export const ROLE = 'yardmaster'

/** Written to postgresql.conf once, where an operator may change them. */
const SETTINGS = {
  shared_buffers: '128MB',
  max_connections: '200',
  max_wal_size: '1GB',
  wal_compression: 'pglz',
  track_commit_timestamp: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  datestyle: 'ISO',
  // A week of logs, one file for each weekday.
  logging_collector: 'on',
  log_directory: 'log',
  log_filename: 'postgresql-%a.log',
  log_rotation_age: '1d',
  log_rotation_size: '0',
  log_truncate_on_rotation: 'on',
  // The detail of an error shows the row, and with it a customer's prompt.
  log_error_verbosity: 'terse',
  log_min_messages: 'warning',
}

export interface ClusterOptions {
  readonly home: Home
  readonly account: Account
  readonly binaries: Binaries
  /** false: nothing is flushed to disk. For tests. */
  readonly durable: boolean
}

/** What PostgreSQL and initdb are started with; nothing of our own environment, which holds secrets. */
export function environment(binaries: Binaries): Record<string, string> {
  return { LC_ALL: 'C', PATH: '/usr/local/bin:/usr/bin:/bin', LD_LIBRARY_PATH: binaries.libraries }
}

/** Makes the cluster where there is none, whole or not at all. Answers the password of its role. */
export async function ensureCluster(options: ClusterOptions): Promise<string> {
  const { home, binaries } = options
  const found = await readFile(join(home.cluster, 'PG_VERSION'), 'utf8').catch(() => null)
  if (found === null) return createCluster(options)
  const major = binaries.version.split('.')[0]
  if (found.trim() !== major) {
    throw new Error(
      `the cluster in ${home.cluster} was made by PostgreSQL ${found.trim()}, and this program brings ${major}: it does not convert one into the other`,
    )
  }
  return readPassword(home)
}

async function readPassword(home: Home): Promise<string> {
  try {
    return await readFile(home.password, 'utf8')
  } catch (error) {
    throw new Error(
      `the password of the cluster in ${home.cluster} cannot be read from ${home.password}: put that file back`,
      { cause: error },
    )
  }
}

async function createCluster(options: ClusterOptions): Promise<string> {
  const { home, account } = options
  const part = join(home.root, 'cluster.part')
  const passwordFile = join(home.root, 'password.initdb')
  const password = randomBytes(24).toString('hex')
  await rm(part, { recursive: true, force: true })
  await mkOwned(part, account)
  await writeSecret(home.password, password, null)
  await writeSecret(passwordFile, password, account)
  await initialize(options, { part, passwordFile })
  await rm(passwordFile)
  await rename(part, home.cluster)
  return password
}

async function initialize(
  options: ClusterOptions,
  at: { part: string; passwordFile: string },
): Promise<void> {
  const { account, binaries, durable } = options
  const settings = Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const args = [
    '-D',
    at.part,
    '-U',
    ROLE,
    `--pwfile=${at.passwordFile}`,
    '--auth=scram-sha-256',
    '-E',
    'UTF8',
  ]
  const locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  try {
    await execute(binaries.initdb, [...args, ...locale, ...(durable ? [] : ['--no-sync']), ...settings], {
      ...account,
      cwd: '/',
      env: environment(binaries),
    })
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : String(error)
    const hint = said.includes('could not look up effective user')
      ? '; it needs an account that /etc/passwd knows: start under another one, or set DATABASE_URL'
      : ''
    throw new Error(`PostgreSQL could not make its files in ${at.part}: ${said}${hint}`, { cause: error })
  }
}

async function writeSecret(path: string, secret: string, account: Account): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, secret, { mode: 0o600, flag: 'wx', flush: true })
  if (account) await chown(path, account.uid, account.gid)
}

/** The number by which PostgreSQL tells clusters apart, from its control file: the first eight bytes. */
export async function systemIdentifier(cluster: string): Promise<string> {
  const file = await open(join(cluster, 'global/pg_control'))
  try {
    const { buffer } = await file.read(Buffer.alloc(8), 0, 8, 0)
    // Both architectures that we bring programs for are little-endian.
    return buffer.readBigUInt64LE().toString()
  } finally {
    await file.close()
  }
}
