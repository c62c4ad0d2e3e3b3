/** Every candidate judged by itself, the layers searched, the chosen one ranked: what a verdict is then read off from. */
import { type Assessment, assess, type Frame, frameOf, type Standing, stand } from './eligibility.ts'
import type { Micros } from './money.ts'
import { baselineOf, type CostLimits, costLimitsOf } from './quote.ts'
import { type Ranking, rank } from './ranking.ts'
import { type Search, search } from './search.ts'
import type { DecisionInput } from './verdict.ts'

export interface Judgement {
  readonly frame: Frame
  readonly limits: CostLimits
  /** In the order of the input's candidates. */
  readonly assessments: readonly Assessment[]
  readonly found: Search
  /** null: nothing was chosen. */
  readonly ranking: Ranking | null
}

export function judge(input: DecisionInput): Judgement {
  const frame = frameOf(input)
  const standings = input.candidates.map((candidate) => stand(candidate, frame))
  const baseline = baselineOf(input.model, input.request, exactQuotes(standings))
  const limits = costLimitsOf(input.model, baseline, frame.attempts.cost)
  const assessments = standings.map((standing) => assess(standing, limits, frame))
  const found = search(assessments, frame)
  const ranking = found.choice === null ? null : rank(found.choice.usable, frame, baseline)
  return { frame, limits, assessments, found, ranking }
}

/** COST-3: of all that fit, switched on or not, whatever their health, tried or not. */
function exactQuotes(standings: readonly Standing[]): readonly Micros[] {
  const quotes: Micros[] = []
  for (const { candidate, quote } of standings) {
    if (candidate.tier === 'exact' && quote !== null) quotes.push(quote)
  }
  return quotes
}
