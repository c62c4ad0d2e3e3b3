/** Situations that a bug may hide from for days of chance, each set up on purpose and passed through. Throws Broken. */
import { applyNews } from '../../src/core/health.ts'
import { type Catalog, IMAGE, STORM, VIDEO } from './catalog.ts'
import type { Rules } from './rules.ts'
import { Yard } from './yard.ts'

const ALONE: Catalog = {
  channels: { only: 20 },
  supplies: [
    {
      id: 'a',
      channel: 'only',
      media: 'video',
      tier: 'exact',
      realPerson: 'allowed',
      price: 1_000_000n,
      concurrency: 8,
    },
  ],
  sound: null,
}

export function drill(rules: Partial<Rules>): void {
  for (const successes of [2, 3, 4] as const) eachRung(quiet(ALONE, rules), successes)
  const poor = quiet({ ...ALONE, taskCostLimit: 4_000_000n }, rules)
  poor.books.admit(VIDEO)
  poor.pass(60)
  const late = quiet(ALONE, rules)
  late.books.admit(VIDEO)
  late.misfortune.allOff(1300)
  late.pass(2000)
  strictWithOnlyLessLeft(quiet(STORM, rules))
  // Whose request is gone.
  const image = quiet(STORM, rules)
  image.books.admit(IMAGE)
  image.pass(400)
}

function quiet(world: Catalog, rules: Partial<Rules>): Yard {
  const yard = new Yard({ seed: 1, days: 0, world, rules })
  yard.providers.calm = true
  return yard
}

function eachRung(yard: Yard, recoverySuccesses: 2 | 3 | 4): void {
  for (const supply of yard.books.supplies) {
    const { epoch, counters, hold } = supply.row
    supply.row = { epoch, counters, hold, state: 'recovering', recoverySuccesses }
  }
  for (let n = 0; n < 10; n += 1) yard.ask(VIDEO)
  yard.pass(19)
}

function strictWithOnlyLessLeft(yard: Yard): void {
  for (const channel of yard.books.channels.filter((one) => one.id !== 'east')) {
    const of = { epoch: channel.row.epoch, calledAt: yard.clock.now, code: 'key_refused', fingerprint: 'x' }
    const news = { ...of, kind: 'failed', cause: 'persistent' } as const
    channel.row = applyNews('channel', channel.row, news, yard.clock.now).row
  }
  yard.books.admit({ ...VIDEO, degradation: 'strict' })
  yard.pass(60)
}
