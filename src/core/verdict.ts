/** Both sides of the decision (decision.md): the frozen input, and the verdict with the figures behind it. */

import type { Candidate, DegradationRule, Model, Tier } from './catalog.ts'
import type { Change } from './degrade.ts'
import type { Micros } from './money.ts'
import type { RequestFacts } from './request.ts'
import type { Instant } from './time.ts'

export type ErrorCategory = 'content' | 'request' | 'supply' | 'capacity' | 'unknown'
export type ErrorScope = 'request' | 'supply' | 'channel' | 'attempt'

/** An earlier attempt of the same task. */
export interface PastAttempt {
  readonly supplyId: string
  readonly channelId: string
  readonly outcome: 'failed' | 'uncertain' | 'active'
  readonly category: ErrorCategory | null
  readonly scope: ErrorScope | null
  readonly mayChangeSupply: boolean
  /** What it cost, or may cost. */
  readonly cost: Micros
}

export interface DecisionInput {
  readonly now: Instant
  readonly task: {
    readonly id: string
    readonly createdAt: Instant
    /** false: the request stands at the door; true: it was accepted before. */
    readonly admitted: boolean
    readonly attempts: readonly PastAttempt[]
  }
  readonly caller: {
    readonly keyActive: boolean
    readonly userActive: boolean
    readonly groups: readonly string[]
  }
  readonly request: RequestFacts
  readonly model: Model
  readonly degradationRules: readonly DegradationRule[]
  readonly candidates: readonly Candidate[]
}

export type Obstacle =
  | 'channel_disabled'
  | 'supply_disabled'
  | 'binding_disabled'
  | 'degradation_not_allowed'
  | 'degradation_rule_unavailable'
  | 'capability_mismatch'
  | 'billing_mode_mismatch'
  | 'real_person_denied'
  | 'refused_before'
  | 'channel_circuit_open'
  | 'channel_health_disabled'
  | 'supply_circuit_open'
  | 'supply_health_disabled'
  | 'channel_held'
  | 'channel_saturated'
  | 'supply_held'
  | 'supply_saturated'
  | 'no_quote'
  | 'over_task_limit'
  | 'over_stable_limit'
  | 'over_fallback_limit'
  | 'over_absolute_limit'
  | 'degradation_not_yet'

/** Why a candidate is not in the ranking: its first obstacle, or why a usable one was passed over. */
export type ExclusionReason = Obstacle | 'already_tried' | 'real_person_layer' | 'layer_not_reached'

export type Pass =
  | 'untried'
  | 'untried_recovering'
  | 'tried'
  | 'override_untried'
  | 'override_tried'
  | 'degraded_untried'
  | 'degraded_tried'
  | 'degraded_override_untried'
  | 'degraded_override_tried'

export type DecidedBy =
  | 'only_candidate'
  | 'probe_turn'
  | 'health'
  | 'success_rate'
  | 'expected_cost'
  | 'free_capacity'
  | 'priority'
  | 'supply_id'
  | 'binding_id'

export type DecisionAlert =
  | 'exact_unavailable'
  | 'degradation_used'
  | 'emergency_cost_override'
  | 'cost_limit_blocks'
  | 'price_missing'
  | 'baseline_missing'

export type WaitReason = 'capacity' | 'health' | 'disabled' | 'cost'

export type RejectionCode =
  | 'access_denied'
  | 'model_not_available'
  | 'invalid_request'
  | 'attempt_open'
  | 'not_retryable'
  | 'attempts_exhausted'
  | 'retry_window_expired'
  | 'cost_limit_exceeded'
  | 'no_capable_supply'

export interface DegradedDelivery {
  readonly requestedProfile: string
  readonly actualProfile: string
  readonly droppedInputs: readonly string[]
  /** What is lowered and not left out; empty for rules that only leave inputs out. */
  readonly changes: readonly Change[]
}

export type Exclusions = Readonly<Record<string, ExclusionReason>>

export interface Selected {
  readonly result: 'selected'
  readonly bindingId: string
  readonly supplyId: string
  readonly tier: Tier
  readonly pass: Pass
  readonly decidedBy: DecidedBy
  readonly probeTurn: boolean
  readonly quote: Micros
  readonly baseline: Micros | null
  readonly ranking: readonly string[]
  readonly excluded: Exclusions
  readonly degraded: DegradedDelivery | null
  readonly alerts: readonly DecisionAlert[]
}

export interface Waiting {
  readonly result: 'wait'
  readonly reason: WaitReason
  readonly excluded: Exclusions
  readonly alerts: readonly DecisionAlert[]
}

export interface Rejected {
  readonly result: 'rejected'
  readonly code: RejectionCode
  readonly param?: string
  readonly excluded?: Exclusions
  readonly alerts?: readonly DecisionAlert[]
}

export type Verdict = Selected | Waiting | Rejected

/**
 * The figures behind one candidate's line in a stored round (ORD-15, COST-1): its first obstacle's compared figures as
 * evidence, its other obstacles beside it. Money in micro-units.
 */
export interface CandidateFigures {
  readonly bindingId: string
  readonly obstacles: readonly Obstacle[]
  /** e.g. { free: 0, concurrency: 5, in_use: 5 } for supply_saturated; { parameter: 'resolution' } for capability_mismatch. */
  readonly evidence: Readonly<Record<string, string | number | boolean | null>>
  readonly quote: Micros | null
  readonly expectedCost: Micros | null
  /** Whether the success rate put it into the second class; null where the rate was not considered. */
  readonly secondClass: boolean | null
  readonly freeCapacity: number
  readonly probeTurn: boolean
}

export interface Decision {
  readonly verdict: Verdict
  readonly baseline: Micros | null
  readonly costSoFar: Micros
  /** Empty where no candidate was looked at. */
  readonly figures: readonly CandidateFigures[]
}
