/**
 * The submitter: says `submitting`, commits, and only then calls the provider (ORD-13, UNK-6). Each granted attempt is
 * called once in its life; whatever comes back, or does not, goes to settle.
 */
import type { FactsJson } from '../core/frozen.ts'
import type { Fault } from '../core/outcome.ts'
import type { ProviderAdapter, Submission, SubmitReply, VideoOrder } from '../providers/adapter.ts'
import type { AssetStore } from '../store/assets.ts'
import { beginSubmitting, readSubmissions, type SubmissionRow } from '../store/attempts.ts'
import type { Database } from '../store/database.ts'
import { isDatabaseGone } from '../store/database-errors.ts'
import type { Accounts } from './accounts.ts'
import type { GrantedAttempt } from './dispatcher.ts'
import type { Journal } from './journal.ts'
import { orderOf } from './order.ts'
import type { RequestContent } from './service.ts'
import type { Settle } from './settle.ts'
import type { Outcome } from './settlement.ts'

export interface SubmitterPorts {
  readonly db: Database
  readonly owner: string
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly assets: AssetStore
  readonly settle: Settle
  /** Attempts that this process is working on (own-orphans.ts). */
  readonly inHand: Set<string>
  readonly journal: Journal
  /**
   * False once this process's claims may have run out, or have since `claimedAt` (monotonic, in ms), also where it has
   * new ones by now: then nothing of it may be sent.
   */
  readonly mayStillSend: (claimedAt: number) => boolean
  readonly callbackUrl: (attemptId: string) => string | null
  /** Of a create, connecting included. */
  readonly timeoutMs: number
}

const LARGEST_BATCH = 200

export class Submitter {
  readonly #ports: SubmitterPorts
  readonly #limit: number
  readonly #reserved: GrantedAttempt[] = []
  readonly #calls = new Set<Promise<void>>()
  #beginning: Promise<void> | null = null
  #stopping = false

  constructor(ports: SubmitterPorts, limit: number) {
    this.#ports = ports
    this.#limit = limit
  }

  /** How many more attempts it can take on now. */
  room(): number {
    return this.#stopping ? 0 : Math.max(0, this.#limit - this.#reserved.length - this.#calls.size)
  }

  submit(attempts: readonly GrantedAttempt[]): void {
    for (const attempt of attempts) this.#ports.inHand.add(attempt.id)
    this.#reserved.push(...attempts)
    this.#beginning ??= this.#drain().finally(() => {
      this.#beginning = null
    })
  }

  /** Finish what is being submitted; what is only reserved goes back to the queue. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#beginning
    for (const attempt of this.#reserved.splice(0))
      await this.#ports.settle.apply(attempt.id, attempt.fence, { kind: 'not_started' })
    await Promise.allSettled([...this.#calls])
  }

  async #drain(): Promise<void> {
    while (this.#reserved.length > 0 && !this.#stopping) {
      const batch = this.#reserved.splice(0, LARGEST_BATCH)
      let called: ReadonlySet<string> = new Set()
      try {
        called = await this.#begin(batch)
      } catch (error) {
        this.#ports.journal.fault('submitter.begin', error)
        for (const attempt of batch) await this.#giveBack(attempt)
      } finally {
        // Those that are called leave the hand when their answer is written down.
        for (const { id } of batch) if (!called.has(id)) this.#ports.inHand.delete(id)
      }
    }
  }

  async #giveBack(attempt: GrantedAttempt): Promise<void> {
    try {
      await this.#ports.settle.apply(attempt.id, attempt.fence, { kind: 'not_started' })
    } catch (error) {
      this.#ports.journal.fault('submitter.give-back', error)
    }
  }

  /** Answers the attempts that are being called now. */
  async #begin(batch: readonly GrantedAttempt[]): Promise<ReadonlySet<string>> {
    const { db, owner } = this.#ports
    const rows = await readSubmissions(
      db,
      batch.map((attempt) => attempt.id),
    )
    const ready = await this.#prepare(rows, batch)
    const claimedAt = performance.now()
    const begun = await db.transaction((tx) => beginSubmitting(tx, ready.map(identity), owner), {
      retry: true,
    })
    for (const prepared of ready) if (begun.has(prepared.row.attempt_id)) this.#call(prepared, claimedAt)
    return begun
  }

  /** Open inputs and account before `submitting` is said, so that a fault of ours leaves an attempt that was none. */
  async #prepare(rows: readonly SubmissionRow[], batch: readonly GrantedAttempt[]): Promise<Prepared[]> {
    const fences = new Map(batch.map((attempt) => [attempt.id, attempt.fence]))
    const ready: Prepared[] = []
    for (const row of rows) {
      const fence = fences.get(row.attempt_id)
      if (fence === undefined) continue
      try {
        ready.push({ row, fence, ...(await this.#open(row)) })
      } catch (error) {
        this.#ports.journal.fault('submitter.prepare', error, { attempt: row.attempt_id })
        await this.#ports.settle.apply(row.attempt_id, fence, unopened(error))
      }
    }
    return ready
  }

  async #open(row: SubmissionRow) {
    const adapter = this.#ports.providers.get(row.provider)
    if (!adapter?.submitVideo) throw new Error(`provider ${row.provider} has no videos`)
    const content = row.content as RequestContent
    const stored = { facts: row.facts as FactsJson, content, degraded: row.degraded }
    const order = await orderOf(stored, this.#ports.assets)
    if (order.media !== 'video') throw new Error('an image has no place in the queue')
    const account = await this.#ports.accounts.open(row)
    return { submitVideo: adapter.submitVideo, order, account }
  }

  #call(prepared: Prepared, claimedAt: number): void {
    const call = this.#submitOne(prepared, claimedAt)
      .catch((error) =>
        this.#ports.journal.fault('submitter.call', error, { attempt: prepared.row.attempt_id }),
      )
      .finally(() => {
        this.#calls.delete(call)
        this.#ports.inHand.delete(prepared.row.attempt_id)
      })
    this.#calls.add(call)
  }

  async #submitOne(prepared: Prepared, claimedAt: number): Promise<void> {
    const { row, fence } = prepared
    const submission: Submission<VideoOrder> = {
      attemptId: row.attempt_id,
      upstreamModel: row.upstream_model,
      order: prepared.order,
      callbackUrl: this.#ports.callbackUrl(row.attempt_id),
      timeoutMs: this.#ports.timeoutMs,
      mayStillSend: () => this.#ports.mayStillSend(claimedAt),
    }
    const reply = await prepared
      .submitVideo(prepared.account, submission)
      .catch((error) => this.#broken(row, error))
    await this.#ports.settle.apply(row.attempt_id, fence, outcomeOf(reply))
  }

  /** A fault of the adapter's own after the call began: what the provider has, nobody knows. */
  #broken(row: SubmissionRow, error: unknown): SubmitReply {
    this.#ports.journal.fault('submitter.adapter', error, { attempt: row.attempt_id })
    return { kind: 'fault', fault: BROKEN_CALL, requestId: null }
  }
}

/** A database that is gone comes back; what is stored wrongly stays so. */
export function unopened(error: unknown): Outcome {
  if (isDatabaseGone(error)) return { kind: 'not_started' }
  return { kind: 'unsendable', why: 'the stored request could not be opened' }
}

/** From a provider's answer to what it means for the attempt. In doubt, unknown. */
export function outcomeOf(reply: SubmitReply): Outcome {
  switch (reply.kind) {
    case 'accepted':
      return reply
    case 'stopped_before_sending':
      return { kind: 'not_started' }
    case 'fault':
      return reply.fault.certainty === 'unknown'
        ? { ...reply, kind: 'unknown' }
        : { ...reply, kind: 'refused' }
  }
}

export const BROKEN_CALL: Fault = {
  category: 'unknown',
  scope: 'attempt',
  retryable: false,
  certainty: 'unknown',
  impact: 'none',
  code: 'answer_unreadable',
  message: 'The adapter failed while it was calling.',
  providerCode: null,
  httpStatus: null,
  fingerprint: 'unknown|attempt|adapter|fault',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}

interface Prepared {
  readonly row: SubmissionRow
  readonly fence: bigint
  readonly submitVideo: NonNullable<ProviderAdapter['submitVideo']>
  readonly order: VideoOrder
  readonly account: Parameters<NonNullable<ProviderAdapter['submitVideo']>>[0]
}

function identity(prepared: Prepared): { id: string; fence: bigint } {
  return { id: prepared.row.attempt_id, fence: prepared.fence }
}
