/**
 * The proof of every-state.test.ts put to broken machines, made by editing the source of the real one: it has to reject
 * each of them, or it proves nothing.
 */
import { describe, expect, it } from 'vitest'
import type { LevelKind } from '../../src/core/health-row.ts'
import { explore, type Machine, Violation } from './model.ts'
import { brokenCopies, type Mutant } from './mutant.ts'

const KINDS: LevelKind[] = ['channel', 'supply']

const MUTANTS: readonly Mutant[] = [
  { name: 'no fence', file: 'health.ts', from: 'news.epoch !== row.epoch)', to: 'news.epoch > row.epoch)' },
  {
    name: 'epoch not bumped by opening',
    file: 'health.ts',
    from: 'stand({ ...raised(at.row), counters }',
    to: 'stand({ ...at.row, counters }',
  },
  {
    name: 'epoch not bumped by probing',
    file: 'health.ts',
    from: "stand(raised(row), { state: 'probing'",
    to: "stand(row, { state: 'probing'",
  },
  {
    name: 'epoch not bumped by disabling',
    file: 'health.ts',
    from: "stand(raised(row), { state: 'disabled'",
    to: "stand(row, { state: 'disabled'",
  },
  {
    name: 'epoch not bumped by enabling',
    file: 'health.ts',
    from: 'stand(raised(row), standing)',
    to: 'stand(row, standing)',
  },
  {
    name: 'healed by the first success',
    file: 'health.ts',
    from: "{ state: 'probing', recoverySuccesses: 1 }), 'probe_succeeded'",
    to: "{ state: 'healthy' }), 'recovered'",
  },
  {
    name: 'healed by the fourth success',
    file: 'health.ts',
    from: "{ state: 'recovering', recoverySuccesses: 4 }), 'rung_climbed'",
    to: "{ state: 'healthy' }), 'recovered'",
  },
  {
    name: 'all slots open while recovering',
    file: 'concurrency.ts',
    from: 'return rung(recoverySuccesses, concurrency)',
    to: 'return concurrency',
  },
  {
    name: 'the last slot opened at 75 %',
    file: 'concurrency.ts',
    from: 'Math.min(roundedUp, concurrency - 1)',
    to: 'roundedUp',
  },
  {
    name: 'probing limit is the configured one',
    file: 'concurrency.ts',
    from: 'return 1\n',
    to: 'return concurrency\n',
  },
  { name: 'an open circuit still grants', file: 'concurrency.ts', from: 'return 0\n', to: 'return 1\n' },
  {
    name: 'neutral counts as success',
    file: 'health-news.ts',
    from: 'newsOfFault(happening.fault, of) : null',
    to: "newsOfFault(happening.fault, of) : { ...of, kind: kind === 'channel' ? 'accepted' : 'finished', durationMs: 1 }",
  },
  {
    name: 'neutral counts as failure',
    file: 'health-news.ts',
    from: "if (fault.category === 'content' || fault.category === 'request' || fault.impact === 'none') return false",
    to: '',
  },
  {
    name: 'failures while recovering wait for the threshold',
    file: 'health.ts',
    from: "const inRecovery = at.row.state === 'probing' || at.row.state === 'recovering'",
    to: "const inRecovery = at.row.state === 'probing'",
  },
  {
    name: 'failures while probing wait for the threshold',
    file: 'health.ts',
    from: "const inRecovery = at.row.state === 'probing' || at.row.state === 'recovering'",
    to: "const inRecovery = at.row.state === 'recovering'",
  },
  {
    name: 'a disabled level goes on to probing',
    file: 'health.ts',
    from: "return row.state === 'circuit_open' && row.openUntil <= now",
    to: "return row.state === 'disabled' || (row.state === 'circuit_open' && row.openUntil <= now)",
  },
  {
    name: 'late failures reach an open circuit',
    file: 'health.ts',
    from: "if (row.state === 'circuit_open') return ignore(row, news, 'circuit_open')",
    to: "if (row.state === 'circuit_open') return news.kind === 'refused_poll' ? move(row, { ...row, openUntil: row.openUntil + 1 }, 'failure_counted', news) : ignore(row, news, 'circuit_open')",
  },
  {
    name: 'the cooldown is cut short',
    file: 'health.ts',
    from: 'row.openUntil <= now',
    to: 'row.openUntil - 1 <= now',
  },
  {
    name: 'the cooldown starts at the epoch’s zero',
    file: 'health.ts',
    from: 'const openUntil = at.now + lasts',
    to: 'const openUntil = lasts',
  },
  {
    name: 'enabling forgets the state held before',
    file: 'health.ts',
    from: ': row.before',
    to: ": { state: 'healthy' }",
  },
  {
    name: 'a 429 while trying out only holds',
    file: 'health.ts',
    from: '(again || beingTried)',
    to: 'again',
  },
  {
    name: 'probing never ends',
    file: 'health.ts',
    from: "{ state: 'recovering', recoverySuccesses: 2 }), 'recovery_started'",
    to: "{ state: 'probing', recoverySuccesses: 1 }), 'probe_succeeded'",
  },
  {
    name: 'the count does not start from zero',
    file: 'health.ts',
    from: "stand(raised(row), { state: 'probing', recoverySuccesses: 0 })",
    to: "stand(raised(row), { state: 'probing', recoverySuccesses: 1 })",
  },
]

describe('HLT-4 to HLT-17: a broken machine is found out', () => {
  const copies = brokenCopies()

  async function load(mutant: Mutant, index: number): Promise<Machine> {
    const module = await copies.load(mutant, index)
    return {
      health: await module('health.ts'),
      news: await module('health-news.ts'),
      concurrency: await module('concurrency.ts'),
    }
  }

  it.each(MUTANTS.map((mutant, index) => ({ ...mutant, index })))('$name', async (mutant) => {
    const machine = await load(mutant, mutant.index)
    const run = () => {
      for (const kind of KINDS) for (const concurrency of [1, 2, 3]) explore(machine, kind, concurrency)
    }
    expect(run).toThrow(Violation)
  })

  it('the harness itself passes an edit that changes nothing', async () => {
    const same = {
      name: '',
      file: 'health.ts',
      from: 'const openUntil = at.now + lasts',
      to: 'const openUntil = 0 + at.now + lasts',
    } as const
    const machine = await load(same, MUTANTS.length)
    expect(explore(machine, 'supply', 2).states).toBeGreaterThan(1000)
  })
})
