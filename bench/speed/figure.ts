/** What a figure is: something that is measured in one run, and perhaps demanded. */
import type { Cluster } from './cluster.ts'
import type { Spread } from './rounds.ts'

export interface Bench {
  readonly cluster: Cluster
  readonly rounds: number
  /** Small sizes, for correctness alone: nothing is judged. */
  readonly short: boolean
  /** Whether what we are compared with is installed. */
  readonly peers: boolean
  /** Of the soak. */
  readonly minutes: number
  readonly say: (line: string) => void
}

export interface Line {
  readonly what: string
  readonly unit: string
  readonly ours: Spread | null
  readonly peer?: { readonly name: string; readonly value: Spread }
  /** Ours by the peer's, of the same round. */
  readonly ratio?: Spread
  /** Judged by the median: of the ratio where there is one, else of our own value. */
  readonly demanded?: { readonly least: number } | { readonly most: number }
  readonly note?: string
}

export interface Figure {
  /** For `--only`. */
  readonly name: string
  readonly about: string
  readonly needsPeers?: boolean
  /** Takes so long that it is run only where it is named, or short. */
  readonly onlyNamed?: boolean
  run(bench: Bench): Promise<readonly Line[]>
}

/** undefined where nothing is demanded. */
export function holds(line: Line): boolean | undefined {
  if (line.demanded === undefined) return undefined
  const value = (line.ratio ?? line.ours)?.median ?? Number.NaN
  return 'least' in line.demanded ? value >= line.demanded.least : value <= line.demanded.most
}
