import { describe, expect, it } from 'vitest'
import { type HealthColumns, healthFromColumns, healthToColumns } from './health-columns.ts'
import { type HealthRow, NEW_ROW, NO_COUNTERS } from './health-row.ts'

const NEW: HealthColumns = {
  state: 'healthy',
  epoch: 0,
  recovery_successes: 0,
  open_until: null,
  not_before: null,
  counters: {},
}

describe('health as PostgreSQL keeps it', () => {
  it('HLT-17: an empty row is a new level, and a new level that is switched off comes back healthy', () => {
    expect(healthFromColumns(NEW)).toEqual(NEW_ROW)
    expect(healthFromColumns({ ...NEW, state: 'disabled' })).toEqual({
      ...NEW_ROW,
      state: 'disabled',
      before: { state: 'healthy' },
    })
  })

  it('HLT-12: state, epoch, count, cooldown and hold stand in columns of their own', () => {
    const open: HealthRow = {
      state: 'circuit_open',
      openUntil: 9_000_000,
      pingFirst: true,
      epoch: 3,
      hold: { notBefore: 8_000_000, count: 2 },
      counters: {
        ...NO_COUNTERS,
        outcomes: [
          { at: 1, ok: true, durationMs: 5 },
          { at: 2, ok: true, durationMs: null },
          { at: 3, ok: false },
        ],
      },
    }
    const columns = healthToColumns(open)
    expect(columns).toMatchObject({
      state: 'circuit_open',
      epoch: 3,
      recovery_successes: 0,
      open_until: 9_000_000,
      not_before: 8_000_000,
    })
    expect(columns.counters).toMatchObject({
      outcomes: [
        [1, 5],
        [2, true],
        [3, false],
      ],
      holds: 2,
      ping_first: true,
    })
    expect(healthFromColumns(columns)).toEqual(open)
  })

  it('HLT-12: what a row of an older version does not say is nothing special', () => {
    expect(healthFromColumns({ ...NEW, not_before: 5 }).hold).toEqual({ notBefore: 5, count: 1 })
    const open = { ...NEW, state: 'circuit_open', open_until: 1 } as const
    expect(healthFromColumns(open)).toMatchObject({ state: 'circuit_open', pingFirst: false })
    const instant = { ...NEW, counters: { outcomes: [[1, 0]] } }
    expect(healthFromColumns(instant).counters.outcomes).toEqual([{ at: 1, ok: true, durationMs: 0 }])
  })

  it.each<[string, Partial<HealthColumns>, string]>([
    ['a negative epoch', { epoch: -1 }, 'epoch is -1, but must be a whole number of 0 or more'],
    [
      'a probe with two successes',
      { state: 'probing', recovery_successes: 2 },
      'recovery_successes is 2, but must be 0 or 1',
    ],
    [
      'a rung that does not exist',
      { state: 'recovering', recovery_successes: 5 },
      'recovery_successes is 5, but must be 2 or 3 or 4',
    ],
    ['an open circuit without an end', { state: 'circuit_open' }, 'open_until is null'],
    ['a hold that is no instant', { not_before: 0.5 }, 'not_before is 0.5'],
    [
      'a count that is text',
      { counters: { consecutive_failures: '3' } },
      'counters.consecutive_failures is "3"',
    ],
    [
      'outcomes that are no list',
      { counters: { outcomes: {} } },
      'counters.outcomes is {}, but must be a list',
    ],
    [
      'an outcome without an instant',
      {
        counters: {
          outcomes: [
            [1, true],
            [null, true],
          ],
        },
      },
      'counters.outcomes[1][0] is null',
    ],
    [
      'an outcome without a meaning',
      { counters: { outcomes: [[1, 'ok']] } },
      'counters.outcomes[0][1] is "ok", but must be true, false or a duration in milliseconds',
    ],
    ['a duration that is text', { counters: { outcomes: [[1, '5']] } }, 'counters.outcomes[0][1] is "5"'],
    [
      'a failure without a cause',
      { counters: { last_failure: { at: 1 } } },
      'counters.last_failure.fingerprint is undefined, but must be text',
    ],
    [
      'a failure that is no object',
      { counters: { last_failure: 7 } },
      'counters.last_failure is 7, but must be an object',
    ],
    [
      'a flag that is a number',
      { state: 'circuit_open', open_until: 1, counters: { ping_first: 1 } },
      'ping_first is 1, but must be true or false',
    ],
    [
      'an unknown state before',
      { state: 'disabled', counters: { before: { state: 'ill' } } },
      'counters.before.state is "ill"',
    ],
    [
      'disabled before disabled',
      { state: 'disabled', counters: { before: { state: 'disabled' } } },
      'counters.before.state is "disabled"',
    ],
    [
      'a cooldown before without an end',
      { state: 'disabled', counters: { before: { state: 'circuit_open', ping_first: false } } },
      'counters.before.open_until is undefined',
    ],
  ])('HLT-12: %s is refused with its place', (_, wrong, message) => {
    expect(() => healthFromColumns({ ...NEW, ...wrong })).toThrow(message)
  })
})
