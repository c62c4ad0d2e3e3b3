/**
 * Replay (IN-2): compute stored rounds again from their release and what was dynamic, and compare with what was stored,
 * bit for bit. A difference means that a decision cannot be explained any more.
 */
import { isDeepStrictEqual } from 'node:util'
import { DECIDER_VERSION, decideWithFigures } from '../core/decide.ts'
import { freeze } from '../core/frozen.ts'
import { recordOf } from '../core/record.ts'
import type { Decision, DecisionInput } from '../core/verdict.ts'
import type { Sql } from '../store/database.ts'
import type { Releases } from '../store/releases.ts'
import { allRounds, type StoredRound } from '../store/rounds.ts'

export interface Difference {
  readonly taskId: string
  readonly number: number
  readonly why: string
  readonly stored: unknown
  readonly computed: unknown
}

export interface ReplayReport {
  readonly rounds: number
  readonly byResult: Readonly<Record<string, number>>
  readonly differences: readonly Difference[]
}

/** The decision of a stored round, made again. Throws where what it refers to is gone. */
export async function decideAgain(
  sql: Sql,
  releases: Releases,
  round: StoredRound,
): Promise<{ input: DecisionInput; decision: Decision }> {
  const release = await releases.release(sql, String(round.release_id))
  if (!release) throw new Error(`release ${round.release_id} is missing`)
  const prices = await releases.prices(
    sql,
    Object.values(round.dynamic.supplies).map((supply) => supply.l),
  )
  const input = freeze(release, round.dynamic, prices)
  return { input, decision: decideWithFigures(input) }
}

/** Replay every round of tasks created at or after `since` (RFC 3339). */
export async function replay(sql: Sql, releases: Releases, since: string): Promise<ReplayReport> {
  let rounds = 0
  const byResult: Record<string, number> = {}
  const differences: Difference[] = []
  for await (const round of allRounds(sql, since)) {
    rounds += 1
    const kind = `${round.result}/${round.outcome}`
    byResult[kind] = (byResult[kind] ?? 0) + 1
    const difference = await compare(sql, releases, round)
    if (difference) differences.push(difference)
  }
  return { rounds, byResult, differences }
}

async function compare(sql: Sql, releases: Releases, round: StoredRound): Promise<Difference | undefined> {
  const at = { taskId: round.task_id, number: round.number }
  if (round.decider !== DECIDER_VERSION)
    return {
      ...at,
      why: 'judged by another version of the decider',
      stored: round.decider,
      computed: DECIDER_VERSION,
    }
  try {
    const { input, decision } = await decideAgain(sql, releases, round)
    const computed = plain(recordOf(decision, input))
    const stored = {
      result: round.result,
      reason: round.reason,
      verdict: round.verdict,
      figures: round.figures,
    }
    return isDeepStrictEqual(computed, plain(stored))
      ? undefined
      : { ...at, why: 'another verdict', stored, computed }
  } catch (error) {
    return {
      ...at,
      why: error instanceof Error ? error.message : String(error),
      stored: null,
      computed: null,
    }
  }
}

/** As JSON gives it back, which is how the database kept it. */
function plain(value: object): unknown {
  return JSON.parse(JSON.stringify(value))
}
