/** The proof of two-levels.test.ts put to machines that are broken in what several levels say together. */
import { describe, expect, it } from 'vitest'
import { Violation } from './model.ts'
import { brokenCopies, type Mutant } from './mutant.ts'
import { exploreTwoLevels, type Machine } from './two-levels.ts'

const MUTANTS: readonly Mutant[] = [
  {
    name: 'one supply alone speaks for its channel',
    file: 'escalation.ts',
    from: 'const LEAST_SUPPLIES = 2',
    to: 'const LEAST_SUPPLIES = 1',
  },
  {
    name: 'two failures are enough',
    file: 'escalation.ts',
    from: 'const LEAST_FAILURES = 3',
    to: 'const LEAST_FAILURES = 2',
  },
  {
    name: 'four failures are needed',
    file: 'escalation.ts',
    from: 'const LEAST_FAILURES = 3',
    to: 'const LEAST_FAILURES = 4',
  },
  {
    name: 'an acceptance in between forgives nothing',
    file: 'escalation.ts',
    from: 'sign.at > accepted',
    to: 'sign.at > 0',
  },
  {
    name: 'an acceptance counts as the failure before it',
    file: 'escalation.ts',
    from: "sign.kind === 'failed' && sign.fingerprint === fingerprint",
    to: "sign.kind !== 'finished'",
  },
  {
    name: 'any causes together are one',
    file: 'escalation.ts',
    from: 'sign.fingerprint === fingerprint &&',
    to: '',
  },
  {
    name: 'failures of long ago count',
    file: 'escalation.ts',
    from: 'now - sign.at <= ESCALATION_WINDOW_MS * MICROS_PER_MILLI',
    to: 'now >= sign.at',
  },
  {
    name: 'most supplies have to fail',
    file: 'escalation.ts',
    from: 'failing.size * 2 >= active.size',
    to: 'failing.size >= active.size',
  },
  {
    name: 'the channel only counts what several supplies say',
    file: 'health.ts',
    from: "new Set(['persistent', 'escalated'])",
    to: "new Set(['persistent'])",
  },
  {
    name: 'what the channel failed by is its supplies’ too',
    file: 'health-news.ts',
    from: "return kind === (fault.scope === 'channel' ? 'channel' : 'supply')",
    to: "return kind === 'supply' || fault.scope === 'channel'",
  },
  {
    name: 'what a supply failed by is its channel’s too',
    file: 'health-news.ts',
    from: "return kind === (fault.scope === 'channel' ? 'channel' : 'supply')",
    to: "return kind === 'channel' || fault.scope !== 'channel'",
  },
  {
    name: 'what may be our own fault is counted',
    file: 'health.ts',
    from: "return ignore(row, news, 'own_network')",
    to: "return move(row, { ...row, counters: { ...row.counters, consecutiveDirect: 1 } }, 'failure_counted', news)",
  },
  {
    name: 'what may be our own fault is not written down',
    file: 'health.ts',
    from: "return ignore(row, news, 'own_network')",
    to: "return { ...ignore(row, news, 'own_network'), event: null }",
  },
  {
    name: 'content is the supply’s failure',
    file: 'health-news.ts',
    from: "if (fault.category === 'content' || fault.category === 'request' || fault.impact === 'none') return false",
    to: '',
  },
  {
    name: 'an acceptance is a success of the supply',
    file: 'health.ts',
    from: "return at.kind === 'channel' ? succeed(answered(at, news), news, null) : onlyAnswered(at, news)",
    to: 'return succeed(answered(at, news), news, null)',
  },
  {
    name: 'a result is a success of the channel',
    file: 'health-news.ts',
    from: "return kind === 'supply' ? { ...of, kind: 'finished', durationMs: happening.durationMs } : null",
    to: "return kind === 'supply' ? { ...of, kind: 'finished', durationMs: 1 } : { ...of, kind: 'accepted' }",
  },
  {
    name: 'a recovering level opens all its slots',
    file: 'concurrency.ts',
    from: 'return rung(recoverySuccesses, concurrency)',
    to: 'return concurrency',
  },
]

const SIZES = [
  { supplies: 2, concurrency: 1, twoCauses: true, twoSteps: true },
  { supplies: 3, concurrency: 1, twoCauses: false, twoSteps: false },
  { supplies: 2, concurrency: 2, twoCauses: false, twoSteps: true },
] as const

describe('HLT-2, HLT-3, HLT-16: a machine that mixes levels up is found out', () => {
  const copies = brokenCopies()

  async function load(mutant: Mutant, index: number): Promise<Machine> {
    const module = await copies.load(mutant, index)
    return {
      health: await module('health.ts'),
      news: await module('health-news.ts'),
      concurrency: await module('concurrency.ts'),
      escalation: await module('escalation.ts'),
    }
  }

  it.each(MUTANTS.map((mutant, index) => ({ ...mutant, index })))('$name', async (mutant) => {
    const machine = await load(mutant, mutant.index)
    const run = () => {
      for (const size of SIZES) exploreTwoLevels(machine, size)
    }
    expect(run).toThrow(Violation)
  })
})
