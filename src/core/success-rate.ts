/**
 * STR-9: which supplies of a layer are demoted for their success rate. Each is compared with the layer's best alone,
 * never pair by pair, because intervals that overlap in pairs would give no order.
 */
import { compareCodePoints } from './code-points.ts'

export interface SampledSupply {
  readonly id: string
  readonly successes: number
  readonly failures: number
}

interface Estimate {
  readonly supply: SampledSupply
  readonly lower: number
  readonly upper: number
}

/**
 * For each supply, in the order given: true, it is demoted; false, it was considered and is not; null, it was not
 * considered, because it has too few outcomes, or because there is nobody else to compare it with.
 */
export function secondClass(
  supplies: readonly SampledSupply[],
  minSamples: number,
): readonly (boolean | null)[] {
  const sampled = supplies.filter((each) => hasSamples(each, minSamples))
  if (sampled.length < 2) return supplies.map(() => null)
  const estimates = new Map(sampled.map((each) => [each, wilson(each, confidence(sampled.length))]))
  const best = [...estimates.values()].reduce((a, b) => (isBetter(b, a) ? b : a))
  return supplies.map((each) => {
    const estimate = estimates.get(each)
    return estimate === undefined ? null : isDemoted(estimate, best)
  })
}

function hasSamples({ successes, failures }: SampledSupply, minSamples: number): boolean {
  const outcomes = successes + failures
  return outcomes > 0 && outcomes >= minSamples
}

/** z grows with the number compared, so that the chance of a wrong demotion in the layer does not. */
function confidence(compared: number): number {
  if (compared === 2) return 1.96
  return compared <= 5 ? 2.33 : 2.576
}

/** Wilson's interval in double precision, term by term as decision.md writes it. */
function wilson(supply: SampledSupply, z: number): Estimate {
  const n = supply.successes + supply.failures
  const p = supply.successes / n
  const centre = p + (z * z) / (2 * n)
  const spread = z * Math.sqrt((p * (1 - p)) / n + (z * z) / (4 * n * n))
  const scale = 1 + (z * z) / n
  return { supply, lower: (centre - spread) / scale, upper: (centre + spread) / scale }
}

function isBetter(a: Estimate, b: Estimate): boolean {
  return a.lower > b.lower || (a.lower === b.lower && compareCodePoints(a.supply.id, b.supply.id) < 0)
}

/** Worse with confidence, and by at least 5 percentage points, compared as exact fractions. */
function isDemoted(estimate: Estimate, best: Estimate): boolean {
  if (!(estimate.upper < best.lower)) return false
  const n = BigInt(estimate.supply.successes) + BigInt(estimate.supply.failures)
  const bestN = BigInt(best.supply.successes) + BigInt(best.supply.failures)
  const gap = BigInt(best.supply.successes) * n - BigInt(estimate.supply.successes) * bestN
  return 20n * gap >= n * bestN
}
