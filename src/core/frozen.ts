/**
 * The frozen input (IN-1), in two parts: a release, which never changes, and what was dynamic at the instant of the
 * decision. A round stores the second and refers to the first, so that `freeze` gives the same input, and `decide` the
 * same verdict, at any later time (IN-2). Dispatcher, door and replay all come through here.
 */
import type {
  AdminState,
  Candidate,
  Capability,
  DegradationOperation,
  DegradationRule,
  HealthState,
  Level,
  Model,
  Modes,
  Policy,
  PriceList,
  RealPersonPolicy,
  Tier,
} from './catalog.ts'
import type { DegradationMode, InputCounts, Media, RequestFacts } from './request.ts'
import type { DecisionInput, ErrorCategory, ErrorScope } from './verdict.ts'

/** A published binding, with the capability version that it was verified against. */
export interface ReleasedBinding {
  readonly id: string
  readonly supplyId: string
  readonly channelId: string
  readonly tier: Tier
  readonly priority: number
  readonly capability: Capability
  readonly degradationRuleId: string | null
  readonly degradationRuleVersionId: string | null
}

export interface ReleasedRule {
  readonly id: string
  readonly fromProfile: string
  readonly toProfile: string
  readonly operations: readonly DegradationOperation[]
}

/** One immutable release of a model, parsed. */
export interface Release {
  /** Decimal text of a bigint. */
  readonly id: string
  readonly modelId: string
  readonly media: Media
  readonly profile: string
  readonly allowedGroups: readonly string[] | null
  readonly limits: Modes
  readonly degradation: DegradationMode
  readonly normalCost: PriceList | null
  readonly emergencyCostOverride: boolean
  readonly policy: Policy
  /** ERR-4. */
  readonly realPersonRefusal: 'stop' | 'change_supply'
  readonly maxRunSeconds: number
  readonly imageTimeoutSeconds: number
  /** Fields that a request may omit (CUS-5), by their public name. */
  readonly defaults: Readonly<Record<string, string | number | boolean>>
  readonly description: string
  readonly bindings: readonly ReleasedBinding[]
  readonly rules: readonly ReleasedRule[]
}

/** The JSON of `request` in decision.md. */
export interface FactsJson {
  readonly media: Media
  readonly billing_mode: 'per_second' | 'per_request' | 'per_image' | null
  readonly degradation: DegradationMode | null
  readonly real_person?: boolean
  readonly duration_seconds?: number
  readonly resolution?: string
  readonly aspect_ratio?: string
  readonly generate_audio?: boolean
  readonly size?: string
  readonly quality?: string | null
  readonly count?: number
  readonly inputs: InputCounts
}

/** A level as it stood. Short keys: one is stored with every round. */
export interface LevelJson {
  /** admin state */ readonly a: AdminState
  /** health */ readonly h: HealthState
  /** recovery successes */ readonly r: number
  /** concurrency */ readonly c: number
  /** in use */ readonly u: number
  /** in use, of the present epoch */ readonly e: number
  /** epoch */ readonly ep: number
  /** last granted, µs */ readonly g: number | null
  /** held until, µs */ readonly n: number | null
}

export interface SupplyLevelJson extends LevelJson {
  /** real-person policy */ readonly p: RealPersonPolicy
  /** successes and failures (STR-9) */ readonly s: readonly [number, number]
  /** price list version, null: none */ readonly l: string | null
}

export interface PastAttemptJson {
  readonly supply_id: string
  readonly channel_id: string
  readonly outcome: 'failed' | 'uncertain' | 'active'
  readonly category: ErrorCategory | null
  readonly scope: ErrorScope | null
  readonly may_change_supply: boolean
  /** Micro-units, decimal text. */
  readonly cost: string
}

/** What was dynamic. Instants in µs since 1970. */
export interface Dynamic {
  readonly now: number
  readonly task: {
    readonly id: string
    readonly created_at: number
    readonly admitted: boolean
    readonly attempts: readonly PastAttemptJson[]
  }
  readonly caller: {
    readonly key_active: boolean
    readonly user_active: boolean
    readonly groups: readonly string[]
  }
  readonly request: FactsJson
  readonly model: { readonly enabled: boolean; readonly published: boolean }
  /** Rules of the release that are switched on. */
  readonly rules: readonly string[]
  /** Bindings of the release that are switched off. */
  readonly off: readonly string[]
  readonly channels: Readonly<Record<string, LevelJson>>
  readonly supplies: Readonly<Record<string, SupplyLevelJson>>
}

export type PriceLists = ReadonlyMap<string, PriceList>

/** Join the two parts. A level that the dynamic part does not have is a fault of the caller. */
export function freeze(release: Release, dynamic: Dynamic, prices: PriceLists): DecisionInput {
  return {
    now: dynamic.now,
    task: {
      id: dynamic.task.id,
      createdAt: dynamic.task.created_at,
      admitted: dynamic.task.admitted,
      attempts: dynamic.task.attempts.map((attempt) => ({
        supplyId: attempt.supply_id,
        channelId: attempt.channel_id,
        outcome: attempt.outcome,
        category: attempt.category,
        scope: attempt.scope,
        mayChangeSupply: attempt.may_change_supply,
        cost: BigInt(attempt.cost),
      })),
    },
    caller: {
      keyActive: dynamic.caller.key_active,
      userActive: dynamic.caller.user_active,
      groups: dynamic.caller.groups,
    },
    request: factsFromJson(dynamic.request),
    model: modelOf(release, dynamic),
    degradationRules: release.rules.map((rule) => ruleOf(rule, dynamic)),
    candidates: release.bindings.map((binding) => candidateOf(binding, dynamic, prices)),
  }
}

function modelOf(release: Release, dynamic: Dynamic): Model {
  return {
    id: release.modelId,
    media: release.media,
    profile: release.profile,
    enabled: dynamic.model.enabled,
    published: dynamic.model.published,
    allowedGroups: release.allowedGroups,
    limits: release.limits,
    degradation: release.degradation,
    normalCost: release.normalCost,
    emergencyCostOverride: release.emergencyCostOverride,
    policy: release.policy,
  }
}

function ruleOf(rule: ReleasedRule, dynamic: Dynamic): DegradationRule {
  return { ...rule, published: dynamic.rules.includes(rule.id) }
}

function candidateOf(binding: ReleasedBinding, dynamic: Dynamic, prices: PriceLists): Candidate {
  const supply = dynamic.supplies[binding.supplyId]
  const channel = dynamic.channels[binding.channelId]
  if (!supply || !channel) throw new Error(`the frozen input lacks the levels of binding ${binding.id}`)
  return {
    bindingId: binding.id,
    enabled: !dynamic.off.includes(binding.id),
    tier: binding.tier,
    degradationRuleId: binding.degradationRuleId,
    priority: binding.priority,
    supply: {
      ...levelOf(binding.supplyId, supply),
      realPerson: supply.p,
      samples: { successes: supply.s[0], failures: supply.s[1] },
      capability: binding.capability,
    },
    channel: levelOf(binding.channelId, channel),
    costRule: supply.l === null ? null : (prices.get(supply.l) ?? missingPrice(supply.l)),
  }
}

function missingPrice(id: string): never {
  throw new Error(`the frozen input refers to price list version ${id}, which was not given`)
}

/** A stored level as a decision reads it. */
export function levelOf(id: string, level: LevelJson): Level {
  return {
    id,
    adminState: level.a,
    health: level.h,
    recoverySuccesses: level.r,
    concurrency: level.c,
    inUse: level.u,
    inUseEpoch: level.e,
    lastGrantedAt: level.g,
    notBefore: level.n,
  }
}

/** A level after one more grant at `now`: what the next decision of the same batch sees. */
export function afterGrant<L extends LevelJson>(level: L, now: number): L {
  return { ...level, u: level.u + 1, e: level.e + 1, g: now }
}

export function factsToJson(facts: RequestFacts): FactsJson {
  const common = { media: facts.media, billing_mode: facts.billingMode, degradation: facts.degradation }
  if (facts.media === 'image')
    return { ...common, size: facts.size, quality: facts.quality, count: facts.count, inputs: facts.inputs }
  return {
    ...common,
    real_person: facts.realPerson,
    duration_seconds: facts.durationSeconds,
    resolution: facts.resolution,
    aspect_ratio: facts.aspectRatio,
    generate_audio: facts.generateAudio,
    inputs: facts.inputs,
  }
}

export function factsFromJson(json: FactsJson): RequestFacts {
  const common = { billingMode: json.billing_mode, degradation: json.degradation, inputs: json.inputs }
  if (json.media === 'image')
    return {
      ...common,
      media: 'image',
      size: json.size ?? '',
      quality: json.quality ?? null,
      count: json.count ?? 0,
    }
  return {
    ...common,
    media: 'video',
    realPerson: json.real_person ?? false,
    durationSeconds: json.duration_seconds ?? 0,
    resolution: json.resolution ?? '',
    aspectRatio: json.aspect_ratio ?? '',
    generateAudio: json.generate_audio ?? false,
  }
}

/**
 * The lane of a waiting task: tasks of one lane can be served by the same supplies at the same price, so if the oldest
 * must wait, so must the others (STR-12, WAKE-4). Text that is equal exactly when everything is that a later decision
 * reads of a task, its age and its user apart, both of which favour the older one or end it.
 */
export function laneOf(modelId: string, facts: FactsJson, attempts: readonly PastAttemptJson[]): string {
  const inputs = Object.entries(facts.inputs)
    .filter(([, count]) => count > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  const of = [
    facts.billing_mode,
    facts.degradation,
    facts.real_person,
    facts.duration_seconds,
    facts.resolution,
    facts.aspect_ratio,
    facts.generate_audio,
    facts.size,
    facts.quality,
    facts.count,
    inputs,
    attempts.map((past) => [
      past.supply_id,
      past.channel_id,
      past.category,
      past.scope,
      past.may_change_supply,
      past.cost,
    ]),
  ]
  return `${modelId} ${JSON.stringify(of)}`
}
