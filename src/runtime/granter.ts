/** Grants of a process, gathered into shared transactions with their alerts. */
import type { DecisionAlert } from '../core/verdict.ts'
import { raiseAlerts } from '../store/alerts.ts'
import type { Database } from '../store/database.ts'
import { type Proposal, type Reserved, reserve } from '../store/grant.ts'
import { Batches } from './batches.ts'
import { alertsOf } from './decision-alerts.ts'

export interface Submitted {
  readonly modelId: string
  readonly alerts: readonly DecisionAlert[]
  readonly proposal: Proposal
}

const LARGEST_BATCH = 500

export class Granter {
  readonly #db: Database
  readonly #owner: string
  readonly #batches: Batches<Submitted, Reserved>

  constructor(db: Database, owner: string) {
    this.#db = db
    this.#owner = owner
    this.#batches = new Batches({ largest: LARGEST_BATCH, store: (items) => this.#store(items) })
  }

  /** Reserve, or store as waiting, in the order given. Throws only where nothing of it was stored. */
  grant(items: readonly Submitted[]): Promise<Reserved[]> {
    return this.#batches.add(items)
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
