/**
 * The reconciler: what nobody else will do. Attempts of dead processes, deadlines, cooldowns, and what grows for ever.
 * Any number of them may run: each step is a guarded move that one of them wins.
 */
import { afterPing, coolDownOver, type Step } from '../core/health.ts'
import type { HealthSettings } from '../core/health-row.ts'
import type { PingReply, ProviderAdapter } from '../providers/adapter.ts'
import { resolveWhatIsOver } from '../store/alert-endings.ts'
import { raiseAlerts, resolveAlerts } from '../store/alerts.ts'
import type { AssetStore } from '../store/assets.ts'
import { freePollsOfTheDead, type Overdue, overdueAttempts } from '../store/attempts.ts'
import type { Database } from '../store/database.ts'
import { changeHealth } from '../store/health.ts'
import { maintainPartitions, withPartition } from '../store/partitions.ts'
import type { Releases } from '../store/releases.ts'
import {
  type CooledLevel,
  cooledDownLevels,
  databaseClock,
  expiredImages,
  pruneExpired,
} from '../store/upkeep.ts'
import type { Accounts } from './accounts.ts'
import { tellHealth } from './health-alerts.ts'
import type { Journal } from './journal.ts'
import type { Settle } from './settle.ts'
import { isOwnNetwork } from './tell-levels.ts'
import { endWaiting } from './waiting-end.ts'

export interface ReconcilerPorts {
  readonly db: Database
  readonly releases: Releases
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly assets: AssetStore
  readonly settle: Settle
  readonly journal: Journal
  readonly health: HealthSettings
  readonly retainDays: { readonly round: number; readonly health_events: number }
}

const BATCH = 100
const PING_TIMEOUT_MS = 10_000
const ALERTS_INTERVAL_MS = 5000
const UPKEEP_INTERVAL_MS = 10 * 60_000

export class Reconciler {
  readonly #ports: ReconcilerPorts
  #upkeepAt = 0
  #alertsAt = 0

  constructor(ports: ReconcilerPorts) {
    this.#ports = ports
  }

  /** One look at everything; a step that fails does not keep the others from their turn. */
  async tick(monotonicMs: number): Promise<void> {
    await this.#step('overdue', () => this.#overdue())
    await this.#step('cooldowns', () => this.#cooldowns())
    await this.#step('images', () => this.#images())
    if (monotonicMs >= this.#alertsAt) {
      this.#alertsAt = monotonicMs + ALERTS_INTERVAL_MS
      await this.#step('alerts', () => resolveWhatIsOver(this.#ports.db))
    }
    if (monotonicMs < this.#upkeepAt) return
    this.#upkeepAt = monotonicMs + UPKEEP_INTERVAL_MS
    await this.#step('partitions', () => this.#partitions())
    await this.#step('expired', () => this.#expired())
  }

  async #step(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#ports.journal.fault(`reconciler.${name}`, error)
    }
  }

  async #overdue(): Promise<void> {
    await freePollsOfTheDead(this.#ports.db)
    for (const attempt of await overdueAttempts(this.#ports.db, BATCH)) await this.#end(attempt)
  }

  async #end(attempt: Overdue): Promise<void> {
    await this.#ports.settle.apply(attempt.id, attempt.fence, { kind: attempt.due })
  }

  /** HLT-5, HLT-14: what does not heal by itself is asked for free first, where its adapter can. */
  async #cooldowns(): Promise<void> {
    for (const level of await cooledDownLevels(this.#ports.db)) {
      await this.#move(level, level.pingFirst ? await this.#ping(level) : null)
    }
  }

  async #ping(level: CooledLevel): Promise<PingReply | null> {
    const ping = this.#ports.providers.get(level.provider)?.ping
    if (!ping || level.credential_id === null) return null
    const account = await this.#ports.accounts.open({ ...level, credential_id: level.credential_id })
    return ping(account, { timeoutMs: PING_TIMEOUT_MS })
  }

  async #move(level: CooledLevel, reply: PingReply | null): Promise<void> {
    const { db, health } = this.#ports
    const which = { kind: level.level, id: level.id, attemptId: null }
    await withPartition(db, () =>
      db.transaction(
        async (tx) => {
          // HLT-16: that we ourselves are cut off lengthens nobody's cooldown; it is asked again at the next look.
          if (reply?.fault?.connection && (await isOwnNetwork(tx, level.channel_id))) return
          const step: Step = await changeHealth(tx, which, (row, now) =>
            reply === null ? coolDownOver(row, now) : afterPing(row, reply.ok, now, health),
          )
          await tellHealth(tx, [{ level: level.level, id: level.id, step }])
        },
        { retry: true },
      ),
    )
  }

  /** Images are carried by their own request; one whose process died between two attempts is ended here. */
  async #images(): Promise<void> {
    for (const task of await expiredImages(this.#ports.db))
      await endWaiting(this.#ports.db, this.#ports.releases, { taskId: task.id, code: 'generation_timeout' })
  }

  async #partitions(): Promise<void> {
    const { db, retainDays } = this.#ports
    const report = await maintainPartitions(db, { aheadDays: 7, retainDays })
    if (report.warning === null) return resolveAlerts(db, ['partitions_late'])
    await raiseAlerts(db, [
      {
        fingerprint: 'partitions_late',
        code: 'partitions_late',
        severity: 'high',
        message: report.warning,
        subject: { created: report.created.length },
      },
    ])
  }

  async #expired(): Promise<void> {
    await pruneExpired(this.#ports.db)
    await this.#ports.assets.sweep(await databaseClock(this.#ports.db))
  }
}
