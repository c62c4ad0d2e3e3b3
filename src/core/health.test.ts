import { describe, expect, it } from 'vitest'
import {
  afterPing,
  applyNews,
  coolDownOver,
  disable,
  enable,
  type Step,
  samples,
  setAside,
} from './health.ts'
import type { FailureCause, HealthNews } from './health-news.ts'
import { HEALTH_DEFAULTS, type HealthRow, type LevelKind, NEW_ROW } from './health-row.ts'

const SECOND = 1_000_000
const MINUTE = 60 * SECOND
const START = 1_764_547_200 * SECOND

/** A level that is told things, two seconds apart unless said otherwise, so that nothing counts as the same failure. */
class Told {
  row: HealthRow
  now = START
  last: Step
  readonly kind: LevelKind

  constructor(kind: LevelKind, row: HealthRow = NEW_ROW) {
    this.kind = kind
    this.row = row
    this.last = { row, event: null, applied: false, why: 'not_due' }
  }

  later(micros: number): this {
    this.now += micros
    return this
  }

  take(step: Step): this {
    this.last = step
    this.row = step.row
    return this
  }

  tell(news: HealthNews): this {
    this.now += 2 * SECOND
    return this.take(applyNews(this.kind, this.row, news, this.now))
  }

  succeed(times = 1, epoch = this.row.epoch): this {
    for (let i = 0; i < times; i++) this.tell(success(this.kind, epoch, this.now))
    return this
  }

  fail(times = 1, cause: FailureCause = 'ordinary', epoch = this.row.epoch): this {
    for (let i = 0; i < times; i++) this.tell(failure(epoch, cause, this.now))
    return this
  }

  full(retryAfterMs: number | null, calledAt = this.now): this {
    const { epoch } = this.row
    return this.tell({
      kind: 'capacity',
      epoch,
      calledAt,
      code: 'rate_limited',
      fingerprint: '429',
      retryAfterMs,
    })
  }

  cool(): this {
    if (this.row.state === 'circuit_open') this.now = Math.max(this.now, this.row.openUntil)
    return this.take(coolDownOver(this.row, this.now))
  }

  /** Opened, cooled down, and `successes` times tried with success. */
  recover(successes: number): this {
    return this.fail(1, 'persistent').cool().succeed(successes)
  }
}

function success(kind: LevelKind, epoch: number, calledAt: number): HealthNews {
  return kind === 'channel'
    ? { kind: 'accepted', epoch, calledAt }
    : { kind: 'finished', epoch, calledAt, durationMs: 60_000 }
}

function failure(epoch: number, cause: FailureCause, calledAt: number): HealthNews {
  return { kind: 'failed', epoch, calledAt, cause, code: 'upstream_error', fingerprint: `supply|${cause}` }
}

const KINDS: LevelKind[] = ['channel', 'supply']

describe.each(KINDS)('health of a %s', (kind) => {
  const told = (row?: HealthRow) => new Told(kind, row)

  it('HLT-1: knows six states', () => {
    const seen = new Set<string>([NEW_ROW.state])
    const level = told().fail(2)
    seen.add(level.row.state)
    seen.add(level.fail(1, 'persistent').row.state)
    seen.add(level.cool().row.state)
    seen.add(level.succeed(2).row.state)
    seen.add(level.take(disable(level.row)).row.state)
    expect([...seen]).toEqual(['healthy', 'degraded', 'circuit_open', 'probing', 'recovering', 'disabled'])
  })

  it('HLT-4: an open circuit moves neither state nor cooldown by what attempts in flight report', () => {
    const level = told().fail(1, 'persistent')
    const { row } = level
    for (const epoch of [row.epoch - 1, row.epoch]) {
      level.succeed(3, epoch).fail(3, 'ordinary', epoch).fail(1, 'persistent', epoch)
      expect(level.row).toBe(row)
    }
  })

  it('HLT-5: moves to probing when the cooldown is over, not a microsecond before, and only once', () => {
    const open = told().fail(5)
    const until = open.now + 30 * SECOND
    expect(open.row).toMatchObject({ state: 'circuit_open', openUntil: until })
    expect(coolDownOver(open.row, until - 1)).toEqual({
      row: open.row,
      event: null,
      applied: false,
      why: 'not_due',
    })
    const probing = coolDownOver(open.row, until)
    expect(probing).toMatchObject({
      applied: true,
      why: 'probing_started',
      row: { state: 'probing', recoverySuccesses: 0 },
    })
    expect(coolDownOver(probing.row, until + MINUTE)).toMatchObject({ applied: false, row: probing.row })
  })

  it('HLT-6: one success stays in probing, then 25, 50, 75 %, and the fifth makes it healthy', () => {
    const level = told().fail(5).cool()
    const states = [1, 2, 3, 4, 5].map(() => {
      level.succeed()
      const { event } = level.last
      return [level.row.state, event?.kind, event?.recoverySuccesses]
    })
    expect(states).toEqual([
      ['probing', 'probe_succeeded', 1],
      ['recovering', 'recovery_started', 2],
      ['recovering', 'rung_climbed', 3],
      ['recovering', 'rung_climbed', 4],
      ['healthy', 'recovered', 5],
    ])
  })

  it.each([0, 1, 2, 3, 4])(
    'HLT-8: after %i successes one failure reopens it, from zero and for the full cooldown',
    (count) => {
      const level = told().recover(count)
      const { epoch } = level.row
      level.later(7 * MINUTE).fail()
      expect(level.row).toMatchObject({
        state: 'circuit_open',
        epoch: epoch + 1,
        openUntil: level.now + 30 * SECOND,
      })
      expect(level.last.event).toMatchObject({ kind: 'reopened', recoverySuccesses: 0, to: 'circuit_open' })
      level.cool().succeed()
      expect(level.row).toMatchObject({ state: 'probing', recoverySuccesses: 1 })
    },
  )

  it('HLT-8: no same-failure rule in probing, however short the cooldown is', () => {
    const settings = { ...HEALTH_DEFAULTS, coolDownMs: 100 }
    const level = told().fail(4)
    const open = applyNews(
      kind,
      level.row,
      failure(level.row.epoch, 'ordinary', 0),
      level.now + 2 * SECOND,
      settings,
    )
    const probing = coolDownOver(open.row, level.now + 2 * SECOND + 100_000)
    const again = applyNews(
      kind,
      probing.row,
      failure(probing.row.epoch, 'ordinary', 0),
      level.now + 2 * SECOND + 200_000,
      settings,
    )
    expect(again.why).toBe('reopened')
  })

  it('HLT-10: a success from before the opening neither skips the cooldown nor closes the circuit', () => {
    const level = told().fail(5)
    const before = level.row.epoch - 1
    level.succeed(5, before)
    expect(level.row.state).toBe('circuit_open')
    const { row } = level.cool()
    level.succeed(5, before).succeed(5, before + 1)
    expect(level.row).toBe(row)
    expect(level.last).toMatchObject({ applied: false, why: 'stale_epoch' })
    expect(level.last.event).toMatchObject({
      kind: 'ignored',
      applied: false,
      detail: { why: 'stale_epoch', news_epoch: before + 1 },
    })
  })

  it('HLT-10: a failure from before the opening does not disturb the recovery', () => {
    const level = told().recover(3)
    const { row } = level
    level.fail(3, 'persistent', row.epoch - 1).fail(3, 'ordinary', row.epoch - 2)
    expect(level.row).toBe(row)
  })

  it('HLT-10: the epoch is raised by opening, probing, disabling and enabling, and by nothing else', () => {
    const level = told()
    const epochs = [
      level.fail(2).row.epoch,
      level.fail(3).row.epoch,
      level.cool().row.epoch,
      level.succeed(5).row.epoch,
    ]
    expect(epochs).toEqual([0, 1, 2, 2])
    expect(level.take(disable(level.row)).row.epoch).toBe(3)
    expect(level.take(enable(level.row, { probe: false })).row.epoch).toBe(4)
    expect(level.take(disable(level.row)).take(enable(level.row, { probe: true })).row.epoch).toBe(6)
  })

  it('HLT-11: disabled takes no part in probing or recovery', () => {
    const off = told().recover(3)
    off.take(disable(off.row))
    const { row } = off
    off
      .succeed(9, row.epoch)
      .succeed(9, row.epoch - 1)
      .fail(9, 'persistent', row.epoch)
    expect(off.row).toBe(row)
    expect(coolDownOver(row, off.now + 24 * 60 * MINUTE)).toMatchObject({ row, applied: false, event: null })
    expect(afterPing(row, true, off.now + 24 * 60 * MINUTE)).toMatchObject({
      row,
      applied: false,
      event: null,
    })
  })

  it('HLT-12: each probe, rung, recovery and reopening gives an event with its count and both epochs', () => {
    const level = told().fail(5)
    const events = [level.last.event]
    events.push(level.cool().last.event)
    for (let i = 0; i < 3; i++) events.push(level.succeed().last.event)
    events.push(level.fail().last.event)
    expect(
      events.map((event) => [event?.kind, event?.epochBefore, event?.epochAfter, event?.recoverySuccesses]),
    ).toEqual([
      ['opened', 0, 1, 0],
      ['probing_started', 1, 2, 0],
      ['probe_succeeded', 2, 2, 1],
      ['recovery_started', 2, 2, 2],
      ['rung_climbed', 2, 2, 3],
      ['reopened', 2, 3, 0],
    ])
    expect(level.last.event?.detail).toMatchObject({
      news: 'failed',
      code: 'upstream_error',
      fingerprint: 'supply|ordinary',
    })
    expect(told().succeed().last).toMatchObject({ event: null, applied: true })
  })

  it('HLT-14: degraded at 2 consecutive failures, not at one', () => {
    expect(told().fail(1).row.state).toBe('healthy')
    expect(told().fail(2).row.state).toBe('degraded')
    expect(told().fail(1).succeed().fail(1).row.state).toBe('healthy')
  })

  it('HLT-14: degraded at 20 % of at least 5', () => {
    expect(told().succeed(3).fail(1).row.state).toBe('healthy')
    expect(told().succeed(4).fail(1).row.state).toBe('degraded')
    expect(told().succeed(5).fail(1).row.state).toBe('healthy')
    expect(told().succeed(5).fail(1).succeed(3).fail(1).row.state).toBe('degraded')
  })

  it('HLT-14: back after 5 consecutive successes, if the window is below 20 % by then', () => {
    const level = told().succeed(4).fail(1)
    expect(level.succeed(4).row.state).toBe('degraded')
    expect(level.last).toMatchObject({ applied: true, why: 'success_counted', event: null })
    expect(level.succeed(1).row.state).toBe('healthy')
    expect(level.last.event?.kind).toBe('restored')
    const worse = told().fail(2).succeed(8)
    expect(worse.row.state).toBe('degraded')
    expect(worse.succeed(1).row.state).toBe('healthy')
  })

  it('HLT-14: open at 5 consecutive failures', () => {
    expect(told().fail(4).row.state).toBe('degraded')
    expect(told().fail(5).row.state).toBe('circuit_open')
    expect(told().fail(4).succeed().fail(4).row.state).toBe('degraded')
  })

  it('HLT-14: open at 50 % of at least 10, with 2 in a row', () => {
    const alternate = (pairs: number) => {
      const level = told()
      for (let i = 0; i < pairs; i++) level.succeed().fail()
      return level
    }
    expect(alternate(5).row.state).toBe('degraded')
    expect(alternate(4).fail().row.state).toBe('degraded')
    expect(alternate(4).fail(2).row.state).toBe('circuit_open')
    expect(alternate(5).fail().row.state).toBe('circuit_open')
    expect(told().succeed(7).fail(4).row.state).toBe('degraded')
  })

  it('HLT-14: the window holds the last 20 outcomes', () => {
    const level = told()
    for (let i = 0; i < 4; i++) level.fail().succeed()
    level.succeed(15)
    expect(level.row.state).toBe('healthy')
    // 5 of all 24 failed, but only 3 of the last 20.
    expect(level.fail().row.state).toBe('healthy')
  })

  it('HLT-14: the window starts anew when the circuit opens', () => {
    const level = told().fail(5).cool().succeed(5)
    expect(level.fail().row.state).toBe('healthy')
    // 1 of 5 before it opened would have been enough.
    expect(told().succeed(4).fail(1).row.state).toBe('degraded')
  })

  it('HLT-14: an outcome is in the window until it is ten minutes old, and not a microsecond longer', () => {
    const stateAt = (micros: number) => {
      const level = told().succeed(4)
      const { now, row } = level
      return applyNews(kind, row, failure(0, 'ordinary', now), now - 6 * SECOND + micros).row.state
    }
    expect(stateAt(10 * MINUTE)).toBe('degraded')
    expect(stateAt(10 * MINUTE + 1)).toBe('healthy')
  })

  it('HLT-14: outcomes older than ten minutes are out of the window', () => {
    const level = told()
    for (let i = 0; i < 5; i++) level.succeed().fail()
    expect(level.row.state).toBe('degraded')
    level.later(11 * MINUTE).fail()
    expect(level.row.state).toBe('degraded')
  })

  it('HLT-14: the same failure within a second of the last counted one is not counted', () => {
    const level = told().fail(1)
    const { row } = level
    const burst = (after: number) =>
      applyNews(kind, row, failure(row.epoch, 'ordinary', START), level.now + after)
    expect(burst(0)).toMatchObject({ row, applied: false, why: 'same_failure' })
    expect(burst(SECOND - 1)).toMatchObject({ row, applied: false, why: 'same_failure' })
    expect(burst(SECOND)).toMatchObject({ applied: true, why: 'degraded' })
    const other = { ...failure(row.epoch, 'ordinary', START), fingerprint: 'another' }
    expect(applyNews(kind, row, other, level.now + 1)).toMatchObject({ applied: true, why: 'degraded' })
  })

  it('HLT-14: what does not heal by itself opens at once, for 10 min doubling to 1 h, a free call first', () => {
    const level = told()
    const lasts = [1, 2, 3, 4, 5].map(() => {
      level.fail(1, 'persistent')
      const until = level.row.state === 'circuit_open' ? level.row.openUntil - level.now : 0
      expect(level.row).toMatchObject({ state: 'circuit_open', pingFirst: true })
      level.cool()
      return until / MINUTE
    })
    expect(lasts).toEqual([10, 20, 40, 60, 60])
    level.succeed(5).fail(1, 'persistent')
    expect(level.row).toMatchObject({ openUntil: level.now + 10 * MINUTE })
    // An opening by something else doubles nothing.
    level.cool().fail().cool().fail().cool().fail(1, 'persistent')
    expect(level.row).toMatchObject({ openUntil: level.now + 20 * MINUTE })
  })

  it('HLT-14: what may heal by itself cools down for 30 s, however often, and needs no free call', () => {
    const level = told().fail(5)
    for (let i = 0; i < 5; i++) {
      expect(level.row).toMatchObject({
        state: 'circuit_open',
        openUntil: level.now + 30 * SECOND,
        pingFirst: false,
      })
      level.cool().fail()
    }
  })

  it('HLT-12: each step says why', () => {
    const level = told().succeed()
    expect(level.last).toMatchObject({ applied: true, why: 'success_counted', event: null })
    expect(level.fail(2).succeed().last).toMatchObject({ applied: true, why: 'success_counted', event: null })
    expect(enable(level.row, { probe: true })).toMatchObject({ applied: false, why: 'not_disabled' })
    level.take(disable(level.row))
    expect(disable(level.row)).toMatchObject({ applied: false, why: 'already_disabled' })
    const open = told().fail(5)
    expect(coolDownOver(open.row, open.now)).toMatchObject({ applied: false, why: 'not_due' })
    open.now += MINUTE
    expect(afterPing(open.row, false, open.now)).toMatchObject({
      applied: false,
      why: 'not_due',
      row: open.row,
    })
  })

  it('HLT-15: a 429 that asks for no more than the hold changes nothing, and counts as heard', () => {
    const level = told().full(20_000)
    const { row } = level
    const until = row.hold?.notBefore ?? 0
    level.full((until - level.now - 2 * SECOND) / 1000, level.now - SECOND)
    expect(level.row).toBe(row)
    expect(level.last).toMatchObject({ applied: true, why: 'held', event: null })
  })

  it('HLT-16: the same error on several supplies opens at once, for 30 s, and asks for no free call', () => {
    const level = told().succeed(20).fail(1, 'escalated')
    const opened = { state: 'circuit_open', openUntil: level.now + 30 * SECOND, pingFirst: false } as const
    expect(level.row).toMatchObject({ ...opened, epoch: 1, counters: { persistentOpenings: 0 } })
    expect(level.last).toMatchObject({ why: 'opened', event: { detail: { news: 'failed' } } })
    level.cool().fail(1, 'escalated')
    expect(level.last.why).toBe('reopened')
  })

  it('HLT-16: it opens at once also where the channel has just counted the same failure', () => {
    const level = told().fail(1)
    const again = { ...failure(level.row.epoch, 'escalated', START), fingerprint: 'supply|ordinary' } as const
    expect(applyNews(kind, level.row, again, level.now + 1)).toMatchObject({ applied: true, why: 'opened' })
  })

  it('HLT-16: what our own network is suspected of is written down, and changes nothing in any state', () => {
    const open = told().fail(1, 'persistent').row
    for (const { row } of [told(), told().fail(2), told().recover(0), told().recover(3), told(open)]) {
      const step = setAside(row, failure(row.epoch, 'connection', START))
      expect(step.row).toBe(row)
      expect(step).toMatchObject({
        applied: false,
        why: 'own_network',
        event: { kind: 'ignored', applied: false, detail: { why: 'own_network', news: 'failed' } },
      })
    }
  })

  it('HLT-14: a free call that is not answered means another, longer cooldown; one that is, a probe', () => {
    const level = told().fail(1, 'persistent')
    const until = level.now + 10 * MINUTE
    expect(afterPing(level.row, true, until - 1)).toMatchObject({ applied: false, row: level.row })
    const failed = afterPing(level.row, false, until)
    expect(failed).toMatchObject({
      why: 'ping_failed',
      row: { state: 'circuit_open', epoch: 1, openUntil: until + 20 * MINUTE },
    })
    expect(afterPing(failed.row, false, until)).toMatchObject({ applied: false, row: failed.row })
    expect(afterPing(failed.row, true, until + 20 * MINUTE)).toMatchObject({
      why: 'probing_started',
      row: { state: 'probing' },
    })
    const ordinary = told().fail(5)
    expect(afterPing(ordinary.row, false, ordinary.now + MINUTE)).toMatchObject({
      applied: false,
      row: ordinary.row,
    })
  })

  it('HLT-14: all figures are settings', () => {
    const settings = { ...HEALTH_DEFAULTS, openAfter: 1, coolDownMs: 5 }
    const step = applyNews(kind, NEW_ROW, failure(0, 'ordinary', START), START, settings)
    expect(step.row).toMatchObject({ state: 'circuit_open', openUntil: START + 5000 })
  })

  it('HLT-15: a 429 holds the level until Retry-After and is no failure', () => {
    const level = told().succeed(3)
    const { counters } = level.row
    level.full(17_000)
    expect(level.row).toMatchObject({
      state: 'healthy',
      hold: { notBefore: level.now + 17 * SECOND, count: 1 },
    })
    expect(level.row.counters).toBe(counters)
    expect(level.last.event).toMatchObject({
      kind: 'held',
      detail: { news: 'capacity', not_before: level.now + 17 * SECOND },
    })
  })

  it('HLT-15: without Retry-After 5 s, doubling to 5 min with each first call that is a 429 again', () => {
    const level = new Told('channel')
    const lasts = Array.from({ length: 8 }, () => {
      level.full(null)
      const until = level.row.hold?.notBefore ?? 0
      const lasted = until - level.now
      level.now = until
      return lasted / SECOND
    })
    expect(lasts).toEqual([5, 10, 20, 40, 80, 160, 300, 300])
  })

  it('HLT-15: calls that were on their way before the hold only lengthen it', () => {
    const level = told().full(10_000)
    const { hold } = level.row
    level.full(null, START)
    expect(level.row.hold).toBe(hold)
    expect(level.last.event).toBeNull()
    level.full(60_000, START)
    expect(level.row).toMatchObject({
      state: 'healthy',
      hold: { count: 1, notBefore: level.now + 60 * SECOND },
    })
    level.full(1000, START)
    expect(level.row.hold?.notBefore).toBeGreaterThan(level.now + 50 * SECOND)
    // Its answer comes after the hold, but it was sent before.
    level.later(2 * MINUTE).full(null, START)
    expect(level.row).toMatchObject({ hold: { count: 1 } })
    expect(level.row.counters.consecutiveFailures).toBe(0)
  })

  it('HLT-15: an answer to a call made after the hold ends it, one made before does not', () => {
    const level = told().full(null)
    const { hold } = level.row
    const accepted = (calledAt: number): HealthNews => ({ kind: 'accepted', epoch: 0, calledAt })
    expect(level.tell(accepted(START)).row.hold).toBe(hold)
    level.later(MINUTE)
    expect(applyNews(kind, level.row, accepted((hold?.notBefore ?? 0) - 1), level.now).row.hold).toBe(hold)
    expect(applyNews(kind, level.row, accepted(hold?.notBefore ?? 0), level.now)).toMatchObject({
      applied: true,
      row: { hold: null },
    })
    expect(level.tell(accepted(level.now)).row.hold).toBeNull()
    expect(level.full(null).row).toMatchObject({ state: 'healthy', hold: { count: 1 } })
    expect(level.row.counters.consecutiveFailures).toBe(0)
  })

  it('HLT-17: disabling and enabling returns to the state held before, with its count and cooldown', () => {
    const rows = [
      told(),
      told().fail(2),
      told().fail(5),
      told().fail(1, 'persistent'),
      told().recover(0),
      told().recover(1),
      ...[2, 3, 4].map((count) => told().recover(count)),
    ]
    for (const { row, now } of rows) {
      const off = disable(row)
      expect(off).toMatchObject({ applied: true, why: 'disabled', row: { state: 'disabled' } })
      const on = enable(off.row, { probe: false })
      expect(on.row).toEqual({ ...row, epoch: row.epoch + 2 })
      expect(enable(off.row, { probe: true }).row).toMatchObject({ state: 'probing', recoverySuccesses: 0 })
      expect(disable(off.row)).toMatchObject({ applied: false, row: off.row })
      expect(enable(row, { probe: true })).toMatchObject({ applied: false, row })
      expect(now).toBeGreaterThanOrEqual(START)
    }
  })

  it('HLT-17: nothing that an attempt reports disables a level or enables it', () => {
    expect(told().fail(50, 'persistent').row.state).not.toBe('disabled')
  })

  it('STR-9: an opening does not wipe out the samples', () => {
    const level = told().succeed(3).fail(5).cool().succeed(2)
    expect(samples(level.row, level.now)).toEqual({ successes: 5, failures: 5 })
    const newest = level.row.counters.outcomes.at(-1)?.at ?? 0
    expect(samples(level.row, newest + 24 * 60 * MINUTE)).toEqual({ successes: 1, failures: 0 })
    expect(samples(level.row, newest + 24 * 60 * MINUTE + 1)).toEqual({ successes: 0, failures: 0 })
  })
})

describe('health of a channel', () => {
  const told = () => new Told('channel')

  it('HLT-2, HLT-14: two connection failures or bare 403 in a row open it', () => {
    expect(told().fail(1, 'connection').row.state).toBe('healthy')
    expect(told().fail(2, 'connection').row.state).toBe('circuit_open')
    expect(told().fail(2, 'bare_403').row.state).toBe('circuit_open')
    expect(told().fail(1, 'connection').succeed().fail(1, 'connection').row.state).toBe('healthy')
    expect(told().fail(1, 'connection').fail(1).fail(1, 'connection').row.state).toBe('degraded')
  })

  it('HLT-10: a refused poll and polls without an answer are of now, whatever the epoch', () => {
    const level = told().recover(3)
    const poll = (kind: 'refused_poll' | 'unanswered_polls'): HealthNews => {
      return { kind, epoch: null, cause: 'persistent', code: 'key_refused', fingerprint: kind }
    }
    expect(applyNews('channel', level.row, poll('refused_poll'), level.now).why).toBe('reopened')
    expect(applyNews('channel', level.row, poll('unanswered_polls'), level.now).why).toBe('reopened')
    expect(applyNews('channel', NEW_ROW, poll('refused_poll'), level.now).why).toBe('opened')
    const open = level.fail()
    expect(applyNews('channel', open.row, poll('refused_poll'), open.now)).toMatchObject({
      applied: false,
      row: open.row,
      why: 'circuit_open',
    })
    const off = disable(open.row)
    expect(applyNews('channel', off.row, poll('refused_poll'), open.now)).toMatchObject({
      applied: false,
      row: off.row,
      why: 'level_disabled',
    })
  })

  it('HLT-15: its success is an acceptance; a result is none of its business', () => {
    const level = told().recover(0)
    const finished: HealthNews = {
      kind: 'finished',
      epoch: level.row.epoch,
      calledAt: level.now,
      durationMs: 1,
    }
    expect(applyNews('channel', level.row, finished, level.now)).toMatchObject({
      applied: false,
      why: 'not_of_this_level',
    })
    expect(level.succeed().row).toMatchObject({ recoverySuccesses: 1 })
  })

  it('HLT-15: a 429 of the whole account only ever holds it', () => {
    const level = told().recover(3)
    level.full(null).later(MINUTE).full(null)
    expect(level.row).toMatchObject({ state: 'recovering', recoverySuccesses: 3, hold: { count: 2 } })
  })
})

describe('health of a supply', () => {
  const told = () => new Told('supply')

  it('HLT-3, HLT-15: the first call after a hold that is a 429 again counts as a failure', () => {
    const level = told().full(3000).later(MINUTE).full(3000)
    expect(level.row).toMatchObject({
      state: 'healthy',
      counters: { consecutiveFailures: 1 },
      hold: { count: 2 },
    })
    level.later(MINUTE).full(3000)
    expect(level.row).toMatchObject({
      state: 'degraded',
      hold: { count: 3, notBefore: level.now + 3 * SECOND },
    })
    for (let i = 0; i < 3; i++) level.later(MINUTE).full(3000)
    expect(level.row.state).toBe('circuit_open')
  })

  it.each([0, 1, 2, 3, 4])(
    'HLT-15: after %i recovery successes any 429 reopens it, and holds it too',
    (count) => {
      const level = told().recover(count).full(90_000)
      expect(level.row).toMatchObject({
        state: 'circuit_open',
        openUntil: level.now + 30 * SECOND,
        hold: { notBefore: level.now + 90 * SECOND },
      })
      expect(level.last.event).toMatchObject({
        kind: 'reopened',
        detail: { news: 'capacity', not_before: level.now + 90 * SECOND },
      })
    },
  )

  it('HLT-15: its success is a finished result; an acceptance does not advance it', () => {
    const level = told().recover(1)
    level.tell({ kind: 'accepted', epoch: level.row.epoch, calledAt: level.now })
    expect(level.row).toMatchObject({ state: 'probing', recoverySuccesses: 1 })
    expect(level.last.event).toBeNull()
    expect(level.succeed().row).toMatchObject({ state: 'recovering', recoverySuccesses: 2 })
  })

  it('UNK-8: an uncertain submission is a failure: it counts, and reopens what is being tried', () => {
    const uncertain = (epoch: number): HealthNews => {
      return { kind: 'uncertain', epoch, calledAt: START, code: 'submission_unknown', fingerprint: 'u' }
    }
    expect(told().tell(uncertain(0)).tell(uncertain(0)).row.state).toBe('degraded')
    const probing = told().recover(1)
    expect(probing.tell(uncertain(probing.row.epoch)).row.state).toBe('circuit_open')
  })

  it('HLT-10: polls never concern it', () => {
    const poll: HealthNews = {
      kind: 'refused_poll',
      epoch: null,
      cause: 'persistent',
      code: 'key_refused',
      fingerprint: 'k',
    }
    expect(applyNews('supply', NEW_ROW, poll, START)).toMatchObject({
      applied: false,
      row: NEW_ROW,
      why: 'not_of_this_level',
    })
  })

  it('HLT-14: long jobs keep outcomes in the window for three times their 95th percentile', () => {
    const long = (epoch: number): HealthNews => ({
      kind: 'finished',
      epoch,
      calledAt: START,
      durationMs: 400_000,
    })
    const level = told()
    for (let i = 0; i < 5; i++) level.fail().tell(long(0))
    level.later(19 * MINUTE).fail(2)
    expect(level.row.state).toBe('circuit_open')
    const quick = told()
    for (let i = 0; i < 5; i++) quick.fail().succeed()
    quick.later(19 * MINUTE).fail(2)
    expect(quick.row.state).toBe('degraded')
  })

  it('HLT-14: the 95th percentile is an observed duration: one outlier in twenty does not count, two do', () => {
    const stateAfter = (outliers: number) => {
      const level = told()
      const finish = (i: number) => {
        const durationMs = i < outliers ? 900_000 : 400_000
        return level.tell({ kind: 'finished', epoch: 0, calledAt: START, durationMs })
      }
      for (let i = 0; i < 10; i++) finish(i)
      for (let i = 10; i < 20; i++) finish(i).fail()
      return level.later(21 * MINUTE).fail(1).row.state
    }
    // 3 × 400 s: the failures are too old; 3 × 900 s: half of the window failed, twice in a row.
    expect(stateAfter(1)).toBe('degraded')
    expect(stateAfter(2)).toBe('circuit_open')
  })

  it('STR-9: the last 100 outcomes are kept, and no more', () => {
    const level = told().succeed(120)
    expect(level.row.counters.outcomes).toHaveLength(100)
    expect(samples(level.row, level.now)).toEqual({ successes: 100, failures: 0 })
    expect(new Told('channel').succeed(120).row.counters.outcomes).toHaveLength(20)
  })
})
