/**
 * Long random lives of one level with the real settings and real time, checked at each step against what the rules say
 * of the whole life. Uniform commands hardly ever get through a recovery, so the generator also has whole stretches
 * (a run of successes, a crash, the end of a cooldown); that every transition was met is asserted at the end.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  afterPing,
  applyNews,
  coolDownOver,
  disable,
  enable,
  healthFromColumns,
  healthToColumns,
  type Step,
  samples,
} from './health.ts'
import { foldEvents, foldedOf, type HealthEvent, type Transition } from './health-event.ts'
import type { FailureCause, HealthNews } from './health-news.ts'
import { HEALTH_DEFAULTS, type HealthRow, type LevelKind, NEW_ROW } from './health-row.ts'

const MILLI = 1000
const SECOND = 1_000_000

type Command =
  | { readonly do: 'succeed'; readonly times: number; readonly durationMs: number; readonly gapMs: number }
  | {
      readonly do: 'fail'
      readonly times: number
      readonly cause: FailureCause
      readonly gapMs: number
      readonly fingerprint: string
    }
  | { readonly do: 'doubt'; readonly gapMs: number }
  | { readonly do: 'poll'; readonly cause: FailureCause }
  | { readonly do: 'full'; readonly retryAfterMs: number | null; readonly calledAgoMs: number }
  | { readonly do: 'late'; readonly epochsAgo: number; readonly ok: boolean }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'cool' }
  | { readonly do: 'ping'; readonly ok: boolean }
  | { readonly do: 'disable' }
  | { readonly do: 'enable'; readonly probe: boolean }

const gapMs = fc.constantFrom(0, 1, 400, 999, 1000, 5000, 60_000)
const cause = fc.constantFrom<FailureCause[]>('ordinary', 'ordinary', 'connection', 'bare_403', 'persistent')
const succeed = (times: fc.Arbitrary<number>) =>
  fc.record({
    do: fc.constant('succeed' as const),
    times,
    durationMs: fc.constantFrom(1000, 400_000, 900_000),
    gapMs,
  })
const fail = (times: fc.Arbitrary<number>, why: fc.Arbitrary<FailureCause>) =>
  fc.record({
    do: fc.constant('fail' as const),
    times,
    cause: why,
    gapMs,
    fingerprint: fc.constantFrom('a', 'b'),
  })

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 4, arbitrary: succeed(fc.integer({ min: 1, max: 3 })) },
  { weight: 4, arbitrary: succeed(fc.constant(5)) },
  { weight: 3, arbitrary: fail(fc.constant(1), cause) },
  { weight: 1, arbitrary: fail(fc.integer({ min: 2, max: 6 }), fc.constant('ordinary' as const)) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('doubt' as const), gapMs }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('poll' as const), cause }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('full' as const),
      retryAfterMs: fc.constantFrom(null, 0, 700, 20_000, 3_600_000),
      calledAgoMs: fc.constantFrom(0, 0, 3000, 60_000),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('late' as const),
      epochsAgo: fc.integer({ min: 1, max: 4 }),
      ok: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('wait' as const),
      ms: fc.constantFrom(5000, 660_000, 90_000_000),
    }),
  },
  { weight: 6, arbitrary: fc.constant({ do: 'cool' as const }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('ping' as const), ok: fc.boolean() }) },
  { weight: 1, arbitrary: fc.constant({ do: 'disable' as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('enable' as const), probe: fc.boolean() }) },
)

interface Logged {
  readonly at: number
  readonly ok: boolean
  readonly durationMs: number | null
  readonly direct: boolean
}

/** A life, with the checker's own memory of it. */
class Life {
  row: HealthRow = NEW_ROW
  now = 1_764_547_200 * SECOND
  readonly kind: LevelKind
  readonly events: HealthEvent[] = []
  readonly seen = new Set<Transition>()
  /** Every outcome that counted, and how many of them the last opening left behind. */
  readonly #log: Logged[] = []
  #openedAt = 0

  constructor(kind: LevelKind) {
    this.kind = kind
  }

  run(step: Command): void {
    switch (step.do) {
      case 'succeed':
        for (let i = 0; i < step.times; i++) this.#tell(this.#success(step.durationMs), step.gapMs)
        return
      case 'fail':
        for (let i = 0; i < step.times; i++)
          this.#tell({ ...this.#of(), ...step, kind: 'failed', code: 'x' }, step.gapMs)
        return
      case 'doubt':
        this.#tell({ ...this.#of(), kind: 'uncertain', code: 'x', fingerprint: 'u' }, step.gapMs)
        return
      case 'poll':
        this.#tell({ kind: 'refused_poll', epoch: null, cause: step.cause, code: 'x', fingerprint: 'p' }, 0)
        return
      case 'full': {
        const calledAt = this.now - step.calledAgoMs * MILLI
        const { retryAfterMs } = step
        this.#tell(
          { kind: 'capacity', epoch: this.row.epoch, calledAt, code: 'x', fingerprint: '429', retryAfterMs },
          2,
        )
        return
      }
      case 'late':
        this.#late(step)
        return
      case 'wait':
        this.now += step.ms * MILLI
        return
      case 'cool':
        if (this.row.state === 'circuit_open') this.now = Math.max(this.now, this.row.openUntil)
        this.#take(coolDownOver(this.row, this.now), null)
        return
      case 'ping':
        if (this.row.state === 'circuit_open') this.now = Math.max(this.now, this.row.openUntil)
        this.#take(afterPing(this.row, step.ok, this.now), null)
        return
      case 'disable':
        this.#take(disable(this.row), null)
        return
      case 'enable':
        this.#take(enable(this.row, step), null)
        return
    }
  }

  #of() {
    return { epoch: this.row.epoch, calledAt: this.now }
  }

  #success(durationMs: number, epoch = this.row.epoch): HealthNews {
    const of = { epoch, calledAt: this.now }
    return this.kind === 'channel' ? { ...of, kind: 'accepted' } : { ...of, kind: 'finished', durationMs }
  }

  #tell(news: HealthNews, gap: number): void {
    this.now += gap * MILLI
    this.#take(applyNews(this.kind, this.row, news, this.now), news)
  }

  /** HLT-10: in whatever state, news of an older epoch leaves the row as it is. */
  #late(step: Command & { do: 'late' }): void {
    const epoch = this.row.epoch - step.epochsAgo
    const news: HealthNews = step.ok
      ? this.#success(1000, epoch)
      : { kind: 'failed', epoch, calledAt: this.now, cause: 'persistent', code: 'x', fingerprint: 'late' }
    const before = structuredClone(this.row)
    this.#take(applyNews(this.kind, this.row, news, this.now), null)
    expect(this.row).toEqual(before)
  }

  #take(step: Step, news: HealthNews | null): void {
    const before = this.row
    this.row = step.row
    if (step.event) this.events.push(step.event)
    if (step.event?.applied && step.event.kind !== 'ignored') this.seen.add(step.event.kind)
    if (!step.applied) expect(step.row).toBe(before)
    if (news !== null && step.applied) this.#remember(before, step, news)
    this.#checkHold(before)
    this.#checkStored()
  }

  /** HLT-14 again, from the whole log instead of counters. */
  #remember(before: HealthRow, step: Step, news: HealthNews): void {
    if (news.kind === 'capacity' && step.why === 'held') return
    const ok = news.kind === 'accepted' || news.kind === 'finished'
    const durationMs = news.kind === 'finished' ? news.durationMs : null
    const direct = 'cause' in news && (news.cause === 'connection' || news.cause === 'bare_403')
    this.#log.push({ at: this.now, ok, durationMs, direct })
    if (before.state === 'healthy' || before.state === 'degraded') {
      expect(this.row.state).toBe(this.#expected(before.state, news))
    } else if (!ok) {
      expect(this.row).toMatchObject({ state: 'circuit_open' })
    }
    if (this.row.state === 'circuit_open') this.#openedAt = this.#log.length
    if (this.kind === 'supply') expect(samples(this.row, this.now)).toEqual(this.#samples())
  }

  #expected(state: 'healthy' | 'degraded', news: HealthNews): string {
    const since = this.#log.slice(this.#openedAt)
    const durations = this.#log
      .slice(-100)
      .flatMap((one) => (one.durationMs !== null ? [one.durationMs] : []))
    const p95 = durations.sort((a, b) => a - b)[Math.ceil(durations.length * 0.95) - 1] ?? 0
    const age = Math.max(600_000, 3 * p95) * MILLI
    const window = since.slice(-20).filter((one) => this.now - one.at <= age)
    const failed = window.filter((one) => !one.ok).length
    const inARow = since.length - 1 - since.findLastIndex((one) => one.ok !== since.at(-1)?.ok)
    if (since.at(-1)?.ok)
      return state === 'degraded' && inARow >= 5 && failed < window.length / 5 ? 'healthy' : state
    if ('cause' in news && news.cause === 'persistent') return 'circuit_open'
    if (this.kind === 'channel' && this.#directInARow(since) >= 2) return 'circuit_open'
    if (inARow >= 5 || (inARow >= 2 && window.length >= 10 && failed >= window.length / 2))
      return 'circuit_open'
    return inARow >= 2 || (window.length >= 5 && failed >= window.length / 5) ? 'degraded' : state
  }

  /** Failures in a row, from the newest back, that were a connection's or a bare 403. */
  #directInARow(since: readonly Logged[]): number {
    return since.length - 1 - since.findLastIndex((one) => !one.direct)
  }

  #samples() {
    const recent = this.#log.slice(-100).filter((one) => this.now - one.at <= 86_400 * SECOND)
    const successes = recent.filter((one) => one.ok).length
    return { successes, failures: recent.length - successes }
  }

  /** HLT-15: within one hold its end only moves later. */
  #checkHold(before: HealthRow): void {
    if (before.hold === null || this.row.hold === null || before.hold.count !== this.row.hold.count) return
    expect(this.row.hold.notBefore).toBeGreaterThanOrEqual(before.hold.notBefore)
  }

  /** The row survives PostgreSQL, and its events alone give it again. */
  #checkStored(): void {
    const stored = JSON.parse(JSON.stringify(healthToColumns(this.row)))
    expect(healthFromColumns(stored)).toEqual(this.row)
    expect(stored.recovery_successes === 0 || ['probing', 'recovering'].includes(stored.state)).toBe(true)
    expect((stored.open_until !== null) === (stored.state === 'circuit_open')).toBe(true)
    expect(foldEvents(this.events)).toEqual(foldedOf(this.row))
  }
}

const KINDS: LevelKind[] = ['channel', 'supply']
const TRANSITIONS: Transition[] = [
  'failure_counted',
  'degraded',
  'restored',
  'opened',
  'probing_started',
  'probe_succeeded',
  'recovery_started',
  'rung_climbed',
  'recovered',
  'reopened',
  'ping_failed',
  'held',
  'disabled',
  'enabled',
]

describe.each(KINDS)('the life of a %s', (kind) => {
  it('HLT-5 to HLT-18: window, samples, holds, columns and folded events agree with the whole life, at each step', () => {
    const met = new Map<Transition, number>()
    fc.assert(
      fc.property(fc.array(command, { minLength: 1, maxLength: 50, size: 'max' }), (commands) => {
        const life = new Life(kind)
        for (const each of commands) life.run(each)
        for (const name of life.seen) met.set(name, (met.get(name) ?? 0) + 1)
      }),
      { numRuns: 250, seed: 1 },
    )
    for (const name of TRANSITIONS) expect([name, (met.get(name) ?? 0) >= 5]).toEqual([name, true])
  })

  it('HLT-8: one failure among the outcomes of a recovery ends in an open circuit, in whatever order they come', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 4 }),
        fc.nat({ max: 4 }),
        fc.boolean(),
        (before, after, persistent) => {
          const life = new Life(kind)
          const crash: Command = {
            do: 'fail',
            times: 1,
            cause: persistent ? 'persistent' : 'ordinary',
            gapMs: 1000,
            fingerprint: 'a',
          }
          life.run({ ...crash, cause: 'persistent' })
          life.run({ do: 'cool' })
          const { epoch } = life.row
          life.run({ do: 'succeed', times: before, durationMs: 1000, gapMs: 1000 })
          life.run(crash)
          const lasts = persistent ? 2 * HEALTH_DEFAULTS.persistentCoolDownMs : HEALTH_DEFAULTS.coolDownMs
          const opened = { state: 'circuit_open', epoch: epoch + 1, openUntil: life.now + lasts * MILLI }
          for (let i = 0; i < after; i++) life.run({ do: 'late', epochsAgo: 1, ok: true })
          expect(life.row).toMatchObject(opened)
        },
      ),
    )
  })

  it('HLT-14: a burst of the same failure within a second counts once, one per second counts each', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), (times) => {
        const burst = new Life(kind)
        burst.run({ do: 'fail', times, cause: 'ordinary', gapMs: 30, fingerprint: 'a' })
        expect(burst.row.counters.consecutiveFailures).toBe(1)
        const apart = new Life(kind)
        apart.run({ do: 'fail', times: Math.min(times, 4), cause: 'ordinary', gapMs: 1000, fingerprint: 'a' })
        expect(apart.row.counters.consecutiveFailures).toBe(Math.min(times, 4))
      }),
    )
  })
})

describe('folding', () => {
  it('HLT-18: a missing event is noticed', () => {
    const life = new Life('supply')
    life.run({ do: 'fail', times: 5, cause: 'ordinary', gapMs: 1000, fingerprint: 'a' })
    life.run({ do: 'cool' })
    life.run({ do: 'succeed', times: 5, durationMs: 1, gapMs: 1000 })
    const kept = life.events.filter((event) => event.kind !== 'probing_started')
    expect(foldEvents(kept).brokenAt).toBe(kept.findIndex((event) => event.kind === 'probe_succeeded'))
    expect(foldEvents(life.events).brokenAt).toBeNull()
  })

  it('HLT-18: also where the state alone would not show it', () => {
    const life = new Life('channel')
    life.run({ do: 'disable' })
    life.run({ do: 'enable', probe: false })
    life.run({ do: 'disable' })
    expect(foldEvents(life.events).brokenAt).toBeNull()
    expect(foldEvents(life.events.slice(2)).brokenAt).toBe(0)
  })
})
