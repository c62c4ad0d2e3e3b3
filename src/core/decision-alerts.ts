/** DEG-4, COST-6 and the rest: what operators should hear about a decision, in the order of decision.md. */
import type { Assessment, Frame } from './eligibility.ts'
import { type CostLimits, multiplierOf } from './quote.ts'
import type { DecisionAlert } from './verdict.ts'

/** @param chosen the candidate that was selected, or null */
export function alertsOf(
  assessments: readonly Assessment[],
  chosen: Assessment | null,
  context: { readonly frame: Frame; readonly limits: CostLimits },
): readonly DecisionAlert[] {
  const exact = assessments.filter(
    ({ candidate, standing }) => candidate.tier === 'exact' && standing.capable,
  )
  const inReach = exact.filter(({ standing }) => !standing.stoppedByHealth)
  const degraded = chosen?.candidate.tier === 'degraded'
  const alerts: DecisionAlert[] = []
  if (degraded || (exact.length > 0 && inReach.length === 0)) alerts.push('exact_unavailable')
  if (degraded) alerts.push('degradation_used')
  if (chosen?.lifted) alerts.push('emergency_cost_override')
  if (inReach.some(isOverLimit) && !inReach.some(({ payable }) => payable)) alerts.push('cost_limit_blocks')
  if (assessments.some(hasNoPrice)) alerts.push('price_missing')
  if (chosen !== null && isUnjudged(chosen, context)) alerts.push('baseline_missing')
  return alerts
}

function isOverLimit({ costObstacle }: Assessment): boolean {
  return costObstacle !== null && costObstacle !== 'no_quote'
}

function hasNoPrice({ standing, costObstacle }: Assessment): boolean {
  return standing.capable && costObstacle === 'no_quote'
}

/** COST-4: a multiplier should have judged its price, but there was nothing to multiply and no absolute limit either. */
function isUnjudged(
  { standing, candidate }: Assessment,
  { frame, limits }: { readonly frame: Frame; readonly limits: CostLimits },
): boolean {
  if (standing.quote === null || standing.quote === 0n) return false
  const multiplier = multiplierOf(frame.input.model.policy, candidate.tier)
  return multiplier !== null && limits.baseline === null && limits.absolute === null
}
