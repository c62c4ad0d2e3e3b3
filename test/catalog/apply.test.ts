/** Applying a file: what is versioned, what clears flags, and that it is all or nothing. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Applied, ApplyOptions } from '../../src/catalog/apply.ts'
import { GateRefused, publishModel, switchModel, unpublishModel } from '../../src/catalog/publish.ts'
import { publishedModels, Releases } from '../../src/store/releases.ts'
import { unseal } from '../../src/store/secrets.ts'
import { switchBinding, switchLevel } from '../../src/store/switches.ts'
import { type TestDatabase, testDatabase } from '../store/database.ts'
import { apply, DEMO, KEYRING, SMALL } from './files.ts'

let test: TestDatabase
beforeEach(async () => {
  test = await testDatabase()
})
afterEach(() => test.drop())

const applyText = (text: string, options: Partial<ApplyOptions> = {}) => apply(test.db, text, options)
const published = () => applyText(SMALL, { publish: true })

async function row<T>(text: string, values: unknown[] = []): Promise<T | undefined> {
  return (await test.db.query<T & Record<string, unknown>>(text, values)).rows[0]
}

async function count(table: string): Promise<number | undefined> {
  return (await row<{ n: number }>(`select count(*)::int as n from ${table}`))?.n
}

interface Flags {
  enabled: boolean
  published: boolean
  release_id: bigint | null
}
const flags = (id = 'm') => row<Flags>('select enabled, published, release_id from model where id = $1', [id])

const VERSIONS = [
  'capability_version',
  'price_list_version',
  'policy_version',
  'model_version',
  'degradation_rule_version',
  'credential',
  'release',
]
const versions = async () =>
  Object.fromEntries(await Promise.all(VERSIONS.map(async (table) => [table, await count(table)])))

const fieldsOf = (applied: Applied) =>
  applied.changes.flatMap(({ family, id, fields }) =>
    fields.map(({ field, from, to }) => [family, id, field, from, to]),
  )

/** SMALL with one thing changed, which must be there. */
function changed(from: string, to: string, text = SMALL): string {
  if (!text.includes(from)) throw new Error(`the file has no ${from}`)
  return text.replace(from, to)
}

describe('catalog apply', () => {
  it('applies and publishes the demo catalog, whose releases the runtime can read', async () => {
    const applied = await applyText(DEMO, { publish: true })
    expect(applied.published.map(({ modelId, number }) => [modelId, number])).toEqual([
      ['seedance-2.0-933', 1],
      ['kling-3.0', 1],
      ['seedream-4.0', 1],
    ])
    const models = await publishedModels(test.db, new Releases())
    const seedance = models.find(({ modelId }) => modelId === 'seedance-2.0-933')
    expect(seedance?.bindings.map(({ id, tier }) => [id, tier])).toEqual([
      ['seedance-900-mini', 'degraded'],
      ['seedance-933-north', 'exact'],
      ['seedance-933-relay', 'fallback'],
      ['seedance-933-south', 'exact'],
      ['seedance-933-south-priority', 'exact'],
    ])
    const { rows } = await test.db.query<{ limit: bigint; sum: bigint }>(
      `select c.concurrency::bigint as limit, sum(s.concurrency) as sum from channel c join supply s on s.channel_id = c.id group by c.id`,
    )
    for (const { limit, sum } of rows) expect(sum <= limit).toBe(true)
    const exact = await row<{ limits: number[] }>(
      `select array_agg(s.concurrency order by s.concurrency) as limits from binding b join supply s on s.id = b.supply_id
        where b.model_id = 'seedance-2.0-933' and b.tier = 'exact'`,
    )
    expect(exact?.limits).toEqual([3, 5, 8])
    expect(await count('channel_health')).toBe(4)
    expect(await count('supply_health')).toBe(8)
  })

  it('STR-6: applied again, the same file changes nothing and makes no version', async () => {
    await published()
    const before = await versions()
    const again = await applyText(SMALL, { publish: true })
    expect(again).toMatchObject({ changes: [], settings: [], published: [], cleared: [] })
    expect(await versions()).toEqual(before)
    expect(await flags()).toMatchObject({ enabled: true, published: true })
  })

  it.each([
    ['a binding', changed('supply: s,', 'supply: s, priority: 3,'), ['binding', 'b', 'priority', 0, 3]],
    ['a policy', changed('p: {}', 'p: { max_attempts: 1 }'), ['policy', 'p', 'max_attempts', 2, 1]],
    [
      'a model',
      changed('policy: p', 'description: new\n    policy: p'),
      ['model', 'm', 'document.description', '', 'new'],
    ],
  ])(
    'STR-6: saving %s clears enabled and published, and the last release lives on',
    async (_, text, field) => {
      await published()
      const release = (await flags())?.release_id
      const applied = await applyText(text)
      expect(fieldsOf(applied)).toEqual([field])
      expect(applied.cleared.map(({ modelId }) => modelId)).toEqual(['m'])
      expect(await flags()).toEqual({ enabled: false, published: false, release_id: release })
    },
  )

  it('STR-6: saving a rule clears the models that lead to it, and its own publication', async () => {
    const withRule = changed(
      'models:',
      'degradation_rules:\n  r: { from_profile: standard, to_profile: less, operations: [{ op: drop_inputs, inputs: first_frame }] }\nmodels:',
      changed(
        '      b: {',
        '      d: { supply: s, tier: degraded, degradation_rule: r, verified: { by: ann, at: 2026-11-20, evidence: job 8 } }\n      b: {',
      ),
    )
    await applyText(withRule, { publish: true })
    expect(await row('select published from degradation_rule')).toEqual({ published: true })
    const applied = await applyText(changed('inputs: first_frame', 'inputs: last_frame', withRule))
    expect(applied.cleared).toEqual([{ modelId: 'm', why: ['degradation_rule r'] }])
    expect(await row('select published from degradation_rule')).toEqual({ published: false })
    expect(await flags()).toMatchObject({ published: false })
  })

  it.each([
    ['a price', changed('price: 0.1', 'price: 0.2'), 'price_list_version'],
    ['a limit', changed('media: video\n    concurrency: 5', 'media: video\n    concurrency: 4'), null],
    ['a channel', changed('127.0.0.1:1', '127.0.0.1:2'), null],
    [
      'a capability',
      changed('resolutions: [480p, 720p]', 'resolutions: [480p, 720p, 1080p]'),
      'capability_version',
    ],
  ])('STR-6: %s takes effect without unpublishing', async (_, text, table) => {
    await published()
    const before = await versions()
    const applied = await applyText(text)
    expect(applied.changes).toHaveLength(1)
    expect(applied.cleared).toEqual([])
    expect(await flags()).toMatchObject({ enabled: true, published: true })
    expect(await versions()).toEqual(
      table === null ? before : { ...before, [table]: (before[table] ?? 0) + 1 },
    )
  })

  it('STR-6: touches exactly the models concerned', async () => {
    const two = `${SMALL}  other:
    media: video
    limits: [{ duration_seconds: 5, resolutions: 480p, aspect_ratios: "16:9" }]
    policy: q
    bindings: { b2: { supply: s, verified: { by: ann, at: 2026-11-20, evidence: job 9 } } }
`.replace('p: {}', 'p: {}\n  q: {}')
    await applyText(two, { publish: true })
    await applyText(changed('q: {}', 'q: { max_attempts: 1 }', two))
    expect(await flags('m')).toMatchObject({ published: true })
    expect(await flags('other')).toMatchObject({ published: false })
  })

  it('STR-6: with --publish nothing is ever seen unpublished', async () => {
    await published()
    const seen: boolean[] = []
    const text = changed('p: {}', 'p: { max_attempts: 1 }')
    let over = false
    const watching = (async () => {
      while (!over) seen.push((await flags())?.published === true)
    })()
    const applied = await applyText(text, { publish: true })
    over = true
    await watching
    expect(applied.published.map(({ number }) => number)).toEqual([2])
    expect(seen.length).toBeGreaterThan(0)
    expect(seen).not.toContain(false)
  })

  it('STR-6: refused by the gate, nothing at all was applied', async () => {
    await published()
    const before = await versions()
    const text = changed(
      'price: 0.1',
      'price: 0.7',
      changed('verified: { by: ann, at: 2026-11-20, evidence: job 7 }', 'priority: 1'),
    )
    const refused = await applyText(text, { publish: true }).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(GateRefused)
    expect(String(refused)).toContain('binding b was not verified; try s and write verified')
    expect(await versions()).toEqual(before)
    expect(await flags()).toMatchObject({ enabled: true, published: true })
  })

  it('a dry run says all of it, the gate included, and leaves nothing', async () => {
    const dry = await applyText(SMALL, { publish: true, dryRun: true })
    expect(dry.published).toHaveLength(1)
    expect(dry.changes.map(({ kind, family, id }) => [kind, family, id])).toEqual([
      ['add', 'channel', 'c'],
      ['add', 'supply', 's'],
      ['add', 'policy', 'p'],
      ['add', 'model', 'm'],
      ['add', 'binding', 'b'],
    ])
    expect(await count('channel')).toBe(0)
    expect(await count('setting')).toBe(0)
  })

  it('never flips a switch', async () => {
    await published()
    await switchBinding(test.db, 'b', false)
    await switchLevel(test.db, { kind: 'supply', id: 's', state: 'disabled', probe: false })
    await switchModel(test.db, 'm', false)
    const text = changed('price: 0.1', 'price: 0.2', changed('supply: s,', 'supply: s, priority: 3,'))
    await applyText(text, { publish: true })
    expect(await row('select enabled from binding')).toEqual({ enabled: false })
    expect(await row('select admin_state from supply')).toEqual({ admin_state: 'disabled' })
    expect(await flags()).toMatchObject({ enabled: false, published: true })
  })

  it('publishes what an operator had unpublished only when asked to', async () => {
    await published()
    await unpublishModel(test.db, 'm')
    await applyText(changed('price: 0.1', 'price: 0.2'))
    expect(await flags()).toMatchObject({ published: false })
    await publishModel(test.db, 'm', 'ann')
    expect(await flags()).toMatchObject({ enabled: true, published: true })
    expect(await row('select published_by, number from release order by id desc')).toEqual({
      published_by: 'ann',
      number: 2,
    })
  })

  it('archives what the file omits only with --prune, and knows it again when it comes back', async () => {
    const more = changed(
      'supplies:',
      '  spare: { provider: openai, base_url: http://127.0.0.1:1/v1, credential: env:KEY, concurrency: 1 }\nsupplies:',
    )
    await applyText(more)
    expect((await applyText(SMALL)).changes).toEqual([])
    const pruned = await applyText(SMALL, { prune: true })
    expect(pruned.changes).toEqual([{ kind: 'archive', family: 'channel', id: 'spare', fields: [] }])
    expect(await row(`select archived_at is not null as archived from channel where id = 'spare'`)).toEqual({
      archived: true,
    })
    const back = await applyText(more)
    expect(back.changes).toEqual([{ kind: 'restore', family: 'channel', id: 'spare', fields: [] }])
    expect(await count(`channel where id = 'spare' and archived_at is null`)).toBe(1)
  })

  it('unpublishes a model whose binding was pruned, and takes an archived model from customers', async () => {
    const two = changed(
      '      b: {',
      '      b9: { supply: s, tier: fallback, verified: { by: ann, at: 2026-11-20, evidence: job 9 } }\n      b: {',
    )
    await applyText(two, { publish: true })
    const applied = await applyText(SMALL, { prune: true })
    expect(applied.cleared).toEqual([{ modelId: 'm', why: ['binding b9'] }])
    await applyText(SMALL, { publish: true })
    await applyText(SMALL.slice(0, SMALL.indexOf('models:')), { prune: true })
    expect(await flags()).toMatchObject({ enabled: false, published: false })
    expect((await publishedModels(test.db, new Releases())).length).toBe(0)
  })

  it('IDs are permanent: what a thing is cannot change under its ID', async () => {
    await applyText(SMALL)
    await expect(applyText(changed('upstream_model: m-1', 'upstream_model: m-2'))).rejects.toThrow(
      'supply s: upstream_model is part of what it is and cannot become "m-2" (it is "m-1"); give the new one a new ID',
    )
    await expect(applyText(changed('provider: ark', 'provider: openai'))).rejects.toThrow(
      'provider is part of what it is',
    )
    await expect(applyText(`currency: USD\n${SMALL}`)).rejects.toThrow('the base currency is CNY')
  })

  it('exchanges the supplies of two bindings in one go', async () => {
    const supplies = SMALL.slice(SMALL.indexOf('  s:'), SMALL.indexOf('policies:'))
    const two = changed(
      'policies:',
      `${supplies.replace('  s:', '  t:')}policies:`,
      changed('      b: {', '      b2: { supply: t }\n      b: {'),
    )
    await applyText(two)
    await applyText(
      two.replace('b2: { supply: t', 'b2: { supply: s').replace('b: { supply: s', 'b: { supply: t'),
    )
    const { rows } = await test.db.query('select id, supply_id from binding order by id')
    expect(rows).toEqual([
      { id: 'b', supply_id: 't' },
      { id: 'b2', supply_id: 's' },
    ])
  })
})

describe('what a binding was verified against', () => {
  const grown = changed(
    'modes: [{ duration_seconds: 4-15, resolutions: [480p, 720p]',
    'modes: [{ duration_seconds: 4-15, resolutions: [480p, 720p, 1080p]',
  )

  it('STR-6: it stays with that version when the capability changes, until it is verified again', async () => {
    await published()
    const applied = await applyText(grown)
    expect(applied.notes).toEqual([expect.stringContaining('binding b stays with capability version 1 of s')])
    expect(applied.cleared).toEqual([])
    const again = await applyText(changed('2026-11-20', '2026-11-21', grown))
    expect(fieldsOf(again)).toEqual([
      ['binding', 'b', 'verified.at', '2026-11-20T00:00:00.000Z', '2026-11-21T00:00:00.000Z'],
      ['binding', 'b', 'verified.capability', 1, 2],
    ])
    expect(again.cleared.map(({ modelId }) => modelId)).toEqual(['m'])
  })

  it('refuses a version that is not there', async () => {
    await expect(applyText(changed('evidence: job 7', 'evidence: job 7, capability: 3'))).rejects.toThrow(
      'supply s has no capability version 3; the newest is 1',
    )
  })
})

describe('credentials', () => {
  const stored = async () => {
    const { rows } = await test.db.query<{
      reference: string
      keyId: string
      nonce: Buffer
      ciphertext: Buffer
      digest: Buffer
    }>(
      `select k.reference, k.key_id as "keyId", k.nonce, k.ciphertext, k.digest from channel c join credential k on k.id = c.credential_id`,
    )
    return rows[0]
  }

  it('are stored sealed, and a new row is made only when the secret changed', async () => {
    expect((await published()).credentials).toEqual({ stored: ['c'], unresolved: [] })
    const first = await stored()
    expect(first && unseal(KEYRING, first, 'c')).toBe('secret-1')
    expect((await applyText(SMALL)).credentials.stored).toEqual([])
    const rotated = await applyText(SMALL, { environment: { KEY: 'secret-2' } })
    expect(rotated.credentials.stored).toEqual(['c'])
    expect(rotated.cleared).toEqual([])
    const second = await stored()
    expect(second && unseal(KEYRING, second, 'c')).toBe('secret-2')
    expect(await count('credential')).toBe(2)
    expect(await flags()).toMatchObject({ published: true })
  })

  it('that cannot be read are a warning where they are applied, and a refusal at the gate', async () => {
    const applied = await applyText(SMALL, { environment: {} })
    expect(applied.credentials).toEqual({
      stored: [],
      unresolved: [{ channel: 'c', why: 'the environment variable KEY is not set' }],
    })
    await expect(applyText(SMALL, { environment: {}, publish: true })).rejects.toThrow(
      'channel c: env:KEY could not be resolved',
    )
  })
})

describe('money', () => {
  it('COST-7: a price list in another currency is converted when its version is made, rounded up, with its rate', async () => {
    const usd = `exchange_rates: { USD: 7.123456789 }\n${changed('{ rows: [{ price: 0.1 }] }', '{ currency: USD, rows: [{ price: 0.1 }] }')}`
    await applyText(usd)
    expect(await row('select currency, rate, document, converted from price_list_version')).toEqual({
      currency: 'USD',
      rate: '7.123456789',
      document: { mode: 'per_second', bills_failures: false, prices: [{ price: '0.1' }] },
      converted: { mode: 'per_second', bills_failures: false, prices: [{ price: '0.712346' }] },
    })
    await applyText(usd.replace('7.123456789', '7.2'))
    expect(
      await row('select version, converted from price_list_version order by version desc'),
    ).toMatchObject({
      version: 2,
      converted: { prices: [{ price: '0.72' }] },
    })
    expect(await row(`select value from setting where name = 'exchange_rates'`)).toEqual({
      value: { USD: '7.2' },
    })
  })
})

describe('several at once', () => {
  it('applies one after the other, each on what the one before left', async () => {
    await applyText(SMALL)
    const texts = [3, 4, 5, 6].map((priority) => changed('supply: s,', `supply: s, priority: ${priority},`))
    const done = await Promise.all(texts.map((text) => applyText(text)))
    const steps = done.flatMap(fieldsOf).map(([, , , from, to]) => [from, to])
    const froms = steps.map(([from]) => from)
    expect(new Set(froms).size).toBe(4)
    const last = await row<{ priority: number }>('select priority from binding')
    expect(froms).not.toContain(last?.priority)
  })
})
