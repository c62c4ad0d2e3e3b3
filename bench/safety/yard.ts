/**
 * A yard under fault: gateways as real processes on a PostgreSQL of their own, a simulator that misbehaves, customers that
 * repeat what they got no answer to. Processes and the database are killed while it works; at the end everything is audited.
 * A seed determines what is asked for, which faults there are and in which order things are killed; not when.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { checkCatalog } from '../../src/catalog/check.ts'
import { createCustomer, createKey } from '../../src/store/accounts.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { startEmbedded } from '../../src/store/embedded.ts'
import { migrate } from '../../src/store/migrate.ts'
import { parseKeyring } from '../../src/store/secrets.ts'
import { mixCatalog } from './catalog.ts'
import { type Asked, Customers } from './customers.ts'
import { faultRules } from './faults.ts'
import { type Front, startBrokenTls, startFront } from './front.ts'
import { type Gateway, killAt, type Moment } from './killing.ts'
import { Random } from './random.ts'
import { type Killed, type MixReport, reportOf } from './report.ts'

export interface MixOptions {
  /** How many requests customers make: each becomes one task. */
  readonly tasks: number
  readonly seed: number
  /** Gateways killed with -9, in turn at a submission and at a settlement, each confirmed (killing.ts). */
  readonly kills: number
  readonly databaseKills: number
  readonly processes: number
  /** Told what is going on. */
  readonly say?: (line: string) => void
  /** How long everything may take to end once nothing is killed any more, in seconds. */
  readonly patience?: number
  /** A file to which everything that gateways wrote is copied, to look into a finding. */
  readonly log?: string
  /** Whether it is a finding that a fault was never played; a small run is too short for all of them. */
  readonly inFull?: boolean
}

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))
const MASTER_KEY = Buffer.alloc(32, 11).toString('base64')
const PROVIDER_KEY = 'sk-provider-secret-of-the-bench'
const ADMIN_TOKEN = 'yma_bench-admin-token-0123456789'
const CLAIM_SECONDS = 5
/** Requests under way at most, so that work is asked for until the end, and what is killed meets all of it. */
const MOST_OPEN = 150
const MOST_LOOKED_AT = 2000

/** An hour as a minute, a minute as a second. */
const SCALED = {
  SUBMIT_TIMEOUT_SECONDS: '8',
  UNCERTAIN_VIDEO_SECONDS: '25',
  UNCERTAIN_IMAGE_SECONDS: '8',
  LOOKUP_SECONDS: '1',
  CLAIM_SECONDS: String(CLAIM_SECONDS),
  HEALTH_SETTINGS: JSON.stringify({
    cool_down_ms: 1500,
    persistent_cool_down_ms: 3000,
    persistent_cool_down_max_ms: 6000,
    hold_ms: 300,
    hold_max_ms: 3000,
  }),
}

export async function runMix(options: MixOptions): Promise<MixReport> {
  const yard = new Yard(options)
  try {
    return await yard.run()
  } finally {
    await yard.close()
  }
}

class Yard {
  readonly #options: MixOptions
  readonly #random: Random
  readonly #closing: (() => Promise<unknown>)[] = []
  readonly #gateways: Gateway[] = []
  readonly #output: string[] = []
  #dir = ''
  #url = ''
  #cluster = ''
  #simulator = ''
  #front: Front | undefined
  #db: Database | undefined
  readonly #killed: Killed = {
    submission: 0,
    submissionAtProvider: 0,
    settlement: 0,
    database: 0,
    pauses: 0,
  }
  readonly #undone: string[] = []
  #simulatorOutput = ''
  /** When last counted, and what was asked for since. */
  #tasksOpen = 0
  #askedSince = 0
  #asked = 0
  /** Asked for at most, so that work is left for what is still to be done to it. */
  #askable = 0
  #started = 0

  constructor(options: MixOptions) {
    this.#options = options
    this.#random = new Random(options.seed)
  }

  async run(): Promise<MixReport> {
    const began = performance.now()
    const { tasks, processes, seed } = this.#options
    const key = await this.#open()
    for (let n = 0; n < processes; n += 1) await this.#startGateway()
    this.#say(`${processes} gateways are ready`)
    const front = this.#front
    if (!front) throw new Error('there is no front')
    const mostOpen = Math.min(MOST_OPEN, Math.ceil(tasks / 4))
    const customers = new Customers({
      url: front.url,
      key,
      random: new Random(seed + 1),
      requests: tasks,
      mayAsk: () => this.#mayAsk(mostOpen),
    })
    const counting = this.#countOpen(() => customers.done)
    const [asked] = await Promise.all([customers.run(), this.#chaos(() => customers.done), counting])
    this.#say(`everything was asked for: ${JSON.stringify(customers.tally)}`)
    await this.#everythingEnds()
    const seen = await customers.look(videosOf(asked).slice(0, MOST_LOOKED_AT))
    return reportOf(
      { db: this.#database, control: (method, path) => this.#control(method, path) },
      {
        seed,
        asked,
        seen,
        killed: this.#killed,
        undone: this.#undone,
        texts: {
          'a log': this.#output.join(''),
          'the simulator': this.#simulatorOutput,
          'an error': customers.errors.join('\n'),
        },
        secrets: {
          'the provider’s key': PROVIDER_KEY,
          'the master key': MASTER_KEY,
          'the admin token': ADMIN_TOKEN,
          'the customer’s key': key,
        },
        inFull: this.#options.inFull ?? false,
        seconds: (performance.now() - began) / 1000,
      },
    )
  }

  async close(): Promise<void> {
    for (const gateway of this.#gateways) gateway.child.kill('SIGKILL')
    await Promise.all(this.#gateways.map((gateway) => gateway.ended))
    for (const close of this.#closing.reverse())
      await close().catch((error: unknown) => this.#say(String(error)))
  }

  #say(line: string): void {
    this.#options.say?.(line)
  }

  get #database(): Database {
    if (!this.#db) throw new Error('the database is not open')
    return this.#db
  }

  /** Everything but the gateways. Answers the customer's key. */
  async #open(): Promise<string> {
    this.#dir = await mkdtemp(join(tmpdir(), 'yardmaster-safety-'))
    this.#closing.push(() => rm(this.#dir, { recursive: true, force: true }))
    const server = await startEmbedded({
      dataDir: join(this.#dir, 'postgres'),
      log: { info() {}, warn: (line) => this.#say(line), error: (line) => this.#say(line) },
    })
    this.#closing.push(() => server.stop())
    this.#url = server.url
    this.#cluster = server.cluster
    this.#db = await openDatabase({
      url: server.url,
      poolSize: 6,
      applicationName: 'bench',
      // The auditors read everything there is, on a machine that may be busy.
      statementTimeout: 600_000,
      onIdleError: () => undefined,
    })
    this.#closing.push(async () => this.#db?.close())
    await migrate(this.#db)
    await this.#startSimulator()
    const brokenTls = await startBrokenTls()
    this.#closing.push(() => brokenTls.close())
    await this.#applyCatalog(brokenTls.port)
    this.#front = await startFront(() => this.#gateways.map((gateway) => gateway.url))
    this.#closing.push(async () => this.#front?.close())
    await createCustomer(this.#db, { id: 'bench', name: 'Bench', groups: ['default'] })
    return (await createKey(this.#db, { customerId: 'bench', name: 'bench' })).key
  }

  async #startSimulator(): Promise<void> {
    const args = [
      'simulator',
      '--port',
      '0',
      '--json',
      '--seed',
      String(this.#options.seed),
      '--until-stdin-ends',
    ]
    const child = spawn(PROGRAM, args, { stdio: 'pipe' })
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => {
        this.#simulatorOutput += chunk
      })
    const [line] = await once(child.stdout, 'data')
    this.#simulator = JSON.parse(String(line)).url
    this.#closing.push(async () => {
      const gone = once(child, 'exit')
      child.stdin.end()
      await gone
    })
    await this.#control('POST', '/configuration', { defaults: { duration_ms: 250, spread: 0.8 } })
    const rules = faultRules(['north', 'main', 'relay'], (items) => this.#random.shuffled(items))
    await this.#control('POST', '/faults', rules)
  }

  async #applyCatalog(brokenTlsPort: number): Promise<void> {
    const environment = { SIMULATOR_KEY: PROVIDER_KEY }
    const text = mixCatalog({ simulator: this.#simulator, brokenTlsPort })
    const checked = await checkCatalog(text, environment)
    if (!checked.catalog) throw new Error(JSON.stringify(checked.problems, null, 1))
    const keyring = parseKeyring(MASTER_KEY, 'the bench')
    const how = { publish: true, prune: false, dryRun: false, by: 'bench', environment, keyring }
    await applyCatalog(this.#database, checked.catalog, how)
  }

  async #control(method: string, path: string, body?: unknown): Promise<unknown> {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
    const answer = await fetch(`${this.#simulator}/control${path}`, init)
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} /control${path}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }

  async #startGateway(): Promise<void> {
    for (let tries = 0; ; tries += 1) {
      const gateway = await this.#tryToStart()
      if (gateway) return void this.#gateways.push(gateway)
      // A database that is just being killed lets nobody start.
      if (tries >= 20) throw new Error(`no gateway starts: ${this.#output.slice(-20).join('\n')}`)
      await sleep(500)
    }
  }

  async #tryToStart(): Promise<Gateway | null> {
    const name = `gateway-${++this.#started}`
    const child = spawn(PROGRAM, ['serve'], {
      env: {
        ...process.env,
        ...SCALED,
        PORT: '0',
        DATA_DIR: join(this.#dir, 'data'),
        DATABASE_URL: `${this.#url}&application_name=${name}`,
        DATABASE_POOL: '8',
        MASTER_KEY,
        PUBLIC_URL: this.#front?.url,
        ADMIN_TOKEN,
        LOG_LEVEL: 'info',
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const ended = once(child, 'exit')
    let url: string | undefined
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (chunk: Buffer) => {
        const text = String(chunk)
        this.#output.push(text)
        if (this.#options.log) appendFileSync(this.#options.log, text)
        url ??= /is ready on (http:\S+)/.exec(text)?.[1]
      })
    const deadline = performance.now() + 60_000
    while (url === undefined && child.exitCode === null && performance.now() < deadline) await sleep(20)
    if (url !== undefined) return { child, name, url, ended }
    child.kill('SIGKILL')
    await ended
    return null
  }

  /** Kills and pauses, spread over the time in which there is work. */
  async #chaos(isOver: () => boolean): Promise<void> {
    const { kills, databaseKills } = this.#options
    const deeds = this.#random.shuffled([
      ...Array.from({ length: kills }, (_, n) =>
        n % 2 === 0 ? ('submission' as const) : ('settlement' as const),
      ),
      ...Array.from({ length: databaseKills }, () => 'database' as const),
      'pause' as const,
      'snapshot' as const,
    ])
    for (const [n, deed] of deeds.entries()) {
      // What is asked for keeps pace with what ends, and so tells when it is time.
      const share = this.#options.tasks / (deeds.length + 1)
      const due = (n + 1) * share
      this.#askable = Math.ceil(due + share)
      await this.#until(async () => isOver() || this.#asked >= due, 600)
      await this.#do(deed)
    }
    this.#askable = this.#options.tasks
  }

  #mayAsk(mostOpen: number): boolean {
    if (this.#asked >= this.#askable || this.#tasksOpen + this.#askedSince >= mostOpen) return false
    this.#asked += 1
    this.#askedSince += 1
    return true
  }

  async #countOpen(isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      const sql = 'select count(*)::int as n from task where ended_at is null'
      this.#tasksOpen = (await this.#rows<{ n: number }>(sql))[0]?.n ?? 0
      this.#askedSince = 0
      await sleep(100)
    }
  }

  async #do(deed: Moment | 'database' | 'pause' | 'snapshot'): Promise<void> {
    this.#say(deed)
    switch (deed) {
      case 'submission':
      case 'settlement':
        return this.#killAt(deed)
      case 'database':
        return this.#killDatabase()
      case 'pause':
        return this.#pause()
      case 'snapshot':
        return this.#holdSnapshot()
    }
  }

  /** -9 to a gateway that is in the middle of it, and a new one in its place. */
  async #killAt(moment: Moment): Promise<void> {
    const killed = await killAt(moment, this.#gateways, {
      rows: (sql) => this.#rows(sql),
      random: this.#random,
    })
    if (killed === null) return void this.#undone.push(`no gateway could be killed at a ${moment}`)
    const { victim, caught, tries } = killed
    this.#killed[moment] += 1
    if (moment === 'submission' && (await this.#isAtProvider(caught.attempt)))
      this.#killed.submissionAtProvider += 1
    this.#say(
      `${victim.name} was killed at the ${moment} of ${caught.kind} attempt ${caught.attempt} (try ${tries})`,
    )
    this.#gateways.splice(this.#gateways.indexOf(victim), 1)
    await this.#startGateway()
  }

  async #isAtProvider(attempt: string): Promise<boolean> {
    return this.#control('GET', `/ledger/${attempt}`).then(
      () => true,
      () => false,
    )
  }

  async #databaseBegan(): Promise<string> {
    const rows = await this.#rows<{ began: string }>('select pg_postmaster_start_time()::text as began')
    return rows[0]?.began ?? ''
  }

  async #killDatabase(): Promise<void> {
    const pid = Number((await readFile(join(this.#cluster, 'postmaster.pid'), 'utf8')).split('\n')[0])
    const before = await this.#databaseBegan()
    process.kill(pid, 'SIGKILL')
    // The supervisor starts it again; gateways may have ended for want of it.
    const again = await this.#until(async () => (await this.#databaseBegan()) !== before, 120)
    if (again) this.#killed.database += 1
    else this.#undone.push('PostgreSQL was to be killed, and did not start again')
    for (const gateway of [...this.#gateways]) {
      if (gateway.child.exitCode === null && gateway.child.signalCode === null) continue
      this.#gateways.splice(this.#gateways.indexOf(gateway), 1)
      await this.#startGateway()
    }
  }

  /** Longer than its claims are good: others take over, and what it then brings is refused by the fence. */
  async #pause(): Promise<void> {
    const gateway = this.#random.pick(this.#gateways)
    gateway.child.kill('SIGSTOP')
    this.#killed.pauses += 1
    await sleep((CLAIM_SECONDS + 3) * 1000)
    gateway.child.kill('SIGCONT')
  }

  async #holdSnapshot(): Promise<void> {
    const client = new pg.Client({ connectionString: this.#url })
    client.on('error', () => undefined)
    await client.connect().catch(() => undefined)
    const held = client
      .query('begin isolation level repeatable read; select count(*) from attempt')
      .then(() => sleep(10_000))
      .catch(() => undefined)
    void held.then(() => client.end().catch(() => undefined))
  }

  async #everythingEnds(): Promise<void> {
    const alive = `select (select count(*)::int from task where ended_at is null) as tasks,
      (select count(*)::int from attempt where ended_at is null) as attempts,
      (select count(*)::int from capacity_lease where released_at is null) as leases`
    let last = ''
    const ended = await this.#until(
      async () => {
        const [row] = await this.#rows<{ tasks: number; attempts: number; leases: number }>(alive)
        const now = JSON.stringify(row)
        if (now !== last) this.#say(`still alive: ${now}`)
        last = now
        return row?.tasks === 0 && row.attempts === 0 && row.leases === 0
      },
      this.#options.patience ?? 300,
      1000,
    )
    if (!ended) this.#say(`not everything ended: ${last}`)
  }

  /** Rows, though the database may be gone for a while. */
  async #rows<Row extends Record<string, unknown>>(sql: string): Promise<Row[]> {
    for (let tries = 0; ; tries += 1) {
      try {
        return (await this.#database.query<Row>(sql)).rows
      } catch (error) {
        if (tries >= 100) throw error
        await sleep(300)
      }
    }
  }

  async #until<T>(
    found: () => Promise<T | undefined | false | null>,
    seconds: number,
    pauseMs = 25,
  ): Promise<T | undefined> {
    const end = performance.now() + seconds * 1000
    while (performance.now() < end) {
      const value = await found()
      if (value) return value
      await sleep(pauseMs)
    }
    return undefined
  }
}

function videosOf(asked: readonly Asked[]): string[] {
  return asked.flatMap(({ kind, taskIds }) => (kind === 'video' ? taskIds : []))
}
