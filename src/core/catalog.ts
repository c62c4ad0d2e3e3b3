/** What operators publish: capabilities, price lists, policies, models and rules, as a decision reads them. */
import type { Micros } from './money.ts'
import type { BillingMode, DegradationMode, Media } from './request.ts'

/** Both ends included; an end that is absent is open. */
export type NumberRange =
  | { readonly kind: 'bounds'; readonly min?: number; readonly max?: number }
  | { readonly kind: 'values'; readonly values: readonly number[] }

export type InputRanges = Readonly<Record<string, NumberRange>>

export interface VideoMode {
  readonly durationSeconds: NumberRange
  readonly resolutions: readonly string[]
  readonly aspectRatios: readonly string[]
  readonly generateAudio: boolean
  readonly inputs: InputRanges
}

export interface ImageMode {
  readonly sizes: readonly string[]
  readonly qualities: readonly string[]
  readonly count: NumberRange
  readonly inputs: InputRanges
}

/** A request fits if it fits one of the modes in everything. */
export type Modes =
  | { readonly media: 'video'; readonly modes: readonly VideoMode[] }
  | { readonly media: 'image'; readonly modes: readonly ImageMode[] }

export interface Capability {
  readonly billingMode: BillingMode
  readonly modes: Modes
}

export interface PriceCondition {
  readonly resolution?: readonly string[]
  readonly generateAudio?: boolean
  readonly durationSeconds?: NumberRange
  readonly size?: readonly string[]
  readonly quality?: readonly string[]
  readonly inputs?: InputRanges
}

export interface PriceRow {
  readonly when: PriceCondition
  readonly price: Micros
}

/** The first row whose condition holds counts (COST-7). */
export interface PriceList {
  readonly mode: BillingMode
  readonly billsFailures: boolean
  readonly prices: readonly PriceRow[]
}

export type Strategy = 'stable_first' | 'cost_first' | 'manual_priority'

/** A decimal with at most six places as an exact fraction of a million: 1.5 is 1_500_000n. */
export type Ratio = bigint

export interface Policy {
  readonly strategy: Strategy
  readonly maxAttempts: number
  readonly retryWindowSeconds: number
  readonly successMinSamples: number
  readonly assumedSuccessRate: Ratio
  readonly stableCostMultiplierLimit: Ratio | null
  readonly fallbackCostMultiplier: Ratio | null
  readonly absoluteCostLimit: Micros | null
  readonly taskCostLimit: Micros | null
  readonly spillAfterSeconds: number | null
  readonly degradeAfterSeconds: number | null
  readonly probeIntervalSeconds: number | null
}

export interface DropInputs {
  readonly op: 'drop_inputs'
  readonly inputs: readonly string[]
}

/** Of one kind of inputs, the first so many in the customer's order. */
export interface KeepFirst {
  readonly op: 'keep_first'
  readonly inputs: string
  readonly count: number
}

/** Never raises. */
export interface LowerResolution {
  readonly op: 'lower_resolution'
  readonly to: string
}

export interface DropGeneratedAudio {
  readonly op: 'drop_generated_audio'
}

/** DEG-6: a fixed set of declarative operations, no scripts. */
export type DegradationOperation = DropInputs | KeepFirst | LowerResolution | DropGeneratedAudio

export interface DegradationRule {
  readonly id: string
  readonly published: boolean
  readonly fromProfile: string
  readonly toProfile: string
  readonly operations: readonly DegradationOperation[]
}

export type Tier = 'exact' | 'fallback' | 'degraded'
export type AdminState = 'enabled' | 'disabled'
export type HealthState = 'healthy' | 'degraded' | 'circuit_open' | 'probing' | 'recovering' | 'disabled'
export type RealPersonPolicy = 'allowed' | 'restricted' | 'denied'

/** A channel or a supply as it stands at the instant of the decision. */
export interface Level {
  readonly id: string
  readonly adminState: AdminState
  readonly health: HealthState
  readonly recoverySuccesses: number
  readonly concurrency: number
  /** All live leases. */
  readonly inUse: number
  /** Live leases whose stored epoch is the level's present one. */
  readonly inUseEpoch: number
  readonly lastGrantedAt: number | null
  /** Held until then, after a 429; null: not held. */
  readonly notBefore: number | null
}

export interface SupplyLevel extends Level {
  readonly realPerson: RealPersonPolicy
  readonly samples: { readonly successes: number; readonly failures: number }
  readonly capability: Capability
}

export interface Candidate {
  readonly bindingId: string
  readonly enabled: boolean
  readonly tier: Tier
  readonly degradationRuleId: string | null
  readonly priority: number
  readonly supply: SupplyLevel
  readonly channel: Level
  readonly costRule: PriceList | null
}

export interface Model {
  readonly id: string
  readonly media: Media
  readonly profile: string
  readonly enabled: boolean
  readonly published: boolean
  /** null: everyone. */
  readonly allowedGroups: readonly string[] | null
  readonly limits: Modes
  readonly degradation: DegradationMode
  readonly normalCost: PriceList | null
  readonly emergencyCostOverride: boolean
  readonly policy: Policy
}
