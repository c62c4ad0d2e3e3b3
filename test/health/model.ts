/**
 * A checker that walks every state that one level can reach, with attempts in flight of any epoch, in every order of
 * news. The rules of health hold at each step, INV-1 to INV-14 and INV-23, and from everywhere a way leads back to healthy
 * without the operator. It takes the machine as a value, so that broken variants can be put to it as well.
 *
 * Thresholds are small, so that the search is exhaustive; time only moves where something waits for it, and each
 * failure has a fingerprint of its own, since time and sameness are proved by examples beside the code.
 */
import type * as concurrencyRule from '../../src/core/concurrency.ts'
import type * as health from '../../src/core/health.ts'
import { FOLDED_NEW, type Folded, foldEvents, foldedOf } from '../../src/core/health-event.ts'
import type * as newsRule from '../../src/core/health-news.ts'
import type { Happening, HealthNews } from '../../src/core/health-news.ts'
import {
  HEALTH_DEFAULTS,
  type HealthRow,
  type HealthSettings,
  type LevelKind,
  NEW_ROW,
} from '../../src/core/health-row.ts'
import type { Fault } from '../../src/core/outcome.ts'

export interface Machine {
  readonly health: Pick<typeof health, 'applyNews' | 'coolDownOver' | 'afterPing' | 'disable' | 'enable'>
  readonly news: Pick<typeof newsRule, 'newsFor'>
  readonly concurrency: Pick<typeof concurrencyRule, 'effectiveConcurrency'>
}

const SETTINGS: HealthSettings = {
  ...HEALTH_DEFAULTS,
  windowSize: 3,
  windowAgeMs: 1e12,
  sampleSize: 4,
  degradeMinimum: 2,
  restoreAfter: 2,
  openAfter: 3,
  openMinimum: 3,
}
const COOLDOWN = HEALTH_DEFAULTS.coolDownMs * 1000
const SHORTEST_COOLDOWN = Math.min(COOLDOWN, HEALTH_DEFAULTS.persistentCoolDownMs * 1000)

/** `generation` is the checker's own epoch: what the machine's must agree with. */
interface Attempt {
  readonly epoch: number
  readonly generation: number
  readonly calledAt: number
}

interface World {
  readonly row: HealthRow
  readonly now: number
  readonly generation: number
  /** Successes that counted since probing began. */
  readonly successes: number
  readonly live: readonly Attempt[]
  readonly folded: Folded
}

interface Edge {
  readonly name: string
  readonly to: World
}

export class Violation extends Error {}

function insist(holds: boolean, invariant: string, world: World): void {
  if (!holds) throw new Violation(`${invariant}\n${JSON.stringify(world.row)}`)
}

class Model {
  readonly #machine: Machine
  readonly #kind: LevelKind
  readonly #concurrency: number

  constructor(machine: Machine, kind: LevelKind, concurrency: number) {
    this.#machine = machine
    this.#kind = kind
    this.#concurrency = concurrency
  }

  edges(world: World): Edge[] {
    return [...this.#grants(world), ...this.#answers(world), ...this.#polls(world), ...this.#moves(world)]
  }

  /** As the grant under the lock does it: both limits, the hold, and the level's present epoch in the attempt. */
  #grants(world: World): Edge[] {
    const { row, live } = world
    const current = live.filter((attempt) => attempt.epoch === row.epoch).length
    const limit = this.#machine.concurrency.effectiveConcurrency(row.state, recovery(row), this.#concurrency)
    if (current >= limit || live.length >= this.#concurrency) return []
    if (row.hold !== null && world.now < row.hold.notBefore) return []
    const granted = { epoch: row.epoch, generation: world.generation, calledAt: world.now }
    const to = { ...world, now: world.now + 1, live: [...live, granted] }
    this.#checkGrant(to)
    return [{ name: 'grant', to }]
  }

  #checkGrant(world: World): void {
    const { row, live } = world
    const most = this.#concurrency
    const fresh = live.filter((attempt) => attempt.generation === world.generation).length
    insist(
      row.state !== 'circuit_open' && row.state !== 'disabled',
      'INV-3, HLT-4: no grant while open or disabled',
      world,
    )
    insist(live.length <= most, 'INV-1, HLT-6: never more than configured', world)
    if (row.state === 'probing') insist(fresh <= 1, 'INV-2, HLT-6: one probe', world)
    if (row.state !== 'recovering') return
    const share = Math.ceil((most * (row.recoverySuccesses - 1)) / 4)
    insist(fresh <= share, 'INV-1, HLT-6: at most the share of the rung', world)
    if (most > 1) insist(fresh <= most - 1, 'INV-4, HLT-7: one slot stays closed', world)
  }

  #answers(world: World): Edge[] {
    const seen = new Set<string>()
    return world.live.flatMap((attempt, index) => {
      const key = attemptKey(world, attempt)
      if (seen.has(key)) return []
      seen.add(key)
      const rest = world.live.filter((_, other) => other !== index)
      return HAPPENINGS.map((happening) => this.#answer({ ...world, live: rest }, attempt, happening))
    })
  }

  #answer(world: World, attempt: Attempt, [name, happening]: NamedHappening): Edge {
    const told = this.#machine.news.newsFor(this.#kind, distinct(happening, world.now), attempt)
    const neutral = name === 'content' || name === 'request'
    if (neutral) insist(told === null, 'INV-6, HLT-9: content and request are no news', world)
    if (told === null) return { name, to: { ...world, now: world.now + 1 } }
    return { name, to: this.#tell(world, told, attempt) }
  }

  #tell(world: World, news: HealthNews, attempt: Attempt | null): World {
    const before = world.row
    const step = this.#machine.health.applyNews(this.#kind, before, news, world.now, SETTINGS)
    const fresh = attempt === null || attempt.generation === world.generation
    const success = news.kind === 'accepted' || news.kind === 'finished'
    if (!fresh)
      insist(step.row === before && !step.applied, 'INV-5, HLT-10: stale news leaves the row alone', world)
    if (before.state === 'circuit_open' || before.state === 'disabled')
      insist(step.row === before, 'INV-9, INV-10, HLT-10: no news moves an open or disabled level', world)
    if (
      fresh &&
      isFailure(news, this.#kind) &&
      (before.state === 'probing' || before.state === 'recovering')
    ) {
      insist(step.row.state === 'circuit_open', 'INV-7, HLT-8: any failure reopens', world)
      insist(
        openUntil(step.row) >= world.now + SHORTEST_COOLDOWN,
        'INV-7, HLT-8: the full cooldown from the failure',
        world,
      )
    }
    const tried = before.state === 'probing' || before.state === 'recovering'
    const counts = success && tried && fresh && step.applied && step.why !== 'answered'
    return this.#step({ ...world, successes: world.successes + (counts ? 1 : 0) }, step, counts)
  }

  /** Checks what holds of every step, and takes it. */
  #step(world: World, step: health.Step, success = false): World {
    const before = world.row
    const after = step.row
    const opened =
      before.state !== 'circuit_open' && after.state === 'circuit_open' && before.state !== 'disabled'
    const probing = before.state === 'circuit_open' && after.state === 'probing'
    const switched = (before.state === 'disabled') !== (after.state === 'disabled')
    const raises = opened || probing || switched
    insist(
      after.epoch === before.epoch + (raises ? 1 : 0),
      'INV-12, HLT-10: the epoch rises on four transitions only',
      world,
    )
    if (before.state === 'circuit_open' && after.state === 'circuit_open' && step.why !== 'ping_failed')
      insist(
        after.openUntil === before.openUntil,
        'INV-13: only an opening moves the end of a cooldown',
        world,
      )
    insist(step.applied || after === before, 'INV-5, HLT-10: what is not applied changes nothing', world)
    const successes = opened || probing ? 0 : world.successes
    const toHealthy =
      (before.state === 'probing' || before.state === 'recovering') && after.state === 'healthy'
    if (toHealthy) insist(successes === 5, 'INV-8, HLT-6: healthy after exactly five successes', world)
    if (after.state === 'probing' || after.state === 'recovering')
      insist(
        after.recoverySuccesses === successes,
        'INV-8, HLT-6: the count is that of successes since probing began',
        world,
      )
    if (!success && !switched && recovery(after) !== recovery(before))
      insist(recovery(after) === 0, 'HLT-9: only a success moves the count up', world)
    const folded = step.event === null ? world.folded : foldEvents([step.event], world.folded)
    expectFolded(folded, after, world)
    return {
      ...world,
      row: after,
      now: world.now + 1,
      generation: world.generation + (raises ? 1 : 0),
      successes: toHealthy ? 0 : successes,
      folded,
    }
  }

  #polls(world: World): Edge[] {
    if (this.#kind !== 'channel') return []
    return POLLS.map(([name, happening]) => {
      const told = this.#machine.news.newsFor('channel', distinct(happening, world.now), {
        epoch: -1,
        calledAt: 0,
      })
      if (told === null) throw new Violation('HLT-10: such polls are news')
      return { name, to: this.#tell(world, told, null) }
    })
  }

  /** The reconciler and the operator. */
  #moves(world: World): Edge[] {
    const { row, now } = world
    const machine = this.#machine.health
    const edges: Edge[] = []
    const due = row.state === 'circuit_open' ? Math.max(now, row.openUntil) : now
    const take = (name: string, at: number, step: health.Step) => {
      edges.push({ name, to: this.#step({ ...world, now: at }, step) })
    }
    if (row.state === 'circuit_open') {
      const early = row.openUntil - 1
      insist(
        !machine.coolDownOver(row, early).applied,
        'INV-9, HLT-5: not before the cooldown is over',
        world,
      )
      insist(
        !machine.afterPing(row, true, early).applied,
        'INV-9, HLT-5: not before the cooldown is over',
        world,
      )
      const probing = machine.coolDownOver(row, due)
      insist(!machine.coolDownOver(probing.row, due).applied, 'INV-11, HLT-5: into probing once', world)
      take('cool', due, probing)
      if (row.pingFirst && row.counters.persistentOpenings < 4)
        take('ping_failed', due, machine.afterPing(row, false, due))
    } else {
      const idle = [machine.coolDownOver(row, now + 1e15), machine.afterPing(row, true, now + 1e15)]
      insist(
        idle.every((step) => step.row === row),
        'INV-10, HLT-11: only an open circuit goes to probing',
        world,
      )
    }
    if (row.hold !== null && now < row.hold.notBefore)
      edges.push({ name: 'wait', to: { ...world, now: row.hold.notBefore } })
    if (row.state === 'disabled') {
      const back = machine.enable(row, { probe: false })
      insist(back.row.state === row.before.state, 'HLT-17: back to the state held before', world)
      take('enable', now, back)
      edges.push({
        name: 'enable_probe',
        to: this.#step({ ...world, successes: 0 }, machine.enable(row, { probe: true })),
      })
    } else take('disable', now, machine.disable(row))
    return edges
  }
}

function expectFolded(folded: Folded, row: HealthRow, world: World): void {
  insist(
    JSON.stringify(folded) === JSON.stringify(foldedOf(row)),
    'INV-23, HLT-18: folding the events gives the row',
    world,
  )
}

function recovery(row: HealthRow): number {
  return row.state === 'probing' || row.state === 'recovering' ? row.recoverySuccesses : 0
}

function openUntil(row: HealthRow): number {
  return row.state === 'circuit_open' ? row.openUntil : 0
}

function isFailure(news: HealthNews, kind: LevelKind): boolean {
  if (news.kind === 'capacity') return kind === 'supply'
  return news.kind !== 'accepted' && news.kind !== 'finished'
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
  fingerprint: '',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}

type NamedHappening = readonly [string, Happening]

function fault(name: string, parts: Partial<Fault>): NamedHappening[] {
  const both = parts.scope === undefined ? (['channel', 'supply'] as const) : [parts.scope]
  return both.map((scope) => [name, { kind: 'fault', fault: { ...FAULT, ...parts, scope } }])
}

const HAPPENINGS: readonly NamedHappening[] = [
  ['accepted', { kind: 'accepted' }],
  ['finished', { kind: 'finished', durationMs: 1 }],
  ...fault('failed', {}),
  ...fault('persistent', { impact: 'persistent_failure' }),
  ...fault('connection', { scope: 'channel', connection: true }),
  ...fault('uncertain', { category: 'unknown', scope: 'attempt', certainty: 'unknown' }),
  ...fault('capacity', { category: 'capacity', impact: 'capacity' }),
  ...fault('content', { category: 'content', impact: 'none' }),
  ...fault('request', { category: 'request', impact: 'none' }),
]
const POLLS: readonly NamedHappening[] = [
  [
    'refused_poll',
    {
      kind: 'no_answer',
      fault: { ...FAULT, scope: 'channel', code: 'key_refused', impact: 'persistent_failure' },
      inARow: 1,
    },
  ],
  ['unanswered_polls', { kind: 'no_answer', fault: FAULT, inARow: 3 }],
]

function distinct(happening: Happening, now: number): Happening {
  return 'fault' in happening
    ? { ...happening, fault: { ...happening.fault, fingerprint: String(now) } }
    : happening
}

function attemptKey(world: World, attempt: Attempt): string {
  const { hold } = world.row
  const after = hold !== null && attempt.calledAt >= hold.notBefore
  return `${attempt.epoch === world.row.epoch}${attempt.generation === world.generation}${after}`
}

/** All that the future depends on; times only as far as something waits for them. */
function keyOf(world: World): string {
  const { row } = world
  const { counters, hold } = row
  return JSON.stringify([
    row.state === 'disabled'
      ? ['disabled', row.before.state, recovery({ ...row, ...row.before })]
      : [row.state, recovery(row)],
    row.state === 'circuit_open' && row.pingFirst,
    counters.outcomes.slice(-Math.min(3, counters.sinceOpening) || 9).map((outcome) => outcome.ok),
    counters.sinceOpening,
    [counters.consecutiveFailures, Math.min(counters.consecutiveSuccesses, 2), counters.consecutiveDirect],
    Math.min(counters.persistentOpenings, 2),
    hold === null ? null : [world.now < hold.notBefore, Math.min(hold.count, 2)],
    world.live.map((attempt) => attemptKey(world, attempt)).sort(),
    world.successes,
  ])
}

const START: World = { row: NEW_ROW, now: 1e15, generation: 0, successes: 0, live: [], folded: FOLDED_NEW }
const OPERATOR = new Set(['disable', 'enable', 'enable_probe'])

export interface Explored {
  readonly states: number
  readonly steps: number
  readonly transitions: ReadonlySet<string>
}

/** Breadth first, to the end. Throws a Violation. */
export function explore(machine: Machine, kind: LevelKind, concurrency: number): Explored {
  const model = new Model(machine, kind, concurrency)
  const cameFrom = new Map<string, string[]>([[keyOf(START), []]])
  const healthy: string[] = []
  const enabled = new Set<string>()
  const transitions = new Set<string>()
  let steps = 0
  const queue = [START]
  for (const world of queue) {
    const from = keyOf(world)
    if (world.row.state === 'healthy') healthy.push(from)
    if (world.row.state !== 'disabled') enabled.add(from)
    for (const { name, to } of model.edges(world)) {
      const key = keyOf(to)
      const known = cameFrom.get(key)
      if (known === undefined) {
        if (cameFrom.size > 50_000) throw new Violation('the state space is not finite')
        queue.push(to)
      }
      const back = known ?? []
      if (!OPERATOR.has(name)) back.push(from)
      cameFrom.set(key, back)
      transitions.add(`${world.row.state} → ${to.row.state}`)
      steps += 1
    }
  }
  checkWayBack(cameFrom, healthy, enabled)
  return { states: cameFrom.size, steps, transitions }
}

/** HLT-6: from every state but a disabled one, healthy can be reached without the operator. */
function checkWayBack(
  cameFrom: ReadonlyMap<string, string[]>,
  healthy: string[],
  enabled: ReadonlySet<string>,
): void {
  const reaching = new Set(healthy)
  for (const stack = [...healthy]; stack.length > 0; ) {
    for (const before of cameFrom.get(stack.pop() ?? '') ?? []) {
      if (!reaching.has(before)) stack.push(before)
      reaching.add(before)
    }
  }
  const stuck = [...enabled].filter((key) => !reaching.has(key))
  if (stuck.length > 0) throw new Violation(`INV-14, HLT-6: no way back to healthy from ${stuck[0]}`)
}
