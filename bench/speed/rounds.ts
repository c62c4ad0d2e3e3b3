/** Rounds of several contestants in shuffled order, and what is said of their figures: least, median, greatest. */

export interface Spread {
  readonly min: number
  readonly median: number
  readonly max: number
}

export function spreadOf(values: readonly number[]): Spread {
  const sorted = [...values].sort((a, b) => a - b)
  const at = (n: number) => sorted[n] ?? Number.NaN
  const middle = (sorted.length - 1) / 2
  return {
    min: at(0),
    median: (at(Math.floor(middle)) + at(Math.ceil(middle))) / 2,
    max: at(sorted.length - 1),
  }
}

/** Of each round, what the first reached by what the second reached in the same round. */
export function ratios(ours: readonly number[], theirs: readonly number[]): Spread {
  return spreadOf(ours.map((value, n) => value / (theirs[n] ?? Number.NaN)))
}

export function shuffled<T>(items: readonly T[]): T[] {
  const rest = [...items]
  const out: T[] = []
  while (rest.length > 0) out.push(...rest.splice(Math.floor(Math.random() * rest.length), 1))
  return out
}

/** Each contestant once in each round; the order of a round is drawn anew. Answers figures by name, in order of rounds. */
export async function play(
  rounds: number,
  contestants: Readonly<Record<string, (round: number) => Promise<number>>>,
): Promise<Readonly<Record<string, readonly number[]>>> {
  const figures: Record<string, number[]> = {}
  for (let round = 0; round < rounds; round += 1)
    for (const [name, run] of shuffled(Object.entries(contestants))) {
      figures[name] ??= []
      figures[name].push(await run(round))
    }
  return figures
}
