/**
 * ORD-15, COST-1: the figures behind each candidate's line of a round. Computed from what the decision already knows,
 * after it, and only where somebody keeps them: the decision itself never reads them.
 */
import { countOf, type Misfit } from './capability.ts'
import type { Level } from './catalog.ts'
import { effectiveConcurrency } from './concurrency.ts'
import type { Assessment, Frame } from './eligibility.ts'
import { freeCapacity } from './free-capacity.ts'
import type { Judgement } from './judgement.ts'
import { type Micros, printMicros } from './money.ts'
import { type CostObstacle, multiplierOf } from './quote.ts'
import { expectedCost, type Ranked } from './ranking.ts'
import type { ImageFacts, InputCounts, RequestFacts, VideoFacts } from './request.ts'
import { microsOfSeconds, printInstant } from './time.ts'
import type { CandidateFigures, ExclusionReason, Verdict } from './verdict.ts'

type Evidence = CandidateFigures['evidence']

/** In the order of the input's candidates. */
export function figuresOf(judgement: Judgement, verdict: Verdict): readonly CandidateFigures[] {
  const ranked = new Map(judgement.ranking?.ranked.map((each) => [each.assessment, each]))
  return judgement.assessments.map((assessment) =>
    figuresOfCandidate(assessment, ranked.get(assessment), { judgement, verdict }),
  )
}

interface Context {
  readonly judgement: Judgement
  readonly verdict: Verdict
}

function figuresOfCandidate(
  assessment: Assessment,
  ranked: Ranked | undefined,
  { judgement, verdict }: Context,
): CandidateFigures {
  const { candidate, standing, obstacles } = assessment
  const reason = verdict.excluded?.[candidate.bindingId]
  return {
    bindingId: candidate.bindingId,
    obstacles,
    evidence: reason === undefined ? {} : evidenceOf(reason, assessment, judgement),
    quote: standing.quote,
    expectedCost: expectedCost(assessment, judgement.frame),
    secondClass: ranked?.secondClass ?? null,
    freeCapacity: standing.free,
    probeTurn: ranked?.probeTurn ?? false,
  }
}

/** What was compared with what, under the names of the public JSON; money as decimal text. */
function evidenceOf(reason: ExclusionReason, assessment: Assessment, judgement: Judgement): Evidence {
  const { candidate, standing } = assessment
  const { channel, supply } = candidate
  const { frame, found } = judgement
  const { model, request } = frame.input
  switch (reason) {
    case 'channel_disabled':
      return { channel: channel.id, admin_state: channel.adminState }
    case 'supply_disabled':
      return { supply: supply.id, admin_state: supply.adminState }
    case 'binding_disabled':
      return { binding: candidate.bindingId, enabled: candidate.enabled }
    case 'degradation_not_allowed':
      return { request: request.degradation, model: model.degradation }
    case 'degradation_rule_unavailable':
      return evidenceOfRule(assessment, model.profile)
    case 'capability_mismatch':
      return evidenceOfMisfit(assessment, frame)
    case 'billing_mode_mismatch':
      return { requested: frame.billingMode, supply_bills: supply.capability.billingMode }
    case 'real_person_denied':
      return { real_person: supply.realPerson }
    case 'refused_before':
      return { supply: supply.id }
    case 'channel_circuit_open':
    case 'channel_health_disabled':
      return { channel: channel.id, health: channel.health }
    case 'supply_circuit_open':
    case 'supply_health_disabled':
      return { supply: supply.id, health: supply.health }
    case 'channel_held':
      return { channel: channel.id, ...evidenceOfHold(channel) }
    case 'channel_saturated':
      return { channel: channel.id, ...evidenceOfCapacity(channel) }
    case 'supply_held':
      return { supply: supply.id, ...evidenceOfHold(supply) }
    case 'supply_saturated':
      return { supply: supply.id, ...evidenceOfCapacity(supply) }
    case 'no_quote':
      return { billing_mode: frame.billingMode, price_list: candidate.costRule?.mode ?? null }
    case 'over_task_limit':
    case 'over_stable_limit':
    case 'over_fallback_limit':
    case 'over_absolute_limit':
      return evidenceOfCost(reason, assessment, judgement)
    case 'degradation_not_yet':
      return { age_seconds: ageInSeconds(frame), degrade_after_seconds: model.policy.degradeAfterSeconds }
    case 'already_tried':
      return { supply: supply.id, supply_tried: frame.attempts.supplies.has(supply.id) }
    case 'real_person_layer':
      return { real_person: supply.realPerson, tier: candidate.tier }
    case 'layer_not_reached':
      return { tier: candidate.tier, steady: standing.steady, chosen_pass: found.choice?.pass ?? null }
  }
}

function evidenceOfRule({ candidate, standing: { rule } }: Assessment, profile: string): Evidence {
  return {
    rule: candidate.degradationRuleId,
    found: rule !== null,
    published: rule?.published ?? null,
    from_profile: rule?.fromProfile ?? null,
    model_profile: profile,
  }
}

function evidenceOfMisfit({ standing: { misfit, degraded } }: Assessment, frame: Frame): Evidence {
  const request = degraded?.request ?? frame.input.request
  return { parameter: misfit, requested: misfit === null ? null : requested(request, misfit) }
}

function requested(request: RequestFacts, parameter: Misfit): string | number | boolean | null {
  if (parameter === 'media') return request.media
  if (parameter === 'inputs') return printCounts(request.inputs)
  return request.media === 'video'
    ? requestedOfVideo(request, parameter)
    : requestedOfImage(request, parameter)
}

function requestedOfVideo(request: VideoFacts, parameter: Misfit): string | number | boolean | null {
  if (parameter === 'duration_seconds') return request.durationSeconds
  if (parameter === 'resolution') return request.resolution
  if (parameter === 'aspect_ratio') return request.aspectRatio
  return parameter === 'generate_audio' ? request.generateAudio : null
}

function requestedOfImage(request: ImageFacts, parameter: Misfit): string | number | null {
  if (parameter === 'size') return request.size
  if (parameter === 'quality') return request.quality
  return parameter === 'count' ? request.count : null
}

/** "2 × reference_images, 1 × first_frame": in the request's order, without what is absent. */
function printCounts(inputs: InputCounts): string {
  const present = Object.keys(inputs).filter((kind) => countOf(inputs, kind) > 0)
  return present.map((kind) => `${countOf(inputs, kind)} × ${kind}`).join(', ') || 'none'
}

function evidenceOfHold(level: Level): Evidence {
  return { not_before: level.notBefore === null ? null : printInstant(level.notBefore) }
}

function evidenceOfCapacity(level: Level): Evidence {
  const counts = { free: freeCapacity(level), concurrency: level.concurrency, in_use: level.inUse }
  if (level.health !== 'probing' && level.health !== 'recovering') return counts
  const limit = effectiveConcurrency(level.health, level.recoverySuccesses, level.concurrency)
  return { ...counts, health: level.health, recovery_limit: limit, in_use_epoch: level.inUseEpoch }
}

function evidenceOfCost(
  reason: CostObstacle,
  { candidate, standing }: Assessment,
  { frame, limits }: Judgement,
): Evidence {
  const quote = printAmount(standing.quote)
  if (reason === 'over_task_limit') {
    return { quote, cost_so_far: printMicros(limits.costSoFar), limit: printAmount(limits.task) }
  }
  if (reason === 'over_absolute_limit') return { quote, limit: printAmount(limits.absolute) }
  const multiplier = multiplierOf(frame.input.model.policy, candidate.tier)
  return {
    quote,
    baseline: printAmount(limits.baseline),
    multiplier: multiplier === null ? null : printMicros(multiplier),
    limit: printAmount(candidate.tier === 'exact' ? limits.exactCeiling : limits.otherCeiling),
  }
}

function printAmount(amount: Micros | null): string | null {
  return amount === null ? null : printMicros(amount)
}

function ageInSeconds(frame: Frame): number {
  return frame.age / microsOfSeconds(1)
}
