/** A decision as a round stores it (IN-2, ORD-15, COST-1): JSON with exact figures, money as decimal text. */
import { printVerdict } from './decision-json.ts'
import { printMicros } from './money.ts'
import type { CandidateFigures, Decision, DecisionInput, Verdict } from './verdict.ts'

export interface FiguresJson {
  readonly baseline: string | null
  readonly cost_so_far: string
  readonly stable_cost_multiplier_limit: string | null
  readonly fallback_cost_multiplier: string | null
  readonly absolute_cost_limit: string | null
  readonly task_cost_limit: string | null
  readonly candidates: Readonly<Record<string, CandidateJson>>
}

export interface CandidateJson {
  readonly supply: string
  readonly channel: string
  readonly tier: string
  /** STR-6: snapshots store each candidate's priority. */
  readonly priority: number
  readonly obstacles: readonly string[]
  readonly evidence: Readonly<Record<string, string | number | boolean | null>>
  readonly quote: string | null
  readonly expected_cost: string | null
  readonly second_class: boolean | null
  readonly free: number
  readonly probe_turn: boolean
}

export interface DecisionRecord {
  readonly result: Verdict['result']
  /** What was chosen, why it waits, or the code of the rejection. */
  readonly reason: string
  readonly verdict: object
  readonly figures: FiguresJson
}

export function recordOf(decision: Decision, input: DecisionInput): DecisionRecord {
  const { verdict } = decision
  return {
    result: verdict.result,
    reason: reasonOf(verdict),
    verdict: printVerdict(verdict),
    figures: figuresOf(decision, input),
  }
}

function reasonOf(verdict: Verdict): string {
  switch (verdict.result) {
    case 'selected':
      return verdict.bindingId
    case 'wait':
      return verdict.reason
    case 'rejected':
      return verdict.code
  }
}

function figuresOf(decision: Decision, input: DecisionInput): FiguresJson {
  const { policy } = input.model
  const candidates = new Map(input.candidates.map((candidate) => [candidate.bindingId, candidate]))
  return {
    baseline: amount(decision.baseline),
    cost_so_far: printMicros(decision.costSoFar),
    // A ratio is a whole number of millionths, as money is of micro-units, and is printed alike.
    stable_cost_multiplier_limit: amount(policy.stableCostMultiplierLimit),
    fallback_cost_multiplier: amount(policy.fallbackCostMultiplier),
    absolute_cost_limit: amount(policy.absoluteCostLimit),
    task_cost_limit: amount(policy.taskCostLimit),
    candidates: Object.fromEntries(
      decision.figures.flatMap((figures) => {
        const candidate = candidates.get(figures.bindingId)
        return candidate ? [[figures.bindingId, candidateJson(figures, candidate)]] : []
      }),
    ),
  }
}

function candidateJson(
  figures: CandidateFigures,
  candidate: DecisionInput['candidates'][number],
): CandidateJson {
  return {
    supply: candidate.supply.id,
    channel: candidate.channel.id,
    tier: candidate.tier,
    priority: candidate.priority,
    obstacles: figures.obstacles,
    evidence: figures.evidence,
    quote: amount(figures.quote),
    expected_cost: amount(figures.expectedCost),
    second_class: figures.secondClass,
    free: figures.freeCapacity,
    probe_turn: figures.probeTurn,
  }
}

function amount(value: bigint | null): string | null {
  return value === null ? null : printMicros(value)
}

/** ORD-18: a waiting task appends a round only when this text changes. */
export function waitDigest(verdict: Verdict): string {
  if (verdict.result !== 'wait') return verdict.result
  const excluded = Object.entries(verdict.excluded).sort(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify([verdict.reason, excluded])
}
