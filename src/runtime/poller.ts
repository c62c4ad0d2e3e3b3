/**
 * The poller: looks after accepted jobs at their own supply, whatever became of its circuit (HLT-4). Due polls are
 * claimed for a while; what a poller that has lost its claim brings is refused by the fence.
 */
import { createHash } from 'node:crypto'
import { type Happening, newsFor } from '../core/health-news.ts'
import type { HealthSettings } from '../core/health-row.ts'
import type { Fault } from '../core/outcome.ts'
import { pollDelayMs } from '../core/retry.ts'
import type { Account, FinishedVideo, PollReply, ProviderAdapter } from '../providers/adapter.ts'
import { raiseAlerts } from '../store/alerts.ts'
import type { AssetStore } from '../store/assets.ts'
import {
  claimPolls,
  type DuePoll,
  extendPoll,
  markPolled,
  releaseLostPolls,
  releasePolls,
} from '../store/attempts.ts'
import type { Database } from '../store/database.ts'
import { noteReached } from '../store/escalation.ts'
import { withPartition } from '../store/partitions.ts'
import type { Output } from '../store/usage.ts'
import type { Accounts } from './accounts.ts'
import { lookInto } from './artefact.ts'
import type { Journal } from './journal.ts'
import type { Settle } from './settle.ts'
import { tellLevels } from './tell-levels.ts'

export interface PollerPorts {
  readonly db: Database
  readonly owner: string
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly assets: AssetStore
  readonly settle: Settle
  readonly journal: Journal
  readonly health: HealthSettings
  /** How long a finished result is kept, in ms. */
  readonly resultLifeMs: number
  readonly largestResultBytes: number
}

const CLAIM_SECONDS = 60
const DOWNLOAD_SECONDS = 300
const POLL_TIMEOUT_MS = 20_000
/** With the poll before it, well within a claim. */
const QUICK_DOWNLOAD_MS = 20_000
/** One claim. */
const CLAIMED_AT_ONCE = 128
/** Calls to one channel at a time. */
const CALLS_PER_CHANNEL = 16
/** No more of a channel is claimed while so many of its polls are here: a slow one must not take all the room. */
const HELD_PER_CHANNEL = 64
/** Polls that are here in all: waiting, calling, or being written down. */
const HELD = 1024
/** A poll that has waited longer for its turn is given back, well before its claim lapses. */
const LONGEST_WAIT_MS = 15_000
/** A job whose customer has been told it is over is only watched for its end. */
const WATCH_SECONDS = 60
const NOT_FOUND_IN_A_ROW = 3
/** When a poll that met a fault of our own is due again: soon, and not in a circle without a pause. */
const LOST_SECONDS = 5
/** How often it is written down, at most, that a channel answers (HLT-16). */
const REACHED_EVERY_MS = 1000

export class Poller {
  readonly #ports: PollerPorts
  readonly #channels = new Map<string, Channel>()
  readonly #open = new Set<Promise<void>>()
  /** Attempts whose claim is worked on here, or waits here for its turn. */
  readonly #inHand = new Set<string>()
  /** Whether claims of ours may have nobody who works on them: the database went away while one was taken, or worked on. */
  #lost = false
  readonly #reachedAt = new Map<string, number>()
  #stopping = false

  constructor(ports: PollerPorts) {
    this.#ports = ports
  }

  /** Take what is due; answers whether more may be due at once. */
  async tick(): Promise<boolean> {
    const limit = Math.min(CLAIMED_AT_ONCE, HELD - this.#open.size - this.#waiting())
    if (limit <= 0) return false
    const { db, owner } = this.#ports
    if (this.#lost) await this.#letGo()
    const full = [...this.#channels].filter(([, channel]) => channel.held() >= HELD_PER_CHANNEL)
    const passingOver = full.map(([id]) => id)
    const want = { limit, owner, leaseSeconds: CLAIM_SECONDS, passingOver }
    const due = await claimPolls(db, want).catch((error: unknown) => {
      this.#lost = true
      throw error
    })
    for (const poll of due) this.#enqueue(poll)
    return due.length === limit
  }

  /** A claim of ours is in our hands, or is let go: its owner is alive, so that nobody else would take it until it ends. */
  async #letGo(): Promise<void> {
    const of = { owner: this.#ports.owner, inHand: [...this.#inHand], seconds: LOST_SECONDS }
    await releaseLostPolls(this.#ports.db, of)
    this.#lost = false
  }

  /** Finish what is being called or written down, and hand the rest on. */
  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.allSettled([...this.#open])
    await releasePolls(this.#ports.db, this.#ports.owner)
  }

  #waiting(): number {
    let waiting = 0
    for (const channel of this.#channels.values()) waiting += channel.queue.length
    return waiting
  }

  #enqueue(poll: DuePoll): void {
    const channel = this.#channels.get(poll.channel_id) ?? new Channel()
    this.#channels.set(poll.channel_id, channel)
    channel.queue.push({ poll, since: performance.now() })
    this.#inHand.add(poll.id)
    this.#next(poll.channel_id, channel)
  }

  /** A channel has its share of calls; whoever waits for it waits here. */
  #next(id: string, channel: Channel): void {
    while (!this.#stopping && channel.calls < CALLS_PER_CHANNEL) {
      const next = channel.queue.shift()
      if (!next) break
      this.#start(next, channel, () => this.#next(id, channel))
    }
    if (channel.held() === 0) this.#channels.delete(id)
  }

  #start({ poll, since }: HeldPoll, channel: Channel, then: () => void): void {
    channel.calls += 1
    const work = this.#work(poll, since, () => {
      channel.calls -= 1
      then()
    })
    const tracked: Promise<void> = work
      .catch((error) => {
        this.#lost = true
        this.#ports.journal.fault('poller', error, { attempt: poll.id })
      })
      .finally(() => {
        this.#open.delete(tracked)
        this.#inHand.delete(poll.id)
      })
    this.#open.add(tracked)
  }

  /** `called` once the provider is done with: what is written down afterwards keeps no other poll from its turn. */
  async #work(poll: DuePoll, since: number, called: () => void): Promise<void> {
    let write: () => Promise<void>
    try {
      const late = performance.now() - since > LONGEST_WAIT_MS
      write = late ? () => markPolled(this.#ports.db, poll, this.#unchanged(poll, 0)) : await this.#poll(poll)
    } finally {
      called()
    }
    await write()
  }

  #unchanged(poll: DuePoll, seconds: number) {
    return { seconds, failures: poll.poll_failures, progress: null }
  }

  /** Ask about it, and fetch its result if there is one; answers how that is written down. */
  async #poll(poll: DuePoll): Promise<() => Promise<void>> {
    const adapter = this.#ports.providers.get(poll.provider)
    if (!adapter?.poll) throw new Error(`provider ${poll.provider} cannot be polled`)
    const account = await this.#ports.accounts.open(poll)
    const reply = await adapter.poll(account, poll.provider_task_id, { timeoutMs: POLL_TIMEOUT_MS })
    if (reply.kind !== 'no_answer') await this.#reached(poll)
    if (reply.kind !== 'succeeded') return () => this.#react(poll, reply)
    const fetched = await this.#fetch({ poll, adapter, account }, reply.video)
    return () => this.#finish(poll, fetched, reply.video)
  }

  async #reached(poll: DuePoll): Promise<void> {
    const now = performance.now()
    const lately = now - (this.#reachedAt.get(poll.channel_id) ?? -Infinity) < REACHED_EVERY_MS
    if (lately && poll.poll_failures === 0) return
    this.#reachedAt.set(poll.channel_id, now)
    await noteReached(this.#ports.db, poll.channel_id)
  }

  async #react(poll: DuePoll, reply: Exclude<PollReply, { kind: 'succeeded' }>): Promise<void> {
    const { settle } = this.#ports
    switch (reply.kind) {
      case 'running':
        return this.#later(poll, { failures: 0, progress: reply.progress })
      case 'unknown_status':
        return this.#unknownStatus(poll, reply.status)
      case 'not_found':
        return this.#notFound(poll)
      case 'no_answer':
        return this.#noAnswer(poll, reply.fault)
      case 'failed':
        await settle.apply(poll.id, poll.fence, { ...reply, kind: 'job_failed', requestId: null })
        return
      case 'cancelled':
        await settle.apply(poll.id, poll.fence, { kind: 'job_cancelled' })
        return
    }
  }

  async #later(poll: DuePoll, told: { failures: number; progress: number | null }): Promise<void> {
    const delayMs = pollDelayMs({
      expectedMs: poll.expected_ms,
      elapsedMs: Math.max(0, (poll.now - poll.accepted_at) / 1000),
      failures: told.failures,
      spread: spreadOf(poll.id),
    })
    const seconds = poll.task_state === 'running' ? delayMs / 1000 : Math.max(WATCH_SECONDS, delayMs / 1000)
    await markPolled(this.#ports.db, poll, { seconds, ...told })
  }

  /** Neither success nor failure is read out of a word that nobody knows: it is counted, and asked about again. */
  async #unknownStatus(poll: DuePoll, status: string): Promise<void> {
    await raiseAlerts(this.#ports.db, [
      {
        fingerprint: `unknown_status:${poll.provider}:${status.slice(0, 60)}`,
        code: 'unknown_status',
        severity: 'warning',
        message: `Provider ${poll.provider} reports the status "${status.slice(0, 60)}", which its adapter does not know; polling goes on.`,
        subject: { provider: poll.provider, channel: poll.channel_id },
      },
    ])
    await this.#later(poll, { failures: 0, progress: null })
  }

  /** A provider may not know a job just after it was created; a job that stays unknown is left to its run deadline. */
  async #notFound(poll: DuePoll): Promise<void> {
    const failures = poll.poll_failures + 1
    if (failures >= NOT_FOUND_IN_A_ROW)
      await raiseAlerts(this.#ports.db, [
        {
          fingerprint: `job_not_found:channel:${poll.channel_id}`,
          code: 'job_not_found',
          severity: 'high',
          message: `Channel ${poll.channel_id} does not know a job that it accepted (latest: attempt ${poll.id}).`,
          subject: { channel: poll.channel_id, supply: poll.supply_id },
        },
      ])
    await this.#later(poll, { failures, progress: null })
  }

  /** HLT-10: a refused poll, and three without an answer, are news of now for the channel; the job is not touched. */
  async #noAnswer(poll: DuePoll, fault: Fault): Promise<void> {
    const failures = poll.poll_failures + 1
    const happening = { kind: 'no_answer', fault, inARow: failures } as const
    const news = newsFor('channel', happening, { epoch: 0, calledAt: poll.accepted_at })
    if (news || fault.connection) await this.#tell(poll, happening, news?.kind === 'refused_poll')
    await this.#later(poll, { failures, progress: null })
  }

  async #tell(poll: DuePoll, happening: Happening, isRefused: boolean): Promise<void> {
    const { db, health: settings } = this.#ports
    const teller = {
      attemptId: poll.id,
      channelId: poll.channel_id,
      supplyId: poll.supply_id,
      channelEpoch: 0n,
      supplyEpoch: 0n,
      calledAt: poll.accepted_at,
    }
    // A refusal of a key that has been rotated out says nothing of the account as it is called now.
    const counts = !(isRefused && poll.credential_id !== poll.present_credential_id)
    await withPartition(db, () =>
      db.transaction((tx) => tellLevels(tx, teller, { happening, settings, counts }), { retry: true }),
    )
  }

  /** A success needs its artefact: the result is stored before the task is said to have succeeded. */
  async #fetch(at: At, video: FinishedVideo): Promise<Output | string> {
    const keeping = this.#keepLong(at.poll)
    return this.#download(at, video).finally(() => keeping.over())
  }

  async #finish(poll: DuePoll, fetched: Output | string, video: FinishedVideo): Promise<void> {
    if (typeof fetched === 'string') return this.#fetchFailed(poll, fetched)
    await this.#ports.settle.apply(poll.id, poll.fence, {
      kind: 'finished',
      outputs: [fetched],
      durationMs: Math.max(0, (poll.now - poll.accepted_at) / 1000),
      reported: video.reported,
      requestId: null,
      billedPlaces: 1,
    })
  }

  /** A download that takes long keeps its claim for as long as it may take; most are over before. */
  #keepLong(poll: DuePoll): { over: () => Promise<void> } {
    let extending: Promise<unknown> = Promise.resolve()
    const timer = setTimeout(() => {
      extending = extendPoll(this.#ports.db, poll, DOWNLOAD_SECONDS).catch((error: unknown) =>
        this.#ports.journal.fault('poller.keep', error, { attempt: poll.id }),
      )
    }, QUICK_DOWNLOAD_MS)
    return {
      over: async () => {
        clearTimeout(timer)
        await extending
      },
    }
  }

  /** The stored result, or why there is none. */
  async #download({ poll, adapter, account }: At, video: FinishedVideo): Promise<Output | string> {
    if (!adapter.download) throw new Error(`provider ${poll.provider} has no downloads`)
    const reply = await adapter.download(account, video.location, { timeoutMs: DOWNLOAD_SECONDS * 1000 })
    if (reply.kind === 'no_answer') return reply.fault.code
    const stored = await this.#store(poll, reply).catch((error: unknown) => error)
    if (!isStored(stored)) return stored instanceof Error ? stored.message : 'unreadable'
    const film = await lookInto(this.#ports.assets, stored)
    if (film.kind === 'broken') return film.why
    return {
      place: 0,
      asset_digest: stored.digest,
      content_type: stored.contentType,
      bytes: stored.bytes,
      error: null,
      measured: film.kind === 'measured' ? film.measured : null,
    }
  }

  async #store(poll: DuePoll, reply: { stream: AsyncIterable<Uint8Array>; contentType: string }) {
    const { assets, largestResultBytes, resultLifeMs } = this.#ports
    return assets.put(reply.stream, {
      contentType: reply.contentType,
      expiresAt: poll.now + resultLifeMs * 1000,
      maxBytes: largestResultBytes,
    })
  }

  /** The job is done and paid: only its result is asked for again, until the run deadline. */
  async #fetchFailed(poll: DuePoll, why: string): Promise<void> {
    this.#ports.journal.note('poller.fetch_failed', { attempt: poll.id, why })
    if (poll.poll_failures + 1 >= NOT_FOUND_IN_A_ROW)
      await raiseAlerts(this.#ports.db, [
        {
          fingerprint: `result_unavailable:channel:${poll.channel_id}`,
          code: 'result_unavailable',
          severity: 'high',
          message: `A finished result of channel ${poll.channel_id} cannot be fetched (latest: attempt ${poll.id}).`,
          subject: { channel: poll.channel_id, supply: poll.supply_id },
        },
      ])
    await this.#later(poll, { failures: poll.poll_failures + 1, progress: null })
  }
}

interface HeldPoll {
  readonly poll: DuePoll
  /** By `performance.now()`. */
  readonly since: number
}

/** What of one channel is here. */
class Channel {
  readonly queue: HeldPoll[] = []
  calls = 0

  held(): number {
    return this.queue.length + this.calls
  }
}

interface At {
  readonly poll: DuePoll
  readonly adapter: ProviderAdapter
  readonly account: Account
}

interface Stored {
  readonly digest: string
  readonly bytes: number
  readonly contentType: string
}

function isStored(value: unknown): value is Stored {
  return typeof value === 'object' && value !== null && 'digest' in value
}

/** 0 to 1, the same for the same attempt. */
function spreadOf(attemptId: string): number {
  return createHash('sha256').update(attemptId).digest().readUInt16BE(0) / 65_535
}
