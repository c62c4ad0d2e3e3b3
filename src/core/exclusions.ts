/** ORD-15: every candidate that is not in the ranking, with its one reason. */
import type { RealPersonPolicy, Tier } from './catalog.ts'
import type { Assessment } from './eligibility.ts'
import type { Judgement } from './judgement.ts'
import type { ExclusionReason, Exclusions, Pass } from './verdict.ts'

/** Without a prototype, so that a binding may be named like anything at all. */
export function exclusionsOf(judgement: Judgement): Exclusions {
  const ranked = new Set(judgement.ranking?.ranked.map(({ assessment }) => assessment))
  const tiersWithAllowed = tiersServedBy('allowed', judgement.assessments)
  const excluded: Record<string, ExclusionReason> = Object.create(null)
  for (const assessment of judgement.assessments) {
    if (ranked.has(assessment)) continue
    excluded[assessment.candidate.bindingId] =
      assessment.obstacles[0] ?? reasonOfUsable(assessment, judgement, tiersWithAllowed)
  }
  return excluded
}

function tiersServedBy(policy: RealPersonPolicy, assessments: readonly Assessment[]): ReadonlySet<Tier> {
  const serving = assessments.filter(
    ({ candidate, standing }) => standing.capable && candidate.supply.realPerson === policy,
  )
  return new Set(serving.map(({ candidate }) => candidate.tier))
}

const PASSES_OF_TRIED: ReadonlySet<Pass | null> = new Set([
  'tried',
  'override_tried',
  'degraded_tried',
  'degraded_override_tried',
] as const)

/** Nothing stands before it, and still another was preferred: which rule of the search was it? */
function reasonOfUsable(
  { candidate, standing }: Assessment,
  { frame, found }: Judgement,
  tiersWithAllowed: ReadonlySet<Tier>,
): ExclusionReason {
  if (standing.tried && !PASSES_OF_TRIED.has(found.choice?.pass ?? null)) return 'already_tried'
  const { tier, supply } = candidate
  const keptOut = frame.realPerson && supply.realPerson === 'restricted' && tiersWithAllowed.has(tier)
  return keptOut && found.cameTo.has(tier) ? 'real_person_layer' : 'layer_not_reached'
}
