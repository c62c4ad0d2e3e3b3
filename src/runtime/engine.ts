/**
 * One process's share of the work, by its roles: it dispatches, polls, reconciles, or only admits. Everything that must
 * outlive it is in the database; what it holds in memory is what it is doing right now.
 */
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { v7 as uuidv7 } from 'uuid'
import { HEALTH_DEFAULTS, type HealthSettings } from '../core/health-row.ts'
import type { ProviderAdapter } from '../providers/adapter.ts'
import type { Caller } from '../providers/call.ts'
import type { AssetStore } from '../store/assets.ts'
import type { Database } from '../store/database.ts'
import { maintainPartitions } from '../store/partitions.ts'
import { heartbeat, registerProcess, stopProcess } from '../store/processes.ts'
import { Releases } from '../store/releases.ts'
import type { Keyring } from '../store/secrets.ts'
import { Accounts } from './accounts.ts'
import { cancelTask } from './cancel.ts'
import { Desk } from './desk.ts'
import { Dispatcher } from './dispatcher.ts'
import { admitVideo } from './door.ts'
import { Granter } from './granter.ts'
import { runImage } from './image.ts'
import type { Journal } from './journal.ts'
import { Loop } from './loop.ts'
import { Outbox } from './outbox.ts'
import { settleOwnOrphans } from './own-orphans.ts'
import { Poller } from './poller.ts'
import { Reconciler } from './reconciler.ts'
import { Resolver } from './resolver.ts'
import type { Dispatching, IncomingRequest } from './service.ts'
import { Settle } from './settle.ts'
import { Submitter } from './submitter.ts'
import { TIMING_DEFAULTS, type Timing } from './timing.ts'
import { endWaiting } from './waiting-end.ts'
import { Wake, type WakeFigures } from './wake.ts'

export type Role = 'api' | 'dispatch' | 'poll' | 'reconcile'

export interface EngineOptions {
  readonly db: Database
  readonly keyring: Keyring
  readonly assets: AssetStore
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly journal: Journal
  readonly roles: readonly Role[]
  readonly version: string
  readonly health?: HealthSettings
  readonly retainDays?: { readonly round: number; readonly health_events: number }
  /** How long a finished result is kept, in ms. */
  readonly resultLifeMs: number
  readonly largestResultBytes: number
  readonly callbackUrl?: (attemptId: string) => string | null
  /** At most a second (WAKE-2). */
  readonly scanMs?: number
  /** False: the scan alone finds work, no process is woken for it, itself included. True where absent. */
  readonly hints?: boolean
  /** Where hints of other processes are heard: a URL straight to PostgreSQL. Without it, this process hears none. */
  readonly listenUrl?: string
  /** Attempts that this process submits at once. */
  readonly submissions?: number
  readonly timing?: Timing
  /** Carries alerts to their endpoints: a client of its own, with small answers. */
  readonly alertCaller: Caller
}

const RETAIN_DAYS = { round: 90, health_events: 90 }
const SCAN_MS = 1000
const SUBMISSIONS = 128
/** How long a process that stops tries to write down what it still hears. */
const STOP_PATIENCE_MS = 15_000
/** A claim that is nearer to its end than this is not relied upon any more. */
const CLAIM_MARGIN_MS = 3000

export class Engine implements Dispatching {
  readonly id = uuidv7()
  readonly releases = new Releases()
  readonly settle: Settle
  readonly desk: Desk
  readonly outbox: Outbox
  readonly #options: EngineOptions
  readonly #accounts: Accounts
  readonly #granter: Granter
  readonly #submitter: Submitter
  readonly #poller: Poller
  readonly #reconciler: Reconciler
  readonly #resolver: Resolver
  readonly #loops: Loop[] = []
  readonly #dispatch: () => Promise<boolean>
  readonly #dispatchLoop: Loop
  readonly #wake: Wake
  readonly #images = new Set<Promise<unknown>>()
  readonly #inHand = new Set<string>()
  #claimGoodUntil = 0
  /** Since when its claims have not lapsed. */
  #claimedSince = 0
  #stopping = false
  #insistUntil = Number.POSITIVE_INFINITY

  constructor(options: EngineOptions) {
    this.#options = options
    const { db, journal, assets, providers } = options
    const health = options.health ?? HEALTH_DEFAULTS
    const owner = this.id
    this.#accounts = new Accounts(db, options.keyring)
    this.#granter = new Granter(db, owner)
    this.settle = new Settle({
      db,
      releases: this.releases,
      health,
      timing: this.#timing,
      journal,
      insist: () => performance.now() < this.#insistUntil,
      freed: () => this.#hint(),
      hintFrom: () => this.#wake.writer,
    })
    const common = {
      db,
      owner,
      accounts: this.#accounts,
      providers,
      assets,
      settle: this.settle,
      journal,
      health,
    }
    const results = { resultLifeMs: options.resultLifeMs, largestResultBytes: options.largestResultBytes }
    this.#submitter = new Submitter(
      {
        ...common,
        mayStillSend: (claimedAt) => this.#mayStillSend(claimedAt),
        inHand: this.#inHand,
        callbackUrl: options.callbackUrl ?? (() => null),
        timeoutMs: this.#timing.submitTimeoutMs,
      },
      options.submissions ?? SUBMISSIONS,
    )
    this.#poller = new Poller({ ...common, ...results })
    this.#reconciler = new Reconciler({ ...common, releases: this.releases, retainDays: this.#retainDays })
    this.#resolver = new Resolver({ ...common, timing: this.#timing })
    this.desk = new Desk({ ...common, resolver: this.#resolver })
    this.outbox = new Outbox({ db, keyring: options.keyring, caller: options.alertCaller, journal })
    this.#dispatch = this.#dispatcher()
    this.#dispatchLoop = this.#loop('dispatcher', options.scanMs ?? SCAN_MS, this.#dispatch)
    this.#wake = this.#wakes()
  }

  /** Register this process and begin its loops. The schema must be there. */
  async start(): Promise<void> {
    const { db, roles } = this.#options
    await maintainPartitions(db, { aheadDays: 7, retainDays: this.#retainDays })
    const sentAt = performance.now()
    await this.#register()
    this.#claimGoodUntil = sentAt + this.#claimSeconds * 1000
    this.#loops.push(this.#loop('heartbeat', (this.#claimSeconds * 1000) / 5, () => this.#beat()))
    this.#loops.push(this.#loop('own-orphans', this.#claimSeconds * 1000, () => this.#ownOrphans()))
    if (roles.includes('dispatch')) this.#loops.push(this.#dispatchLoop)
    if (roles.includes('poll')) this.#loops.push(this.#loop('poller', 250, () => this.#poller.tick()))
    if (roles.includes('reconcile')) {
      this.#loops.push(this.#loop('reconciler', 1000, () => this.#reconcile()))
      this.#loops.push(this.#loop('resolver', 1000, () => this.#resolver.tick()))
      this.#loops.push(this.#loop('outbox', 1000, () => this.outbox.tick()))
    }
    await this.#wake.start()
    for (const loop of this.#loops) loop.start()
  }

  /** Stop claiming, finish what is being submitted, leave the rest to the next process. Never throws: it must end. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#insistUntil = performance.now() + STOP_PATIENCE_MS
    const [heartbeat, ...others] = this.#loops
    await Promise.all(others.map((loop) => loop.stop()))
    await this.#stopStep('submitter', () => this.#submitter.stop())
    await Promise.allSettled([...this.#images])
    await this.#stopStep('poller', () => this.#poller.stop())
    await this.#stopStep('outbox', () => this.outbox.stop())
    await heartbeat?.stop()
    await this.#stopStep('wake', () => this.#wake.stop())
    await this.#stopStep('process', () => stopProcess(this.#options.db, this.id))
  }

  /** What a lost database keeps from being written down, the reconciler of another process makes good. */
  async #stopStep(name: string, step: () => Promise<void>): Promise<void> {
    try {
      await step()
    } catch (error) {
      this.#options.journal.fault(`engine.stop.${name}`, error)
    }
  }

  admitVideo(request: IncomingRequest) {
    const { db } = this.#options
    return admitVideo(
      {
        db,
        releases: this.releases,
        queued: () => this.#hint(),
        // Its own dispatcher, where it has one, is the nearest.
        hintFrom: () => (this.#takesTasks() ? null : this.#wake.writer),
      },
      request,
    )
  }

  runImage(request: IncomingRequest, started: () => void = () => {}) {
    const { db, assets, providers, journal, resultLifeMs } = this.#options
    const work = runImage(
      {
        db,
        releases: this.releases,
        granter: this.#granter,
        accounts: this.#accounts,
        providers,
        assets,
        settle: this.settle,
        inHand: this.#inHand,
        journal,
        mayStillSend: (claimedAt) => this.#mayStillSend(claimedAt),
        resultLifeMs,
        clock: () => performance.now(),
        pause: (ms) => sleep(ms),
      },
      request,
      started,
    )
    // A client that hangs up does not stop the work (CUS-5); a process that stops waits for it.
    const tracked: Promise<unknown> = work.catch(() => undefined).finally(() => this.#images.delete(tracked))
    this.#images.add(tracked)
    return work
  }

  cancelTask(taskId: string) {
    const { db, providers } = this.#options
    return cancelTask(
      { db, releases: this.releases, accounts: this.#accounts, providers, settle: this.settle },
      taskId,
    )
  }

  /** One scan now, whatever the loop does: for tests and benches. */
  dispatchOnce(): Promise<boolean> {
    return this.#dispatch()
  }

  /** What this process told other processes, and heard from them. */
  get wakeFigures(): WakeFigures {
    return this.#wake.figures
  }

  get #retainDays() {
    return this.#options.retainDays ?? RETAIN_DAYS
  }

  get #timing(): Timing {
    return this.#options.timing ?? TIMING_DEFAULTS
  }

  get #claimSeconds(): number {
    return this.#timing.claimSeconds
  }

  #loop(name: string, intervalMs: number, turn: () => Promise<boolean>): Loop {
    return new Loop({ name, intervalMs, turn, journal: this.#options.journal })
  }

  #dispatcher(): () => Promise<boolean> {
    const { db } = this.#options
    const dispatcher = new Dispatcher({
      db,
      releases: this.releases,
      granter: this.#granter,
      submit: (attempts) => this.#submitter.submit(attempts),
      // A process whose claims may have lapsed would only take leases that it may not use.
      room: () => (this.#mayStillSend() ? this.#submitter.room() : 0),
      reject: async (task, decided, rejected) => {
        const end = { taskId: task.id, code: rejected.code, param: rejected.param ?? null }
        await endWaiting(db, this.releases, { ...end, fence: task.fence, round: decided.round })
      },
    })
    return async () => (await dispatcher.tick()).again
  }

  #wakes(): Wake {
    const { db, journal, roles, hints = true, listenUrl = null } = this.#options
    return new Wake({
      db,
      id: this.id,
      journal,
      hints,
      listenUrl: roles.includes('dispatch') ? listenUrl : null,
      scan: () => this.#dispatchLoop.nudge(),
    })
  }

  /** A slot was freed, or a task was queued, and that is committed. */
  #hint(): void {
    if (this.#options.hints === false) return
    this.#dispatchLoop.nudge()
    this.#wake.written()
  }

  #takesTasks(): boolean {
    return this.#options.roles.includes('dispatch') && this.#mayStillSend() && this.#submitter.room() > 0
  }

  async #reconcile(): Promise<boolean> {
    await this.#reconciler.tick(performance.now())
    return false
  }

  async #ownOrphans(): Promise<boolean> {
    const ports = { db: this.#options.db, owner: this.id, inHand: this.#inHand, settle: this.settle }
    await settleOwnOrphans(ports, 2 * this.#claimSeconds)
    return false
  }

  async #register(): Promise<void> {
    const { db, roles, version } = this.#options
    const process_ = { id: this.id, roles, host: hostname(), pid: process.pid, version }
    await registerProcess(db, process_, this.#claimSeconds)
  }

  /** The claim is good from when the heartbeat was sent, not from when its answer came. */
  async #beat(): Promise<boolean> {
    const sentAt = performance.now()
    const alive = await heartbeat(this.#options.db, this.id, this.#claimSeconds)
    if (alive !== 'alive') this.#options.journal.note('engine.claim_lapsed', { process: this.id, alive })
    // Others may have taken over what was claimed before: of that, nothing more may be sent.
    if (alive !== 'alive' || sentAt >= this.#claimGoodUntil) this.#claimedSince = performance.now()
    if (alive === 'unknown' && !this.#stopping) await this.#register()
    this.#claimGoodUntil = sentAt + this.#claimSeconds * 1000
    await this.#wake.beat()
    return false
  }

  /** `claimedAt`: when what is to be sent was claimed; a claim that lapsed in between is no claim any more. */
  #mayStillSend(claimedAt = Infinity): boolean {
    return claimedAt > this.#claimedSince && performance.now() < this.#claimGoodUntil - CLAIM_MARGIN_MS
  }
}
