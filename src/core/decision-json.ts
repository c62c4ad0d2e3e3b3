/**
 * The public JSON of the decision: read strictly into the program's own types, and the verdict printed in the
 * contract's shape and order. The parts have readers of their own, because the same JSON is what the catalog stores.
 */
import type {
  Candidate,
  Capability,
  DegradationOperation,
  DegradationRule,
  ImageMode,
  InputRanges,
  Level,
  Model,
  Modes,
  NumberRange,
  Policy,
  PriceCondition,
  PriceList,
  PriceRow,
  Ratio,
  SupplyLevel,
  VideoMode,
} from './catalog.ts'
import {
  type Fields,
  field,
  listOf,
  MalformedInput,
  mapOf,
  mistyped,
  oneOf,
  optional,
  orNull,
  type Reader,
  readCount,
  readFields,
  readFlag,
  readText,
  shown,
  wholeNumber,
} from './json-reader.ts'
import { type Micros, parseMicros } from './money.ts'
import type { InputCounts, Media, RequestFacts } from './request.ts'
import { type Instant, parseInstant } from './time.ts'
import type { DecisionInput, PastAttempt } from './verdict.ts'

export { printVerdict } from './verdict-json.ts'
export { MalformedInput }

const readMedia = oneOf('video', 'image')
const readDegradationMode = oneOf('strict', 'best_effort')
const readTexts = listOf(readText)

/** The whole input. Throws MalformedInput for everything that decision.md calls malformed. */
export function parseDecisionInput(value: unknown): DecisionInput {
  const input = readFields(value, '')
  const task = field(input, 'task', parseTask)
  const request = field(input, 'request', parseRequestFacts)
  const model = field(input, 'model', parseModel)
  if (task.admitted && request.media !== model.media) {
    throw new MalformedInput('request.media', `must be ${model.media}, like the model of an admitted task`)
  }
  const parsed = {
    now: field(input, 'now', parseTime),
    task,
    caller: field(input, 'caller', parseCaller),
    request,
    model,
    degradationRules: field(input, 'degradation_rules', listOf(parseDegradationRule)),
    candidates: field(input, 'candidates', listOf(candidateReader(model.media))),
  }
  refuseDuplicates(parsed)
  return parsed
}

function parseTask(value: unknown, path: string): DecisionInput['task'] {
  const task = readFields(value, path)
  return {
    id: field(task, 'id', readText),
    createdAt: field(task, 'created_at', parseTime),
    admitted: field(task, 'admitted', readFlag),
    attempts: field(task, 'attempts', listOf(parsePastAttempt)),
  }
}

const readCategory = oneOf('content', 'request', 'supply', 'capacity', 'unknown')
const readScope = oneOf('request', 'supply', 'channel', 'attempt')

function parsePastAttempt(value: unknown, path: string): PastAttempt {
  const attempt = readFields(value, path)
  const outcome = field(attempt, 'outcome', oneOf('failed', 'uncertain', 'active'))
  // Only what failed has an error of which there must be a category and a scope.
  const ofError = outcome === 'failed' ? field : orNull
  return {
    supplyId: field(attempt, 'supply_id', readText),
    channelId: field(attempt, 'channel_id', readText),
    outcome,
    category: ofError(attempt, 'category', readCategory),
    scope: ofError(attempt, 'scope', readScope),
    mayChangeSupply: field(attempt, 'may_change_supply', readFlag),
    cost: field(attempt, 'cost', parseAmount),
  }
}

function parseCaller(value: unknown, path: string): DecisionInput['caller'] {
  const caller = readFields(value, path)
  return {
    keyActive: field(caller, 'key_active', readFlag),
    userActive: field(caller, 'user_active', readFlag),
    groups: field(caller, 'groups', readTexts),
  }
}

/** Which fields must be there goes by `media`. */
export function parseRequestFacts(value: unknown, path: string): RequestFacts {
  const request = readFields(value, path)
  const degradation = orNull(request, 'degradation', readDegradationMode)
  const inputs: InputCounts = field(request, 'inputs', mapOf(readCount))
  if (field(request, 'media', readMedia) === 'image') {
    return {
      media: 'image',
      billingMode: orNull(request, 'billing_mode', oneOf('per_second', 'per_request', 'per_image')),
      degradation,
      size: field(request, 'size', readText),
      quality: orNull(request, 'quality', readText),
      count: field(request, 'count', readCount),
      inputs,
    }
  }
  return {
    media: 'video',
    billingMode: orNull(request, 'billing_mode', oneOf('per_second', 'per_request')),
    degradation,
    realPerson: field(request, 'real_person', readFlag),
    durationSeconds: field(request, 'duration_seconds', readCount),
    resolution: field(request, 'resolution', readText),
    aspectRatio: field(request, 'aspect_ratio', readText),
    generateAudio: field(request, 'generate_audio', readFlag),
    inputs,
  }
}

function parseModel(value: unknown, path: string): Model {
  const model = readFields(value, path)
  const media = field(model, 'media', readMedia)
  return {
    id: field(model, 'id', readText),
    media,
    profile: field(model, 'profile', readText),
    enabled: field(model, 'enabled', readFlag),
    published: field(model, 'published', readFlag),
    allowedGroups: orNull(model, 'allowed_groups', readTexts),
    limits: field(model, 'limits', (limits, at) => parseModes(media, limits, at)),
    degradation: field(model, 'degradation', readDegradationMode),
    normalCost: orNull(model, 'normal_cost', parsePriceList),
    emergencyCostOverride: field(model, 'emergency_cost_override', readFlag),
    policy: field(model, 'policy', parsePolicy),
  }
}

export function parsePolicy(value: unknown, path: string): Policy {
  const policy = readFields(value, path)
  return {
    strategy: field(policy, 'strategy', oneOf('stable_first', 'cost_first', 'manual_priority')),
    maxAttempts: field(policy, 'max_attempts', readCount),
    retryWindowSeconds: field(policy, 'retry_window_seconds', readCount),
    successMinSamples: field(policy, 'success_min_samples', readCount),
    assumedSuccessRate: field(policy, 'assumed_success_rate', parseFraction),
    stableCostMultiplierLimit: orNull(policy, 'stable_cost_multiplier_limit', parseRatio),
    fallbackCostMultiplier: orNull(policy, 'fallback_cost_multiplier', parseRatio),
    absoluteCostLimit: orNull(policy, 'absolute_cost_limit', parseAmount),
    taskCostLimit: orNull(policy, 'task_cost_limit', parseAmount),
    spillAfterSeconds: orNull(policy, 'spill_after_seconds', readCount),
    degradeAfterSeconds: orNull(policy, 'degrade_after_seconds', readCount),
    probeIntervalSeconds: orNull(policy, 'probe_interval_seconds', readCount),
  }
}

function parseDegradationRule(value: unknown, path: string): DegradationRule {
  const rule = readFields(value, path)
  return {
    id: field(rule, 'id', readText),
    published: field(rule, 'published', readFlag),
    fromProfile: field(rule, 'from_profile', readText),
    toProfile: field(rule, 'to_profile', readText),
    operations: field(rule, 'operations', parseDegradationOperations),
  }
}

export function parseDegradationOperations(value: unknown, path: string): readonly DegradationOperation[] {
  return listOf(parseDegradationOperation)(value, path)
}

function parseDegradationOperation(value: unknown, path: string): DegradationOperation {
  const operation = readFields(value, path)
  const op = field(operation, 'op', readOperation)
  switch (op) {
    case 'drop_inputs':
      return { op, inputs: field(operation, 'inputs', readTexts) }
    case 'keep_first':
      return { op, inputs: field(operation, 'inputs', readText), count: field(operation, 'count', readCount) }
    case 'lower_resolution':
      return { op, to: field(operation, 'to', readText) }
    case 'drop_generated_audio':
      return { op }
  }
}

const readOperation = oneOf('drop_inputs', 'keep_first', 'lower_resolution', 'drop_generated_audio')
const readTier = oneOf('exact', 'fallback', 'degraded')

function candidateReader(media: Media): Reader<Candidate> {
  return (value, path) => {
    const candidate = readFields(value, path)
    const tier = field(candidate, 'tier', readTier)
    // A degraded candidate must say by which rule.
    const ruleOf = tier === 'degraded' ? field : orNull
    return {
      bindingId: field(candidate, 'binding_id', readText),
      enabled: field(candidate, 'enabled', readFlag),
      tier,
      degradationRuleId: ruleOf(candidate, 'degradation_rule_id', readText),
      priority: field(candidate, 'priority', parsePriority),
      supply: field(candidate, 'supply', (supply, at) => parseSupply(media, supply, at)),
      channel: field(candidate, 'channel', (channel, at) => parseLevel(readFields(channel, at))),
      costRule: orNull(candidate, 'cost_rule', parseCostRule),
    }
  }
}

function parsePriority(value: unknown, path: string): number {
  return wholeNumber(value, path, { min: 0, max: 1_000_000 })
}

function parseSupply(media: Media, value: unknown, path: string): SupplyLevel {
  const supply = readFields(value, path)
  return {
    ...parseLevel(supply),
    realPerson: field(supply, 'real_person', oneOf('allowed', 'restricted', 'denied')),
    samples: field(supply, 'samples', parseSamples),
    capability: field(supply, 'capability', (capability, at) => parseCapability(media, capability, at)),
  }
}

function parseSamples(value: unknown, path: string): SupplyLevel['samples'] {
  const samples = readFields(value, path)
  return {
    successes: field(samples, 'successes', readCount),
    failures: field(samples, 'failures', readCount),
  }
}

const readAdminState = oneOf('enabled', 'disabled')
const readHealth = oneOf('healthy', 'degraded', 'circuit_open', 'probing', 'recovering', 'disabled')

function parseLevel(level: Fields): Level {
  const health = field(level, 'health', readHealth)
  return {
    id: field(level, 'id', readText),
    adminState: field(level, 'admin_state', readAdminState),
    health,
    recoverySuccesses: field(level, 'recovery_successes', (value, path) =>
      parseRecoverySuccesses(health, value, path),
    ),
    concurrency: field(level, 'concurrency', parseConcurrency),
    inUse: field(level, 'in_use', readCount),
    inUseEpoch: field(level, 'in_use_epoch', readCount),
    lastGrantedAt: orNull(level, 'last_granted_at', parseTime),
    notBefore: orNull(level, 'not_before', parseTime),
  }
}

/** HLT-6: each of the two states of recovery has its own rungs. */
function parseRecoverySuccesses(health: Level['health'], value: unknown, path: string): number {
  if (health === 'probing') return wholeNumber(value, path, { min: 0, max: 1 })
  if (health === 'recovering') return wholeNumber(value, path, { min: 2, max: 4 })
  return readCount(value, path)
}

function parseConcurrency(value: unknown, path: string): number {
  return wholeNumber(value, path, { min: 1, max: Number.POSITIVE_INFINITY })
}

/** `{billing_mode, modes[]}` of a supply of this media. */
export function parseCapability(media: Media, value: unknown, path: string): Capability {
  const capability = readFields(value, path)
  return {
    billingMode: field(capability, 'billing_mode', readBillingMode),
    modes: parseModes(media, value, path),
  }
}

const readBillingMode = oneOf('per_second', 'per_request', 'per_image')

/** `{modes[]}`: what a model's limits and a supply's capability have in common. */
export function parseModes(media: Media, value: unknown, path: string): Modes {
  const holder = readFields(value, path)
  return media === 'video'
    ? { media, modes: field(holder, 'modes', listOf(parseVideoMode)) }
    : { media, modes: field(holder, 'modes', listOf(parseImageMode)) }
}

function parseVideoMode(value: unknown, path: string): VideoMode {
  const mode = readFields(value, path)
  return {
    durationSeconds: field(mode, 'duration_seconds', parseRange),
    resolutions: field(mode, 'resolutions', readTexts),
    aspectRatios: field(mode, 'aspect_ratios', readTexts),
    generateAudio: field(mode, 'generate_audio', readFlag),
    inputs: field(mode, 'inputs', readInputRanges),
  }
}

function parseImageMode(value: unknown, path: string): ImageMode {
  const mode = readFields(value, path)
  return {
    sizes: field(mode, 'sizes', readTexts),
    qualities: field(mode, 'qualities', readTexts),
    count: field(mode, 'count', parseRange),
    inputs: field(mode, 'inputs', readInputRanges),
  }
}

/** `{min, max}`, each optional, or `{values: […]}`, which counts alone where it is given. */
export function parseRange(value: unknown, path: string): NumberRange {
  const range = readFields(value, path)
  const values = optional(range, 'values', listOf(readCount))
  if (values !== undefined) return { kind: 'values', values }
  const min = optional(range, 'min', readCount)
  const max = optional(range, 'max', readCount)
  return { kind: 'bounds', ...(min === undefined ? {} : { min }), ...(max === undefined ? {} : { max }) }
}

const readInputRanges: Reader<InputRanges> = mapOf(parseRange)

/** The price list of a supply, which must say whether failures are billed. */
export function parseCostRule(value: unknown, path: string): PriceList {
  const list = parsePriceList(value, path)
  field(readFields(value, path), 'bills_failures', readFlag)
  return list
}

/** A price list; one that only says what is normal has no failures to bill. */
export function parsePriceList(value: unknown, path: string): PriceList {
  const list = readFields(value, path)
  return {
    mode: field(list, 'mode', readBillingMode),
    billsFailures: optional(list, 'bills_failures', readFlag) ?? false,
    prices: field(list, 'prices', listOf(parsePriceRow)),
  }
}

function parsePriceRow(value: unknown, path: string): PriceRow {
  const row = readFields(value, path)
  return {
    when: optional(row, 'when', parsePriceCondition) ?? {},
    price: field(row, 'price', parseAmount),
  }
}

function parsePriceCondition(value: unknown, path: string): PriceCondition {
  const when = readFields(value, path)
  const given = {
    resolution: optional(when, 'resolution', readTexts),
    generateAudio: optional(when, 'generate_audio', readFlag),
    durationSeconds: optional(when, 'duration_seconds', parseRange),
    size: optional(when, 'size', readTexts),
    quality: optional(when, 'quality', readTexts),
    inputs: optional(when, 'inputs', readInputRanges),
  }
  return withoutUndefined(given)
}

function withoutUndefined(
  given: { readonly [Name in keyof PriceCondition]-?: PriceCondition[Name] | undefined },
): PriceCondition {
  return {
    ...(given.resolution && { resolution: given.resolution }),
    ...(given.generateAudio !== undefined && { generateAudio: given.generateAudio }),
    ...(given.durationSeconds && { durationSeconds: given.durationSeconds }),
    ...(given.size && { size: given.size }),
    ...(given.quality && { quality: given.quality }),
    ...(given.inputs && { inputs: given.inputs }),
  }
}

function parseTime(value: unknown, path: string): Instant {
  const instant = typeof value === 'string' ? parseInstant(value) : null
  if (instant === null) throw mistyped(value, path, 'a time like "2026-12-01T08:00:00Z", in UTC')
  return instant
}

function parseAmount(value: unknown, path: string): Micros {
  const amount = typeof value === 'string' ? parseMicros(value) : null
  if (amount === null)
    throw mistyped(value, path, 'an amount like "7.5", 0 or more, with at most six decimals')
  return amount
}

const RATIO = /^([0-9]+)\.([0-9]{1,6})$/

/** A multiplier: a number of 0 or more with at most six decimals, as an exact fraction of a million. */
export function parseRatio(value: unknown, path: string): Ratio {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) {
    throw mistyped(value, path, 'a number of 0 or more')
  }
  if (Number.isInteger(value)) return BigInt(value) * 1_000_000n
  const parts = RATIO.exec(String(value))
  if (parts === null) throw new MalformedInput(path, `must have at most six decimals, got ${shown(value)}`)
  return BigInt(`${parts[1]}${(parts[2] ?? '').padEnd(6, '0')}`)
}

function parseFraction(value: unknown, path: string): Ratio {
  const ratio = parseRatio(value, path)
  if (ratio > 1_000_000n)
    throw new MalformedInput(path, `must be a fraction from 0 to 1, got ${shown(value)}`)
  return ratio
}

/** What may not occur twice. The path is that of the second. */
function refuseDuplicates({ candidates, degradationRules }: DecisionInput): void {
  const rules = uniqueness('is a duplicate rule ID')
  degradationRules.forEach((rule, at) => {
    rules(rule.id, `degradation_rules[${at}].id`)
  })
  const bindings = uniqueness('is a duplicate binding ID')
  const supplies = uniqueness('is twice in the same tier')
  candidates.forEach(({ bindingId, supply, tier, degradationRuleId }, at) => {
    bindings(bindingId, `candidates[${at}].binding_id`)
    const place = tier === 'degraded' ? [tier, degradationRuleId, supply.id] : [tier, supply.id]
    supplies(supply.id, `candidates[${at}].supply.id`, JSON.stringify(place))
  })
}

function uniqueness(problem: string): (id: string, path: string, key?: string) => void {
  const seen = new Set<string>()
  return (id, path, key = id) => {
    if (seen.has(key)) throw new MalformedInput(path, `${shown(id)} ${problem}`)
    seen.add(key)
  }
}
