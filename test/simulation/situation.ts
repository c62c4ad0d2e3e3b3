/**
 * Levels as one process read them at one instant, kept up to date with what it proposes itself (as runtime/decider does).
 * By the time of the grant they may be stale. Each round is kept as text, and decided again from that text alone.
 */
import { isDeepStrictEqual } from 'node:util'
import type { SupplyLevelJson } from '../../src/core/frozen.ts'
import { afterGrant, type Dynamic, factsToJson, freeze, type LevelJson } from '../../src/core/frozen.ts'
import type { Decision, DecisionInput, Selected } from '../../src/core/verdict.ts'
import { type Books, isCounted, type Supply, type Task } from './books.ts'
import { checkDecision } from './check-decision.ts'

export interface Proposal {
  readonly task: Task
  /** Of the task, as the decision saw it. */
  readonly turn: number
  readonly decidedAt: number
  readonly verdict: Selected
  readonly supply: Supply
  readonly seen: { readonly supply: SupplyLevelJson; readonly channel: LevelJson }
}

export class Situation {
  readonly #books: Books
  readonly #now: number
  readonly #channels: Map<string, LevelJson>
  readonly #supplies: Map<string, SupplyLevelJson>

  constructor(books: Books) {
    this.#books = books
    this.#now = books.now
    this.#channels = new Map(books.channels.map((level) => [level.id, books.levelNow(level)]))
    this.#supplies = new Map(books.supplies.map((supply) => [supply.id, books.supplyNow(supply)]))
  }

  decide(task: Pick<Task, 'id' | 'createdAt' | 'facts' | 'attempts'>, admitted: boolean): Decision {
    const books = this.#books
    const release = books.releases[task.facts.media]
    const dynamic = this.#dynamic(task, admitted)
    const input = freeze(release, dynamic, books.prices)
    const decision = books.rules.decide(input)
    checkDecision(books, { input, decision, attempts: task.attempts.filter(isCounted) })
    if (!this.#isLookedAt(decision)) return decision
    this.#sameAgain(input, decision)
    this.#keep({ media: task.facts.media, dynamic, record: books.rules.recordOf(decision, input) })
    return decision
  }

  /** All that came to something, and some of those that wait. */
  #isLookedAt({ verdict }: Decision): boolean {
    return verdict.result !== 'wait' || this.#books.random.below(16) === 0
  }

  propose(task: Task, verdict: Selected): Proposal {
    const supply = this.#books.supplies.find((one) => one.id === verdict.supplyId)
    const seen = {
      supply: this.#supplies.get(verdict.supplyId),
      channel: this.#channels.get(supply?.channel.id ?? ''),
    }
    if (!supply || !seen.supply || !seen.channel) throw new Error('a supply was selected that there is not')
    this.#supplies.set(supply.id, afterGrant(seen.supply, this.#now))
    this.#channels.set(supply.channel.id, afterGrant(seen.channel, this.#now))
    return {
      task,
      turn: task.turn,
      decidedAt: this.#now,
      verdict,
      supply,
      seen: { supply: seen.supply, channel: seen.channel },
    }
  }

  #dynamic(task: Pick<Task, 'id' | 'createdAt' | 'facts' | 'attempts'>, admitted: boolean): Dynamic {
    const release = this.#books.releases[task.facts.media]
    const of = <T>(levels: ReadonlyMap<string, T>, ids: readonly string[]): Record<string, T> =>
      Object.fromEntries([...levels].filter(([id]) => ids.includes(id)))
    return {
      now: this.#now,
      task: {
        id: String(task.id),
        created_at: task.createdAt,
        admitted,
        attempts: this.#books.past({ attempts: task.attempts }),
      },
      caller: { key_active: true, user_active: true, groups: [] },
      request: factsToJson(task.facts),
      model: { enabled: true, published: true },
      rules: release.rules.map((rule) => rule.id),
      off: [],
      channels: of(
        this.#channels,
        release.bindings.map((one) => one.channelId),
      ),
      supplies: of(
        this.#supplies,
        release.bindings.map((one) => one.supplyId),
      ),
    }
  }

  /** The same input gives the same verdict, in whatever order its candidates stand (INV-26, IN-2). */
  #sameAgain(input: DecisionInput, decision: Decision): void {
    const { random, rules, insist } = this.#books
    const again = rules.decide({ ...input, candidates: random.shuffled(input.candidates) })
    insist(
      isDeepStrictEqual(again.verdict, decision.verdict),
      'IN-2, STR-9: a verdict depends on neither the hour nor the order',
    )
  }

  /** IN-2: from what is stored of a round, and nothing else, the very same record. */
  #keep(round: { media: 'video' | 'image'; dynamic: Dynamic; record: object }): void {
    const { rules, releases, prices, insist, see } = this.#books
    const stored: typeof round = JSON.parse(rules.keep(round))
    const input = freeze(releases[stored.media], stored.dynamic, prices)
    const record = rules.recordOf(rules.decide(input), input)
    const plain: unknown = JSON.parse(JSON.stringify(record))
    // Compared with what was decided, not with what was kept of it: neither half may have been lost on the way.
    const decided: unknown = JSON.parse(JSON.stringify(round.record))
    insist(
      isDeepStrictEqual(plain, decided) && isDeepStrictEqual(plain, stored.record),
      'IN-2: a stored round replays to the same record',
    )
    see.call(this.#books, 'replayed')
  }
}
