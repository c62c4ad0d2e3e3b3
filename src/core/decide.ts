/**
 * The heart: a frozen input goes in, a verdict comes out (ORD, LAY, STR). No clock, no chance, no I/O, no dependence on
 * the order of the candidates. Each candidate is judged once by itself (eligibility), then the layers are searched
 * (search), and the chosen layer is ranked (ranking).
 */
import { alertsOf } from './decision-alerts.ts'
import { rejectionAtTheDoor } from './door.ts'
import type { Assessment } from './eligibility.ts'
import { exclusionsOf } from './exclusions.ts'
import { figuresOf } from './figures.ts'
import { type Judgement, judge } from './judgement.ts'
import type { Micros } from './money.ts'
import { unserved } from './unserved.ts'
import type { Decision, DecisionInput, DegradedDelivery, Verdict } from './verdict.ts'

/**
 * Stored with each round: a verdict is only ever compared with one of the same version (IN-2). Raise it whenever the
 * same input may give another verdict.
 */
export const DECIDER_VERSION = 1

/** The verdict alone, for the door, a preview, and whoever keeps no record. */
export function decide(input: DecisionInput): Verdict {
  return rejectionAtTheDoor(input) ?? verdictOf(judge(input))
}

/** The same verdict with the figures behind each candidate's line, for a round to keep (IN-2, ORD-15, COST-1). */
export function decideWithFigures(input: DecisionInput): Decision {
  const rejection = rejectionAtTheDoor(input)
  if (rejection !== null) {
    return { verdict: rejection, baseline: null, costSoFar: costSoFar(input), figures: [] }
  }
  const judgement = judge(input)
  const verdict = verdictOf(judgement)
  const { baseline } = judgement.limits
  return { verdict, baseline, costSoFar: costSoFar(input), figures: figuresOf(judgement, verdict) }
}

function costSoFar(input: DecisionInput): Micros {
  return input.task.attempts.reduce((sum, attempt) => sum + attempt.cost, 0n)
}

function verdictOf(judgement: Judgement): Verdict {
  const { assessments, frame, limits, found, ranking } = judgement
  const chosen = ranking?.ranked[0]
  const excluded = exclusionsOf(judgement)
  const alerts = alertsOf(assessments, chosen?.assessment ?? null, { frame, limits })
  if (
    found.choice === null ||
    ranking === null ||
    chosen === undefined ||
    chosen.assessment.standing.quote === null
  ) {
    return { ...unserved(assessments, frame.input.task.admitted), excluded, alerts }
  }
  const { candidate } = chosen.assessment
  return {
    result: 'selected',
    bindingId: candidate.bindingId,
    supplyId: candidate.supply.id,
    tier: candidate.tier,
    pass: found.choice.pass,
    decidedBy: ranking.decidedBy,
    probeTurn: chosen.probeTurn,
    quote: chosen.assessment.standing.quote,
    baseline: limits.baseline,
    ranking: ranking.ranked.map(({ assessment }) => assessment.candidate.bindingId),
    excluded,
    degraded: deliveryOf(chosen.assessment, frame.input.model.profile),
    alerts,
  }
}

/** DEG-3: what the customer gets instead of what was asked for; null for an exact result. */
function deliveryOf(
  { standing: { rule, degraded } }: Assessment,
  requestedProfile: string,
): DegradedDelivery | null {
  if (rule === null || degraded === null) return null
  const { droppedInputs, changes } = degraded
  return { requestedProfile, actualProfile: rule.toProfile, droppedInputs, changes }
}
