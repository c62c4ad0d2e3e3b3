/** What `catalog check` says of a file: all of it at once, each with its place and what would be right. */
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { checkCatalog } from './check.ts'
import { catalogJsonSchema } from './format.ts'
import { policyDefaults } from './policy-defaults.ts'
import { printProblem } from './problems.ts'

const GOOD = `channels:
  c: { provider: ark, base_url: "http://127.0.0.1:1/api", credential: env:KEY, concurrency: 5 }
supplies:
  s:
    channel: c
    upstream_model: m-1
    media: video
    concurrency: 5
    capability:
      billing_mode: per_second
      modes: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"] }]
    prices: { rows: [{ price: 0.1 }] }
policies:
  p: {}
degradation_rules:
  r: { from_profile: standard, to_profile: less, operations: [{ op: drop_inputs, inputs: first_frame }] }
models:
  m:
    media: video
    limits: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"] }]
    policy: p
    degradation: best_effort
    bindings:
      b: { supply: s, verified: { by: ann, at: 2026-11-20, evidence: job 7 } }
`

async function check(text: string, environment: Record<string, string> = { KEY: 'k' }) {
  const { problems, catalog } = await checkCatalog(text, environment)
  return { catalog, lines: problems.map((problem) => printProblem('f', problem)) }
}

/** The one problem of the good file with one thing changed. */
async function problemOf(from: string, to: string): Promise<string> {
  if (!GOOD.includes(from)) throw new Error(`the file has no ${from}`)
  const { lines } = await check(GOOD.replace(from, to))
  expect(lines).toHaveLength(1)
  return lines[0] ?? ''
}

describe('catalog check', () => {
  it('has nothing to say of a good file', async () => {
    const { lines, catalog } = await check(GOOD)
    expect(lines).toEqual([])
    expect(catalog?.bindings.get('b')).toEqual({
      model: 'm',
      supply: 's',
      tier: 'exact',
      degradation_rule: null,
      priority: 0,
      verified: { by: 'ann', at: '2026-11-20T00:00:00.000Z', evidence: 'job 7', capability: 'current' },
    })
  })

  it('names all faults at once, in the order of the file', async () => {
    const faulty = GOOD.replace('provider: ark', 'provider: arc')
      .replace('upstream_model', 'upstream_modell')
      .replace('4-15, resolutions: [480p, 720p]', '15-4, resolutions: []')
      .replace('policy: p', 'policy: q')
      .replace('supply: s,', 'supply: t,')
    const { lines, catalog } = await check(faulty)
    expect(catalog).toBeNull()
    expect(lines.map((line) => /^f:(\d+:\d+)/.exec(line)?.[1])).toEqual([
      '2:18',
      '4:3',
      '6:5',
      '11:35',
      '11:54',
      '21:13',
      '24:20',
    ])
    expect(lines[0]).toBe(
      'f:2:18: error: channels.c.provider: no provider is called "arc"; did you mean "ark"?',
    )
    expect(lines[2]).toContain('unknown key "upstream_modell"; did you mean "upstream_model"?')
  })

  it.each([
    [
      'unknown key at the top',
      'policies:',
      'polices: {}\npolicies:',
      'f:13:1: error: polices: unknown key "polices"; did you mean "policies"?',
    ],
    [
      'unknown enum value',
      'media: video\n    concurrency',
      'media: vidio\n    concurrency',
      'found "vidio"; expected video or image',
    ],
    [
      'missing key',
      ', concurrency: 5 }',
      ' }',
      'channels.c.concurrency: is missing; expected a whole number from 1 to 1000000',
    ],
    [
      'fraction where whole',
      'concurrency: 5\n',
      'concurrency: 2.5\n',
      'found "2.5"; expected a whole number from 1 to 1000000',
    ],
    ['a mistake in an ID', '  r: {', '  R!: {', 'is no ID; an ID has lower-case letters'],
    [
      'price with too many decimals',
      'price: 0.1',
      'price: 0.1234567',
      'expected an amount of 0 or more with at most six decimals',
    ],
    [
      'price that is an exponent',
      'price: 0.1',
      'price: 1e-1',
      'expected an amount of 0 or more with at most six decimals',
    ],
    ['price below 0', 'price: 0.1', 'price: -1', 'expected an amount of 0 or more'],
    [
      'degraded without a rule',
      'supply: s,',
      'supply: s, tier: degraded,',
      'degraded without degradation_rule; name the rule',
    ],
    ['a rule without degraded', 'supply: s,', 'supply: s, degradation_rule: r,', 'tier exact takes no rule'],
    [
      'a rule that is not there',
      'supply: s,',
      'supply: s, tier: degraded, degradation_rule: rr,',
      'there is no "rr" in degradation_rules; did you mean "r"?',
    ],
    ['a third attempt', 'p: {}', 'p: { max_attempts: 3 }', 'found 3; expected a whole number from 1 to 2'],
    [
      'an attempt after 20 minutes',
      'p: {}',
      'p: { retry_window_seconds: 1201 }',
      'expected a whole number from 1 to 1200',
    ],
    [
      'a multiplier below 1',
      'p: {}',
      'p: { stable_cost_multiplier_limit: 0.5 }',
      'expected a number from 1 to 1000 with at most six decimals',
    ],
    ['a misspelt day', 'at: 2026-11-20', 'at: 2026-11-31', 'expected a day (2026-11-20)'],
    [
      'a currency without a rate',
      '{ rows: [{ price: 0.1',
      '{ currency: USD, rows: [{ price: 0.1',
      'no rate of exchange for USD; write exchange_rates: {USD: …}',
    ],
    [
      'prices of another billing mode',
      '{ rows: [{ price: 0.1',
      '{ mode: per_request, rows: [{ price: 0.1',
      'bills per_request, but the capability bills per_second',
    ],
    [
      'a default outside the limits',
      'policy: p\n',
      'policy: p\n    defaults: { seconds: 3 }\n',
      'models.m.defaults.seconds: 3 is outside the limits of the model',
    ],
    [
      'a supply of other media',
      'media: video\n    limits: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"] }]',
      'media: image\n    limits: [{ sizes: [1x1], count: 1 }]',
      's makes video, the model is image',
    ],
  ])('%s', async (_, from, to, expected) => {
    const line = await problemOf(from, to)
    expect(line).toContain(': error: ')
    expect(line).toContain(expected)
  })

  it.each([
    [
      'a channel smaller than its supplies',
      'credential: env:KEY, concurrency: 5',
      'credential: env:KEY, concurrency: 4',
      "4 is less than its supplies' limits together (5)",
    ],
    [
      'a price that is never reached',
      '[{ price: 0.1 }]',
      '[{ price: 0.1 }, { when: { resolution: 720p }, price: 0.2 }]',
      'supplies.s.prices.rows[1]: is never reached',
    ],
    [
      'a request without a price',
      '[{ price: 0.1 }]',
      '[{ when: { resolution: 720p }, price: 0.2 }]',
      'no price for duration_seconds 4, resolution 480p',
    ],
    ['a secret that is not there', 'env:KEY', 'env:OTHER', 'the environment variable OTHER is not set'],
    [
      'models whose usual requests nobody bills',
      'billing_mode: per_second',
      'billing_mode: per_request',
      'a request that names no billing mode means per_second, which no exact supply bills',
    ],
    [
      'an override without a limit',
      'policy: p\n',
      'policy: p\n    emergency_cost_override: true\n',
      'policy p has no task_cost_limit; the gate will refuse it',
    ],
  ])('warns of %s', async (_, from, to, expected) => {
    const line = await problemOf(from, to)
    expect(line).toContain(': warning: ')
    expect(line).toContain(expected)
  })

  it('refuses a secret in the file, and never repeats it', async () => {
    for (const written of [
      'credential: sk-1234567890',
      'credential: 1234567890123',
      'credential: [sk-1234567890]',
    ]) {
      const line = await problemOf('credential: env:KEY', written)
      expect(line).toContain('a secret never stands in this file: write env:NAME')
      expect(line).not.toMatch(/1234567890/)
    }
    const key = await problemOf('concurrency: 5 }', 'concurrency: 5, options: { api_key: sk-1234567890 } }')
    expect(key).toContain('looks like a secret')
    expect(key).not.toContain('sk-1234567890')
    const url = await problemOf('http://127.0.0.1:1/api', 'https://ann:hunter2@host/api')
    expect(url).toContain('holds a credential')
    expect(url).not.toContain('hunter2')
  })

  it('reports what YAML itself refuses, a duplicate ID among it, with its line', async () => {
    const { lines, catalog } = await check(GOOD.replace('policies:\n', 'policies:\n  p: {}\n'))
    expect(catalog).toBeNull()
    expect(lines[0]).toMatch(/^f:15:\d+: error: .*unique/i)
    expect((await check('channels: [')).lines[0]).toMatch(/^f:1:\d+: error: /)
    expect((await check('- a')).lines).toEqual([
      'f:1:1: error: found no map; expected a map of keys and values',
    ])
  })

  it('finds one binding ID in two models', async () => {
    const { lines } = await check(
      `${GOOD}  m2:\n    media: video\n    limits: [{ duration_seconds: 5, resolutions: 720p, aspect_ratios: "1:1" }]\n    policy: p\n    bindings:\n      b: { supply: s }\n`,
    )
    expect(lines).toEqual([
      'f:30:7: error: models.m2.bindings.b: the ID "b" is taken by a binding of m; IDs of bindings are unique in the whole file',
    ])
  })

  it('COST-7: takes amounts as they are written, never as binary fractions', async () => {
    const { catalog } = await check(GOOD.replace('price: 0.1', 'price: 0.30'))
    expect(catalog?.supplies.get('s')?.prices?.list.prices).toEqual([{ price: '0.3' }])
    const exact = await check(GOOD.replace('price: 0.1', 'price: 123456789.123456'))
    expect(exact.catalog?.supplies.get('s')?.prices?.list.prices).toEqual([{ price: '123456789.123456' }])
  })

  it('reads anchors and merge keys, and points at the anchor of a fault', async () => {
    const text = GOOD.replace(
      'channels:',
      'anchors:\n  - &v { by: ann, at: 2026-13-01, evidence: x }\nchannels:',
    ).replace('verified: { by: ann, at: 2026-11-20, evidence: job 7 }', 'verified: { <<: *v, by: bob }')
    const { lines } = await check(text)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/^f:2:\d+: error: models\.m\.bindings\.b\.verified\.at: /)
    const good = await check(text.replace('2026-13-01', '2026-12-01'))
    expect(good.catalog?.bindings.get('b')?.verified).toMatchObject({ by: 'bob', evidence: 'x' })
  })

  it('puts variables into base URLs, and says which is missing', async () => {
    const text = (url: string) => GOOD.replace('http://127.0.0.1:1/api', url)
    const port = `http://127.0.0.1:\${PORT:-8090}/api/`
    expect((await check(text(port))).catalog?.channels.get('c')?.base_url).toBe('http://127.0.0.1:8090/api')
    expect((await check(text(port), { KEY: 'k', PORT: '9' })).catalog?.channels.get('c')?.base_url).toBe(
      'http://127.0.0.1:9/api',
    )
    expect((await check(text(`http://\${HOST}/api`))).lines[0]).toContain(
      'HOST is not set in the environment',
    )
  })

  it('STR-13: an empty policy takes the defaults of a new one, by the media that use it', async () => {
    expect((await check(GOOD)).catalog?.policies.get('p')).toEqual({
      strategy: 'stable_first',
      max_attempts: 2,
      retry_window_seconds: 1200,
      success_min_samples: 20,
      assumed_success_rate: 0.95,
      stable_cost_multiplier_limit: 2,
      fallback_cost_multiplier: 3,
      absolute_cost_limit: null,
      task_cost_limit: null,
      spill_after_seconds: 600,
      degrade_after_seconds: 0,
      probe_interval_seconds: 300,
      real_person_refusal: 'stop',
    })
    expect(policyDefaults('image').spill_after_seconds).toBe(0)
    const both = `${GOOD}  i:\n    media: image\n    limits: [{ sizes: [1x1], count: 1 }]\n    policy: p\n`
    expect((await check(both)).lines[0]).toContain('spill_after_seconds has another default for each')
  })

  it('survives what nobody would write', async () => {
    const bomb = `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefgh'
      .split('')
      .map((name, at) => `${name}: &${name} [${Array(9).fill(`*${'abcdefg'[at]}`).join(',')}]`)
      .join('\n')}\n`
    expect((await check(bomb)).lines.join()).toMatch(/error/)
    expect((await check('channels: { __proto__: { provider: ark } }')).catalog).toBeNull()
    expect((await check('')).lines).toEqual([])
    for (const text of [
      'channels: 5',
      'models: { m: null }',
      'supplies: { s: [] }',
      '\u0000',
      'channels: {c: {base_url: [[]]}}',
    ])
      expect((await check(text)).catalog).toBeNull()
  })

  it('refuses text that no database takes', async () => {
    for (const text of ['"a\\0b"', '"\\uD800"']) {
      const line = await problemOf('policy: p', `description: ${text}\n    policy: p`)
      expect(line).toMatch(/^f:21:18: error: .*cannot be stored/)
    }
  })

  it('publishes the JSON Schema of the file', () => {
    const published: unknown = JSON.parse(
      readFileSync(new URL('../../docs/catalog.schema.json', import.meta.url), 'utf8'),
    )
    expect(published, 'write it again: yardmaster catalog schema > docs/catalog.schema.json').toEqual(
      catalogJsonSchema(),
    )
  })
})
