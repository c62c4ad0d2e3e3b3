/** The mix leaves out no fault that the simulator knows, and a run tells which it did not meet. */
import { describe, expect, it } from 'vitest'
import { faultRules, neverPlayed, playedBy } from '../../bench/safety/faults.ts'
import { NAMED_ERRORS } from '../../src/simulator/answer.ts'
import { FAULT_KINDS } from '../../src/simulator/faults/kinds.ts'

const kinds = Object.keys(FAULT_KINDS)
const rules = faultRules(['north'], (items) => [...items])
const all = playedBy(rules.map((rule) => ({ ...rule, played: 1 })))

describe('the faults of the mix', () => {
  it('UNK-7, ERR-1: are of every kind that the simulator knows, and name every error', () => {
    expect(neverPlayed(all, kinds)).toEqual([])
    expect(NAMED_ERRORS.filter((name) => all[`error ${name}`] === undefined)).toEqual([])
  })

  it('ERR-1: are told when they were never played, or are not in the mix', () => {
    expect(neverPlayed({ ...all, 'error no_money': 0 }, kinds)).toEqual(['error no_money'])
    expect(neverPlayed(all, [...kinds, 'meteorite'])).toEqual(['meteorite'])
  })

  it('ERR-1: are counted over all rules of their name', () => {
    const rule = { fault: { kind: 'stuck', in: 'queued' }, played: 2 }
    expect(playedBy([rule, rule, { fault: [{ kind: 'reset' }], played: 1 }])).toEqual({
      'stuck queued': 4,
      reset: 1,
    })
  })
})
