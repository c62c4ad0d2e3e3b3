/**
 * A task explained: what was asked, each round with every candidate's verdict and figures, its attempts and its cost, in
 * the four steps of ORD-16. Each stored decision is made again from what it read, so that the words come from the figures
 * that decided, and not from how things stand now.
 */
import { type ExplainedRound, explainRound } from '../core/explain.ts'
import { publicTaskId } from '../core/ids.ts'
import { printMicros } from '../core/money.ts'
import { printInstant } from '../core/time.ts'
import type { Sql } from '../store/database.ts'
import type { Releases } from '../store/releases.ts'
import { roundsOf, type StoredRound } from '../store/rounds.ts'
import { type AttemptRecord, attemptRecords, type TaskRecord, taskRecord } from '../store/task-views.ts'
import { decideAgain } from './replay.ts'

export interface ExplainedTask {
  readonly task: Readonly<Record<string, unknown>>
  readonly summary: string
  readonly rounds: readonly ExplainedStoredRound[]
  readonly attempts: readonly Readonly<Record<string, unknown>>[]
  readonly cost: { readonly total: string; readonly attempts: readonly string[] }
}

export interface ExplainedStoredRound {
  readonly number: number
  readonly at: string
  readonly admitted: boolean
  readonly outcome: StoredRound['outcome']
  readonly result: string
  readonly reason: string | null
  readonly attempt_id: string | null
  /** The four steps, in words. */
  readonly explained: ExplainedRound
  readonly verdict: object
  readonly figures: object
  readonly reservation: object | null
}

/** undefined where there is no such task. */
export async function explainTask(
  sql: Sql,
  releases: Releases,
  taskId: string,
): Promise<ExplainedTask | undefined> {
  const task = await taskRecord(sql, taskId)
  if (!task) return undefined
  const rounds: ExplainedStoredRound[] = []
  for (const round of await roundsOf(sql, taskId)) rounds.push(await explainStored(sql, releases, round))
  const attempts = await attemptRecords(sql, taskId)
  return {
    task: taskJson(task),
    summary: summaryOf(task, attempts),
    rounds,
    attempts: attempts.map(attemptJson),
    cost: costOf(attempts),
  }
}

async function explainStored(
  sql: Sql,
  releases: Releases,
  round: StoredRound,
): Promise<ExplainedStoredRound> {
  const { input, decision } = await decideAgain(sql, releases, round)
  return {
    number: round.number,
    at: printInstant(round.at),
    admitted: round.admitted,
    outcome: round.outcome,
    result: round.result,
    reason: round.reason,
    attempt_id: round.attempt_id,
    explained: explainRound(input, decision),
    verdict: round.verdict,
    figures: round.figures,
    reservation: round.reservation,
  }
}

function time(instant: number | null): string | null {
  return instant === null ? null : printInstant(instant)
}

function taskJson(task: TaskRecord): Record<string, unknown> {
  return {
    ...task,
    public_id: publicTaskId(task.kind, task.id),
    release_id: String(task.release_id),
    created_at: time(task.created_at),
    started_at: time(task.started_at),
    ended_at: time(task.ended_at),
    next_action_at: time(task.next_action_at),
  }
}

function attemptJson(attempt: AttemptRecord): Record<string, unknown> {
  const { quote_micros, cost_micros, ...rest } = attempt
  return {
    ...rest,
    quote: printMicros(quote_micros),
    cost: printMicros(cost_micros),
    created_at: time(attempt.created_at),
    submitting_at: time(attempt.submitting_at),
    uncertain_at: time(attempt.uncertain_at),
    uncertain_deadline: time(attempt.uncertain_deadline),
    accepted_at: time(attempt.accepted_at),
    ended_at: time(attempt.ended_at),
    lease_released_at: time(attempt.lease_released_at),
  }
}

function costOf(attempts: readonly AttemptRecord[]): ExplainedTask['cost'] {
  const total = attempts.reduce((sum, attempt) => sum + attempt.cost_micros, 0n)
  return { total: printMicros(total), attempts: attempts.map((attempt) => printMicros(attempt.cost_micros)) }
}

function summaryOf(task: TaskRecord, attempts: readonly AttemptRecord[]): string {
  const counted = attempts.filter((attempt) => attempt.number !== null)
  const last = counted.at(-1)
  const by = last ? `supply ${last.supply_id} (${last.tier}, channel ${last.channel_id})` : 'no supply'
  switch (task.state) {
    case 'queued': {
      const why = task.wait_reason === null ? 'its first round' : `${task.wait_reason}`
      const place =
        task.ahead === null || task.ahead === 0 ? 'first of its lane' : `behind ${task.ahead} of its lane`
      return `Waiting for ${why}, ${place}; ${counted.length} attempts so far.`
    }
    case 'running':
      return `Attempt ${last?.number ?? 0} is ${last?.state ?? 'reserved'} on ${by}.`
    case 'succeeded':
      return `Delivered by ${by} at attempt ${last?.number ?? 0}.`
    case 'cancelled':
      return `Cancelled after ${counted.length} attempts.`
    case 'rejected':
      return `Refused with ${task.error_code}; nothing was submitted.`
    default:
      return `Failed with ${task.error_code} after ${counted.length} attempts, the last on ${by}.`
  }
}

/** The same for people: one block for each round and attempt. */
export function inWords(explained: ExplainedTask): string {
  const { task } = explained
  const head = [
    `${task.public_id}  ${task.model_id}  ${task.state}`,
    `  asked by ${task.customer_id} at ${task.created_at}: ${factsInWords(task.facts)}`,
    `  ${explained.summary}`,
  ]
  const rounds = explained.rounds.flatMap((round) => ['', ...roundInWords(round)])
  const attempts = explained.attempts.flatMap((attempt) => ['', ...attemptInWords(attempt)])
  return [...head, ...rounds, ...attempts, '', `Cost so far: ${explained.cost.total}`, ''].join('\n')
}

function factsInWords(facts: unknown): string {
  const { inputs, ...rest } = facts as Record<string, unknown>
  const given = Object.entries({ ...rest, ...(inputs as object) }).filter(
    ([, value]) => value !== null && value !== 0,
  )
  return given.map(([name, value]) => `${name} ${value}`).join(', ')
}

const OUTCOME: Readonly<Record<StoredRound['outcome'], string>> = {
  granted: 'selected, and its slots were granted',
  reservation_failed: 'selected, but its slot was gone under the lock; decided again',
  wait: 'nothing to choose yet: it waits',
  rejected: 'refused',
  asked: 'judged at the door, without a lease',
}

function roundInWords(round: ExplainedStoredRound): string[] {
  const lines = [
    `Round ${round.number}, ${round.at}: ${OUTCOME[round.outcome]} (${round.reason ?? round.result})`,
  ]
  for (const step of round.explained.steps)
    lines.push(`  ${step.title}`, ...step.lines.map((line) => `    ${line}`))
  return lines
}

function attemptInWords(attempt: Readonly<Record<string, unknown>>): string[] {
  const { number, state, supply_id, channel_id, provider, upstream_model, quote, cost } = attempt
  const name = number === null ? 'Attempt that was not counted' : `Attempt ${number}`
  const lines = [
    `${name}: ${state} on ${supply_id} (${provider} ${upstream_model}, channel ${channel_id}), quote ${quote}, cost ${cost}`,
    `  reserved ${attempt.created_at}, submitting ${attempt.submitting_at ?? '-'}, accepted ${attempt.accepted_at ?? '-'}, ended ${attempt.ended_at ?? '-'}`,
  ]
  if (attempt.provider_task_id)
    lines.push(`  at the provider: ${attempt.provider_task_id}, ${attempt.polls} polls`)
  if (attempt.error_code) {
    const said = attempt.provider_code ? `; the provider said ${attempt.provider_code}` : ''
    lines.push(
      `  ${attempt.error_code} (${attempt.category}, scope ${attempt.scope})${said}: ${attempt.error_message ?? ''}`,
    )
  }
  return lines
}
