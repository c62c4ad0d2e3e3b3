/**
 * A verdict in words, in the four steps of ORD-16: hard capabilities (a video's with the real-person policy, which an
 * image does not have); health and capacity; the strategy; at most one change of supply. Each sentence comes from the
 * figures that decided, so that an operator can act on it.
 */
import type { Candidate } from './catalog.ts'
import { type Micros, printMicros } from './money.ts'
import type {
  CandidateFigures,
  DecidedBy,
  Decision,
  DecisionInput,
  ExclusionReason,
  Pass,
  RejectionCode,
  Verdict,
  WaitReason,
} from './verdict.ts'

export type StepName = 'hard_capabilities' | 'health_and_capacity' | 'strategy' | 'change_of_supply'

export interface ExplainedStep {
  readonly step: StepName
  readonly title: string
  readonly lines: readonly string[]
}

export interface ExplainedCandidate {
  readonly binding_id: string
  readonly supply_id: string
  readonly channel_id: string
  readonly tier: string
  /** 1 for the chosen one; null for what is not in the ranking. */
  readonly rank: number | null
  readonly reason: ExclusionReason | null
  /** "Why not this one?", or why it is where it is. */
  readonly why: string
}

export interface ExplainedRound {
  readonly conclusion: string
  readonly steps: readonly ExplainedStep[]
  readonly candidates: readonly ExplainedCandidate[]
}

type Evidence = CandidateFigures['evidence']

/** Where a reason belongs among the four steps. */
const STEP_OF: Readonly<Record<ExclusionReason, StepName>> = {
  channel_disabled: 'health_and_capacity',
  supply_disabled: 'health_and_capacity',
  binding_disabled: 'health_and_capacity',
  degradation_not_allowed: 'hard_capabilities',
  degradation_rule_unavailable: 'hard_capabilities',
  capability_mismatch: 'hard_capabilities',
  billing_mode_mismatch: 'hard_capabilities',
  real_person_denied: 'hard_capabilities',
  refused_before: 'change_of_supply',
  channel_circuit_open: 'health_and_capacity',
  channel_health_disabled: 'health_and_capacity',
  supply_circuit_open: 'health_and_capacity',
  supply_health_disabled: 'health_and_capacity',
  channel_held: 'health_and_capacity',
  channel_saturated: 'health_and_capacity',
  supply_held: 'health_and_capacity',
  supply_saturated: 'health_and_capacity',
  no_quote: 'strategy',
  over_task_limit: 'strategy',
  over_stable_limit: 'strategy',
  over_fallback_limit: 'strategy',
  over_absolute_limit: 'strategy',
  degradation_not_yet: 'strategy',
  already_tried: 'change_of_supply',
  real_person_layer: 'hard_capabilities',
  layer_not_reached: 'strategy',
}

export function explainRound(input: DecisionInput, decision: Decision): ExplainedRound {
  const candidates = explainCandidates(input, decision)
  return {
    conclusion: conclusionOf(decision.verdict),
    steps: [
      hardCapabilities(input, decision.verdict, candidates),
      healthAndCapacity(decision, candidates),
      strategy(input, decision, candidates),
      changeOfSupply(input, decision.verdict, candidates),
    ],
    candidates,
  }
}

function explainCandidates(input: DecisionInput, decision: Decision): ExplainedCandidate[] {
  const { verdict } = decision
  const figures = new Map(decision.figures.map((each) => [each.bindingId, each]))
  const excluded = new Map(Object.entries(verdict.excluded ?? {}))
  const ranking = verdict.result === 'selected' ? verdict.ranking : []
  return input.candidates.flatMap((candidate) => {
    const own = figures.get(candidate.bindingId)
    if (own === undefined) return []
    const reason = excluded.get(candidate.bindingId) ?? null
    const place = ranking.indexOf(candidate.bindingId)
    const why = reason === null ? rankedBecause(place, own) : whyNot(reason, own.evidence, candidate)
    return [
      {
        binding_id: candidate.bindingId,
        supply_id: candidate.supply.id,
        channel_id: candidate.channel.id,
        tier: candidate.tier,
        rank: place < 0 ? null : place + 1,
        reason,
        why,
      },
    ]
  })
}

function rankedBecause(place: number, figures: CandidateFigures): string {
  const parts = [
    place === 0 ? 'Chosen' : `Ranked ${place + 1}`,
    `quote ${amount(figures.quote)}`,
    `expected cost of success ${figures.expectedCost === null ? 'unbounded' : printMicros(figures.expectedCost)}`,
    `${figures.freeCapacity} slots free`,
    ...(figures.secondClass === true ? ['its success rate is clearly worse than the best'] : []),
    ...(figures.probeTurn ? ['its turn to be probed has come'] : []),
  ]
  return `${parts.join(', ')}.`
}

function amount(value: Micros | null): string {
  return value === null ? 'none' : printMicros(value)
}

/** One sentence for each reason, with the figures that were compared. */
export function whyNot(reason: ExclusionReason, evidence: Evidence, candidate: Candidate): string {
  const supply = `supply ${candidate.supply.id}`
  const channel = `channel ${candidate.channel.id}`
  const said = (name: string) => String(evidence[name] ?? 'unknown')
  switch (reason) {
    case 'channel_disabled':
      return `An operator has switched ${channel} off.`
    case 'supply_disabled':
      return `An operator has switched ${supply} off.`
    case 'binding_disabled':
      return `An operator has switched binding ${candidate.bindingId} off.`
    case 'degradation_not_allowed':
      return `It would need a degraded request, and request or model is strict.`
    case 'degradation_rule_unavailable':
      return `Its degradation rule ${said('rule')} is missing, not published, or starts from another profile than ${said('model_profile')}.`
    case 'capability_mismatch':
      return `${supply} cannot do this ${said('parameter')}: ${said('requested')}.`
    case 'billing_mode_mismatch':
      return `The request is billed ${said('requested')}, and ${supply} bills ${said('supply_bills')}.`
    case 'real_person_denied':
      return `The request shows a real person, and ${supply} takes none.`
    case 'refused_before':
      return `${supply} has refused this content before, and is not asked again.`
    case 'channel_circuit_open':
      return `The circuit of ${channel} is open.`
    case 'channel_health_disabled':
      return `The health of ${channel} is switched off by an operator.`
    case 'supply_circuit_open':
      return `The circuit of ${supply} is open.`
    case 'supply_health_disabled':
      return `The health of ${supply} is switched off by an operator.`
    case 'channel_held':
      return `After a 429, ${channel} is held until ${said('not_before')}.`
    case 'supply_held':
      return `After a 429, ${supply} is held until ${said('not_before')}.`
    case 'channel_saturated':
      return `${channel} has no slot free: ${capacityInWords(evidence)}.`
    case 'supply_saturated':
      return `${supply} has no slot free: ${capacityInWords(evidence)}.`
    case 'no_quote':
      return `${supply} has no price for this request.`
    case 'over_task_limit':
    case 'over_stable_limit':
    case 'over_fallback_limit':
    case 'over_absolute_limit':
      return `${LIMIT[reason]}: ${figuresInWords(evidence)}.`
    case 'degradation_not_yet':
      return `Degradation starts at an age of ${said('degrade_after_seconds')} s; the task is ${said('age_seconds')} s old.`
    case 'already_tried':
      return `This task has tried ${supply} already, and another one can serve.`
    case 'real_person_layer':
      return `The request shows a real person: restricted supplies serve only when no allowed one of the tier can.`
    case 'layer_not_reached':
      return `It could serve, but an earlier layer than its ${candidate.tier} one was chosen, or is worth waiting for.`
  }
}

const LIMIT = {
  over_task_limit: 'What the task has cost and this quote together are over its limit',
  over_stable_limit: 'Its quote is over the normal cost times the stable multiplier',
  over_fallback_limit: 'Its quote is over the normal cost times the fallback multiplier',
  over_absolute_limit: 'Its quote is over the absolute limit',
} as const

function capacityInWords(evidence: Evidence): string {
  return `${evidence.in_use ?? '?'} of ${evidence.concurrency ?? '?'} in use, ${evidence.free ?? 0} free`
}

function figuresInWords(evidence: Evidence): string {
  return Object.entries(evidence)
    .map(([name, value]) => `${name.replaceAll('_', ' ')} ${value ?? 'none'}`)
    .join(', ')
}

function conclusionOf(verdict: Verdict): string {
  switch (verdict.result) {
    case 'selected':
      return `Supply ${verdict.supplyId} was selected, as ${verdict.tier}.`
    case 'wait':
      return WAITS[verdict.reason]
    case 'rejected':
      return `${REJECTED[verdict.code]}${verdict.param === undefined ? '' : ` (${verdict.param})`}.`
  }
}

const WAITS: Readonly<Record<WaitReason, string>> = {
  capacity: 'Waits for capacity: what could serve is full, held, or being probed.',
  health: 'Waits for health: circuits are open, or degradation is not allowed yet.',
  disabled: 'Waits for an operator: what could serve is switched off.',
  cost: 'Waits for prices: what could serve is over a limit now.',
}

const REJECTED: Readonly<Record<RejectionCode, string>> = {
  access_denied: 'Refused: user, key or group may not use the model',
  model_not_available: 'Refused: the model is not enabled and published',
  invalid_request: 'Refused: the request is outside the limits of the model',
  attempt_open: 'Nothing is decided while an attempt may be alive',
  not_retryable: 'Ended: the last failure may not change supply',
  attempts_exhausted: 'Ended: no attempt is left',
  retry_window_expired: 'Ended: the time in which an attempt may start is over',
  cost_limit_exceeded: 'Refused: everything that could serve is over a cost limit',
  no_capable_supply: 'Refused: no supply can do this',
}

/** ORD-1 to ORD-7. A refusal at the door stands here, since it is about what was asked for. */
function hardCapabilities(
  input: DecisionInput,
  verdict: Verdict,
  candidates: readonly ExplainedCandidate[],
): ExplainedStep {
  const { request } = input
  const out = ofStep('hard_capabilities', candidates)
  const lines =
    candidates.length === 0
      ? [`${conclusionOf(verdict)} No supply was looked at.`]
      : [`${candidates.length - out.length} of ${candidates.length} candidates can do what was asked for.`]
  if (request.media === 'video')
    lines.push(
      request.realPerson
        ? 'Real-person policy: the request shows a real person, so denied supplies are out, and allowed ones come before restricted ones.'
        : 'Real-person policy: the request shows no real person, so it is not read.',
    )
  return { step: 'hard_capabilities', title: '1. Hard capabilities', lines: [...lines, ...out] }
}

function healthAndCapacity(decision: Decision, candidates: readonly ExplainedCandidate[]): ExplainedStep {
  const out = ofStep('health_and_capacity', candidates)
  const free = decision.figures.flatMap((figures) => {
    const candidate = candidates.find((each) => each.binding_id === figures.bindingId)
    return candidate?.rank == null ? [] : [`${candidate.supply_id} ${figures.freeCapacity}`]
  })
  const lines = free.length === 0 ? ['None is free.'] : [`Slots free: ${free.join(', ')}.`]
  return {
    step: 'health_and_capacity',
    title: '2. Health and capacity',
    lines: candidates.length === 0 ? [] : [...lines, ...out],
  }
}

const STRATEGY = {
  stable_first: 'Stability first: health, success rate, expected cost of success, free capacity, ID',
  cost_first: 'Cost first: expected cost of success, health, success rate, free capacity, ID',
  manual_priority: 'Manual priority, then as cost first',
} as const

const DECIDED_BY: Readonly<Record<DecidedBy, string>> = {
  only_candidate: 'it was the only one in its layer',
  probe_turn: 'its turn to be probed had come',
  health: 'its health is better than the next one’s',
  success_rate: 'the next one’s success rate is clearly worse',
  expected_cost: 'its expected cost of success is lower',
  free_capacity: 'it has more free capacity',
  priority: 'its priority is higher',
  supply_id: 'all else being equal, its supply ID comes first',
  binding_id: 'all else being equal, its binding ID comes first',
}

function strategy(
  input: DecisionInput,
  decision: Decision,
  candidates: readonly ExplainedCandidate[],
): ExplainedStep {
  const { policy } = input.model
  const { verdict } = decision
  const lines = [
    `${STRATEGY[policy.strategy]}.`,
    `Normal cost ${decision.baseline === null ? 'unknown' : printMicros(decision.baseline)}, cost so far ${printMicros(decision.costSoFar)}.`,
    ...(verdict.result === 'selected'
      ? [`Ranking: ${verdict.ranking.join(', ')}. Chosen because ${DECIDED_BY[verdict.decidedBy]}.`]
      : []),
    ...rankedLines(candidates),
    ...ofStep('strategy', candidates),
  ]
  return { step: 'strategy', title: '3. Strategy and cost', lines: candidates.length === 0 ? [] : lines }
}

function rankedLines(candidates: readonly ExplainedCandidate[]): string[] {
  return candidates
    .filter((candidate) => candidate.rank !== null)
    .sort((a, b) => (a.rank ?? 0) - (b.rank ?? 0))
    .map(lineOf)
}

const PASS: Readonly<Record<Pass, string>> = {
  untried: 'among supplies that this task has not tried',
  untried_recovering: 'among untried supplies that are still recovering',
  tried: 'among supplies that this task has tried, since no other can serve',
  override_untried: 'by the emergency override of cost limits, among untried supplies',
  override_tried: 'by the emergency override of cost limits, among tried supplies',
  degraded_untried: 'degraded by a published rule, among untried supplies',
  degraded_tried: 'degraded by a published rule, among tried supplies',
  degraded_override_untried: 'degraded, by the emergency override of cost limits, among untried supplies',
  degraded_override_tried: 'degraded, by the emergency override of cost limits, among tried supplies',
}

function changeOfSupply(
  input: DecisionInput,
  verdict: Verdict,
  candidates: readonly ExplainedCandidate[],
): ExplainedStep {
  const { attempts } = input.task
  const earlier = attempts.map(
    (each) => `${each.supplyId} (${each.outcome}${each.category === null ? '' : `, ${each.category}`})`,
  )
  const lines = [
    attempts.length === 0
      ? `First attempt of at most ${input.model.policy.maxAttempts}.`
      : `${attempts.length} of at most ${input.model.policy.maxAttempts} attempts were made: ${earlier.join(', ')}.`,
    ...(verdict.result === 'selected' ? [`Found ${PASS[verdict.pass]}.`] : [conclusionOf(verdict)]),
    ...degradedLines(verdict),
    ...ofStep('change_of_supply', candidates),
  ]
  return { step: 'change_of_supply', title: '4. At most one change of supply', lines }
}

function degradedLines(verdict: Verdict): string[] {
  if (verdict.result !== 'selected' || verdict.degraded === null) return []
  const { requestedProfile, actualProfile, droppedInputs, changes } = verdict.degraded
  const lowered = changes.map(({ field, from, to }) => `${field} ${from} to ${to}`)
  const lost = [
    ...(droppedInputs.length === 0 ? [] : [`dropped: ${droppedInputs.join(', ')}`]),
    ...(lowered.length === 0 ? [] : [`lowered: ${lowered.join(', ')}`]),
  ]
  const dropped = lost.length === 0 ? 'nothing is dropped' : lost.join('; ')
  return [`Delivered as ${actualProfile} instead of ${requestedProfile}; ${dropped}.`]
}

function ofStep(step: StepName, candidates: readonly ExplainedCandidate[]): string[] {
  return candidates.filter(({ reason }) => reason !== null && STEP_OF[reason] === step).map(lineOf)
}

function lineOf(candidate: ExplainedCandidate): string {
  return `${candidate.binding_id} (${candidate.tier}): ${candidate.why}`
}
