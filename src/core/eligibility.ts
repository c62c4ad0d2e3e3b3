/**
 * ORD-4 to ORD-11: each candidate judged by itself, once. What it could do, whether it may, and every obstacle in the
 * order of decision.md, of which the first is its reason. What depends on the other candidates (layers, ranking) comes
 * later and only reads what is written here.
 */
import { type Misfit, misfit } from './capability.ts'
import type { Candidate, DegradationRule, Level } from './catalog.ts'
import { type Degraded, degradationMode, degrade } from './degrade.ts'
import { freeCapacity } from './free-capacity.ts'
import type { Micros } from './money.ts'
import {
  billingModeOf,
  type CostLimits,
  type CostObstacle,
  costObstacleOf,
  isLifted,
  quote,
} from './quote.ts'
import type { BillingMode } from './request.ts'
import { type Instant, microsOfSeconds } from './time.ts'
import type { DecisionInput, Obstacle, PastAttempt } from './verdict.ts'

/** What is the same for all candidates of one decision. */
export interface Frame {
  readonly input: DecisionInput
  readonly now: Instant
  /** Age of the task in microseconds, at least 0. */
  readonly age: number
  readonly billingMode: BillingMode
  /** A video request with a real person: the only kind for which the supplies' policy is read (ORD-6). */
  readonly realPerson: boolean
  readonly strict: boolean
  /** By the rule's ID. */
  readonly transforms: ReadonlyMap<string, Transform>
  readonly attempts: PastAttempts
}

interface Transform {
  readonly rule: DegradationRule
  readonly degraded: Degraded
}

interface PastAttempts {
  readonly any: boolean
  readonly supplies: ReadonlySet<string>
  /** Channels on which an attempt failed for all their supplies (LAY-4). */
  readonly failedChannels: ReadonlySet<string>
  /** Supplies that refused this content. */
  readonly refusedBy: ReadonlySet<string>
  readonly cost: Micros
}

export function frameOf(input: DecisionInput): Frame {
  const { now, request, model, task } = input
  return {
    input,
    now,
    age: Math.max(0, now - task.createdAt),
    billingMode: billingModeOf(request),
    realPerson: request.media === 'video' && request.realPerson,
    strict: degradationMode(request, model) === 'strict',
    transforms: new Map(
      input.degradationRules.map((rule) => [rule.id, { rule, degraded: degrade(request, rule) }]),
    ),
    attempts: pastAttempts(task.attempts),
  }
}

function pastAttempts(attempts: readonly PastAttempt[]): PastAttempts {
  const ofScopeChannel = attempts.filter((each) => each.scope === 'channel')
  const ofContent = attempts.filter((each) => each.category === 'content')
  return {
    any: attempts.length > 0,
    supplies: new Set(attempts.map((each) => each.supplyId)),
    failedChannels: new Set(ofScopeChannel.map((each) => each.channelId)),
    refusedBy: new Set(ofContent.map((each) => each.supplyId)),
    cost: attempts.reduce((sum, each) => sum + each.cost, 0n),
  }
}

/** Not before the task is so old; null sets no time to wait for. */
function isYoungerThan(frame: Frame, seconds: number | null): boolean {
  return seconds !== null && frame.age < microsOfSeconds(seconds)
}

/** A candidate before its quote is compared with anything. */
export interface Standing {
  readonly candidate: Candidate
  /** Those of ORD-4 to ORD-9, in order. */
  readonly obstacles: readonly Obstacle[]
  readonly rule: DegradationRule | null
  /** For a degraded candidate with a rule: what it would be sent. */
  readonly degraded: Degraded | null
  readonly misfit: Misfit | null
  /** Nothing from the first DEG row to ORD-6. */
  readonly fits: boolean
  /** ORD-4 raises nothing. */
  readonly switchedOn: boolean
  /** ERR: this supply refused the content before. */
  readonly refused: boolean
  /** Fits, is switched on and did not refuse before. */
  readonly capable: boolean
  readonly tried: boolean
  /** Channel and supply are both healthy or degraded. */
  readonly steady: boolean
  /** ORD-8 raises something. */
  readonly stoppedByHealth: boolean
  /** A level's health is the operator's `disabled`. */
  readonly healthDisabled: boolean
  /** ORD-9 raises something. */
  readonly stoppedByCapacity: boolean
  /** How long the later of its two holds still lasts, in microseconds; 0: not held. */
  readonly heldFor: number
  /** The smaller of its two levels', in slots. */
  readonly free: number
  /** null also where it does not fit: then no price of this request is asked for. */
  readonly quote: Micros | null
}

/** ORD-4 to ORD-10. The rows push into one list, in the order of the reasons; what they found is read off its length. */
export function stand(candidate: Candidate, frame: Frame): Standing {
  const { supply, channel } = candidate
  const obstacles: Obstacle[] = []
  pushSwitches(obstacles, candidate)
  const switches = obstacles.length

  const transform = candidate.tier === 'degraded' ? transformOf(candidate, frame) : null
  if (candidate.tier === 'degraded') pushDegradation(obstacles, transform, frame)
  const request = transform === null ? frame.input.request : transform.degraded.request
  const unfit =
    candidate.tier === 'degraded' && transform === null ? null : misfit(request, supply.capability.modes)
  if (unfit !== null) obstacles.push('capability_mismatch')
  if (supply.capability.billingMode !== frame.billingMode) obstacles.push('billing_mode_mismatch')
  if (frame.realPerson && supply.realPerson === 'denied') obstacles.push('real_person_denied')
  const fits = obstacles.length === switches

  const refused = frame.attempts.refusedBy.has(supply.id)
  if (refused) obstacles.push('refused_before')
  const beforeHealth = obstacles.length
  pushHealth(obstacles, candidate)
  const beforeCapacity = obstacles.length
  pushCapacity(obstacles, candidate, frame.now)
  return {
    candidate,
    obstacles,
    rule: transform?.rule ?? null,
    degraded: transform?.degraded ?? null,
    misfit: unfit,
    fits,
    switchedOn: switches === 0,
    refused,
    capable: fits && switches === 0 && !refused,
    tried: frame.attempts.supplies.has(supply.id) || frame.attempts.failedChannels.has(channel.id),
    steady: isSteady(channel) && isSteady(supply),
    stoppedByHealth: beforeCapacity > beforeHealth,
    healthDisabled: channel.health === 'disabled' || supply.health === 'disabled',
    stoppedByCapacity: obstacles.length > beforeCapacity,
    heldFor: Math.max(heldFor(channel, frame.now), heldFor(supply, frame.now)),
    free: Math.min(freeCapacity(channel), freeCapacity(supply)),
    quote: fits ? quote(candidate.costRule, request) : null,
  }
}

/** ORD-4. */
function pushSwitches(obstacles: Obstacle[], candidate: Candidate): void {
  if (candidate.channel.adminState === 'disabled') obstacles.push('channel_disabled')
  if (candidate.supply.adminState === 'disabled') obstacles.push('supply_disabled')
  if (!candidate.enabled) obstacles.push('binding_disabled')
}

function transformOf(candidate: Candidate, frame: Frame): Transform | null {
  return candidate.degradationRuleId === null
    ? null
    : (frame.transforms.get(candidate.degradationRuleId) ?? null)
}

/** DEG-1: published rules only, and only those that start from what the model promises. */
function pushDegradation(obstacles: Obstacle[], transform: Transform | null, frame: Frame): void {
  if (frame.strict) obstacles.push('degradation_not_allowed')
  const rule = transform?.rule
  if (rule === undefined || !rule.published || rule.fromProfile !== frame.input.model.profile) {
    obstacles.push('degradation_rule_unavailable')
  }
}

/** ORD-8. */
function pushHealth(obstacles: Obstacle[], { channel, supply }: Candidate): void {
  if (channel.health === 'circuit_open') obstacles.push('channel_circuit_open')
  if (channel.health === 'disabled') obstacles.push('channel_health_disabled')
  if (supply.health === 'circuit_open') obstacles.push('supply_circuit_open')
  if (supply.health === 'disabled') obstacles.push('supply_health_disabled')
}

/** ORD-9. A level that health has stopped is not called full as well: it has no capacity to be full of. */
function pushCapacity(obstacles: Obstacle[], { channel, supply }: Candidate, now: Instant): void {
  if (heldFor(channel, now) > 0) obstacles.push('channel_held')
  if (isOpen(channel) && freeCapacity(channel) <= 0) obstacles.push('channel_saturated')
  if (heldFor(supply, now) > 0) obstacles.push('supply_held')
  if (isOpen(supply) && freeCapacity(supply) <= 0) obstacles.push('supply_saturated')
}

function isOpen(level: Level): boolean {
  return level.health !== 'circuit_open' && level.health !== 'disabled'
}

function isSteady(level: Level): boolean {
  return level.health === 'healthy' || level.health === 'degraded'
}

/** Microseconds for which a 429 still holds the level; 0 from the instant on that was named. */
function heldFor(level: Level, now: Instant): number {
  return level.notBefore === null ? 0 : Math.max(0, level.notBefore - now)
}

/** A candidate with everything that stands before it, cost and time included. */
export interface Assessment {
  readonly standing: Standing
  readonly candidate: Candidate
  /** All of them, in order; the first is the reason. */
  readonly obstacles: readonly Obstacle[]
  readonly costObstacle: CostObstacle | null
  /** COST-6: its cost obstacle is one that the model's emergency override lifts. */
  readonly lifted: boolean
  /** No cost obstacle, or a lifted one. */
  readonly payable: boolean
  /** DEG: a degraded candidate, and the task is younger than `degrade_after_seconds`. */
  readonly tooEarly: boolean
}

/** ORD-10, ORD-11 and the last DEG row, which need the baseline and so come after every candidate's quote. */
export function assess(standing: Standing, limits: CostLimits, frame: Frame): Assessment {
  const { candidate } = standing
  const costObstacle = standing.fits ? costObstacleOf(standing.quote, candidate.tier, limits) : null
  const lifted = isLifted(costObstacle, limits)
  const tooEarly =
    candidate.tier === 'degraded' && isYoungerThan(frame, frame.input.model.policy.degradeAfterSeconds)
  const obstacles = [...standing.obstacles]
  if (costObstacle !== null) obstacles.push(costObstacle)
  if (tooEarly) obstacles.push('degradation_not_yet')
  return {
    standing,
    candidate,
    obstacles,
    costObstacle,
    lifted,
    payable: costObstacle === null || lifted,
    tooEarly,
  }
}
