/**
 * A yard in memory with a clock of its own: what grant, submit, settle, poll and reconcile do, by the book, around the very
 * functions that the product decides with. Days pass in seconds, and after every step the rules are looked at.
 *
 * The rules are judged from the yard's own books, never by the functions under test, which come as a value (`Rules`), so
 * that broken ones can be put in their place.
 */

import { Random } from '../../bench/safety/random.ts'
import type { Candidate, Model, Tier } from '../../src/core/catalog.ts'
import { effectiveConcurrency } from '../../src/core/concurrency.ts'
import { decide } from '../../src/core/decide.ts'
import { escalates, type Sign } from '../../src/core/escalation.ts'
import { afterPing, applyNews, coolDownOver, disable, enable, samples } from '../../src/core/health.ts'
import { escalated, type Happening, mayGive, type NewsKind, newsFor } from '../../src/core/health-news.ts'
import { type HealthRow, type LevelKind, NEW_ROW, recoverySuccesses } from '../../src/core/health-row.ts'
import {
  classifyEnded,
  classifySubmission,
  type Evidence,
  type Fault,
  meaning,
} from '../../src/core/outcome.ts'
import type { VideoFacts } from '../../src/core/request.ts'
import { afterFailure, costOfAttempt, mayChangeSupply } from '../../src/core/retry.ts'
import type { DecisionInput, PastAttempt, Selected, Verdict } from '../../src/core/verdict.ts'

/** What the yard decides with. */
export const RULES = {
  decide,
  applyNews,
  coolDownOver,
  afterPing,
  disable,
  enable,
  newsFor,
  mayGive,
  escalates,
  effectiveConcurrency,
  afterFailure,
  mayChangeSupply,
  classifySubmission,
}
export type Rules = typeof RULES

const SECOND = 1_000_000
const DAY = 86_400 * SECOND
const RETRY_WINDOW = 1200 * SECOND
const MAX_RUN = 3600 * SECOND
const DOUBT = 3600 * SECOND
const TASK_COST_LIMIT = 30_000_000n

export class Broken extends Error {}

interface Level {
  readonly kind: LevelKind
  readonly id: string
  concurrency: number
  row: HealthRow
  lastGrantedAt: number | null
}

interface Supply extends Level {
  readonly channel: Level
  readonly tier: Tier
  readonly realPerson: 'allowed' | 'restricted' | 'denied'
  price: bigint
  /** Broken, until then. */
  brokenUntil: number
  channelBrokenUntil: () => number
}

interface Attempt {
  readonly id: number
  readonly task: Task
  readonly supply: Supply
  readonly channelEpoch: number
  readonly supplyEpoch: number
  readonly quote: bigint
  readonly calledAt: number
  readonly told: { readonly channel: Set<NewsKind>; readonly supply: Set<NewsKind> }
  state: 'submitting' | 'uncertain' | 'accepted' | 'ended'
  wasUncertain: boolean
  past: PastAttempt
  signs: Sign[]
}

interface Task {
  readonly id: number
  readonly createdAt: number
  readonly facts: VideoFacts
  readonly attempts: Attempt[]
  state: 'queued' | 'running' | 'ended'
  notBefore: number
  code: string | null
  endedAt: number | null
}

export interface Figures {
  readonly tasks: number
  readonly ended: number
  readonly steps: number
  readonly seen: ReadonlySet<string>
  readonly succeeded: number
  readonly days: number
}

export interface YardOptions {
  readonly seed: number
  /** How long providers misbehave, in days. */
  readonly days: number
  readonly rules?: Partial<Rules>
}

const FACTS: VideoFacts = {
  media: 'video',
  billingMode: null,
  degradation: null,
  realPerson: false,
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: false,
  inputs: {},
}
const MODE = {
  durationSeconds: { kind: 'bounds', min: 4, max: 15 },
  resolutions: ['720p'],
  aspectRatios: ['16:9'],
  generateAudio: true,
  inputs: {
    reference_images: { kind: 'bounds', min: 0, max: 9 },
    reference_videos: { kind: 'bounds', min: 0, max: 3 },
  },
} as const
const IMAGES_ONLY = { ...MODE, inputs: { reference_images: MODE.inputs.reference_images } } as const
const RULE = {
  id: 'less',
  published: true,
  fromProfile: 'full',
  toProfile: 'images',
  operations: [{ op: 'drop_inputs', inputs: ['reference_videos'] }],
} as const
const MODEL: Model = {
  id: 'm',
  media: 'video',
  profile: 'full',
  enabled: true,
  published: true,
  allowedGroups: null,
  limits: { media: 'video', modes: [MODE] },
  degradation: 'best_effort',
  normalCost: null,
  emergencyCostOverride: false,
  policy: {
    strategy: 'stable_first',
    maxAttempts: 2,
    retryWindowSeconds: 1200,
    successMinSamples: 20,
    assumedSuccessRate: 950_000n,
    stableCostMultiplierLimit: 3_000_000n,
    fallbackCostMultiplier: 4_000_000n,
    absoluteCostLimit: null,
    taskCostLimit: TASK_COST_LIMIT,
    spillAfterSeconds: 120,
    degradeAfterSeconds: 0,
    probeIntervalSeconds: 300,
  },
}

interface Event {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

export class Yard {
  readonly #rules: Rules
  readonly #random: Random
  readonly #channels: Level[] = []
  readonly #supplies: Supply[] = []
  readonly #tasks: Task[] = []
  readonly #seen = new Set<string>()
  readonly #until: number
  #events: Event[] = []
  #now = 1_800_000_000 * SECOND
  #order = 0
  #steps = 0
  #succeeded = 0
  #calm = false
  readonly #began = this.#now

  constructor(options: YardOptions) {
    this.#rules = { ...RULES, ...options.rules }
    this.#random = new Random(options.seed)
    this.#until = this.#now + options.days * DAY
    this.#build()
  }

  /** Through the bad days, then through calm ones until everybody has recovered. Throws Broken. */
  run(): Figures {
    this.#arrivals()
    this.#every(5, () => this.#reconcile())
    this.#every(5, () => this.#dispatch())
    this.#every(600, () => this.#misfortune())
    this.#every(1800, () => this.#operator())
    this.#runUntil(this.#until)
    this.#calm = true
    for (const supply of this.#supplies) supply.brokenUntil = 0
    for (const level of [...this.#channels, ...this.#supplies]) this.#switchOn(level)
    this.#channelBroken.clear()
    // A price far from normal keeps a supply out, whatever its health (STR-4, STR-11).
    for (const supply of this.#supplies) supply.price = 1_000_000n
    this.#breakAllButOne()
    this.#runUntil(this.#until + DAY / 2)
    // A fallback or degraded supply is asked for nothing while the exact ones serve: nothing can bring it back, or need it.
    const inUse = this.#supplies.filter((supply) => supply.tier === 'exact')
    const away = [...inUse, ...inUse.map((supply) => supply.channel)].filter((level) => !isSteady(level.row))
    this.#insist(
      away.length === 0,
      'INV-14, STR-11: within half a calm day with work every level that is needed is back',
    )
    const late = this.#tasks.filter(
      (task) => task.state !== 'ended' && this.#now - task.createdAt > RETRY_WINDOW + 2 * MAX_RUN + DOUBT,
    )
    this.#insist(late.length === 0, 'RTY-7: every task ends')
    return {
      tasks: this.#tasks.length,
      ended: this.#tasks.filter((task) => task.state === 'ended').length,
      steps: this.#steps,
      seen: this.#seen,
      succeeded: this.#succeeded,
      days: (this.#now - this.#began) / DAY,
    }
  }

  readonly #channelBroken = new Map<string, number>()

  #build(): void {
    const channel = (id: string, concurrency: number): Level => {
      const level: Level = { kind: 'channel', id, concurrency, row: NEW_ROW, lastGrantedAt: null }
      this.#channels.push(level)
      return level
    }
    const supply = (
      id: string,
      on: Level,
      more: Pick<Supply, 'tier' | 'realPerson' | 'price' | 'concurrency'>,
    ): void => {
      const channelBrokenUntil = () => this.#channelBroken.get(on.id) ?? 0
      this.#supplies.push({
        kind: 'supply',
        id,
        row: NEW_ROW,
        lastGrantedAt: null,
        channel: on,
        brokenUntil: 0,
        channelBrokenUntil,
        ...more,
      })
    }
    const [north, south, east] = [channel('north', 6), channel('south', 5), channel('east', 4)]
    supply('north-a', north, { tier: 'exact', realPerson: 'allowed', price: 1_000_000n, concurrency: 4 })
    supply('north-b', north, { tier: 'exact', realPerson: 'restricted', price: 1_100_000n, concurrency: 3 })
    supply('south-a', south, { tier: 'exact', realPerson: 'allowed', price: 1_300_000n, concurrency: 1 })
    supply('south-b', south, { tier: 'fallback', realPerson: 'allowed', price: 2_000_000n, concurrency: 3 })
    supply('east-a', east, { tier: 'degraded', realPerson: 'denied', price: 500_000n, concurrency: 2 })
  }

  /** As the calm begins, so that there is something to recover from: with one healthy supply, who would ask the others? */
  #breakAllButOne(): void {
    const [, ...others] = this.#supplies.filter((supply) => supply.tier === 'exact')
    for (const supply of others) {
      const of = { epoch: supply.row.epoch, calledAt: this.#now, code: 'model_not_open', fingerprint: 'calm' }
      supply.row = RULES.applyNews(
        'supply',
        supply.row,
        { ...of, kind: 'failed', cause: 'persistent' },
        this.#now,
      ).row
    }
  }

  // Time.

  #at(at: number, run: () => void): void {
    const event = { at, order: this.#order++, run }
    // A binary heap, as an array.
    this.#events.push(event)
    let place = this.#events.length - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (!isBefore(event, this.#events[parent])) break
      this.#swap(place, parent)
      place = parent
    }
  }

  #swap(a: number, b: number): void {
    const [x, y] = [this.#events[a], this.#events[b]]
    if (x && y) {
      this.#events[a] = y
      this.#events[b] = x
    }
  }

  #next(): Event | undefined {
    const first = this.#events[0]
    const last = this.#events.pop()
    if (!first || !last || first === last) return first
    this.#events[0] = last
    for (let place = 0; ; ) {
      const [left, right] = [2 * place + 1, 2 * place + 2]
      let least = place
      if (isBefore(this.#events[left], this.#events[least])) least = left
      if (isBefore(this.#events[right], this.#events[least])) least = right
      if (least === place) return first
      this.#swap(place, least)
      place = least
    }
  }

  #every(seconds: number, run: () => void): void {
    const turn = () => {
      run()
      this.#at(this.#now + seconds * SECOND, turn)
    }
    this.#at(this.#now, turn)
  }

  #runUntil(end: number): void {
    for (let event = this.#events[0]; event && event.at <= end; event = this.#events[0]) {
      this.#next()
      this.#now = Math.max(this.#now, event.at)
      this.#steps += 1
      event.run()
    }
    this.#now = end
  }

  // The world outside.

  #arrivals(): void {
    const arrive = () => {
      // Now and then many at once.
      for (let n = !this.#calm && this.#random.next() < 0.04 ? 8 : 1; n > 0; n -= 1) this.#arrive()
      this.#at(this.#now + this.#random.below(this.#calm ? 240 : 180) * SECOND, arrive)
    }
    this.#at(this.#now, arrive)
  }

  #arrive(): void {
    const roll = this.#random.next()
    const facts: VideoFacts = {
      ...FACTS,
      realPerson: roll < 0.15,
      degradation: roll > 0.9 ? 'strict' : null,
      inputs: roll > 0.5 ? { reference_images: 2, reference_videos: roll > 0.7 ? 1 : 0 } : {},
    }
    const task: Task = {
      id: this.#tasks.length,
      createdAt: this.#now,
      facts,
      attempts: [],
      state: 'queued',
      notBefore: this.#now,
      code: null,
      endedAt: null,
    }
    this.#tasks.push(task)
    this.#queued.add(task)
    if (this.#random.next() < 0.7) this.#dispatch()
  }

  #misfortune(): void {
    if (this.#calm) return
    const roll = this.#random.next()
    if (roll < 0.12)
      this.#random.pick(this.#supplies).brokenUntil = this.#now + this.#random.below(1800) * SECOND
    else if (roll < 0.18)
      this.#channelBroken.set(
        this.#random.pick(this.#channels).id,
        this.#now + this.#random.below(2400) * SECOND,
      )
    else if (roll < 0.19)
      for (const { id } of this.#channels) this.#channelBroken.set(id, this.#now + 900 * SECOND)
  }

  #operator(): void {
    if (this.#calm) return
    const level = this.#random.pick([...this.#channels, ...this.#supplies])
    const roll = this.#random.next()
    if (level.row.state === 'disabled') return void this.#switchOn(level, this.#random.next() < 0.5)
    if (roll < 0.06) this.#change(level, this.#rules.disable(level.row).row, 'disabled')
    else if (roll < 0.2) level.concurrency = 1 + this.#random.below(6)
    else if (roll < 0.3)
      this.#random.pick(this.#supplies).price = BigInt(500_000 + this.#random.below(3_000_000))
  }

  #switchOn(level: Level, probe = false): void {
    if (level.row.state === 'disabled')
      this.#change(level, this.#rules.enable(level.row, { probe }).row, 'enabled')
  }

  /** What the provider makes of a create, as evidence. */
  #create(supply: Supply): Evidence | 'accepted' {
    const roll = this.#random.next()
    if (this.#now < supply.channelBrokenUntil()) {
      if (roll < 0.25)
        return { stage: 'connecting', end: { kind: 'error', code: 'ECONNREFUSED', message: 'x' } }
      if (roll < 0.3) return { stage: 'complete', status: 401, statement: null, retryAfterMs: null }
      return { stage: 'complete', status: 502, statement: null, retryAfterMs: null }
    }
    if (this.#now < supply.brokenUntil) {
      if (roll < 0.3) return { stage: 'complete', status: 500, statement: null, retryAfterMs: null }
      if (roll < 0.5) return { stage: 'awaiting_head', end: { kind: 'deadline' } }
      if (roll < 0.8) return { stage: 'complete', status: 404, statement: null, retryAfterMs: null }
      return { stage: 'complete', status: 429, statement: null, retryAfterMs: this.#random.below(60_000) }
    }
    if (this.#calm) return 'accepted'
    if (roll < 0.01)
      return {
        stage: 'reading_body',
        status: 200,
        end: { kind: 'error', code: 'UND_ERR_SOCKET', message: 'x' },
      }
    if (roll < 0.03) return refusal(400, 'content/request', 'content_refused')
    if (roll < 0.04) return refusal(400, 'request/request', 'invalid_request')
    if (roll < 0.05) return { stage: 'complete', status: 429, statement: null, retryAfterMs: null }
    return 'accepted'
  }

  // The yard's own work.

  #dispatch(): void {
    const waiting = [...this.#queued]
      .filter((task) => task.notBefore <= this.#now)
      .sort(
        (a, b) => Number(b.attempts.length > 0) - Number(a.attempts.length > 0) || a.createdAt - b.createdAt,
      )
    for (const task of waiting) {
      const input = this.#input(task)
      const verdict = this.#rules.decide(input)
      this.#sameAgain(input, verdict)
      if (verdict.result === 'selected') this.#grant(task, input, verdict)
      else if (verdict.result === 'rejected') this.#end(task, verdict.code)
      else this.#seen.add(`wait ${verdict.reason}`)
    }
  }

  #input(task: Task): DecisionInput {
    return {
      now: this.#now,
      task: {
        id: String(task.id),
        createdAt: task.createdAt,
        admitted: true,
        attempts: task.attempts.map((attempt) => attempt.past),
      },
      caller: { keyActive: true, userActive: true, groups: [] },
      request: task.facts,
      model: MODEL,
      degradationRules: [RULE],
      candidates: this.#supplies.map((supply) => this.#candidate(supply)),
    }
  }

  #candidate(supply: Supply): Candidate {
    const modes = supply.tier === 'degraded' ? [IMAGES_ONLY] : [MODE]
    return {
      bindingId: supply.id,
      enabled: true,
      tier: supply.tier,
      degradationRuleId: supply.tier === 'degraded' ? RULE.id : null,
      priority: 0,
      supply: {
        ...this.#levelNow(supply),
        realPerson: supply.realPerson,
        samples: samples(supply.row, this.#now),
        capability: { billingMode: 'per_second', modes: { media: 'video', modes } },
      },
      channel: this.#levelNow(supply.channel),
      costRule: { mode: 'per_second', billsFailures: false, prices: [{ when: {}, price: supply.price }] },
    }
  }

  #levelNow(level: Level) {
    const held = this.#held(level)
    return {
      id: level.id,
      adminState: level.row.state === 'disabled' ? ('disabled' as const) : ('enabled' as const),
      health: level.row.state,
      recoverySuccesses: recoverySuccesses(level.row),
      concurrency: level.concurrency,
      inUse: held.length,
      inUseEpoch: held.filter((attempt) => epochOf(attempt, level) === level.row.epoch).length,
      lastGrantedAt: level.lastGrantedAt,
      notBefore: level.row.hold?.notBefore ?? null,
    }
  }

  readonly #alive = new Set<Attempt>()
  readonly #queued = new Set<Task>()

  #held(level: Level): Attempt[] {
    return [...this.#alive].filter((attempt) => attempt.supply === level || attempt.supply.channel === level)
  }

  /** The same input gives the same verdict, in whatever order its candidates stand (INV-26, IN-2). */
  #sameAgain(input: DecisionInput, verdict: Verdict): void {
    if (this.#steps % 7 !== 0) return
    const again = this.#rules.decide({ ...input, candidates: this.#random.shuffled(input.candidates) })
    this.#insist(
      text(again) === text(verdict),
      'IN-2, STR-9: a verdict depends on neither the hour nor the order',
    )
  }

  #grant(task: Task, input: DecisionInput, verdict: Selected): void {
    const supply = this.#supplies.find((one) => one.id === verdict.supplyId)
    if (!supply) throw new Broken('a supply was selected that there is not')
    this.#mayBeGranted(task, supply, input, verdict)
    const attempt: Attempt = {
      id: this.#order,
      task,
      supply,
      channelEpoch: supply.channel.row.epoch,
      supplyEpoch: supply.row.epoch,
      quote: verdict.quote,
      calledAt: this.#now,
      told: { channel: new Set(), supply: new Set() },
      state: 'submitting',
      wasUncertain: false,
      past: pastOf(supply, { outcome: 'active', cost: verdict.quote }),
      signs: [],
    }
    supply.lastGrantedAt = this.#now
    supply.channel.lastGrantedAt = this.#now
    task.attempts.push(attempt)
    task.state = 'running'
    this.#queued.delete(task)
    this.#alive.add(attempt)
    this.#seen.add(`tier ${supply.tier}`)
    this.#seen.add(`pass ${verdict.pass}`)
    if (supply.realPerson === 'restricted' && task.facts.realPerson) this.#seen.add('restricted')
    if (verdict.probeTurn) this.#seen.add('probe turn')
    for (const level of [supply, supply.channel]) this.#seen.add(`granted in ${level.row.state}`)
    this.#at(this.#now + (1 + this.#random.below(20)) * SECOND, () => this.#answered(attempt))
  }

  /** What must hold of a grant, by the yard's own books. */
  #mayBeGranted(task: Task, supply: Supply, input: DecisionInput, verdict: Selected): void {
    this.#insist(
      task.attempts.every((attempt) => attempt.state === 'ended'),
      'STR-8: never two open attempts of a task',
    )
    this.#insist(task.attempts.length < 2, 'RTY-1: at most two attempts')
    for (const past of task.attempts) {
      this.#insist(
        !past.wasUncertain || past.past.category === 'supply',
        'UNK-3: no attempt follows an unknown one',
      )
      this.#insist(
        past.past.category !== 'content' && past.past.category !== 'request',
        'GOAL-2: content and request are never tried again',
      )
    }
    this.#insist(this.#now - task.createdAt <= RETRY_WINDOW, 'RTY-3: no attempt later than the window')
    for (const level of [supply, supply.channel]) {
      const { inUse, inUseEpoch } = this.#levelNow(level)
      const { state } = level.row
      this.#insist(inUse < level.concurrency, 'INV-1: never over the configured limit')
      this.#insist(
        state !== 'circuit_open' && state !== 'disabled',
        'INV-3: nothing is granted to what is open or disabled',
      )
      this.#insist(state !== 'probing' || inUseEpoch === 0, 'INV-2, HLT-6: one probe at a time')
      if (state === 'recovering')
        this.#insist(
          level.concurrency === 1 || inUseEpoch < level.concurrency - 1,
          'INV-4, HLT-7: while it recovers a slot stays closed',
        )
      this.#insist(
        (level.row.hold?.notBefore ?? 0) <= this.#now,
        'HLT-15: nothing is granted before a hold is over',
      )
    }
    const spent = task.attempts.reduce((sum, attempt) => sum + attempt.past.cost, 0n)
    this.#insist(spent + verdict.quote <= TASK_COST_LIMIT, 'COST-4: within the task’s limit')
    this.#insist(verdict.quote === supply.price * 5n, 'COST-1: quoted by the price of now')
    this.#insist(
      !(task.facts.realPerson && supply.realPerson === 'denied'),
      'ORD-6: no real person to who denies them',
    )
    if (supply.tier === 'degraded') this.#mayDegrade(task)
    this.#mayBeAgain(task, supply, input)
  }

  /** DEG-2, LAY-4: only with no steady exact or fallback supply, full or held though it be; never strict. */
  #mayDegrade(task: Task): void {
    this.#insist(task.facts.degradation !== 'strict', 'DEG-1: strict is never degraded')
    const steady = this.#supplies.filter(
      (one) =>
        one.tier !== 'degraded' &&
        isSteady(one.row) &&
        isSteady(one.channel.row) &&
        !(task.facts.realPerson && one.realPerson === 'denied'),
    )
    const heldLong = (one: Supply) =>
      Math.max(one.row.hold?.notBefore ?? 0, one.channel.row.hold?.notBefore ?? 0) > this.#now + 60 * SECOND
    const affordable = steady.filter((one) => !heldLong(one) && this.#isNormal(one))
    this.#insist(
      affordable.length === 0,
      'LAY-2, LAY-4: nothing is degraded while an exact or fallback supply is healthy',
    )
  }

  /** Within every multiplier, whatever the baseline: at most thrice the cheapest exact price. */
  #isNormal(supply: Supply): boolean {
    const exact = this.#supplies.filter((one) => one.tier === 'exact')
    return exact.every((one) => supply.price <= one.price * 3n)
  }

  /** LAY-4: the same supply is only asked again where no other of full capability could serve now. */
  #mayBeAgain(task: Task, supply: Supply, input: DecisionInput): void {
    const isSame = task.attempts.some((attempt) => attempt.supply === supply)
    if (!isSame) return
    this.#seen.add('same supply again')
    const others = input.candidates.filter(
      ({ supply: one, channel, tier }) =>
        tier === 'exact' &&
        one.id !== supply.id &&
        channel.id !== supply.channel.id &&
        isFree(one) &&
        isFree(channel) &&
        !(task.facts.realPerson && one.realPerson !== 'allowed'),
    )
    const normal = others.filter(({ supply: one }) =>
      this.#supplies.some((known) => known.id === one.id && this.#isNormal(known)),
    )
    this.#insist(normal.length === 0, 'LAY-4: a second attempt changes supply where another can serve')
  }

  #answered(attempt: Attempt): void {
    const outcome = this.#create(attempt.supply)
    if (outcome === 'accepted') return void this.#accepted(attempt)
    const fault = this.#rules.classifySubmission(outcome)
    this.#seen.add(`${fault.category} ${fault.certainty}`)
    this.#insist(
      fault.certainty !== 'not_sent' || outcome.stage === 'connecting',
      'INV-19: what may have been sent is never called not sent',
    )
    if (fault.certainty === 'unknown') this.#uncertain(attempt, fault)
    else this.#failed(attempt, fault, 'refused')
  }

  #accepted(attempt: Attempt): void {
    attempt.state = 'accepted'
    attempt.signs.push({ kind: 'accepted', supplyId: attempt.supply.id, at: this.#now })
    this.#tell(attempt, { kind: 'accepted' })
    const lasts = (20 + this.#random.below(180)) * SECOND
    if (!this.#calm && this.#random.next() < 0.005)
      return void this.#at(this.#now + MAX_RUN, () => this.#timedOut(attempt))
    this.#at(this.#now + lasts, () => this.#finished(attempt))
  }

  #timedOut(attempt: Attempt): void {
    this.#seen.add('timed out')
    this.#end(attempt.task, 'generation_timeout')
    this.#at(this.#now + MAX_RUN, () =>
      this.#over(attempt, pastOf(attempt.supply, { outcome: 'failed', cost: attempt.quote })),
    )
  }

  #finished(attempt: Attempt): void {
    const roll = this.#random.next()
    if (!this.#calm && (roll < 0.02 || (this.#now < attempt.supply.brokenUntil && roll < 0.6))) {
      const cause = meaning('supply/supply', 'upstream_error', { retryable: true, impact: 'failure' })
      return void this.#failed(
        attempt,
        classifyEnded({ meaning: cause, providerCode: 'Internal', message: 'x', provesRefusal: true }),
        'failed',
      )
    }
    if (!this.#calm && roll > 0.985) {
      const cause = meaning('content/request', 'content_refused')
      return void this.#failed(
        attempt,
        classifyEnded({ meaning: cause, providerCode: 'Sensitive', message: 'x', provesRefusal: true }),
        'failed',
      )
    }
    this.#over(attempt, pastOf(attempt.supply, { outcome: 'failed', cost: attempt.quote }))
    this.#tell(attempt, { kind: 'finished', durationMs: 60_000 })
    if (attempt.task.state === 'running') {
      this.#succeeded += 1
      this.#end(attempt.task, null)
    }
  }

  #failed(attempt: Attempt, fault: Fault, how: 'refused' | 'failed'): void {
    const cost = costOfAttempt({ kind: how }, { quote: attempt.quote, billsFailures: false })
    const changes = this.#rules.mayChangeSupply(fault, 'stop')
    this.#over(attempt, pastOf(attempt.supply, { outcome: 'failed', cost, fault, changes }))
    if (fault.category === 'supply' && fault.scope === 'supply')
      attempt.signs.push({
        kind: 'failed',
        supplyId: attempt.supply.id,
        at: this.#now,
        fingerprint: fault.fingerprint,
      })
    this.#tell(attempt, { kind: 'fault', fault })
    const { task } = attempt
    if (task.state !== 'running') return
    const next = this.#rules.afterFailure({
      media: 'video',
      fault,
      attemptsCounted: task.attempts.length,
      policy: MODEL.policy,
      realPersonRefusal: 'stop',
      taskAgeMs: (this.#now - task.createdAt) / 1000,
      otherSupplyFree: this.#supplies.some(
        (one) => one !== attempt.supply && isFree(this.#levelNow(one)) && isFree(this.#levelNow(one.channel)),
      ),
      deadlineMsLeft: null,
    })
    if (next.kind === 'final') return void this.#end(task, next.code)
    task.state = 'queued'
    this.#queued.add(task)
    task.notBefore = this.#now + next.notBeforeMs * 1000
    this.#seen.add('retry')
  }

  #uncertain(attempt: Attempt, fault: Fault): void {
    attempt.state = 'uncertain'
    attempt.wasUncertain = true
    attempt.past = pastOf(attempt.supply, {
      outcome: 'uncertain',
      cost: attempt.quote,
      fault,
      changes: false,
    })
    attempt.signs.push({
      kind: 'failed',
      supplyId: attempt.supply.id,
      at: this.#now,
      fingerprint: fault.fingerprint,
    })
    this.#tell(attempt, { kind: 'fault', fault })
    const roll = this.#random.next()
    if (roll < 0.4) this.#at(this.#now + this.#random.below(600) * SECOND, () => this.#accepted(attempt))
    else
      this.#at(this.#now + DOUBT, () => {
        this.#over(
          attempt,
          pastOf(attempt.supply, { outcome: 'uncertain', cost: attempt.quote, fault, changes: false }),
        )
        this.#end(attempt.task, 'submission_unresolved')
      })
  }

  #over(attempt: Attempt, past: PastAttempt): void {
    attempt.state = 'ended'
    attempt.past = past
    this.#alive.delete(attempt)
    if (this.#random.next() < 0.5) this.#at(this.#now, () => this.#dispatch())
  }

  #end(task: Task, code: string | null): void {
    if (task.state === 'ended') return
    task.state = 'ended'
    this.#queued.delete(task)
    task.code = code
    task.endedAt = this.#now
    this.#seen.add(`end ${code ?? 'succeeded'}`)
  }

  // Health.

  #tell(attempt: Attempt, happening: Happening): void {
    const { supply } = attempt
    const fault = 'fault' in happening ? happening.fault : null
    const before = [supply.row, supply.channel.row]
    const failedHere = this.#tellLevel(attempt, supply, happening)
    this.#tellLevel(attempt, supply.channel, happening)
    if (fault && failedHere) this.#escalate(attempt, fault)
    if (fault && (fault.category === 'content' || fault.category === 'request'))
      this.#insist(
        before[0] === supply.row && before[1] === supply.channel.row,
        'INV-21, HLT-9: content and request never move health',
      )
  }

  /** Whether it was news of a failure. */
  #tellLevel(attempt: Attempt, level: Level, happening: Happening): boolean {
    const epoch = epochOf(attempt, level)
    const news = this.#rules.newsFor(level.kind, happening, { epoch, calledAt: attempt.calledAt })
    if (!news || !this.#rules.mayGive(news.kind, attempt.told[level.kind])) return false
    attempt.told[level.kind].add(news.kind)
    const before = level.row
    const step = this.#rules.applyNews(level.kind, before, news, this.#now)
    if (epoch !== before.epoch) {
      this.#seen.add('late news')
      this.#insist(step.row === before, 'INV-5, HLT-10: late news changes nothing')
    }
    this.#change(level, step.row, step.why)
    const isFailure = news.kind === 'failed' || news.kind === 'uncertain'
    if (isFailure && step.applied && (before.state === 'probing' || before.state === 'recovering'))
      this.#insist(level.row.state === 'circuit_open', 'INV-7, HLT-8: a failure in recovery reopens at once')
    return isFailure && level.kind === 'supply'
  }

  #escalate(attempt: Attempt, fault: Fault): void {
    const { channel } = attempt.supply
    const recent = this.#tasks
      .slice(Math.max(0, this.#tasks.length - 200))
      .flatMap((task) => task.attempts)
      .filter((one) => one.supply.channel === channel && one.channelEpoch === channel.row.epoch)
    const signs = recent.flatMap((one) => one.signs)
    if (
      attempt.channelEpoch !== channel.row.epoch ||
      !this.#rules.escalates(signs, fault.fingerprint, this.#now)
    )
      return
    const causes = new Set(
      signs.flatMap((sign) =>
        sign.kind === 'failed' && sign.fingerprint === fault.fingerprint ? [sign.supplyId] : [],
      ),
    )
    this.#insist(causes.size >= 2, 'INV-22, HLT-16: one supply alone never speaks for its channel')
    const news = escalated(fault, { epoch: channel.row.epoch, calledAt: attempt.calledAt })
    if (channel.row.state !== 'circuit_open') this.#seen.add('escalated')
    this.#change(channel, this.#rules.applyNews('channel', channel.row, news, this.#now).row, 'escalated')
  }

  #reconcile(): void {
    for (const level of [...this.#channels, ...this.#supplies]) {
      const { row } = level
      if (row.state !== 'circuit_open') continue
      const isBroken = this.#now < (level.kind === 'channel' ? (this.#channelBroken.get(level.id) ?? 0) : 0)
      const step = row.pingFirst
        ? this.#rules.afterPing(row, !isBroken, this.#now)
        : this.#rules.coolDownOver(row, this.#now)
      this.#change(level, step.row, 'reconciled')
    }
  }

  /** Every move of a level is looked at. */
  #change(level: Level, after: HealthRow, why: string): void {
    const before = level.row
    if (after === before) return
    const isRaise = after.epoch > before.epoch
    const mayRaise =
      after.state === 'circuit_open' ||
      after.state === 'probing' ||
      after.state === 'disabled' ||
      before.state === 'disabled'
    this.#insist(
      after.epoch >= before.epoch && after.epoch <= before.epoch + 1,
      'INV-12: an epoch is raised by one, and never lowered',
    )
    this.#insist(!isRaise || mayRaise, 'INV-12: only opening, probing, disabling and enabling raise it')
    if (before.state === 'circuit_open' && after.state === 'circuit_open')
      this.#insist(
        why === 'reconciled' || after.openUntil === before.openUntil,
        'INV-13: nothing but a failed free call moves the end of a cooldown',
      )
    if (before.state === 'circuit_open' && after.state !== 'circuit_open') {
      this.#insist(
        after.state === 'probing' || after.state === 'disabled',
        'INV-9, HLT-5: from an open circuit only to probing',
      )
      if (after.state === 'probing')
        this.#insist(before.openUntil <= this.#now, 'INV-9: not before the cooldown is over')
    }
    if (
      after.state === 'healthy' &&
      before.state !== 'healthy' &&
      before.state !== 'degraded' &&
      before.state !== 'disabled'
    )
      this.#insist(
        before.state === 'recovering' && recoverySuccesses(before) === 4,
        'INV-8, HLT-6: healthy only by the fifth success',
      )
    if (before.state !== after.state) this.#seen.add(`${before.state} to ${after.state}`)
    level.row = after
  }

  #insist(holds: boolean, rule: string): void {
    if (!holds) throw new Broken(rule)
  }
}

function refusal(
  status: number,
  place: 'content/request' | 'request/request',
  code: 'content_refused' | 'invalid_request',
): Evidence {
  return {
    stage: 'complete',
    status,
    statement: { meaning: meaning(place, code), providerCode: code, message: 'x', provesRefusal: true },
    retryAfterMs: null,
  }
}

function pastOf(
  supply: Supply,
  how: { outcome: PastAttempt['outcome']; cost: bigint; fault?: Fault; changes?: boolean },
): PastAttempt {
  return {
    supplyId: supply.id,
    channelId: supply.channel.id,
    outcome: how.outcome,
    category: how.fault?.category ?? null,
    scope: how.fault?.scope ?? null,
    mayChangeSupply: how.changes ?? false,
    cost: how.cost,
  }
}

function epochOf(attempt: Attempt, level: Level): number {
  return level.kind === 'channel' ? attempt.channelEpoch : attempt.supplyEpoch
}

function isSteady(row: HealthRow): boolean {
  return row.state === 'healthy' || row.state === 'degraded'
}

function isFree(level: {
  health: string
  inUse: number
  concurrency: number
  notBefore: number | null
  adminState: string
}): boolean {
  return (
    (level.health === 'healthy' || level.health === 'degraded') &&
    level.adminState === 'enabled' &&
    level.inUse < level.concurrency &&
    level.notBefore === null
  )
}

function isBefore(a: Event | undefined, b: Event | undefined): boolean {
  if (!a) return false
  if (!b) return true
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}

function text(verdict: Verdict): string {
  return JSON.stringify(verdict, (_, value) => {
    if (typeof value === 'bigint') return String(value)
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
      : value
  })
}
