/**
 * Where an embedded cluster lives. All of it is under the data directory, with two exceptions: a cluster that PostgreSQL's
 * account could not reach there (root's own folder), and a socket whose path would be too long for the kernel.
 *
 *   <dataDir>/postgres/            or, for root, a link to /var/lib/yardmaster/<random>, else to /var/tmp/yardmaster/<random>
 *     cluster/                     PostgreSQL's own files, of its account, 0700
 *     password                     of our account, 0600
 *     libraries/                   links to versioned library names, where npm did not make them
 *     run/                         the socket; /tmp/yardmaster-<random> where that path is too long
 *     start.log                    what PostgreSQL says before its own log is open
 */
import { randomBytes } from 'node:crypto'
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, realpath, rm, rmdir, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { type Account, canRead } from './account.ts'
import { sharedPlace } from './binaries.ts'

export interface Home {
  readonly root: string
  readonly cluster: string
  readonly password: string
  readonly libraries: string
  readonly run: string
  readonly startLog: string
}

/** The port is a part of the socket's name, and of nothing else: no TCP port is open. */
export const PORT = 5432
// sun_path holds 108 bytes with its final zero, and PostgreSQL adds ".lock" to the name elsewhere.
const LONGEST_SOCKET = 100

export async function makeDataDir(dataDir: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: process.getuid?.() === 0 ? 0o711 : 0o700 })
}

/** Finds the cluster's home in the data directory, or makes one. Whoever calls holds the directory. */
export async function findHome(dataDir: string, chooseAccount: (cluster: string) => Promise<Account>) {
  const place = join(await realpath(dataDir), 'postgres')
  const account = await chooseAccount(join(place, 'cluster'))
  // PostgreSQL's account may pass through a fresh one to what is its own; it can list and read nothing.
  if (account && (await readdir(dataDir)).length === 0) await chmod(dataDir, 0o711)
  const root = (await realpath(place).catch(() => null)) ?? (await makeHome(place, account))
  return { home: layout(root), account }
}

function layout(root: string): Home {
  return {
    root,
    cluster: join(root, 'cluster'),
    password: join(root, 'password'),
    libraries: join(root, 'libraries'),
    run: join(root, 'run'),
    startLog: join(root, 'start.log'),
  }
}

async function makeHome(place: string, account: Account): Promise<string> {
  // A link whose target is gone: the cluster was deleted by hand.
  await rm(place, { force: true })
  await mkdir(place, { mode: account ? 0o711 : 0o700 })
  if (account === null || (await canReach(account, place))) return place
  const elsewhere = join(await sharedPlace(), randomBytes(8).toString('hex'))
  await mkdir(elsewhere, { mode: 0o711 })
  await rmdir(place)
  await symlink(elsewhere, place)
  return elsewhere
}

/** The home itself is closed to reading, so ask for a folder inside it that is the account's own. */
async function canReach(account: Account, place: string): Promise<boolean> {
  const probe = join(place, 'probe')
  await mkOwned(probe, account)
  const reached = await canRead(account, probe)
  await rmdir(probe)
  return reached
}

/** A folder that the account alone may use. */
export async function mkOwned(path: string, account: Account): Promise<void> {
  await mkdir(path, { mode: 0o700 })
  if (account) await chown(path, account.uid, account.gid)
}

/** A private folder for the socket, with a path that fits. */
export async function makeSocketDir(home: Home, account: Account): Promise<string> {
  if (Buffer.byteLength(socketPath(home.run)) <= LONGEST_SOCKET) {
    await rm(home.run, { recursive: true, force: true })
    await mkOwned(home.run, account)
    return home.run
  }
  const path = await mkdtemp('/tmp/yardmaster-')
  if (account) await chown(path, account.uid, account.gid)
  return path
}

/** Removes a socket's folder, if it is one of those that `makeSocketDir` makes. */
export async function removeSocketDir(home: Home, path: string): Promise<void> {
  const found = await lstat(path).catch(() => null)
  const made = path === home.run || /^\/tmp\/yardmaster-[A-Za-z0-9]{6}$/.test(path)
  if (made && found?.isDirectory()) await rm(path, { recursive: true, force: true })
}

export function socketPath(dir: string): string {
  return join(dir, `.s.PGSQL.${PORT}`)
}
