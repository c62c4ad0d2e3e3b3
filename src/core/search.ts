/**
 * LAY-2 to LAY-4: where a task may go. Passes in order, within a pass tier by tier, within a tier the `allowed` layer
 * before the `restricted` one. The first available layer is chosen; a saturated one makes the task wait.
 */
import type { RealPersonPolicy, Tier } from './catalog.ts'
import type { Assessment, Frame } from './eligibility.ts'
import { microsOfSeconds } from './time.ts'
import type { Pass } from './verdict.ts'

/** A hold of at most this long is worth waiting for rather than degrading, or opening a restricted layer. */
const BRIEF_HOLD_SECONDS = 60

interface PassRule {
  readonly name: Pass
  readonly tiers: readonly Tier[]
  /** Whether a task that waited for the spill time may go on past a saturated layer here. */
  readonly spills: boolean
}

const FULL: readonly Tier[] = ['exact', 'fallback']
const DEGRADED: readonly Tier[] = ['degraded']

export const PASSES: readonly PassRule[] = [
  { name: 'untried', tiers: FULL, spills: true },
  { name: 'untried_recovering', tiers: FULL, spills: true },
  { name: 'tried', tiers: FULL, spills: true },
  { name: 'override_untried', tiers: FULL, spills: false },
  { name: 'override_tried', tiers: FULL, spills: false },
  { name: 'degraded_untried', tiers: DEGRADED, spills: false },
  { name: 'degraded_tried', tiers: DEGRADED, spills: false },
  { name: 'degraded_override_untried', tiers: DEGRADED, spills: false },
  { name: 'degraded_override_tried', tiers: DEGRADED, spills: false },
]

export interface Choice {
  readonly pass: Pass
  readonly tier: Tier
  /** The layer's candidates without an obstacle of health or capacity, not yet ranked. */
  readonly usable: readonly Assessment[]
}

export interface Search {
  readonly choice: Choice | null
  /** Tiers to which the search came in some pass, whoever was in their layers. */
  readonly cameTo: ReadonlySet<Tier>
}

/** The pass in which a candidate takes part; null: in none. There is never more than one. */
export function passOf(assessment: Assessment, frame: Frame): Pass | null {
  const { standing, costObstacle, lifted, tooEarly, candidate } = assessment
  if (!standing.capable || tooEarly) return null
  if (costObstacle !== null && !lifted) return null
  if (candidate.tier === 'degraded') {
    if (lifted) return standing.tried ? 'degraded_override_tried' : 'degraded_override_untried'
    return standing.tried ? 'degraded_tried' : 'degraded_untried'
  }
  if (lifted) return standing.tried ? 'override_tried' : 'override_untried'
  if (standing.tried) return 'tried'
  return frame.attempts.any && !standing.steady ? 'untried_recovering' : 'untried'
}

export function search(assessments: readonly Assessment[], frame: Frame): Search {
  const layers = layersOf(assessments, frame)
  const policies: readonly (RealPersonPolicy | null)[] = frame.realPerson ? ['allowed', 'restricted'] : [null]
  const spillTime = hasSpillTimeCome(frame)
  const cameTo = new Set<Tier>()
  let wentPastSaturated = false
  let restrictedShut = false
  for (const pass of PASSES) {
    if (wentPastSaturated && !pass.spills) break
    if (pass.tiers === DEGRADED && assessments.some(keepsDegradedShut)) break
    for (const tier of pass.tiers) {
      cameTo.add(tier)
      for (const policy of policies) {
        if (policy === 'restricted' && restrictedShut) continue
        const layer = layers.get(layerKey(pass.name, tier, policy)) ?? []
        const usable = layer.filter(isUsable)
        if (usable.length > 0) return { choice: { pass: pass.name, tier, usable }, cameTo }
        if (layer.some(isFull)) {
          if (!pass.spills || !spillTime) return { choice: null, cameTo }
          wentPastSaturated = true
        }
        if (policy === 'allowed' && !spillTime && layer.some(keepsRestrictedShut)) restrictedShut = true
      }
    }
  }
  return { choice: null, cameTo }
}

function layersOf(
  assessments: readonly Assessment[],
  frame: Frame,
): ReadonlyMap<string, readonly Assessment[]> {
  const layers = new Map<string, Assessment[]>()
  for (const assessment of assessments) {
    const pass = passOf(assessment, frame)
    if (pass === null) continue
    const { tier, supply } = assessment.candidate
    const key = layerKey(pass, tier, frame.realPerson ? supply.realPerson : null)
    const layer = layers.get(key)
    if (layer === undefined) layers.set(key, [assessment])
    else layer.push(assessment)
  }
  return layers
}

function layerKey(pass: Pass, tier: Tier, policy: RealPersonPolicy | null): string {
  return `${pass}/${tier}/${policy ?? 'any'}`
}

/** LAY-2: null means never for a video, and at once for an image, which cannot wait. */
function hasSpillTimeCome(frame: Frame): boolean {
  const seconds =
    frame.input.model.policy.spillAfterSeconds ?? (frame.input.request.media === 'image' ? 0 : null)
  return seconds !== null && frame.age >= microsOfSeconds(seconds)
}

function isUsable({ standing }: Assessment): boolean {
  return !standing.stoppedByHealth && !standing.stoppedByCapacity
}

/** Healthy but full. A busy probe, a busy rung of recovery or a held level is not: they do not hold others back. */
function isFull({ standing }: Assessment): boolean {
  return standing.steady && standing.heldFor === 0 && standing.stoppedByCapacity
}

function isHeldForLong({ standing }: Assessment): boolean {
  return standing.heldFor > microsOfSeconds(BRIEF_HOLD_SECONDS)
}

/** Nothing is degraded while a full-capability supply is healthy and only held for a moment (LAY-4). */
function keepsDegradedShut(assessment: Assessment): boolean {
  const { standing, payable, candidate } = assessment
  if (candidate.tier === 'degraded' || !standing.capable || !payable || !standing.steady) return false
  return standing.heldFor > 0 && !isHeldForLong(assessment)
}

/** LAY-3: an `allowed` supply that is healthy and will soon be free is worth waiting for. */
function keepsRestrictedShut(assessment: Assessment): boolean {
  const { standing } = assessment
  return standing.steady && standing.stoppedByCapacity && !isHeldForLong(assessment)
}
