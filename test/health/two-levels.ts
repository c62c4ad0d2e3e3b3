/**
 * A checker that walks every state of a channel together with its supplies: what one of them is told must not touch the
 * others, save where the same error on several supplies is the channel's (HLT-16). It keeps an account of its own of what
 * happened, and asks of the machine that it opens the channel for that then, and only then.
 *
 * Thresholds are small and windows are off, so that the search is exhaustive; a cooldown lasts a thousandth of a second,
 * so that failures of before it are still within the minute after it. One level by itself, with all news and the
 * operator, is walked by model.ts.
 */
import type * as concurrencyRule from '../../src/core/concurrency.ts'
import type * as escalationRule from '../../src/core/escalation.ts'
import type { Sign } from '../../src/core/escalation.ts'
import type * as health from '../../src/core/health.ts'
import type * as newsRule from '../../src/core/health-news.ts'
import type { Happening, HealthNews } from '../../src/core/health-news.ts'
import {
  HEALTH_DEFAULTS,
  type HealthRow,
  type HealthSettings,
  type LevelKind,
  NEW_ROW,
  recoverySuccesses,
} from '../../src/core/health-row.ts'
import type { Fault } from '../../src/core/outcome.ts'
import { Violation } from './model.ts'

export interface Machine {
  readonly health: Pick<typeof health, 'applyNews' | 'coolDownOver' | 'setAside'>
  readonly news: Pick<typeof newsRule, 'newsFor' | 'escalated'>
  readonly concurrency: Pick<typeof concurrencyRule, 'effectiveConcurrency'>
  readonly escalation: Pick<typeof escalationRule, 'escalates'>
}

const SETTINGS: HealthSettings = {
  ...HEALTH_DEFAULTS,
  windowSize: 1,
  sampleSize: 1,
  degradeMinimum: 99,
  openMinimum: 99,
  degradeAfter: 1,
  restoreAfter: 1,
  openAfter: 2,
  coolDownMs: 1,
  // Each step is a microsecond: none of them is the same failure.
  sameFailureMs: 0.001,
}
const MINUTE = 60_000_000
const FINGERPRINTS = ['f', 'g'] as const

interface Attempt {
  readonly supply: number
  readonly channelEpoch: number
  readonly supplyEpoch: number
  readonly calledAt: number
  readonly accepted: boolean
}

interface FailedSign {
  readonly sign: Sign
  readonly channelEpoch: number
}

interface World {
  readonly now: number
  readonly channel: HealthRow
  readonly supplies: readonly HealthRow[]
  readonly live: readonly Attempt[]
  /** What the database would hold of the last minutes. */
  readonly signs: readonly FailedSign[]
  readonly account: Account
}

/** The checker's own count, of this minute and this epoch of the channel, since something was last accepted. */
interface Account {
  readonly failures: Readonly<Record<(typeof FINGERPRINTS)[number], readonly number[]>>
  readonly active: readonly boolean[]
}

interface Edge {
  readonly name: string
  readonly to: World
}

export interface Size {
  readonly supplies: number
  readonly concurrency: number
  /** What fails does so by the first of them; with `true` also by another. */
  readonly twoCauses: boolean
  /** Acceptance and result are steps of their own, with everything else between them; else they come together. */
  readonly twoSteps: boolean
}

function insist(holds: boolean, invariant: string, world: World): void {
  if (!holds) throw new Violation(`${invariant}\n${JSON.stringify({ ...world, signs: [] })}`)
}

const FAULT: Fault = {
  category: 'supply',
  scope: 'supply',
  retryable: true,
  certainty: 'rejected',
  impact: 'failure',
  code: 'upstream_error',
  message: '',
  providerCode: null,
  httpStatus: null,
  fingerprint: 'f',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}
const CONTENT: Fault = { ...FAULT, category: 'content', scope: 'request', impact: 'none' }
const CAPACITY: Fault = { ...FAULT, category: 'capacity', impact: 'capacity', retryAfterMs: 0 }
const CONNECTION: Fault = { ...FAULT, scope: 'channel', certainty: 'not_sent', connection: true }
const DOUBT: Fault = { ...FAULT, category: 'unknown', scope: 'attempt', certainty: 'unknown' }

class Model {
  readonly #machine: Machine
  readonly #size: Size

  constructor(machine: Machine, size: Size) {
    this.#machine = machine
    this.#size = size
  }

  edges(world: World): Edge[] {
    return [...this.#grants(world), ...this.#outcomes(world), ...this.#moves(world)]
  }

  /** Both levels have to have room, each by its own state and its own epoch (HLT-13). */
  #grants(world: World): Edge[] {
    const { channel, live } = world
    if (!this.#hasRoom('channel', channel, live)) return []
    return world.supplies.flatMap((supply, at): Edge[] => {
      const own = live.filter((attempt) => attempt.supply === at)
      if (!this.#hasRoom('supply', supply, own)) return []
      const attempt: Attempt = {
        supply: at,
        channelEpoch: channel.epoch,
        supplyEpoch: supply.epoch,
        calledAt: world.now,
        accepted: false,
      }
      const to = { ...world, now: world.now + 1, live: [...live, attempt] }
      this.#checkGrant(to, at)
      return [{ name: 'grant', to }]
    })
  }

  #hasRoom(kind: LevelKind, row: HealthRow, live: readonly Attempt[]): boolean {
    const { concurrency } = this.#size
    const limit = this.#machine.concurrency.effectiveConcurrency(
      row.state,
      recoverySuccesses(row),
      concurrency,
    )
    return live.length < concurrency && ofEpoch(kind, row, live) < limit
  }

  #checkGrant(world: World, at: number): void {
    const { channel, live } = world
    const supply = world.supplies[at] ?? NEW_ROW
    const own = live.filter((attempt) => attempt.supply === at)
    const levels = [
      ['channel', channel, live],
      ['supply', supply, own],
    ] as const
    for (const [kind, row, attempts] of levels) {
      const present = ofEpoch(kind, row, attempts)
      insist(row.state !== 'circuit_open', 'INV-3, HLT-4: nothing is granted while either is open', world)
      if (row.state === 'probing') insist(present <= 1, 'INV-2, HLT-6: one probe of either', world)
      if (row.state === 'recovering' && this.#size.concurrency > 1)
        insist(present < this.#size.concurrency, 'INV-4, HLT-7: one slot of either stays closed', world)
    }
  }

  #outcomes(world: World): Edge[] {
    const seen = new Set<string>()
    return world.live.flatMap((attempt, index) => {
      const key = attemptKey(world, attempt)
      if (seen.has(key)) return []
      seen.add(key)
      const rest = world.live.filter((_, other) => other !== index)
      return this.#outcomesOf(world, attempt, rest)
    })
  }

  #outcomesOf(world: World, attempt: Attempt, rest: readonly Attempt[]): Edge[] {
    const gone = { ...world, now: world.now + 1, live: rest }
    const causes = this.#size.twoCauses ? FINGERPRINTS : (['f'] as const)
    const failures = causes.map((fingerprint) => this.#failure(gone, attempt, { ...FAULT, fingerprint }))
    if (attempt.accepted) return [...failures, this.#finished(gone, attempt)]
    return [
      ...failures,
      this.#failure(gone, attempt, DOUBT),
      this.#size.twoSteps
        ? this.#accepted({ ...gone, live: [...rest, { ...attempt, accepted: true }] }, attempt)
        : this.#finished(this.#accepted(gone, attempt).to, attempt),
      this.#neutral('content', gone, this.#tell(gone, attempt, CONTENT)),
      this.#channelFailure(gone, attempt),
      this.#aside(gone, attempt),
      this.#full(gone, attempt),
    ]
  }

  /** HLT-15: full is not broken; it may fail its supply after a hold, and is never a reason of the channel's. */
  #full(world: World, attempt: Attempt): Edge {
    const to = this.#tell(world, attempt, CAPACITY)
    insist(to.channel === world.channel, 'INV-22, HLT-16: capacity never escalates', world)
    return { name: 'capacity', to: withoutHolds(to) }
  }

  #finished(world: World, attempt: Attempt): Edge {
    const to = this.#told(world, attempt, { kind: 'finished', durationMs: 1 })
    insist(to.channel === world.channel, 'HLT-15: a result is no news to the channel', world)
    this.#checkOthers(world, to, attempt)
    const sign = { kind: 'finished', supplyId: String(attempt.supply), at: world.now } as const
    return { name: 'finished', to: noted(to, sign, attempt) }
  }

  #accepted(world: World, attempt: Attempt): Edge {
    const to = this.#told(world, attempt, { kind: 'accepted' })
    const before = world.supplies[attempt.supply]
    insist(to.supplies[attempt.supply] === before, 'HLT-15: an acceptance is no success of the supply', world)
    this.#checkOthers(world, to, attempt)
    const sign = { kind: 'accepted', supplyId: String(attempt.supply), at: world.now } as const
    return { name: 'accepted', to: noted(to, sign, attempt) }
  }

  #failure(world: World, attempt: Attempt, fault: Fault): Edge {
    const sign = {
      kind: 'failed',
      supplyId: String(attempt.supply),
      at: world.now,
      fingerprint: fault.fingerprint,
    } as const
    const seen = noted(world, sign, attempt)
    const to = this.#tell(seen, attempt, fault)
    const current = attempt.channelEpoch === world.channel.epoch
    const live = world.channel.state !== 'circuit_open'
    if (current && live && shouldEscalate(seen.account, fault.fingerprint))
      insist(
        to.channel.state === 'circuit_open' && to.channel.epoch === world.channel.epoch + 1,
        'INV-22, HLT-16: three failures of two supplies by one cause open the channel',
        seen,
      )
    else insist(to.channel === world.channel, 'INV-22, HLT-16: nothing else of a supply does', seen)
    this.#checkOthers(world, to, attempt)
    const opened = to.channel.epoch !== world.channel.epoch
    return {
      name: opened ? 'escalated' : 'failed',
      to: opened ? { ...to, account: withoutFailures(to.account) } : to,
    }
  }

  #channelFailure(world: World, attempt: Attempt): Edge {
    const to = this.#tell(world, attempt, CONNECTION)
    insist(
      to.supplies === world.supplies || to.supplies.every((row, at) => row === world.supplies[at]),
      'INV-22, HLT-2: a failure of the channel is none of its supplies',
      world,
    )
    const opened = to.channel.epoch !== world.channel.epoch
    return {
      name: 'connection',
      to: opened ? { ...to, account: withoutFailures(to.account) } : to,
    }
  }

  /** HLT-16: our own network is suspected. */
  #aside(world: World, attempt: Attempt): Edge {
    const of = { epoch: attempt.channelEpoch, calledAt: attempt.calledAt }
    const told = this.#machine.news.newsFor('channel', { kind: 'fault', fault: CONNECTION }, of)
    if (told === null) throw new Violation('HLT-2: a failed connection is news to the channel')
    const step = this.#machine.health.setAside(world.channel, told)
    insist(step.row === world.channel, 'HLT-16: what may be our own fault changes no channel', world)
    insist(step.event?.applied === false, 'HLT-16: what may be our own fault is written down', world)
    return { name: 'aside', to: { ...world, channel: step.row } }
  }

  #neutral(name: string, before: World, to: World): Edge {
    insist(to.channel === before.channel, 'INV-6, HLT-9: content is no news to the channel', before)
    insist(
      to.supplies.every((row, at) => row === before.supplies[at]),
      'INV-6, HLT-9: content is no news to a supply',
      before,
    )
    return { name, to }
  }

  #checkOthers(before: World, after: World, attempt: Attempt): void {
    insist(
      after.supplies.every((row, at) => at === attempt.supply || row === before.supplies[at]),
      'INV-22: what one supply did is no news to another',
      before,
    )
    const supply = before.supplies[attempt.supply]
    if (supply?.epoch !== attempt.supplyEpoch)
      insist(after.supplies[attempt.supply] === supply, 'INV-5, HLT-10: late news changes nothing', before)
    if (before.channel.epoch !== attempt.channelEpoch)
      insist(after.channel === before.channel, 'INV-5, HLT-10: late news changes nothing', before)
  }

  /** As the settlement of a fault tells it: the channel's share first, then each level's own news. */
  #tell(world: World, attempt: Attempt, fault: Fault): World {
    const { escalation, news } = this.#machine
    const of = { epoch: attempt.channelEpoch, calledAt: attempt.calledAt }
    const told = news.newsFor('supply', { kind: 'fault', fault }, { ...of, epoch: attempt.supplyEpoch })
    const failed = told?.kind === 'failed' || told?.kind === 'uncertain'
    const signs = world.signs.filter(
      ({ sign, channelEpoch }) => sign.kind !== 'failed' || channelEpoch === world.channel.epoch,
    )
    const shared =
      failed &&
      attempt.channelEpoch === world.channel.epoch &&
      escalation.escalates(
        signs.map(({ sign }) => sign),
        fault.fingerprint,
        world.now,
      )
    const opened = shared ? this.#channelTold(world, news.escalated(fault, of)) : world
    return this.#told(opened, attempt, { kind: 'fault', fault })
  }

  #told(world: World, attempt: Attempt, happening: Happening): World {
    const { newsFor } = this.#machine.news
    const { calledAt } = attempt
    const channelNews = newsFor('channel', happening, { epoch: attempt.channelEpoch, calledAt })
    const supplyNews = newsFor('supply', happening, { epoch: attempt.supplyEpoch, calledAt })
    const after = channelNews ? this.#channelTold(world, channelNews) : world
    if (!supplyNews) return after
    const supplies = after.supplies.map((row, at) =>
      at === attempt.supply
        ? this.#machine.health.applyNews('supply', row, supplyNews, world.now, SETTINGS).row
        : row,
    )
    return { ...after, supplies }
  }

  #channelTold(world: World, news: HealthNews): World {
    const { row } = this.#machine.health.applyNews('channel', world.channel, news, world.now, SETTINGS)
    return { ...world, channel: row }
  }

  /** The reconciler, and time. */
  #moves(world: World): Edge[] {
    const edges: Edge[] = []
    const cooled = (row: HealthRow) => {
      if (row.state !== 'circuit_open') return null
      const now = Math.max(world.now + 1, row.openUntil)
      return { now, row: this.#machine.health.coolDownOver(row, now).row }
    }
    const channel = cooled(world.channel)
    if (channel) edges.push({ name: 'cool', to: { ...world, now: channel.now, channel: channel.row } })
    for (const [at, supply] of world.supplies.entries()) {
      const next = cooled(supply)
      if (!next) continue
      const supplies = world.supplies.map((row, other) => (other === at ? next.row : row))
      edges.push({ name: 'cool', to: { ...world, now: next.now, supplies } })
    }
    const now = world.now + MINUTE + 1
    const signs = world.signs.filter(({ sign }) => sign.at >= now - 2 * MINUTE)
    edges.push({ name: 'minute', to: { ...world, now, signs, account: newAccount(this.#size.supplies) } })
    return edges
  }
}

function ofEpoch(kind: LevelKind, row: HealthRow, live: readonly Attempt[]): number {
  return live.filter(
    (attempt) => (kind === 'channel' ? attempt.channelEpoch : attempt.supplyEpoch) === row.epoch,
  ).length
}

/** Only a hold may differ: it is forgotten here, since time is not walked. */
function withoutHolds(world: World): World {
  return {
    ...world,
    supplies: world.supplies.map((row) => (row.hold === null ? row : { ...row, hold: null })),
  }
}

function newAccount(supplies: number): Account {
  const none = Array.from({ length: supplies }, () => 0)
  return { failures: { f: none, g: none }, active: none.map(() => false) }
}

function withoutFailures(account: Account): Account {
  return { ...newAccount(account.active.length), active: account.active }
}

/** What happened, in the database's signs and in the checker's account. Late failures count in neither. */
function noted(world: World, sign: Sign, attempt: Attempt): World {
  const signs = [...world.signs, { sign, channelEpoch: attempt.channelEpoch }]
  const late = attempt.channelEpoch !== world.channel.epoch
  if (sign.kind === 'failed' && late) return { ...world, signs }
  const active = world.account.active.map((was, at) => was || at === attempt.supply)
  const account = sign.kind === 'accepted' ? withoutFailures(world.account) : world.account
  const failures =
    sign.kind === 'failed' && isKnown(sign.fingerprint)
      ? {
          ...account.failures,
          [sign.fingerprint]: counted(account.failures[sign.fingerprint], attempt.supply),
        }
      : account.failures
  return { ...world, signs, account: { failures, active } }
}

function isKnown(text: string): text is (typeof FINGERPRINTS)[number] {
  return FINGERPRINTS.some((known) => known === text)
}

function counted(failures: readonly number[], supply: number): number[] {
  return failures.map((count, at) => (at === supply ? Math.min(count + 1, 3) : count))
}

function shouldEscalate(account: Account, fingerprint: string): boolean {
  if (!isKnown(fingerprint)) return false
  const counts = account.failures[fingerprint]
  const failing = counts.filter((count) => count > 0).length
  const active = account.active.filter((each) => each).length
  return failing >= 2 && 2 * failing >= active && counts.reduce((sum, count) => sum + count, 0) >= 3
}

function attemptKey(world: World, attempt: Attempt): string {
  const channel = attempt.channelEpoch === world.channel.epoch
  const supply = attempt.supplyEpoch === world.supplies[attempt.supply]?.epoch
  return `${attempt.supply}${channel ? 'c' : '-'}${supply ? 's' : '-'}${attempt.accepted ? 'a' : '-'}`
}

function rowKey(row: HealthRow): string {
  const { counters } = row
  return `${row.state}${recoverySuccesses(row)}${counters.consecutiveFailures}${counters.consecutiveDirect}`
}

/** All that the future depends on; supplies are alike, so that worlds that differ by their order are one. */
function keyOf(world: World): string {
  const { account } = world
  const supplies = world.supplies.map((row, at) => {
    const live = world.live.filter((attempt) => attempt.supply === at)
    const keys = live.map((attempt) => attemptKey(world, attempt).slice(1)).sort()
    return [rowKey(row), account.failures.f[at], account.failures.g[at], account.active[at], keys].join()
  })
  return `${rowKey(world.channel)}|${supplies.sort().join('|')}`
}

export interface Explored {
  readonly states: number
  readonly steps: number
  readonly names: ReadonlySet<string>
}

/** Breadth first, to the end. Throws a Violation. */
export function exploreTwoLevels(machine: Machine, size: Size): Explored {
  const model = new Model(machine, size)
  const supplies = Array.from({ length: size.supplies }, () => NEW_ROW)
  const start: World = {
    now: 1e15,
    channel: NEW_ROW,
    supplies,
    live: [],
    signs: [],
    account: newAccount(size.supplies),
  }
  const cameFrom = new Map<string, string[]>([[keyOf(start), []]])
  const whole: string[] = []
  const names = new Set<string>()
  let steps = 0
  const queue = [start]
  for (const world of queue) {
    const from = keyOf(world)
    if ([world.channel, ...world.supplies].every((row) => row.state === 'healthy')) whole.push(from)
    for (const { name, to } of model.edges(world)) {
      const key = keyOf(to)
      const known = cameFrom.get(key)
      if (known) known.push(from)
      else {
        if (cameFrom.size > 400_000) throw new Violation('the state space is not finite')
        cameFrom.set(key, [from])
        queue.push(to)
      }
      names.add(name)
      steps += 1
    }
  }
  checkWayBack(cameFrom, whole)
  return { states: cameFrom.size, steps, names }
}

/** INV-14, HLT-6: from everywhere a way leads back to all of them healthy. */
function checkWayBack(cameFrom: ReadonlyMap<string, string[]>, whole: readonly string[]): void {
  const reaching = new Set(whole)
  for (const stack = [...whole]; stack.length > 0; ) {
    for (const before of cameFrom.get(stack.pop() ?? '') ?? []) {
      if (!reaching.has(before)) stack.push(before)
      reaching.add(before)
    }
  }
  for (const key of cameFrom.keys())
    if (!reaching.has(key)) throw new Violation(`INV-14: no way back to healthy from ${key}`)
}
