/**
 * Jobs that were made and paid for, and that nobody gets: late, or one more than was asked for (UNK-5, RTY-7, COST-7).
 *
 * Invariant: each such job is recorded, charged to its attempt and its task, and told, in one transaction and once, however
 * often and by whomever it is found.
 */
import { raiseAlerts } from '../store/alerts.ts'
import type { AttemptRow, TaskRow } from '../store/attempts.ts'
import type { Sql } from '../store/database.ts'
import { hasOrphans, type Orphan, recordOrphan } from '../store/orphans.ts'
import { lookAgain, markResolved, mayTakeJob } from '../store/resolution.ts'
import { recountCost } from '../store/usage.ts'
import { attemptAlerts } from './attempt-alerts.ts'
import type { FoundBy, Outcome } from './settlement.ts'

/** An attempt's own job ended after its task had: what it cost, the end of the attempt has charged. */
export async function recordLateEnd(
  tx: Sql,
  attempt: AttemptRow,
  end: { how: string; cost: bigint },
): Promise<void> {
  const orphan = { ...of(attempt), ...end, job: attempt.provider_task_id, uncharged: 0n }
  await recordAndTell(tx, attempt, { orphan, detail: `${end.how} after its task had ended` })
}

interface Late {
  readonly job: string | null
  readonly how: string
  readonly found: FoundBy | null
}

/** News that no longer fits its attempt. Only a job that was made counts, and only one that the attempt does not have. */
export async function recordLateNews(
  tx: Sql,
  { task, attempt }: { task: TaskRow; attempt: AttemptRow },
  outcome: Outcome,
): Promise<void> {
  const late = lateJob(attempt, outcome)
  if (!late) return
  if (late.found && late.job !== null && !(await mayTakeJob(tx, attempt, late.job)))
    return lookNoMore(tx, attempt, `job ${late.job} belongs to another attempt`)
  const uncharged = await unchargedOf(tx, attempt, late.job)
  const orphan = { ...of(attempt), job: late.job, how: late.how, cost: attempt.quote_micros, uncharged }
  const isSecond = attempt.provider_task_id !== null && late.job !== attempt.provider_task_id
  const detail = isSecond
    ? `job ${late.job} beside its own`
    : `${outcome.kind} after nobody waited for it any more`
  await recordAndTell(tx, attempt, { orphan, detail })
  await recountCost(tx, task.id)
  if (!late.found) return
  if (isSecond) await lookNoMore(tx, attempt, `job ${late.job} was made as well`)
  else await markResolved(tx, attempt.id, late.found)
}

function lateJob(attempt: AttemptRow, outcome: Outcome): Late | null {
  if (attempt.state === 'reserved') return null
  if (outcome.kind === 'finished')
    return attempt.state === 'succeeded'
      ? null
      : { job: attempt.provider_task_id, how: 'late_finished', found: null }
  if (outcome.kind !== 'accepted' || outcome.providerTaskId === attempt.provider_task_id) return null
  const { providerTaskId: job, found = null } = outcome
  // Where one job is known, a second one takes more than a likeness, or a guess that is overtaken.
  const isGuess = found?.resolver === 'time' || found?.resolver === 'operator'
  return isGuess && attempt.provider_task_id !== null ? null : { job, how: 'late_accepted', found }
}

/**
 * What its attempt was not charged with yet. One that was given up without a job may have been charged with one, whichever
 * that was: it is the first that turns up.
 */
async function unchargedOf(tx: Sql, attempt: AttemptRow, job: string | null): Promise<bigint> {
  const { quote_micros: quote, cost_micros: cost, orphan_cost_micros: ofOrphans } = attempt
  const isOwn =
    job === attempt.provider_task_id ||
    (attempt.provider_task_id === null && !(await hasOrphans(tx, attempt.id)))
  if (!isOwn) return quote
  const charged = cost - ofOrphans
  return charged < quote ? quote - charged : 0n
}

async function recordAndTell(
  tx: Sql,
  attempt: AttemptRow,
  { orphan, detail }: { orphan: Orphan; detail: string },
): Promise<void> {
  if (await recordOrphan(tx, orphan)) await raiseAlerts(tx, attemptAlerts('orphan_result', attempt, detail))
}

function lookNoMore(tx: Sql, attempt: AttemptRow, note: string): Promise<void> {
  return lookAgain(tx, attempt.id, { seconds: null, note, failedHint: attempt.hinted_task_id })
}

function of(attempt: AttemptRow) {
  return { attemptId: attempt.id, taskId: attempt.task_id }
}
