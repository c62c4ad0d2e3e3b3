/**
 * The operator's desk for submissions whose fate is unknown (UNK-4, UNK-9): the list, a look at the provider now, and a
 * decision by hand. What the provider itself says is asked first, and a decision against it is refused.
 */
import type { FoundJob } from '../core/resolution.ts'
import { NOT_ACCEPTED } from '../core/retry.ts'
import type { ProviderAdapter } from '../providers/adapter.ts'
import type { Database } from '../store/database.ts'
import {
  type LostRow,
  readLost,
  takenJobs,
  type UncertainAttempt,
  uncertainAttempts,
} from '../store/resolution.ts'
import type { Accounts } from './accounts.ts'
import type { Resolver } from './resolver.ts'
import type { Settle } from './settle.ts'

export interface DeskPorts {
  readonly db: Database
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly settle: Settle
  readonly resolver: Resolver
}

/** `unconfirmed`: the provider does not confirm it, and the operator answers for it. */
export type Decision = { readonly unconfirmed: boolean } & (
  | { readonly outcome: 'accepted'; readonly providerTaskId: string }
  | { readonly outcome: 'not_accepted' }
)

export type DeskAnswer =
  /** `state`: of the task, now. */
  | { readonly kind: 'resolved'; readonly outcome: 'accepted' | 'not_accepted'; readonly by: string }
  | { readonly kind: 'open'; readonly why: string; readonly jobs: readonly FoundJob[] }
  /** The decision contradicts the provider, or cannot be checked; `why` says what would be right. */
  | { readonly kind: 'refused'; readonly why: string; readonly jobs: readonly FoundJob[] }
  | { readonly kind: 'not_uncertain'; readonly state: string }
  | { readonly kind: 'not_found' }

const CALL_TIMEOUT_MS = 20_000

export class Desk {
  readonly #ports: DeskPorts

  constructor(ports: DeskPorts) {
    this.#ports = ports
  }

  list(limit: number): Promise<UncertainAttempt[]> {
    return uncertainAttempts(this.#ports.db, limit)
  }

  /** Look at the provider now; what is proved counts at once. */
  async look(attemptId: string): Promise<DeskAnswer> {
    const lost = await this.#uncertain(attemptId)
    if ('kind' in lost) return lost
    const { resolver } = this.#ports
    const { finding, jobs } = await resolver.look(lost)
    const settled = await resolver.act(lost, finding)
    if (settled?.kind === 'stale') return this.#outdated(lost, jobs)
    return finding.kind === 'open'
      ? { kind: 'open', why: finding.why, jobs }
      : { kind: 'resolved', outcome: finding.kind, by: finding.by }
  }

  /** What was found could not be taken: the attempt, or the job, is somebody else's by now, or a callback has come. */
  async #outdated(lost: LostRow, jobs: readonly FoundJob[]): Promise<DeskAnswer> {
    const now = await readLost(this.#ports.db, lost.id)
    return now?.state === 'submission_uncertain'
      ? { kind: 'open', why: 'what was found could not be taken; look again', jobs }
      : { kind: 'not_uncertain', state: now?.state ?? 'gone' }
  }

  async decide(attemptId: string, decision: Decision, by: { name: string; note: string | null }) {
    const lost = await this.#uncertain(attemptId)
    if ('kind' in lost) return lost
    const found = { resolver: 'operator', note: [by.name, by.note].filter(Boolean).join(': ') } as const
    return decision.outcome === 'accepted'
      ? this.#accepted(lost, decision, found)
      : this.#notAccepted(lost, decision, found)
  }

  async #accepted(
    lost: LostRow,
    decision: Decision & { outcome: 'accepted' },
    found: { resolver: 'operator'; note: string },
  ): Promise<DeskAnswer> {
    const { providerTaskId, unconfirmed } = decision
    const taken = await takenJobs(this.#ports.db, lost.channel_id, {
      jobs: [providerTaskId],
      attemptId: lost.id,
    })
    if (taken.size > 0) return refused(`job ${providerTaskId} belongs to another attempt already`)
    const doubt = await this.#doubtAbout(lost, providerTaskId)
    if (doubt !== null && (doubt.contradicts || !unconfirmed)) return refused(doubt.why)
    return this.#settle(lost, 'accepted', { kind: 'accepted', providerTaskId, requestId: null, found })
  }

  /** Why this job is not confirmed; null where the account has it. */
  async #doubtAbout(
    lost: LostRow,
    providerTaskId: string,
  ): Promise<{ why: string; contradicts: boolean } | null> {
    const byTaskId = this.#ports.providers.get(lost.provider)?.lookup?.byTaskId
    if (!byTaskId)
      return { why: `${lost.provider} cannot be asked; add unconfirmed to go on without`, contradicts: false }
    const account = await this.#ports.accounts.open(lost)
    const reply = await byTaskId(account, providerTaskId, { timeoutMs: CALL_TIMEOUT_MS })
    if (reply.kind === 'no_answer')
      return {
        why: `${lost.channel_id} gave no answer (${reply.fault.code}); try again, or add unconfirmed`,
        contradicts: false,
      }
    const job = reply.jobs.find((one) => one.providerTaskId === providerTaskId)
    if (!job) return { why: `${lost.channel_id} has no job ${providerTaskId}`, contradicts: true }
    // The ID alone would let a slip of the hand deliver a stranger's film.
    if (job.clientId !== null && job.clientId !== lost.id)
      return { why: `job ${providerTaskId} was made under another ID than this attempt’s`, contradicts: true }
    if (await this.#ports.resolver.mayBe(lost, job)) return null
    return {
      why: `job ${providerTaskId} is not what this attempt ordered; look at it, and add unconfirmed`,
      contradicts: false,
    }
  }

  /** Refused where the account shows a job that is, or may be, this attempt's: a second submission would be paid twice. */
  async #notAccepted(
    lost: LostRow,
    { unconfirmed }: Decision,
    found: { resolver: 'operator'; note: string },
  ): Promise<DeskAnswer> {
    const { finding, jobs } = await this.#ports.resolver.look(lost)
    if (finding.kind === 'accepted')
      return refused(
        `the account has job ${finding.providerTaskId} of this attempt; resolve it as accepted`,
        jobs,
      )
    if (lost.called_back_at !== null && !unconfirmed)
      return refused(
        'the provider has called back about this attempt; look for its job, or add unconfirmed',
        jobs,
      )
    if (jobs.length > 0 && !unconfirmed) {
      const ids = jobs.map((job) => job.providerTaskId).join(', ')
      return refused(
        `the account has jobs that may be this attempt’s (${ids}); look at them, and add unconfirmed`,
        jobs,
      )
    }
    return this.#settle(lost, 'not_accepted', {
      kind: 'refused',
      fault: NOT_ACCEPTED,
      requestId: null,
      found,
    })
  }

  async #settle(
    lost: LostRow,
    outcome: 'accepted' | 'not_accepted',
    change: Parameters<Settle['apply']>[2],
  ): Promise<DeskAnswer> {
    const settled = await this.#ports.settle.apply(lost.id, lost.fence, change)
    if (settled.kind !== 'stale') return { kind: 'resolved', outcome, by: 'operator' }
    const now = await readLost(this.#ports.db, lost.id)
    return { kind: 'not_uncertain', state: now?.state ?? 'gone' }
  }

  async #uncertain(
    attemptId: string,
  ): Promise<LostRow | (DeskAnswer & { kind: 'not_found' | 'not_uncertain' })> {
    const lost = await readLost(this.#ports.db, attemptId)
    if (!lost) return { kind: 'not_found' }
    return lost.state === 'submission_uncertain' ? lost : { kind: 'not_uncertain', state: lost.state }
  }
}

function refused(why: string, jobs: readonly FoundJob[] = []): DeskAnswer {
  return { kind: 'refused', why, jobs }
}
