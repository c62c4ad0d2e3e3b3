/**
 * Gathers what is to be granted into shared transactions: while one is under way, what arrives waits for the next, so
 * that a busy gateway pays one commit for many requests, and an idle one waits for nobody.
 */
import type { DecisionAlert } from '../core/verdict.ts'
import { raiseAlerts } from '../store/alerts.ts'
import type { Database } from '../store/database.ts'
import { type Proposal, type Reserved, reserve } from '../store/grant.ts'
import { alertsOf } from './decision-alerts.ts'

export interface Submitted {
  readonly modelId: string
  readonly alerts: readonly DecisionAlert[]
  readonly proposal: Proposal
}

interface Waiting {
  readonly items: readonly Submitted[]
  readonly resolve: (results: Reserved[]) => void
  readonly reject: (error: unknown) => void
}

const LARGEST_BATCH = 500

export class Granter {
  readonly #db: Database
  readonly #owner: string
  readonly #waiting: Waiting[] = []
  #running = false

  constructor(db: Database, owner: string) {
    this.#db = db
    this.#owner = owner
  }

  /** Reserve, or store as waiting, in the order given. Throws only where nothing of it was stored. */
  grant(items: readonly Submitted[]): Promise<Reserved[]> {
    if (items.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      void this.#drain()
    })
  }

  async #drain(): Promise<void> {
    if (this.#running) return
    this.#running = true
    try {
      while (this.#waiting.length > 0) await this.#one(this.#take())
    } finally {
      this.#running = false
    }
  }

  #take(): Waiting[] {
    const taken: Waiting[] = []
    let size = 0
    for (
      let next = this.#waiting[0];
      next && (size === 0 || size + next.items.length <= LARGEST_BATCH);
      next = this.#waiting[0]
    ) {
      taken.push(next)
      size += next.items.length
      this.#waiting.shift()
    }
    return taken
  }

  async #one(batch: readonly Waiting[]): Promise<void> {
    try {
      const results = await this.#store(batch.flatMap((waiting) => waiting.items))
      let from = 0
      for (const waiting of batch) {
        waiting.resolve(results.slice(from, from + waiting.items.length))
        from += waiting.items.length
      }
    } catch (error) {
      // One request's fault must not be its neighbours': each of them is tried once more by itself.
      if (batch.length > 1) for (const waiting of batch) await this.#one([waiting])
      else for (const waiting of batch) waiting.reject(error)
    }
  }

  #store(items: readonly Submitted[]): Promise<Reserved[]> {
    const byRound = new Map(items.map((item) => [item.proposal.round, item]))
    return reserve(
      this.#db,
      items.map((item) => item.proposal),
      {
        owner: this.#owner,
        raise: (tx, rounds) =>
          raiseAlerts(
            tx,
            alertsOf(
              rounds.flatMap((round) => {
                const item = byRound.get(round)
                return item ? [{ modelId: item.modelId, round, alerts: item.alerts }] : []
              }),
            ),
          ),
      },
    )
  }
}
