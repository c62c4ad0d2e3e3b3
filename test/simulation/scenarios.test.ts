/** What chance may never bring about, brought about on purpose: each scenario says what must have come of it. */
import { describe, expect, it } from 'vitest'
import type { HealthRow } from '../../src/core/health-row.ts'
import type { Catalog, SupplySpec } from './catalog.ts'
import { STORM, VIDEO } from './catalog.ts'
import { allowance } from './check-decision.ts'
import { Yard } from './yard.ts'

const SUPPLY: SupplySpec = {
  id: 'a',
  channel: 'only',
  media: 'video',
  tier: 'exact',
  realPerson: 'allowed',
  price: 1_000_000n,
  concurrency: 8,
}

function yard(more: Partial<Catalog> = {}): Yard {
  const world = { channels: { only: 20 }, supplies: [SUPPLY], sound: 'only', ...more }
  const made = new Yard({ seed: 1, days: 0, world })
  made.providers.calm = true
  return made
}

function recovering(row: HealthRow, recoverySuccesses: 2 | 3 | 4): HealthRow {
  return { epoch: row.epoch, counters: row.counters, hold: null, state: 'recovering', recoverySuccesses }
}

describe('on purpose', () => {
  it.each([
    [2, 8, 2],
    [3, 8, 4],
    [4, 8, 6],
    [2, 5, 2],
    [3, 5, 3],
    [4, 5, 4],
    [4, 3, 2],
    [4, 2, 1],
    [2, 1, 1],
  ] as const)(
    'HLT-6, HLT-7: after %d successes a supply for %d jobs takes %d, however many ask',
    (successes, concurrency, slots) => {
      const one = yard({ supplies: [{ ...SUPPLY, concurrency }] })
      const [supply] = one.books.supplies
      if (!supply) throw new Error('there is a supply')
      supply.row = recovering(supply.row, successes)
      expect(allowance({ health: 'recovering', recoverySuccesses: successes, concurrency })).toBe(slots)
      for (let n = 0; n < 8; n += 1) one.ask(VIDEO)
      // Before the first result, which opens the next rung.
      one.pass(19)
      expect(one.books.leases.size).toBe(slots)
      one.pass(7200)
      expect(one.figures().succeeded).toBe(8)
    },
  )

  it('LAY-5: a task waits for the operator’s switch, and is served when it is turned', () => {
    const off = yard({ sound: null })
    off.books.admit(VIDEO)
    off.misfortune.allOff(300)
    off.pass(60)
    expect(off.books.seen.get('wait disabled')).toBeGreaterThan(0)
    expect(off.ask(VIDEO)).toBe(false)
    expect(off.books.seen.get('rejected no_capable_supply')).toBe(1)
    off.pass(900)
    expect(off.figures().succeeded).toBe(1)
  })

  it('LAY-5, RTY-3: what stays switched off ends its tasks at the end of their window', () => {
    const one = yard({ sound: null })
    one.books.admit(VIDEO)
    one.misfortune.allOff(5000)
    one.pass(1300)
    expect(one.books.seen.get('end retry_window_expired')).toBe(1)
  })

  it('LAY-5, COST-5: a task that was let in waits for a price; one at the door is sent away for it', () => {
    const one = yard({ sound: null })
    one.books.admit(VIDEO)
    one.misfortune.allDear(300)
    one.pass(60)
    expect(one.books.seen.get('wait cost')).toBeGreaterThan(0)
    expect(one.ask(VIDEO)).toBe(false)
    expect(one.books.seen.get('rejected cost_limit_exceeded')).toBe(1)
    one.pass(900)
    expect(one.figures().succeeded).toBe(1)
  })

  it('COST-4, COST-5: over the task’s own limit nothing is waited for', () => {
    const one = yard({ taskCostLimit: 4_000_000n })
    one.books.admit(VIDEO)
    one.pass(60)
    expect(one.books.seen.get('end cost_limit_exceeded')).toBe(1)
  })

  it('LAY-5: nobody can serve a real person whom all deny', () => {
    const one = yard({ supplies: [{ ...SUPPLY, realPerson: 'denied' }] })
    one.books.admit({ ...VIDEO, realPerson: true })
    one.pass(60)
    expect(one.books.seen.get('end no_capable_supply')).toBe(1)
  })

  it('ORD-13, ORD-14: two processes that saw the same last slot: one is granted, the other decides anew', () => {
    const one = yard({ supplies: [{ ...SUPPLY, concurrency: 1 }] })
    for (let n = 0; n < 40; n += 1) one.ask(VIDEO)
    one.pass(3600)
    expect(one.books.seen.get('lost turn') ?? 0).toBeGreaterThan(0)
    expect(one.figures().ended).toBe(40)
  })

  it('UNK-6, UNK-5: a process that dies in a submission leaves a doubt, which ends with its deadline or is resolved', () => {
    const one = yard()
    for (let n = 0; n < 8; n += 1) one.ask(VIDEO)
    for (let waited = 0; waited < 10 && !one.books.seen.get('process died'); waited += 1) {
      one.pass(1)
      for (const attempt of one.books.leases)
        if (attempt.state === 'submitting') {
          one.books.see('process died')
          for (const process of [attempt.owner]) process.die()
        }
    }
    one.pass(7200)
    expect(one.books.seen.get('process lost')).toBeGreaterThan(0)
    expect(one.books.leases.size).toBe(0)
    expect(one.figures().ended).toBe(8)
  })

  it('UNK-6: a process that dies before it begins leaves an attempt that was none', () => {
    const one = yard()
    one.books.admit(VIDEO)
    for (let tenths = 0; tenths < 400 && !one.books.seen.get('process died'); tenths += 1) {
      one.pass(0.02)
      for (const attempt of one.books.leases)
        if (attempt.state === 'reserved' && attempt.owner.isUp) {
          one.books.see('process died')
          attempt.owner.die()
        }
    }
    one.pass(1200)
    expect(one.books.seen.get('not started')).toBe(1)
    expect(one.figures().succeeded).toBe(1)
  })

  it('UNK-7: an image whose submission is in doubt is over, and frees its slot after five minutes', () => {
    const one = new Yard({ seed: 2, days: 0, world: STORM })
    for (const supply of one.books.supplies)
      one.providers.brokenUntil.set(supply.id, one.clock.now + 3_600_000_000)
    for (let n = 0; n < 40; n += 1) {
      one.askForPicture()
      one.pass(10)
    }
    expect(one.books.seen.get('image end submission_unresolved')).toBeGreaterThan(0)
    one.pass(600)
    expect(one.books.leases.size).toBe(0)
  })
})
