/** ORD-10 and ORD-11: what a request costs on a price list, what is normal, and which limits a quote exceeds. */
import { inputsInRange, inRange } from './capability.ts'
import type { Model, Policy, PriceCondition, PriceList, Ratio, Tier } from './catalog.ts'
import type { Micros } from './money.ts'
import type { BillingMode, RequestFacts } from './request.ts'

/** A ratio of 1, in the millionths that ratios are held in. */
export const RATIO_ONE = 1_000_000n

/** STR-5: a video that names no billing mode means per_second; an image is always billed per image. */
export function billingModeOf(request: RequestFacts): BillingMode {
  return request.media === 'image' ? 'per_image' : (request.billingMode ?? 'per_second')
}

/** null: no price is known for this request, which is never the same as a price of 0 (COST-4). */
export function quote(list: PriceList | null, request: RequestFacts): Micros | null {
  if (list === null || list.mode !== billingModeOf(request)) return null
  const row = list.prices.find((each) => holds(each.when, request))
  return row === undefined ? null : row.price * unitsOf(list.mode, request)
}

function unitsOf(mode: BillingMode, request: RequestFacts): bigint {
  if (mode === 'per_second' && request.media === 'video') return BigInt(request.durationSeconds)
  if (mode === 'per_image' && request.media === 'image') return BigInt(request.count)
  return 1n
}

/** A condition on something that the request does not have, like the quality of a video, never holds. */
function holds(when: PriceCondition, request: RequestFacts): boolean {
  return (
    holdsForMedia(when, request) && (when.inputs === undefined || inputsInRange(request.inputs, when.inputs))
  )
}

function holdsForMedia(when: PriceCondition, request: RequestFacts): boolean {
  if (request.media === 'video') {
    if (when.size !== undefined || when.quality !== undefined) return false
    return (
      (when.resolution === undefined || when.resolution.includes(request.resolution)) &&
      (when.generateAudio === undefined || when.generateAudio === request.generateAudio) &&
      (when.durationSeconds === undefined || inRange(request.durationSeconds, when.durationSeconds))
    )
  }
  if (when.resolution !== undefined || when.generateAudio !== undefined || when.durationSeconds !== undefined)
    return false
  return (
    (when.size === undefined || when.size.includes(request.size)) &&
    (when.quality === undefined || (request.quality !== null && when.quality.includes(request.quality)))
  )
}

/**
 * The normal cost (COST-3): the model's own list, else the lower middle of the exact candidates' quotes above 0; null
 * where there is neither. A free supply says nothing about what is normal.
 *
 * @param exactQuotes quotes of the exact candidates that fit, in any order
 */
export function baselineOf(
  model: Model,
  request: RequestFacts,
  exactQuotes: readonly Micros[],
): Micros | null {
  const normal = quote(model.normalCost, request)
  if (normal !== null && normal > 0n) return normal
  const ascending = exactQuotes.filter((each) => each > 0n).sort(compareMicros)
  return ascending[(ascending.length - 1) >> 1] ?? null
}

export function compareMicros(a: Micros, b: Micros): number {
  return a < b ? -1 : a > b ? 1 : 0
}

/** STR-4: which multiple of the baseline a tier may cost; null: any. */
export function multiplierOf(policy: Policy, tier: Tier): Ratio | null {
  const stable = policy.strategy === 'cost_first' ? null : policy.stableCostMultiplierLimit
  return tier === 'exact' ? stable : (policy.fallbackCostMultiplier ?? stable)
}

/** The dearest whole micro-unit within a multiple of the baseline: a quote is too dear exactly if it is above. */
export function ceilingOf(baseline: Micros, multiplier: Ratio): Micros {
  return (baseline * multiplier) / RATIO_ONE
}

/** The limits that one decision compares quotes with. A ceiling of null is no limit. */
export interface CostLimits {
  readonly baseline: Micros | null
  readonly costSoFar: Micros
  readonly exactCeiling: Micros | null
  readonly otherCeiling: Micros | null
  readonly absolute: Micros | null
  readonly task: Micros | null
  /** COST-6: the limits on a single quote may be exceeded, the one on the task never. */
  readonly override: boolean
}

export function costLimitsOf(model: Model, baseline: Micros | null, costSoFar: Micros): CostLimits {
  const ceiling = (tier: Tier): Micros | null => {
    const multiplier = multiplierOf(model.policy, tier)
    return baseline === null || multiplier === null ? null : ceilingOf(baseline, multiplier)
  }
  return {
    baseline,
    costSoFar,
    exactCeiling: ceiling('exact'),
    otherCeiling: ceiling('fallback'),
    absolute: model.policy.absoluteCostLimit,
    task: model.policy.taskCostLimit,
    override: model.emergencyCostOverride,
  }
}

export type CostObstacle =
  | 'no_quote'
  | 'over_task_limit'
  | 'over_stable_limit'
  | 'over_fallback_limit'
  | 'over_absolute_limit'

/** ORD-10, ORD-11: at most one; the task's limit first, because no override lifts it. */
export function costObstacleOf(amount: Micros | null, tier: Tier, limits: CostLimits): CostObstacle | null {
  if (amount === null) return 'no_quote'
  if (exceeds(limits.costSoFar + amount, limits.task)) return 'over_task_limit'
  if (tier === 'exact') {
    if (exceeds(amount, limits.exactCeiling)) return 'over_stable_limit'
  } else if (exceeds(amount, limits.otherCeiling)) return 'over_fallback_limit'
  return exceeds(amount, limits.absolute) ? 'over_absolute_limit' : null
}

/** Exactly at a limit is inside it. */
function exceeds(amount: Micros, limit: Micros | null): boolean {
  return limit !== null && amount > limit
}

export function isLifted(obstacle: CostObstacle | null, limits: CostLimits): boolean {
  return limits.override && obstacle !== null && obstacle !== 'no_quote' && obstacle !== 'over_task_limit'
}
