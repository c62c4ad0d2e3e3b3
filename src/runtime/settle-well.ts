/**
 * The happy path of settle, for one attempt or for many at once: accepted, and finished for a task that waits for it.
 * Whoever calls has locked tasks and attempts; levels are locked here, channels before supplies.
 */
import type { Release } from '../core/frozen.ts'
import type { HealthSettings } from '../core/health-row.ts'
import { raiseAlerts } from '../store/alerts.ts'
import { endAttempts, type LockedAttempt, markAccepted } from '../store/attempts.ts'
import type { Sql } from '../store/database.ts'
import { endTasks, storeOutputs } from '../store/usage.ts'
import { downgradeAlerts } from './attempt-alerts.ts'
import { endedWell, judged, type Outcome, type Settled, succeededTask } from './settlement.ts'
import { hearSuccesses, type Success, storeTold, type Teller } from './tell-levels.ts'

export type GoodOutcome = Outcome & { readonly kind: 'accepted' | 'finished' }

export interface GoodMove {
  readonly at: LockedAttempt & { readonly release: Release }
  readonly outcome: GoodOutcome
}

export interface GoodPorts {
  readonly health: HealthSettings
  readonly hintFrom: () => string | null
}

const CEILING_OF_FIRST_POLL = 10
const FLOOR_OF_FIRST_POLL = 0.2

/** Let them count; answers in the order given. No attempt and no task may be in it twice. */
export async function settleWell(tx: Sql, moves: readonly GoodMove[], ports: GoodPorts): Promise<Settled[]> {
  const accepted = moves.flatMap(acceptanceOf)
  const finished = moves.flatMap(deliveryOf)
  const ended = finished.map(({ at, end }) => ({ id: at.attempt.id, end }))
  // In two turns: what health has become is known only when its rows are locked and read.
  const [, , heard] = await Promise.all([
    markAccepted(tx, accepted),
    endAttempts(tx, ended, ports.hintFrom()),
    hearSuccesses(tx, moves.flatMap(tellings), ports.health),
  ])
  await Promise.all([storeTold(tx, heard), deliver(tx, finished)])
  return moves.map(({ outcome }) =>
    outcome.kind === 'accepted' ? { kind: 'open' } : { kind: 'ended', state: 'succeeded', code: null },
  )
}

async function deliver(tx: Sql, finished: readonly Finished[]): Promise<void> {
  const outputs = finished.flatMap(({ at, outputs: of }) =>
    of.map((output) => ({ ...output, task_id: at.task.id })),
  )
  const alerts = finished.flatMap(({ at, outputs: of }) =>
    downgradeAlerts(
      at.attempt,
      of.flatMap((output) => output.shortfalls),
    ),
  )
  const ends = finished.map(({ at, delivery }) => ({
    id: at.task.id,
    end: succeededTask(at.task, at.release, { attempt: at.attempt, delivery }),
  }))
  await Promise.all([storeOutputs(tx, outputs), raiseAlerts(tx, alerts), endTasks(tx, ends)])
}

type Finished = ReturnType<typeof deliveryOf>[number]

function acceptanceOf({ at, outcome }: GoodMove) {
  if (outcome.kind !== 'accepted') return []
  const { providerTaskId, requestId } = outcome
  const seconds = at.attempt.expected_ms / 20_000
  const firstPollSeconds = Math.min(CEILING_OF_FIRST_POLL, Math.max(FLOOR_OF_FIRST_POLL, seconds))
  const { maxRunSeconds } = at.release
  return [{ attempt: at.attempt, providerTaskId, requestId, maxRunSeconds, firstPollSeconds }]
}

function deliveryOf({ at, outcome }: GoodMove) {
  if (outcome.kind !== 'finished') return []
  const outputs = judged(at.task, at.attempt, outcome.outputs)
  return [{ at, delivery: outcome, outputs, end: endedWell(at.attempt, outcome) }]
}

function tellings({ at, outcome }: GoodMove): Success[] {
  const teller = tellerOf(at.attempt)
  if (outcome.kind === 'accepted') return [{ teller, happening: { kind: 'accepted' } }]
  const finished = { teller, happening: { kind: 'finished', durationMs: outcome.durationMs } } as const
  // An image's answer is acceptance and result in one.
  return at.attempt.kind === 'image' ? [{ teller, happening: { kind: 'accepted' } }, finished] : [finished]
}

export function tellerOf(attempt: LockedAttempt['attempt']): Teller {
  return {
    attemptId: attempt.id,
    channelId: attempt.channel_id,
    supplyId: attempt.supply_id,
    channelEpoch: attempt.channel_epoch,
    supplyEpoch: attempt.supply_epoch,
    calledAt: attempt.submitting_at ?? attempt.created_at,
  }
}
