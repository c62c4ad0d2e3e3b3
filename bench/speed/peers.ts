/**
 * What we are compared with, in a package of its own (bench/peers), so that it never weighs on the product's install.
 * Nothing here needs it to be there before `installPeers`: types are narrow ones of our own.
 */
import { execFile } from 'node:child_process'
import { access, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

export const PEERS = fileURLToPath(new URL('../peers/', import.meta.url))

/** `npm ci`, where what is installed is not what the lock file says. */
export async function installPeers(say: (line: string) => void): Promise<void> {
  if (await installed()) return
  say('installing what we are compared with (bench/peers) …')
  await promisify(execFile)('npm', ['ci', '--no-audit', '--no-fund'], { cwd: PEERS, timeout: 600_000 })
}

async function installed(): Promise<boolean> {
  const { dependencies }: { dependencies: Record<string, string> } = JSON.parse(
    await readFile(join(PEERS, 'package.json'), 'utf8'),
  )
  for (const [name, version] of Object.entries(dependencies)) {
    const found = await readFile(join(PEERS, 'node_modules', name, 'package.json'), 'utf8').catch(() => '{}')
    if (JSON.parse(found).version !== version) return false
  }
  return access(join(PEERS, 'node_modules')).then(
    () => true,
    () => false,
  )
}

/** A peer's module, by its name. */
export async function peer<Module>(name: string): Promise<Module> {
  const require = createRequire(join(PEERS, 'package.json'))
  return import(pathToFileURL(require.resolve(name)).href)
}

export async function versionOf(name: string): Promise<string> {
  return JSON.parse(await readFile(join(PEERS, 'node_modules', name, 'package.json'), 'utf8')).version
}
