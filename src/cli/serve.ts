/** `yardmaster serve`: the gateway. With `--demo` also the simulator, the demo catalog, a customer and a key. */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { applyCatalog } from '../catalog/apply.ts'
import { checkCatalog } from '../catalog/check.ts'
import { type Config, parseRoles, ROLES, SETTINGS } from '../config.ts'
import { type Log, openLog } from '../journal.ts'
import { keptSecret, type OpenDatabase, openKeyring, openStore, startService, VERSION } from '../main.ts'
import type { Role } from '../runtime/engine.ts'
import type { Database } from '../store/database.ts'
import { migrate } from '../store/migrate.ts'
import type { Keyring } from '../store/secrets.ts'
import type { CliContext } from './context.ts'

const DEMO_CUSTOMER = 'demo'
const SIMULATOR_KEY = 'simulator-accepts-any-key'

export function register(program: Command, context: CliContext, readSettings: () => Config): void {
  program
    .command('serve')
    .description('run the gateway: API, dispatcher, poller and reconciler')
    .option('--roles <roles>', `work that this process takes on: ${ROLES.join(', ')}`, ROLES.join(','))
    .option('--demo', 'start the simulator, and publish the demo catalog where there is none')
    .addHelpText('after', helpText())
    .action(async (options: { roles: string; demo?: boolean }) => {
      const config = readSettings()
      await serve(config, {
        roles: parseRoles(options.roles),
        demo: options.demo ?? false,
        environment: context.env,
      })
    })
}

function helpText(): string {
  const width = Math.max(...SETTINGS.map(({ name }) => name.length))
  const settings = SETTINGS.map(({ name, about }) => `  ${name.padEnd(width)}  ${about}`).join('\n')
  return `
Examples:
  yardmaster serve --demo
  PORT=9000 DATA_DIR=/var/lib/yardmaster yardmaster serve
  DATABASE_URL=postgres://… yardmaster serve --roles api

Settings, from the environment:
${settings}
`
}

interface ServeOptions {
  readonly roles: readonly Role[]
  readonly demo: boolean
  readonly environment: Readonly<Record<string, string | undefined>>
}

async function serve(config: Config, options: ServeOptions): Promise<void> {
  const log = openLog(config.logLevel)
  const stopping = stopSignal()
  const undo: (() => Promise<void>)[] = []
  try {
    const store = await openStore(config, log, 'yardmaster-serve')
    undo.push(() => store.close())
    await migrate(store.db)
    const keyring = await openKeyring(config)
    const demo = options.demo ? await startDemo({ config, log, store, keyring }, options, undo) : null
    const service = await startService({ config, roles: options.roles, log, store, keyring })
    undo.push(() => service.stop())
    tell({ config, store, service, demo, roles: options.roles })
    await stopping
    process.stdout.write('\nStopping: finishing what is being submitted …\n')
  } finally {
    for (const step of undo.reverse()) await step().catch((error: unknown) => log.fault('stop', error))
  }
  process.stdout.write('Stopped.\n')
}

/** Ctrl-C and SIGTERM; a second one does not wait. */
function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false
    const stop = () => {
      if (asked) process.exit(130)
      asked = true
      resolve()
    }
    process.on('SIGINT', stop).on('SIGTERM', stop)
  })
}

interface Ground {
  readonly config: Config
  readonly log: Log
  readonly store: OpenDatabase
  readonly keyring: Keyring
}

interface Demo {
  readonly simulatorUrl: string
  readonly apiKey: string
}

async function startDemo(
  ground: Ground,
  options: ServeOptions,
  undo: (() => Promise<void>)[],
): Promise<Demo> {
  const simulator = await startSimulatorProcess(ground.config)
  undo.push(simulator.stop)
  const environment = {
    ...options.environment,
    SIMULATOR_PORT: String(ground.config.simulatorPort),
    SIMULATOR_KEY: options.environment.SIMULATOR_KEY ?? SIMULATOR_KEY,
  }
  await publishDemoCatalog(ground, environment)
  return { simulatorUrl: simulator.url, apiKey: await demoKey(ground) }
}

/**
 * The simulator is a program of its own. It ends when our end of its standard input is gone, however we die, so that
 * it never blocks the next start.
 */
async function startSimulatorProcess(config: Config): Promise<{ url: string; stop: () => Promise<void> }> {
  const url = `http://127.0.0.1:${config.simulatorPort}`
  const program = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))
  const args = ['simulator', '--port', String(config.simulatorPort), '--json', '--until-stdin-ends']
  for (let tries = 0; ; tries += 1) {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    const started = await ready(child)
    if (started.ok) {
      const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
      child.unref()
      return {
        url,
        stop: async () => {
          child.stdin.end()
          await ended
        },
      }
    }
    if (await answersAsSimulator(url)) return { url, stop: async () => {} }
    if (tries >= 20)
      throw new Error(
        `the simulator cannot start on ${url} (${started.why}); set SIMULATOR_PORT to a free port, or serve without --demo`,
      )
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

function ready(child: ReturnType<typeof spawn>): Promise<{ ok: true } | { ok: false; why: string }> {
  return new Promise((resolve) => {
    let complaint = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      complaint += chunk.toString()
    })
    child.stdout?.once('data', () => resolve({ ok: true }))
    child.once('error', (error) => resolve({ ok: false, why: error.message }))
    child.once('exit', (code) =>
      resolve({ ok: false, why: complaint.trim() || `it ended with status ${code}` }),
    )
  })
}

/** Another process of this installation may run the simulator already. */
async function answersAsSimulator(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/control/`, { signal: AbortSignal.timeout(1000) })
    return response.ok && Array.isArray(((await response.json()) as { actions?: unknown }).actions)
  } catch {
    return false
  }
}

/** Only into an installation without models: an operator's own changes are never overwritten. */
async function publishDemoCatalog(
  ground: Ground,
  environment: Record<string, string | undefined>,
): Promise<void> {
  const { db } = ground.store
  const { rows } = await db.query<{ n: number }>({
    name: 'count-models',
    text: 'select count(*)::int as n from model',
  })
  if ((rows[0]?.n ?? 0) > 0) return
  const file = fileURLToPath(new URL('../../demo/catalog.yaml', import.meta.url))
  const checked = await checkCatalog(await readFile(file, 'utf8'), environment)
  if (!checked.catalog)
    throw new Error(`the demo catalog does not pass its own check: ${JSON.stringify(checked.problems[0])}`)
  const how = { publish: true, prune: false, dryRun: false, by: 'demo', environment, keyring: ground.keyring }
  await applyCatalog(db, checked.catalog, how)
}

/** The demo customer's key: kept in the data directory, since the database knows its digest only. */
async function demoKey(ground: Ground): Promise<string> {
  const key = await keptSecret(ground.config.dataDir, 'demo.key', 'ym_')
  await saveDemoKey(ground.store.db, key)
  return key
}

const CUSTOMER = {
  name: 'demo-customer',
  text: `insert into customer (id, name) values ($1, 'Demo customer') on conflict (id) do nothing`,
}
const KEY = {
  name: 'demo-key',
  text: `insert into api_key (customer_id, name, prefix, digest) values ($1, 'demo', $2, $3) on conflict (digest) do nothing`,
}

async function saveDemoKey(db: Database, key: string): Promise<void> {
  await db.query(CUSTOMER, [DEMO_CUSTOMER])
  await db.query(KEY, [DEMO_CUSTOMER, key.slice(0, 9), createHash('sha256').update(key).digest()])
}

interface Told {
  readonly config: Config
  readonly store: OpenDatabase
  readonly service: { readonly url: string; readonly adminToken: string }
  readonly demo: Demo | null
  readonly roles: readonly Role[]
}

function tell(told: Told): void {
  const { config, store, service, demo, roles } = told
  const url = service.url.replace('0.0.0.0', '127.0.0.1').replace('[::]', '[::1]')
  const lines = [
    `Yardmaster ${VERSION} is ready on ${url}`,
    '',
    `  Roles         ${roles.join(', ')}`,
    `  Database      ${store.where}`,
    `  Data          ${config.dataDir}`,
    `  API           ${url}/openapi.json`,
    `  Admin API     ${url}/admin/api/  with the token ${tokenIn(told)}`,
    ...(demo ? [`  Simulator     ${demo.simulatorUrl}/control/`, `  Demo API key  ${demo.apiKey}`] : []),
    '',
    ...(demo
      ? firstRequest(url, demo.apiKey)
      : ['Apply a catalog with: yardmaster catalog apply FILE --publish']),
    '',
    'Stop with Ctrl-C.',
    '',
  ]
  process.stdout.write(lines.join('\n'))
}

/** Where it is, save for the demo's: what a service prints ends in somebody's log. */
function tokenIn({ config, service, demo }: Told): string {
  if (config.adminToken !== null) return 'of ADMIN_TOKEN'
  return demo ? service.adminToken : `in ${join(config.dataDir, 'admin.token')}`
}

function firstRequest(url: string, key: string): string[] {
  const body = JSON.stringify({
    model: 'seedance-2.0-933',
    prompt: 'A freight train crosses a yard at night',
    seconds: '5',
  })
  return [
    'Try it:',
    '',
    `  curl -s ${url}/v1/videos -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '${body}'`,
  ]
}
