/**
 * A yard under fault: gateways as real processes on a PostgreSQL of their own, a simulator that misbehaves, customers that
 * repeat what they got no answer to. Processes and the database are killed while it works; at the end everything is audited.
 * A seed determines what is asked for, which faults there are and in which order things are killed; not when.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { checkCatalog } from '../../src/catalog/check.ts'
import { replay } from '../../src/runtime/replay.ts'
import { createCustomer, createKey } from '../../src/store/accounts.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { startEmbedded } from '../../src/store/embedded.ts'
import { migrate } from '../../src/store/migrate.ts'
import { Releases } from '../../src/store/releases.ts'
import { parseKeyring } from '../../src/store/secrets.ts'
import { auditTheEnd } from '../../test/system/audit.ts'
import { mixCatalog } from './catalog.ts'
import { Customers } from './customers.ts'
import { faultRules } from './faults.ts'
import { type Front, startBrokenTls, startFront } from './front.ts'
import { Random } from './random.ts'

export interface MixOptions {
  readonly tasks: number
  readonly seed: number
  /** Gateways killed with -9, in turn at a submission and at a settlement. */
  readonly kills: number
  readonly databaseKills: number
  readonly processes: number
  /** Told what is going on. */
  readonly say?: (line: string) => void
  /** How long everything may take to end once nothing is killed any more, in seconds. */
  readonly patience?: number
}

export interface MixReport {
  readonly seed: number
  readonly tasks: number
  readonly findings: readonly string[]
  readonly duplicateJobs: number
  readonly lostTasks: number
  readonly leakedLeases: number
  readonly overAdmissions: number
  readonly replayDifferences: number
  readonly rounds: number
  readonly leakedSecrets: readonly string[]
  /** How tasks ended: `succeeded`, or the error code, with how many. */
  readonly ends: readonly { readonly kind: string; readonly end: string; readonly count: number }[]
  readonly succeededShare: number
  /** Of attempts that ran out of time: what was played on them, and how often they were looked at. */
  readonly overdue: readonly string[]
  readonly attempts: number
  readonly uncertain: number
  readonly resolvedBy: Readonly<Record<string, number>>
  readonly killsAtSubmission: number
  readonly killsAtSettlement: number
  readonly databaseKills: number
  readonly pauses: number
  readonly faultsPlayed: Readonly<Record<string, number>>
  readonly seconds: number
}

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))
const MASTER_KEY = Buffer.alloc(32, 11).toString('base64')
const PROVIDER_KEY = 'sk-provider-secret-of-the-bench'
const CLAIM_SECONDS = 5

/** An hour as a minute, a minute as a second. */
const SCALED = {
  SUBMIT_TIMEOUT_SECONDS: '3',
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

interface Gateway {
  readonly child: ChildProcess
  readonly url: string
  readonly ended: Promise<unknown>
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
  #killed = { submission: 0, settlement: 0, database: 0, pauses: 0 }

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
    const customers = new Customers({ url: front.url, key, random: new Random(seed + 1), tasks })
    const asking = customers.run()
    const chaos = this.#chaos(() => customers.done)
    const [outcome] = await Promise.all([asking, chaos])
    this.#say(`everything was asked for: ${JSON.stringify(outcome.answers)}`)
    await this.#everythingEnds()
    return this.#report(outcome.taskIds, (performance.now() - began) / 1000)
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
    const child = spawn(PROGRAM, args, { stdio: ['pipe', 'pipe', 'inherit'] })
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
    const child = spawn(PROGRAM, ['serve'], {
      env: {
        ...process.env,
        ...SCALED,
        PORT: '0',
        DATA_DIR: join(this.#dir, 'data'),
        DATABASE_URL: this.#url,
        DATABASE_POOL: '8',
        MASTER_KEY,
        PUBLIC_URL: this.#front?.url,
        ADMIN_TOKEN: 'yma_bench-admin-token-0123456789',
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
        url ??= /is ready on (http:\S+)/.exec(text)?.[1]
      })
    const deadline = performance.now() + 60_000
    while (url === undefined && child.exitCode === null && performance.now() < deadline) await sleep(20)
    if (url !== undefined) return { child, url, ended }
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
      // The work that is done tells when it is time; with everything asked for, there is no more time to lose.
      const due = ((n + 1) / (deeds.length + 1)) * this.#options.tasks
      await this.#until(async () => isOver() || (await this.#admitted()) >= due, 600)
      await this.#do(deed)
    }
  }

  async #admitted(): Promise<number> {
    return (await this.#rows<{ n: number }>('select count(*)::int as n from task'))[0]?.n ?? 0
  }

  async #do(deed: 'submission' | 'settlement' | 'database' | 'pause' | 'snapshot'): Promise<void> {
    this.#say(deed)
    switch (deed) {
      case 'submission':
        return this.#killAt(
          deed,
          `select p.pid from attempt a join process p on p.id = a.owner where a.state = 'submitting' and p.stopped_at is null`,
        )
      case 'settlement':
        return this.#killAt(
          deed,
          `select p.pid from attempt a join process p on p.id = a.poll_owner where a.state = 'accepted' and p.stopped_at is null`,
        )
      case 'database':
        return this.#killDatabase()
      case 'pause':
        return this.#pause()
      case 'snapshot':
        return this.#holdSnapshot()
    }
  }

  /** -9 to a gateway that is in the middle of it, and a new one in its place. */
  async #killAt(moment: 'submission' | 'settlement', sql: string): Promise<void> {
    const victim = await this.#until(async () => {
      const busy = new Set((await this.#rows<{ pid: number }>(sql)).map((row) => row.pid))
      return this.#gateways.find((gateway) => busy.has(gateway.child.pid ?? -1))
    }, 30)
    const gateway = victim ?? this.#random.pick(this.#gateways)
    gateway.child.kill('SIGKILL')
    await gateway.ended
    if (victim) this.#killed[moment] += 1
    this.#gateways.splice(this.#gateways.indexOf(gateway), 1)
    await this.#startGateway()
  }

  async #killDatabase(): Promise<void> {
    const pid = Number((await readFile(join(this.#cluster, 'postmaster.pid'), 'utf8')).split('\n')[0])
    process.kill(pid, 'SIGKILL')
    this.#killed.database += 1
    // The supervisor starts it again; gateways may have ended for want of it.
    await this.#until(async () => (await this.#rows('select 1')).length === 1, 120)
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

  async #report(taskIds: readonly string[], seconds: number): Promise<MixReport> {
    const db = this.#database
    const findings = await auditTheEnd({ db, control: (method, path) => this.#control(method, path) })
    const { differences, rounds } = await replay(db, new Releases(), '1970-01-01')
    const ends = await this.#rows<{ kind: string; end: string; count: number }>(
      `select kind, coalesce(error_code, state) as "end", count(*)::int as count from task group by 1, 2 order by 1, 3 desc`,
    )
    const known = new Set(
      (await this.#rows<{ id: string }>('select id::text from task')).map((row) => row.id),
    )
    const lost = taskIds
      .filter((id) => !known.has(id))
      .map((id) => `task ${id} was acknowledged, and is not there`)
    const [counts] = await this.#rows<{ attempts: number; uncertain: number }>(
      'select count(*)::int as attempts, count(uncertain_at)::int as uncertain from attempt',
    )
    const resolved = await this.#rows<{ by: string; n: number }>(
      'select resolved_by as by, count(*)::int as n from attempt where resolved_by is not null group by 1 order by 1',
    )
    const leaked = this.#leakedSecrets()
    const all = [
      ...findings,
      ...lost,
      ...leaked.map((secret) => `a log shows ${secret}`),
      ...differences.map((one) => `replay differs: ${JSON.stringify(one)}`),
    ]
    const decided = ends
      .filter(({ end }) => !REFUSED_BY_CONTENT.has(end))
      .reduce((sum, { count }) => sum + count, 0)
    const well = ends.filter(({ end }) => end === 'succeeded').reduce((sum, { count }) => sum + count, 0)
    const of = (pattern: RegExp) => all.filter((finding) => pattern.test(finding)).length
    return {
      seed: this.#options.seed,
      tasks: known.size,
      findings: all,
      duplicateJobs: of(/created \d+ jobs|was posted \d+ times|have one job/),
      lostTasks: of(/is not there|every task has ended|nobody wrote it down/),
      leakedLeases: of(/lease/) - of(/leases over a limit/),
      overAdmissions: of(/over a limit|within both limits|of its epoch was held/),
      replayDifferences: differences.length,
      rounds,
      leakedSecrets: leaked,
      ends,
      succeededShare: decided === 0 ? 0 : well / decided,
      overdue: await this.#overdue(),
      attempts: counts?.attempts ?? 0,
      uncertain: counts?.uncertain ?? 0,
      resolvedBy: Object.fromEntries(resolved.map(({ by, n }) => [by, n])),
      killsAtSubmission: this.#killed.submission,
      killsAtSettlement: this.#killed.settlement,
      databaseKills: this.#killed.database,
      pauses: this.#killed.pauses,
      faultsPlayed: await this.#faultsPlayed(),
      seconds,
    }
  }

  async #overdue(): Promise<string[]> {
    const rows = await this.#rows<{
      id: string
      supply: string
      polls: number
      failures: number
      state: string
      code: string | null
    }>(
      `select a.id::text, a.supply_id as supply, a.polls, a.poll_failures as failures, a.state, a.error_code as code
        from attempt a join task t on t.id = a.task_id where t.error_code = 'generation_timeout' and a.number is not null order by a.id limit 40`,
    )
    return Promise.all(
      rows.map(async ({ id, supply, polls, failures, state, code }) => {
        const entry = (await this.#control('GET', `/ledger/${id}`).catch(() => ({ faults: [] }))) as {
          faults: string[]
        }
        return `${supply} ${state} ${code ?? ''} polls ${polls}, without answer ${failures}: ${entry.faults.join(', ')}`
      }),
    )
  }

  async #faultsPlayed(): Promise<Record<string, number>> {
    const { rules } = (await this.#control('GET', '/faults')) as {
      rules: { fault: unknown; played: number }[]
    }
    const played: Record<string, number> = {}
    for (const rule of rules) {
      for (const fault of [rule.fault].flat() as { kind: string; name?: string; status?: number }[]) {
        const name = [fault.kind, fault.name ?? fault.status].filter((part) => part !== undefined).join(' ')
        played[name] = (played[name] ?? 0) + rule.played
      }
    }
    return played
  }

  #leakedSecrets(): string[] {
    const text = this.#output.join('')
    const secrets = {
      'the provider’s key': PROVIDER_KEY,
      'the master key': MASTER_KEY,
      'the admin token': 'yma_bench',
    }
    return Object.entries(secrets).flatMap(([name, secret]) => (text.includes(secret) ? [name] : []))
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

/** No supply could have helped these. */
const REFUSED_BY_CONTENT: ReadonlySet<string> = new Set([
  'content_refused',
  'real_person_refused',
  'invalid_request',
])
