/**
 * The yard's books: all that is stored, and so all that outlives a process. They are kept by the yard itself; the
 * functions under test never write here.
 */
import type { Random } from '../../bench/safety/random.ts'
import type { AttemptState } from '../../src/core/attempt.ts'
import type { PriceList, RealPersonPolicy, Tier } from '../../src/core/catalog.ts'
import type { Sign } from '../../src/core/escalation.ts'
import type { LevelJson, PastAttemptJson, Release, SupplyLevelJson } from '../../src/core/frozen.ts'
import { samples } from '../../src/core/health.ts'
import type { NewsKind } from '../../src/core/health-news.ts'
import { type HealthRow, type LevelKind, NEW_ROW, recoverySuccesses } from '../../src/core/health-row.ts'
import type { Fault } from '../../src/core/outcome.ts'
import type { Media, RequestFacts } from '../../src/core/request.ts'
import { type Catalog, releaseOf } from './catalog.ts'
import type { Clock } from './clock.ts'
import type { Incarnation } from './incarnation.ts'
import type { Rules } from './rules.ts'

export class Broken extends Error {}

export interface Level {
  readonly kind: LevelKind
  readonly id: string
  concurrency: number
  row: HealthRow
  lastGrantedAt: number | null
}

export interface Supply extends Level {
  readonly channel: Level
  readonly media: Media
  readonly tier: Tier
  readonly realPerson: RealPersonPolicy
  readonly billsFailures: boolean
  price: bigint
}

export interface Attempt {
  readonly id: number
  readonly task: Task
  readonly supply: Supply
  readonly channelEpoch: number
  readonly supplyEpoch: number
  readonly quote: bigint
  readonly billsFailures: boolean
  readonly owner: Incarnation
  readonly grantedAt: number
  readonly told: { readonly channel: Set<NewsKind>; readonly supply: Set<NewsKind> }
  state: AttemptState
  /** Null: not counted. */
  number: number | null
  submittingAt: number | null
  acceptedAt: number | null
  uncertainAt: number | null
  /** The end of the provider's maximum life, once the task no longer waits. */
  heldUntil: number | null
  fault: Fault | null
  cost: bigint
  mayChangeSupply: boolean
  signs: Sign[]
}

export interface Task {
  readonly id: number
  readonly createdAt: number
  readonly facts: RequestFacts
  /** All of them, those that were none included. */
  readonly attempts: Attempt[]
  state: 'queued' | 'running' | 'ended'
  /** New at each turn. */
  turn: number
  /** The attempt that it waits for. */
  attempt: Attempt | null
  notBefore: number
  code: string | null
}

export class Books {
  readonly clock: Clock
  readonly random: Random
  readonly rules: Rules
  readonly channels: readonly Level[]
  readonly supplies: readonly Supply[]
  readonly releases: Readonly<Record<Media, Release>>
  readonly prices = new Map<string, PriceList>()
  readonly tasks: Task[] = []
  readonly open = new Set<Task>()
  readonly leases = new Set<Attempt>()
  readonly seen = new Map<string, number>()
  attempts = 0
  turns = 0
  succeeded = 0

  constructor(catalog: Catalog, parts: { clock: Clock; random: Random; rules: Rules }) {
    this.clock = parts.clock
    this.random = parts.random
    this.rules = parts.rules
    const level = { row: NEW_ROW, lastGrantedAt: null }
    this.channels = Object.entries(catalog.channels).map(([id, concurrency]) => ({
      ...level,
      kind: 'channel',
      id,
      concurrency,
    }))
    this.supplies = catalog.supplies.map((spec) => {
      const channel = this.channels.find((one) => one.id === spec.channel)
      if (!channel) throw new Error(`supply ${spec.id} has no channel`)
      return { ...level, ...spec, kind: 'supply', channel, billsFailures: spec.billsFailures ?? false }
    })
    this.releases = { video: releaseOf(catalog, 'video'), image: releaseOf(catalog, 'image') }
  }

  get now(): number {
    return this.clock.now
  }

  get levels(): readonly Level[] {
    return [...this.channels, ...this.supplies]
  }

  see(place: string): void {
    this.seen.set(place, (this.seen.get(place) ?? 0) + 1)
  }

  insist(holds: boolean, rule: string): void {
    if (!holds) throw new Broken(rule)
  }

  admit(facts: RequestFacts): Task {
    const now = this.now
    const task: Task = {
      id: this.tasks.length,
      createdAt: now,
      facts,
      attempts: [],
      state: 'queued',
      turn: ++this.turns,
      attempt: null,
      notBefore: now,
      code: null,
    }
    this.tasks.push(task)
    this.open.add(task)
    return task
  }

  requeue(task: Task, seconds: number): void {
    task.state = 'queued'
    task.attempt = null
    task.turn = ++this.turns
    task.notBefore = this.now + seconds * 1_000_000
  }

  endTask(task: Task, code: string | null): void {
    if (task.state === 'ended') return
    task.state = 'ended'
    task.attempt = null
    task.turn = ++this.turns
    task.code = code
    this.open.delete(task)
    if (code === null) this.succeeded += 1
    this.see(`end ${code ?? 'succeeded'}`)
    this.see(`${task.facts.media} end ${code ?? 'succeeded'}`)
  }

  held(level: Level): Attempt[] {
    return [...this.leases].filter(({ supply }) => supply === level || supply.channel === level)
  }

  levelNow(level: Level): LevelJson {
    const held = this.held(level)
    return {
      a: level.row.state === 'disabled' ? 'disabled' : 'enabled',
      h: level.row.state,
      r: recoverySuccesses(level.row),
      c: level.concurrency,
      u: held.length,
      e: held.filter((attempt) => epochOf(attempt, level) === level.row.epoch).length,
      ep: level.row.epoch,
      g: level.lastGrantedAt,
      n: level.row.hold?.notBefore ?? null,
    }
  }

  supplyNow(supply: Supply): SupplyLevelJson {
    const { successes, failures } = samples(supply.row, this.now)
    return {
      ...this.levelNow(supply),
      p: supply.realPerson,
      s: [successes, failures],
      l: this.#priceList(supply),
    }
  }

  #priceList(supply: Supply): string {
    const mode = supply.media === 'video' ? 'per_second' : 'per_image'
    const id = `${mode} ${supply.price} ${supply.billsFailures}`
    if (!this.prices.has(id))
      this.prices.set(id, {
        mode,
        billsFailures: supply.billsFailures,
        prices: [{ when: {}, price: supply.price }],
      })
    return id
  }

  /** As a decision reads them: those that were submitted. */
  past(task: Pick<Task, 'attempts'>): PastAttemptJson[] {
    return task.attempts.filter(isCounted).map((attempt) => ({
      supply_id: attempt.supply.id,
      channel_id: attempt.supply.channel.id,
      outcome:
        attempt.state === 'submission_uncertain'
          ? 'uncertain'
          : attempt.state === 'failed'
            ? 'failed'
            : 'active',
      category: attempt.fault?.category ?? null,
      scope: attempt.fault?.scope ?? null,
      may_change_supply: attempt.mayChangeSupply,
      cost: String(attempt.cost),
    }))
  }
}

export function isCounted(attempt: Attempt): boolean {
  return attempt.number !== null
}

export function epochOf(attempt: Attempt, level: Level): number {
  return level.kind === 'channel' ? attempt.channelEpoch : attempt.supplyEpoch
}

export function isSteady(row: HealthRow): boolean {
  return row.state === 'healthy' || row.state === 'degraded'
}

export function secondsSince(then: number, now: number): number {
  return (now - then) / 1_000_000
}
