// Who asked for what, by the trace header of each create request: the answer to "how many jobs did one
// attempt make?". It writes down what happened, also what the client never got to hear.

import { Deque } from './deque.ts'

export const TRACE_HEADER = 'x-client-request-id'

export type AnswerNote = number | 'dropped' | 'no answer'

export type LedgerEntry = {
  attempt: string
  protocol: string
  account: string
  model: string | null
  operation: string
  posts: number
  accepted: number
  jobs: string[]
  /** One per POST, in the order of the answers: HTTP status, or that there was none. */
  statuses: AnswerNote[]
  /** Kinds of the faults that were played on it. */
  faults: string[]
  /** The body of its first POST, with files and data URLs as digests. */
  request: unknown
  first_at: string
}

export class Ledger {
  #entries = new Map<string, LedgerEntry>()
  #order = new Deque<string>()
  #capacity: number
  posts = 0
  accepted = 0
  untracedPosts = 0
  untracedAccepted = 0
  forgotten = 0
  #several = new Set<string>()

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  reset(): void {
    this.#entries.clear()
    this.#order = new Deque()
    this.#several.clear()
    this.posts = 0
    this.accepted = 0
    this.untracedPosts = 0
    this.untracedAccepted = 0
    this.forgotten = 0
  }

  /** Notes a POST as soon as its head is read. Undefined when it carries no trace header. */
  post(
    attempt: string | null,
    at: Pick<LedgerEntry, 'protocol' | 'account' | 'operation'>,
  ): LedgerEntry | undefined {
    this.posts++
    if (attempt === null) {
      this.untracedPosts++
      return undefined
    }
    const entry = this.#entries.get(attempt) ?? this.#open(attempt, at)
    entry.posts++
    return entry
  }

  accept(entry: LedgerEntry | undefined, jobs: string[]): void {
    this.accepted += jobs.length
    if (entry === undefined) {
      this.untracedAccepted += jobs.length
      return
    }
    entry.accepted += jobs.length
    entry.jobs.push(...jobs)
    if (entry.accepted > 1) this.#several.add(entry.attempt)
  }

  find(attempt: string): LedgerEntry | undefined {
    return this.#entries.get(attempt)
  }

  /** Entries in the order of their first POST. */
  *entries(): Generator<LedgerEntry> {
    yield* this.#entries.values()
  }

  totals() {
    return {
      posts: this.posts,
      accepted: this.accepted,
      attempts: this.#entries.size,
      attempts_with_several_jobs: this.#several.size,
      several: [...this.#several].slice(0, 100),
      untraced_posts: this.untracedPosts,
      untraced_accepted: this.untracedAccepted,
      attempts_forgotten: this.forgotten,
    }
  }

  #open(attempt: string, at: Pick<LedgerEntry, 'protocol' | 'account' | 'operation'>): LedgerEntry {
    const entry: LedgerEntry = {
      attempt,
      ...at,
      model: null,
      posts: 0,
      accepted: 0,
      jobs: [],
      statuses: [],
      faults: [],
      request: undefined,
      first_at: new Date().toISOString(),
    }
    this.#entries.set(attempt, entry)
    this.#order.push(attempt)
    if (this.#order.length > this.#capacity) this.#forgetOldest()
    return entry
  }

  #forgetOldest(): void {
    const oldest = this.#order.shift()
    if (oldest === undefined) return
    this.#entries.delete(oldest)
    this.forgotten++
  }
}
