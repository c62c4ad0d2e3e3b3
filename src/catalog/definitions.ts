/**
 * The catalog as it is stored: definitions as JSON documents of the decision contract, by ID. A file is read into these,
 * the database is read into these, and a diff compares the two.
 */

import type { DegradationOperation, RealPersonPolicy, Strategy, Tier } from '../core/catalog.ts'
import type { DegradationMode, Media } from '../core/request.ts'
import type { RangeJson } from './notation.ts'

export type BillingModeName = 'per_second' | 'per_request' | 'per_image'

export interface VideoModeDocument {
  readonly duration_seconds: RangeJson
  readonly resolutions: readonly string[]
  readonly aspect_ratios: readonly string[]
  readonly generate_audio: boolean
  readonly inputs: Readonly<Record<string, RangeJson>>
}

export interface ImageModeDocument {
  readonly sizes: readonly string[]
  readonly qualities: readonly string[]
  readonly count: RangeJson
  readonly inputs: Readonly<Record<string, RangeJson>>
}

export type ModeDocument = VideoModeDocument | ImageModeDocument

export interface CapabilityDocument {
  readonly billing_mode: BillingModeName
  readonly modes: readonly ModeDocument[]
}

export interface PriceConditionDocument {
  readonly resolution?: readonly string[]
  readonly generate_audio?: boolean
  readonly duration_seconds?: RangeJson
  readonly size?: readonly string[]
  readonly quality?: readonly string[]
  readonly inputs?: Readonly<Record<string, RangeJson>>
}

export interface PriceRowDocument {
  readonly when?: PriceConditionDocument
  readonly price: string
}

export interface PriceListDocument {
  readonly mode: BillingModeName
  readonly bills_failures: boolean
  readonly prices: readonly PriceRowDocument[]
}

/** A price list in the currency of its writer. `rate`: what one unit cost in the base currency when it was made. */
export interface SupplyPrices {
  readonly currency: string
  readonly rate: string
  readonly list: PriceListDocument
}

export interface PolicyDocument {
  readonly strategy: Strategy
  readonly max_attempts: number
  readonly retry_window_seconds: number
  readonly success_min_samples: number
  readonly assumed_success_rate: number
  readonly stable_cost_multiplier_limit: number | null
  readonly fallback_cost_multiplier: number | null
  readonly absolute_cost_limit: string | null
  readonly task_cost_limit: string | null
  readonly spill_after_seconds: number | null
  readonly degrade_after_seconds: number | null
  readonly probe_interval_seconds: number | null
  readonly real_person_refusal: 'stop' | 'change_supply'
}

export interface RuleDocument {
  readonly from_profile: string
  readonly to_profile: string
  readonly operations: readonly DegradationOperation[]
}

export interface ModelDocument {
  readonly profile: string
  readonly description: string
  readonly limits: { readonly modes: readonly ModeDocument[] }
  readonly defaults: Readonly<Record<string, string | number | boolean>>
  readonly degradation: DegradationMode
  readonly normal_cost: PriceListDocument | null
  readonly emergency_cost_override: boolean
  readonly allowed_groups: readonly string[] | null
  readonly policy: string
  readonly max_run_seconds?: number
  readonly image_timeout_seconds?: number
}

export interface Channel {
  readonly provider: string
  readonly base_url: string
  readonly credential: string
  readonly concurrency: number
  readonly options: Readonly<Record<string, unknown>>
}

export interface Supply {
  readonly channel: string
  readonly upstream_model: string
  readonly media: Media
  readonly real_person: RealPersonPolicy
  readonly concurrency: number
  readonly expected_seconds: number
  readonly capability: CapabilityDocument
  /** null: no price is known, so that it is no candidate (COST-4). */
  readonly prices: SupplyPrices | null
}

export interface Model {
  readonly media: Media
  readonly document: ModelDocument
}

export interface Verification {
  readonly by: string
  /** RFC 3339, UTC. */
  readonly at: string
  readonly evidence: string
  /** Version of the supply's capability; `current`: the one that stands beside it. */
  readonly capability: number | 'current'
}

export interface Binding {
  readonly model: string
  readonly supply: string
  readonly tier: Tier
  readonly degradation_rule: string | null
  readonly priority: number
  readonly verified: Verification | null
}

export type ById<T> = ReadonlyMap<string, T>

export interface Catalog {
  readonly currency: string
  readonly exchangeRates: Readonly<Record<string, string>>
  readonly channels: ById<Channel>
  readonly supplies: ById<Supply>
  readonly policies: ById<PolicyDocument>
  readonly rules: ById<RuleDocument>
  readonly models: ById<Model>
  readonly bindings: ById<Binding>
}
