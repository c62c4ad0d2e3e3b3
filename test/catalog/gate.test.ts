/** The production gate [STR-6]: each check with its evidence, each refusal with what is missing and how to mend it. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { checkGate } from '../../src/catalog/gate.ts'
import { publishModel } from '../../src/catalog/publish.ts'
import { type TestDatabase, testDatabase } from '../store/database.ts'
import { apply, DEMO } from './files.ts'

let test: TestDatabase
beforeAll(async () => {
  test = await testDatabase()
})
afterAll(() => test.drop())

let runs = 0

/** A model of its own for each case, so that one database serves them all. */
async function gate(
  change: (text: string) => string,
  environment: Record<string, string> = { KEY: 'secret-1' },
) {
  const n = ++runs
  const text = change(FULL).replaceAll('@', `-${n}`)
  await apply(test.db, text, { environment })
  return checkGate(test.db, `m-${n}`)
}

const FULL = `
channels:
  c@: { provider: ark, base_url: http://127.0.0.1:1/api, credential: env:KEY, concurrency: 20 }
supplies:
  s@:
    channel: c@
    upstream_model: m-1
    media: video
    concurrency: 5
    capability: { billing_mode: per_second, modes: &full [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"], inputs: { reference_images: 0-9, reference_videos: 0-3 } }] }
    prices: { rows: [{ price: 0.1 }] }
  less@:
    channel: c@
    upstream_model: m-1
    media: video
    concurrency: 5
    capability: { billing_mode: per_second, modes: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"], inputs: { reference_images: 0-9 } }] }
    prices: { rows: [{ price: 0.05 }] }
policies:
  p@: { task_cost_limit: 9 }
degradation_rules:
  r@: { from_profile: full, to_profile: images, operations: [{ op: drop_inputs, inputs: reference_videos }] }
models:
  m@:
    media: video
    profile: full
    limits: *full
    policy: p@
    degradation: best_effort
    emergency_cost_override: true
    bindings:
      b@: { supply: s@, verified: &tried { by: ann, at: 2026-11-20, evidence: job 7 } }
      d@: { supply: less@, tier: degraded, degradation_rule: r@, verified: *tried }
`

function changed(from: string, to: string) {
  return (text: string) => {
    if (!text.includes(from)) throw new Error(`the file has no ${from}`)
    return text.replace(from, to)
  }
}

describe('the gate', () => {
  it('STR-6: every check has its evidence', async () => {
    const { passed, refusals } = await gate((text) => text)
    expect(refusals).toEqual([])
    const evidence = Object.fromEntries(passed.map((one) => [one.check, one.evidence]))
    expect(evidence).toMatchObject({
      exact_covers_limits: { bindings: [{ binding: 'b-1', supply: 's-1', capability_version: 1 }] },
      cost_rules: { 'b-1': { mode: 'per_second', price_list_version: 1, every_request_has_a_price: true } },
      capabilities_verified: {
        'b-1': { by: 'ann', at: '2026-11-20T00:00:00.000Z', evidence: 'job 7', capability: 1 },
      },
      degradation_fits: {
        'd-1': {
          rule: 'r-1',
          rule_version: 1,
          from: 'full',
          to: 'images',
          operations: [{ op: 'drop_inputs', inputs: ['reference_videos'] }],
        },
      },
      policy_limits: { emergency_cost_override: true, task_cost_limit: '9' },
      credentials: { 'c-1': { reference: 'env:KEY' } },
      base_currency: { currency: 'CNY' },
    })
  })

  it.each([
    [
      'no exact binding',
      changed('supply: s@,', 'supply: s@, tier: fallback,'),
      'exact_covers_limits',
      'the model has no exact binding',
    ],
    [
      'an exact supply that does not cover the limits',
      changed('supply: s@,', 'supply: less@,'),
      'exact_covers_limits',
      'it does not take, for example, duration_seconds 4, resolution 480p, aspect_ratio 16:9, generate_audio false, reference_videos 1',
    ],
    ['no prices', changed('    prices: { rows: [{ price: 0.1 }] }\n', ''), 'cost_rules', 'has no prices'],
    [
      'an unverified binding',
      changed(
        'tier: degraded, degradation_rule: r@, verified: *tried',
        'tier: degraded, degradation_rule: r@',
      ),
      'capabilities_verified',
      'was not verified',
    ],
    [
      'a degraded supply that does not fit the transformed limits',
      changed('inputs: reference_videos }', 'inputs: first_frame }'),
      'degradation_fits',
      'does not fit the limits after r',
    ],
    [
      'an override without a task_cost_limit',
      changed('{ task_cost_limit: 9 }', '{}'),
      'policy_limits',
      'emergency_cost_override needs a task_cost_limit',
    ],
  ])('STR-6: refuses %s', async (_, change, check, missing) => {
    const { refusals } = await gate(change)
    expect(refusals.map((refusal) => refusal.check)).toEqual([check])
    expect(refusals[0]?.missing).toContain(missing)
    expect(refusals[0]?.mend).not.toBe('')
  })

  it('STR-6: refuses a channel whose credential could not be resolved', async () => {
    const { refusals } = await gate((text) => text, {})
    expect(refusals.map(({ check }) => check)).toEqual(['credentials'])
  })

  it('STR-6: judges the capability that was verified, not the newest', async () => {
    const n = runs + 1
    await gate((text) => text)
    const shrunk = FULL.replaceAll('@', `-${n}`)
      .replace('modes: &full [{ duration_seconds: 4-15', 'modes: [{ duration_seconds: 4-5')
      .replace(
        'limits: *full',
        'limits: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"], inputs: { reference_images: 0-9, reference_videos: 0-3 } }]',
      )
    await apply(test.db, shrunk)
    const { refusals, passed } = await checkGate(test.db, `m-${n}`)
    expect(refusals).toEqual([])
    expect(passed.find(({ check }) => check === 'capabilities_verified')?.evidence).toMatchObject({
      [`b-${n}`]: { capability: 1, newest_capability: 2 },
    })
  })

  it('STR-6: names all that is missing at once, and publishes nothing', async () => {
    const { refusals, modelId } = await gate(
      (text) =>
        changed(
          '{ task_cost_limit: 9 }',
          '{}',
        )(changed('    prices: { rows: [{ price: 0.1 }] }\n', '')(text)),
      {},
    )
    expect(refusals.map(({ check }) => check)).toEqual(['cost_rules', 'policy_limits', 'credentials'])
    await expect(publishModel(test.db, modelId, 'ann')).rejects.toThrow(
      /cost_rules.*\n.*policy_limits.*\n.*credentials/,
    )
    const { rows } = await test.db.query('select published, release_id from model where id = $1', [modelId])
    expect(rows).toEqual([{ published: false, release_id: null }])
    await expect(publishModel(test.db, 'nobody', 'ann')).rejects.toThrow('there is no model nobody')
  })

  it('STR-6: the release keeps the evidence, and cannot be changed', async () => {
    await apply(test.db, DEMO, { publish: true })
    const { rows } = await test.db.query<{ evidence: { check: string }[] }>(
      `select evidence from release where model_id = 'seedance-2.0-933'`,
    )
    expect(rows[0]?.evidence.map(({ check }) => check)).toEqual([
      'exact_covers_limits',
      'cost_rules',
      'capabilities_verified',
      'degradation_fits',
      'policy_limits',
      'credentials',
      'base_currency',
    ])
    await expect(test.db.query(`update release set evidence = '[]'`)).rejects.toMatchObject({ code: 'YM017' })
  })
})
