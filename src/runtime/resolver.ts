/**
 * The resolver: finds out what became of submissions whose fate is unknown (UNK-4, UNK-9). In this order: the job that a
 * callback named, the client's ID, the list of that time. It only reads at the provider, proves by core/resolution, and
 * lets settle act; what it cannot prove stays as it is, until the deadline or the operator's desk.
 */
import { type FactsJson, factsFromJson } from '../core/frozen.ts'
import {
  byClientId,
  byHint,
  byTime,
  type Finding,
  type FoundJob,
  fits,
  type Known,
  type Suspect,
} from '../core/resolution.ts'
import { NOT_ACCEPTED } from '../core/retry.ts'
import type { Account, Lookup, LookupReply, LostSubmission, ProviderAdapter } from '../providers/adapter.ts'
import type { Database } from '../store/database.ts'
import {
  claimLookups,
  type LostRow,
  lookAgain,
  readSuspect,
  rivalsOf,
  type SuspectRow,
  takenJobs,
} from '../store/resolution.ts'
import type { Accounts } from './accounts.ts'
import type { Journal } from './journal.ts'
import type { Settle } from './settle.ts'
import type { FoundBy, Settled } from './settlement.ts'
import type { Timing } from './timing.ts'

export interface ResolverPorts {
  readonly db: Database
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly settle: Settle
  readonly journal: Journal
  readonly timing: Timing
}

/** What one look brought to light. */
export interface Look {
  readonly finding: Finding
  /** Jobs of the account that may be this attempt's, as far as it tells: nobody else has them, and nothing contradicts. */
  readonly jobs: readonly FoundJob[]
}

const AT_ONCE = 16
const CLAIM_SECONDS = 120
const CALL_TIMEOUT_MS = 20_000
/** How long after our last byte a slow provider may still make the job. */
const LATE_MS = 10 * 60_000
const MICROS_PER_MILLI = 1000

export class Resolver {
  readonly #ports: ResolverPorts

  constructor(ports: ResolverPorts) {
    this.#ports = ports
  }

  /** Look for those that are due; answers whether more may be due at once. */
  async tick(): Promise<boolean> {
    const due = await claimLookups(this.#ports.db, { limit: AT_ONCE, leaseSeconds: CLAIM_SECONDS })
    await Promise.all(due.map((lost) => this.#resolve(lost)))
    return due.length === AT_ONCE
  }

  async #resolve(lost: LostRow): Promise<void> {
    try {
      const { finding } = await this.look(lost)
      await this.act(lost, finding)
    } catch (error) {
      this.#ports.journal.fault('resolver', error, { attempt: lost.id })
      await this.#later(lost, 'the look failed by a fault of our own')
    }
  }

  /** Ask the account, and judge; changes nothing. */
  async look(lost: LostRow): Promise<Look> {
    const lookup = this.#ports.providers.get(lost.provider)?.lookup
    const row = await readSuspect(this.#ports.db, lost.id)
    if (!lookup || !row) return { finding: open('its provider cannot be asked'), jobs: [] }
    const account = await this.#ports.accounts.open(lost)
    return new Search({ ...this.#ports, lookup, account, lost, suspect: this.#suspect(row) }).run()
  }

  /** Whether nothing that is told of this job speaks against its being this attempt's. */
  async mayBe(lost: LostRow, job: FoundJob): Promise<boolean> {
    const row = await readSuspect(this.#ports.db, lost.id)
    return row !== undefined && fits(this.#suspect(row), job)
  }

  /** Let a finding count. What is still open is looked for again, while there is a way. */
  async act(lost: LostRow, finding: Finding): Promise<Settled | null> {
    switch (finding.kind) {
      case 'accepted':
        return this.#settled(lost, {
          kind: 'accepted',
          providerTaskId: finding.providerTaskId,
          requestId: null,
          found: { resolver: finding.by, note: `job ${finding.providerTaskId}` },
        })
      case 'not_accepted':
        return this.#settled(lost, {
          kind: 'refused',
          fault: NOT_ACCEPTED,
          requestId: null,
          found: { resolver: finding.by, note: 'the account has no such job' },
        })
      case 'open':
        await this.#later(lost, finding.why)
        return null
    }
  }

  async #settled(
    lost: LostRow,
    outcome: Parameters<Settle['apply']>[2] & { readonly found?: FoundBy },
  ): Promise<Settled> {
    const settled = await this.#ports.settle.apply(lost.id, lost.fence, outcome)
    // What was given up already is recorded by settle; a job that another attempt took meanwhile is none of ours.
    if (settled.kind === 'stale' && lost.state === 'submission_uncertain')
      await this.#later(lost, 'what was found could not be taken')
    return settled
  }

  async #later(lost: LostRow, note: string): Promise<void> {
    const { timing, db, providers } = this.#ports
    const canLook = providers.get(lost.provider)?.lookup !== undefined
    const ms = Math.min(timing.lookupMaxMs, timing.lookupMs * 2 ** Math.min(lost.lookups, 20))
    const again = canLook && lost.state === 'submission_uncertain'
    await lookAgain(db, lost.id, { seconds: again ? ms / 1000 : null, note, failedHint: lost.hinted_task_id })
  }

  #suspect(row: SuspectRow): Suspect {
    return suspectOf(row, this.#ports.timing)
  }
}

interface SearchPorts extends ResolverPorts {
  readonly lookup: Lookup
  readonly account: Account
  readonly lost: LostRow
  readonly suspect: Suspect
}

/** One attempt's search, in the order of UNK-9: the first proof ends it. */
class Search {
  readonly #ports: SearchPorts
  readonly #possible = new Map<string, FoundJob>()

  constructor(ports: SearchPorts) {
    this.#ports = ports
  }

  async run(): Promise<Look> {
    const whys: string[] = []
    // Of what has its job, only the other one is looked for that a callback has named.
    const ways = [() => this.#byHint(), () => this.#byClientId(), () => this.#byTime()]
    for (const way of this.#ports.lost.provider_task_id === null ? ways : ways.slice(0, 1)) {
      const finding = await way()
      if (finding === null) continue
      if (finding.kind !== 'open') return this.#look(finding)
      whys.push(finding.why)
    }
    return this.#look(open(whys.join('; ') || 'its provider cannot be asked'))
  }

  #look(finding: Finding): Look {
    return { finding, jobs: [...this.#possible.values()] }
  }

  async #byHint(): Promise<Finding | null> {
    const { lookup, account, lost, suspect } = this.#ports
    const hint = lost.hinted_task_id
    if (hint === null || !lookup.byTaskId) return null
    const reply = await lookup.byTaskId(account, hint, { timeoutMs: CALL_TIMEOUT_MS })
    if (reply.kind === 'no_answer') return silent(reply)
    const known = await this.#known(reply.jobs)
    return byHint(
      suspect,
      reply.jobs.find((job) => job.providerTaskId === hint),
      known,
    )
  }

  async #byClientId(): Promise<Finding | null> {
    const { lookup, account, suspect } = this.#ports
    if (!lookup.byClientId) return null
    const reply = await lookup.byClientId(account, this.#asked(), { timeoutMs: CALL_TIMEOUT_MS })
    if (reply.kind === 'no_answer') return silent(reply)
    const known = await this.#known(reply.jobs)
    return byClientId(suspect, reply, { ...known, absenceProves: this.#absenceProves() })
  }

  async #byTime(): Promise<Finding | null> {
    const { lookup, account, suspect } = this.#ports
    if (!lookup.byTime) return null
    const reply = await lookup.byTime(account, this.#asked(), { timeoutMs: CALL_TIMEOUT_MS })
    if (reply.kind === 'no_answer') return silent(reply)
    const known = await this.#known(reply.jobs)
    return byTime(suspect, reply, { ...known, soleUser: account.options.sole_user === true })
  }

  #asked(): LostSubmission {
    const { attemptId, from, until } = this.#ports.suspect
    return { attemptId, from, until }
  }

  /** The channel's own declaration, of seconds after which a job that was made must show. */
  #absenceProves(): boolean {
    const { account, lost, suspect } = this.#ports
    const declared = account.options.absence_proves_after_seconds
    if (typeof declared !== 'number' || declared <= 0) return false
    // Whoever calls the submission's own address has got the submission, whatever a list says.
    if (lost.called_back_at !== null) return false
    return lost.now / MICROS_PER_MILLI > suspect.until - LATE_MS + declared * 1000
  }

  /** Read after the jobs were listed, so that whoever made one of them is among them. */
  async #known(jobs: readonly FoundJob[]): Promise<Known> {
    const { db, lost, timing, suspect } = this.#ports
    const ids = jobs.map((job) => job.providerTaskId)
    const taken = await takenJobs(db, lost.channel_id, { jobs: ids, attemptId: lost.id })
    const rivals = await rivalsOf(db, lost, suspect)
    for (const job of jobs)
      if (!taken.has(job.providerTaskId) && fits(suspect, job)) this.#possible.set(job.providerTaskId, job)
    return { taken, rivals: rivals.rows.map((rival) => suspectOf(rival, timing)), allRivals: rivals.all }
  }
}

function suspectOf(row: SuspectRow, timing: Timing): Suspect {
  const facts = factsFromJson(row.facts as FactsJson)
  const from = Math.floor(row.submitting_at / MICROS_PER_MILLI)
  const seen = row.uncertain_at === null ? 0 : Math.ceil(row.uncertain_at / MICROS_PER_MILLI)
  const video = facts.media === 'video' ? facts : null
  return {
    attemptId: row.id,
    upstreamModel: row.upstream_model,
    from,
    until: Math.max(seen, from + timing.submitTimeoutMs) + LATE_MS,
    durationSeconds: video?.durationSeconds ?? 0,
    resolution: video?.resolution ?? '',
    aspectRatio: video?.aspectRatio ?? '',
    prompt: row.content.prompt,
  }
}

function open(why: string): Finding {
  return { kind: 'open', why }
}

function silent(reply: LookupReply & { kind: 'no_answer' }): Finding {
  return open(`the account gave no answer (${reply.fault.code})`)
}
