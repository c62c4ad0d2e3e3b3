/** The round trip: what an export writes would change nothing, here or in an empty database. */
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stringify } from 'yaml'
import { exportCatalog } from '../../src/catalog/export.ts'
import { type TestDatabase, testDatabase } from '../store/database.ts'
import { apply, DEMO, SMALL } from './files.ts'

let test: TestDatabase
beforeAll(async () => {
  test = await testDatabase()
})
afterAll(() => test.drop())

async function expectRoundTrip(text: string): Promise<void> {
  await apply(test.db, text, { prune: true })
  const exported = await exportCatalog(test.db)
  const again = await apply(test.db, exported, { prune: true })
  expect({ changes: again.changes, settings: again.settings }, exported).toEqual({
    changes: [],
    settings: [],
  })
  expect(await exportCatalog(test.db)).toBe(exported)
}

/** Slugs, among them ones that YAML could take for something else. */
const id = fc.constantFrom('a', 'b1', 'c.d', '0x1f', '1e3', 'null', 'true', 'no', '2026-01-01', '12', 'x_y-z')
const range = fc.oneof(
  fc.integer({ min: 1, max: 15 }),
  fc.tuple(fc.integer({ min: 1, max: 9 }), fc.nat(9)).map(([min, more]) => `${min}-${min + more}`),
  fc.integer({ min: 1, max: 9 }).map((min) => `${min}-`),
  fc.uniqueArray(fc.integer({ min: 1, max: 30 }), { minLength: 1, maxLength: 3 }),
)
const word = fc.constantFrom('480p', '720p', '16:9', '933', '1e3', 'null', 'yes', '0900', "it's", '2K', '~')
const words = fc.uniqueArray(word, { minLength: 1, maxLength: 3 })
const amount = fc
  .tuple(fc.nat(500), fc.nat(999_999))
  .map(([whole, fraction]) => `${whole}.${String(fraction).padStart(6, '0')}`)
const inputs = fc.dictionary(fc.constantFrom('reference_images', 'first_frame', 'last_frame'), range, {
  maxKeys: 2,
})
const videoMode = fc.record(
  { duration_seconds: range, resolutions: words, aspect_ratios: words, generate_audio: fc.boolean(), inputs },
  { requiredKeys: ['duration_seconds', 'resolutions', 'aspect_ratios'] },
)
const videoModes = fc.array(videoMode, { minLength: 1, maxLength: 2 })
const condition = fc.record(
  { resolution: words, generate_audio: fc.boolean(), duration_seconds: range, inputs },
  { requiredKeys: [] },
)
const rows = fc.array(fc.record({ when: condition, price: amount }, { requiredKeys: ['price'] }), {
  minLength: 1,
  maxLength: 3,
})
const prices = fc.record(
  { currency: fc.constantFrom('USD', 'CNY'), bills_failures: fc.boolean(), rows },
  { requiredKeys: ['rows'] },
)
const policy = fc.record(
  {
    strategy: fc.constantFrom('stable_first', 'cost_first', 'manual_priority'),
    max_attempts: fc.constantFrom(1, 2),
    assumed_success_rate: fc.constantFrom('0.5', '0.95', '0.123456', 1),
    stable_cost_multiplier_limit: fc.option(fc.constantFrom('1.1', '1.000001', 2)),
    task_cost_limit: fc.option(amount),
    spill_after_seconds: fc.option(fc.nat(1000)),
    probe_interval_seconds: fc.option(fc.nat(1000)),
    real_person_refusal: fc.constantFrom('stop', 'change_supply'),
  },
  { requiredKeys: [] },
)
const verified = fc.record({
  by: word,
  at: fc.constantFrom('2026-11-20', '2026-11-20T08:00:00.5Z'),
  evidence: fc.string({ minLength: 1, maxLength: 40 }).filter((text) => !text.includes('\u0000')),
})

let runs = 0
const file = fc
  .record({
    supplies: fc.dictionary(
      id,
      fc.record({
        upstream: word,
        person: fc.constantFrom('allowed', 'restricted', 'denied'),
        modes: videoModes,
        prices: fc.option(prices),
      }),
      { minKeys: 1, maxKeys: 3 },
    ),
    policy,
    limits: videoModes,
    profile: word,
    description: fc.string({ maxLength: 60 }).filter((text) => !text.includes('\u0000')),
    groups: fc.option(fc.uniqueArray(id, { minLength: 1, maxLength: 2 })),
    normal: fc.option(rows),
    bindings: fc.array(
      fc.record({
        tier: fc.constantFrom('exact', 'fallback'),
        priority: fc.nat(100),
        verified: fc.option(verified),
      }),
      { minLength: 1, maxLength: 3 },
    ),
  })
  .map((made) => {
    // IDs are permanent, so that each file has things of its own.
    const run = ++runs
    const own = (name: string) => `r${run}.${name}`
    const supplies = Object.entries(made.supplies)
    return stringify({
      exchange_rates: { USD: '7.12' },
      channels: {
        [own('c')]: {
          provider: 'ark',
          base_url: 'http://127.0.0.1:1',
          credential: 'env:KEY',
          concurrency: 9,
          options: { watermark: true },
        },
      },
      supplies: Object.fromEntries(
        supplies.map(([name, supply]) => [
          own(name),
          {
            channel: own('c'),
            upstream_model: supply.upstream,
            media: 'video',
            real_person: supply.person,
            concurrency: 2,
            capability: { billing_mode: 'per_second', modes: supply.modes },
            prices: supply.prices,
          },
        ]),
      ),
      policies: { [own('p')]: made.policy },
      models: {
        [own('M')]: {
          media: 'video',
          profile: made.profile,
          description: made.description,
          limits: made.limits,
          allowed_groups: made.groups,
          normal_cost: made.normal === null ? null : { mode: 'per_second', rows: made.normal },
          policy: own('p'),
          bindings: Object.fromEntries(
            made.bindings
              .slice(0, supplies.length)
              .map((binding, at) => [own(`b${at}`), { supply: own(supplies[at]?.[0] ?? ''), ...binding }]),
          ),
        },
      },
    })
  })

describe('catalog export', () => {
  it('round trip: the demo catalog, in short form and without a secret', async () => {
    await expectRoundTrip(DEMO)
    const text = await exportCatalog(test.db)
    expect(text).toContain('credential: env:SIMULATOR_KEY')
    expect(text).not.toContain('sim-secret')
    expect(text).toContain('duration_seconds: 4-15')
    expect(text).toContain('reference_images: 1-9')
    expect(text).not.toMatch(/admin_state|enabled|published/)
  })

  it('round trip: an older capability that a binding was verified against keeps its number', async () => {
    await apply(test.db, SMALL, { prune: true })
    const grown = SMALL.replace('modes: [{ duration_seconds: 4-15,', 'modes: [{ duration_seconds: 3-15,')
    await expectRoundTrip(grown)
    expect(await exportCatalog(test.db)).toMatch(/evidence: job 7\n\s+capability: 1/)
  })

  it('round trip: whatever a file may say', async () => {
    await fc.assert(
      fc.asyncProperty(file, (text) => expectRoundTrip(text)),
      { numRuns: 25 },
    )
  })

  it('carries a catalog to another database', async () => {
    await apply(test.db, DEMO, { prune: true })
    const other = await testDatabase()
    try {
      await apply(other.db, await exportCatalog(test.db), { publish: true })
      expect(await exportCatalog(other.db)).toBe(await exportCatalog(test.db))
    } finally {
      await other.drop()
    }
  })
})
