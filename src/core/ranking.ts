/**
 * ORD-12: the usable candidates of the chosen layer in a total order (STR-9), so that the result cannot depend on the
 * order of the input. A criterion compares figures that were computed once per candidate.
 */
import type { HealthState, PriceList, Ratio, Strategy } from './catalog.ts'
import { compareCodePoints } from './code-points.ts'
import type { Assessment, Frame } from './eligibility.ts'
import { divideUp, type Micros } from './money.ts'
import { ceilingOf, RATIO_ONE } from './quote.ts'
import { type SampledSupply, secondClass } from './success-rate.ts'
import { microsOfSeconds } from './time.ts'
import type { DecidedBy } from './verdict.ts'

export interface Ranked {
  readonly assessment: Assessment
  readonly probeTurn: boolean
  readonly health: number
  /** STR-9: worse than the layer's best with confidence; null: too few outcomes to say. */
  readonly secondClass: boolean | null
  /** In micro-units; null: it is not known to ever succeed, which ranks last. */
  readonly expectedCost: Micros | null
}

export interface Ranking {
  /** Best first; never empty if there was something to rank. */
  readonly ranked: readonly Ranked[]
  readonly decidedBy: DecidedBy
}

interface Criterion {
  readonly name: DecidedBy
  /** Below 0: a comes first. */
  readonly compare: (a: Ranked, b: Ranked) => number
}

const PROBE_TURN: Criterion = {
  name: 'probe_turn',
  compare: (a, b) => Number(b.probeTurn) - Number(a.probeTurn),
}
const HEALTH: Criterion = { name: 'health', compare: (a, b) => a.health - b.health }
const SUCCESS_RATE: Criterion = {
  name: 'success_rate',
  compare: (a, b) => Number(a.secondClass === true) - Number(b.secondClass === true),
}
const EXPECTED_COST: Criterion = {
  name: 'expected_cost',
  compare: (a, b) => compareExpectedCost(a.expectedCost, b.expectedCost),
}
const FREE_CAPACITY: Criterion = {
  name: 'free_capacity',
  compare: (a, b) => b.assessment.standing.free - a.assessment.standing.free,
}
const PRIORITY: Criterion = {
  name: 'priority',
  compare: (a, b) => b.assessment.candidate.priority - a.assessment.candidate.priority,
}
const SUPPLY_ID: Criterion = {
  name: 'supply_id',
  compare: (a, b) => compareCodePoints(a.assessment.candidate.supply.id, b.assessment.candidate.supply.id),
}
const BINDING_ID: Criterion = {
  name: 'binding_id',
  compare: (a, b) => compareCodePoints(a.assessment.candidate.bindingId, b.assessment.candidate.bindingId),
}

const COST_FIRST = [EXPECTED_COST, HEALTH, SUCCESS_RATE, FREE_CAPACITY]

/** STR-1, STR-2, STR-3: the keys of each strategy, in their order. */
const KEYS: Readonly<Record<Strategy, readonly Criterion[]>> = {
  stable_first: [HEALTH, SUCCESS_RATE, EXPECTED_COST, FREE_CAPACITY],
  cost_first: COST_FIRST,
  manual_priority: [PRIORITY, ...COST_FIRST],
}

export function rank(usable: readonly Assessment[], frame: Frame, baseline: Micros | null): Ranking {
  const classes = secondClass(usable.map(sampledSupply), frame.input.model.policy.successMinSamples)
  const criteria = [PROBE_TURN, ...KEYS[frame.input.model.policy.strategy], SUPPLY_ID, BINDING_ID]
  const ranked = usable
    .map(
      (assessment, at): Ranked => ({
        assessment,
        probeTurn: hasProbeTurn(assessment, frame, baseline),
        health: healthRank(assessment),
        secondClass: classes[at] ?? null,
        expectedCost: expectedCost(assessment, frame),
      }),
    )
    .sort((a, b) => compareBy(criteria, a, b))
  return { ranked, decidedBy: separator(criteria, ranked) }
}

function sampledSupply({ candidate }: Assessment): SampledSupply {
  return { id: candidate.supply.id, ...candidate.supply.samples }
}

function compareBy(criteria: readonly Criterion[], a: Ranked, b: Ranked): number {
  for (const criterion of criteria) {
    const order = criterion.compare(a, b)
    if (order !== 0) return order
  }
  return 0
}

/** The first key that separates the first from the second: why this one. */
function separator(criteria: readonly Criterion[], [first, second]: readonly Ranked[]): DecidedBy {
  if (first === undefined || second === undefined) return 'only_candidate'
  return criteria.find((each) => each.compare(first, second) !== 0)?.name ?? 'binding_id'
}

const HEALTH_RANK: Readonly<Record<HealthState, number>> = {
  healthy: 0,
  degraded: 1,
  recovering: 2,
  probing: 3,
  circuit_open: 4,
  disabled: 5,
}

/** STR-9: the worse of channel and supply. */
function healthRank({ candidate }: Assessment): number {
  return Math.max(HEALTH_RANK[candidate.channel.health], HEALTH_RANK[candidate.supply.health])
}

/** null ranks last: what never succeeded costs without end. */
function compareExpectedCost(a: Micros | null, b: Micros | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null)
  return a < b ? -1 : a > b ? 1 : 0
}

/** STR-10: what one success costs, in micro-units rounded up; null without a quote, and at a success rate of 0. */
export function expectedCost({ standing, candidate }: Assessment, frame: Frame): Micros | null {
  if (standing.quote === null || !billsFailures(candidate.costRule)) return standing.quote
  const { successes, failures } = candidate.supply.samples
  const { successMinSamples, assumedSuccessRate } = frame.input.model.policy
  const outcomes = successes + failures
  return outcomes > 0 && outcomes >= successMinSamples
    ? perSuccess(standing.quote, BigInt(successes), BigInt(successes) + BigInt(failures))
    : perSuccess(standing.quote, assumedSuccessRate, RATIO_ONE)
}

function billsFailures(costRule: PriceList | null): boolean {
  return costRule?.billsFailures === true
}

function perSuccess(amount: Micros, successes: bigint, outcomes: bigint): Micros | null {
  return successes === 0n ? null : divideUp(amount * outcomes, successes)
}

/** Without a multiplier of the policy's own, a probe may cost twice the normal. */
const PROBE_MULTIPLIER: Ratio = 2n * RATIO_ONE

/** STR-11: a level that was granted nothing for the interval goes first, for a first attempt at a normal price. */
function hasProbeTurn(assessment: Assessment, frame: Frame, baseline: Micros | null): boolean {
  const { probeIntervalSeconds, stableCostMultiplierLimit } = frame.input.model.policy
  const { quote } = assessment.standing
  if (probeIntervalSeconds === null || frame.attempts.any) return false
  if (assessment.costObstacle !== null || quote === null) return false
  if (baseline !== null && quote > ceilingOf(baseline, stableCostMultiplierLimit ?? PROBE_MULTIPLIER))
    return false
  const { channel, supply } = assessment.candidate
  const onProbation = [channel, supply].filter(
    (each) => each.health === 'probing' || each.health === 'recovering',
  )
  return (
    onProbation.length > 0 &&
    onProbation.every(
      ({ lastGrantedAt }) =>
        lastGrantedAt === null || frame.now - lastGrantedAt >= microsOfSeconds(probeIntervalSeconds),
    )
  )
}
