/** What is paid and what is written down of it; and a degraded delivery, from the request to the body that was sent. */
import { afterEach, describe, expect, it } from 'vitest'
import { roundsOf } from '../../src/store/rounds.ts'
import {
  IMAGE,
  imageRequest,
  rowsOf,
  type System,
  type SystemOptions,
  startSystem,
  VIDEO,
  videoRequest,
} from '../system/kit.ts'
import { admitted, alertCodes, attemptsOf, customerSees, ended, fault, leaveOnly, ledgerOf } from './facts.ts'

let system: System
afterEach(() => system?.stop())

async function start(options: SystemOptions = {}) {
  system = await startSystem({ simulator: { defaults: { duration_ms: 100 } }, ...options })
  const engine = system.engine()
  await engine.start()
  return engine
}

async function costOf(taskId: string) {
  const [usage] = await rowsOf<{ cost_micros: bigint; result: string; parameters: Record<string, unknown> }>(
    system.db,
    'select result, cost_micros, parameters from usage_record where task_id = $1::uuid',
    [taskId],
  )
  return usage
}

describe('what an attempt cost', () => {
  it('COST-7: nothing where it was refused; its quote where it was delivered', async () => {
    const engine = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'error', name: 'model_missing' } })
    const task = await admitted(system, engine)
    await ended(system, task)
    const [refused, delivered] = await attemptsOf(system, task)
    expect(refused?.quote_micros).toBeGreaterThan(0n)
    expect(refused?.cost_micros).toBe(0n)
    expect(delivered?.cost_micros).toBe(delivered?.quote_micros)
    expect(await costOf(task)).toMatchObject({ result: 'succeeded', cost_micros: delivered?.quote_micros })
  })

  it.each([
    ['seedance-south-priority', 'bills failures', 5_250_000n],
    ['seedance-north', 'does not', 0n],
  ])('COST-7: a failed job of %s, whose list %s', async (supply, _, cost) => {
    const engine = await start()
    await leaveOnly(system, [supply])
    const failure = { kind: 'fails', code: 'OutputVideoSensitiveContentDetected', message: 'no' }
    await fault(system, { on: 'create', fault: failure })
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'failed' })
    expect(await attemptsOf(system, task)).toMatchObject([{ supply_id: supply, cost_micros: cost }])
    expect(await costOf(task)).toMatchObject({ result: 'failed', cost_micros: cost })
  })

  it('COST-7, CUS-2: of a batch of images what came, and the places that did not are named', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedream-north'])
    await fault(system, { on: 'image', times: 1, fault: { kind: 'partial_images', failed: 1 } })
    const answer = await engine.runImage(imageRequest(system.customer, { facts: { ...IMAGE, count: 3 } }))
    expect(answer).toMatchObject({ kind: 'finished' })
    const [attempt] = await attemptsOf(system)
    expect(attempt).toMatchObject({ quote_micros: 600_000n, cost_micros: 400_000n })
    const places = await rowsOf(
      system.db,
      `select place, asset_digest is not null as there, error->>'code' as code from task_output order by place`,
    )
    expect(places).toEqual([
      { place: 0, there: true, code: null },
      { place: 1, there: true, code: null },
      { place: 2, there: false, code: 'content_refused' },
    ])
    const taskId = answer.kind === 'finished' ? answer.taskId : ''
    expect(await costOf(taskId)).toMatchObject({ cost_micros: 400_000n, parameters: { count: 2 } })
  })

  it('COST-1, COST-7: each round keeps every quote, the baseline, the cost so far, the limits and the reason of its choice', async () => {
    const engine = await start({
      catalog: (text) =>
        text
          .replace('video: {}', 'video: { absolute_cost_limit: 50, task_cost_limit: 60 }')
          .replaceAll('prices:\n      rows:', 'prices:\n      bills_failures: true\n      rows:'),
    })
    await fault(system, {
      on: 'create',
      times: 1,
      fault: { kind: 'fails', code: 'InternalServiceError', message: 'no' },
    })
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    const [first, second] = await attemptsOf(system, task)
    expect(first).toMatchObject({ supply_id: 'seedance-south', cost_micros: 4_750_000n })
    const rounds = (await roundsOf(system.db, task)).filter((round) => round.outcome === 'granted')
    expect(rounds.map(({ figures }) => figures.cost_so_far)).toEqual(['0', '4.75'])
    for (const { figures, verdict } of rounds) {
      // 5 s at 720p: 1.0, 0.95, 1.05, 1.5 and 0.3 a second; the baseline is the middle one of the exact three.
      expect(figures).toMatchObject({
        baseline: '5',
        task_cost_limit: '60',
        absolute_cost_limit: '50',
        fallback_cost_multiplier: '3',
        stable_cost_multiplier_limit: '2',
      })
      const quotes = Object.entries(figures.candidates).map(([id, { quote }]) => [id, quote])
      expect(Object.fromEntries(quotes)).toEqual({
        'seedance-933-north': '5',
        'seedance-933-south': '4.75',
        'seedance-933-south-priority': '5.25',
        'seedance-933-relay': '7.5',
        'seedance-900-mini': '1.5',
      })
      expect(verdict).toMatchObject({ decided_by: 'expected_cost' })
    }
    expect(await costOf(task)).toMatchObject({ cost_micros: 4_750_000n + (second?.cost_micros ?? 0n) })
  })

  it('COST-6: the emergency override serves over a limit, with a high-priority alert', async () => {
    const limited = (text: string) =>
      text.replace('video: {}', 'video: { absolute_cost_limit: 1, task_cost_limit: 40 }')
    const engine = await start({
      catalog: (text) =>
        limited(text).replace(
          '    policy: video\n',
          '    policy: video\n    emergency_cost_override: true\n',
        ),
    })
    await leaveOnly(system, ['seedance-north'])
    const task = await admitted(system, engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const alerts = await rowsOf(
      system.db,
      `select severity, subject from alert where code = 'emergency_cost_override'`,
    )
    expect(alerts).toEqual([{ severity: 'critical', subject: { model: 'seedance-2.0-933' } }])
  })

  it('COST-5, COST-6: without the override a request over the limit is refused', async () => {
    const engine = await start({
      catalog: (text) => text.replace('video: {}', 'video: { absolute_cost_limit: 1, task_cost_limit: 40 }'),
    })
    const answer = await engine.admitVideo(videoRequest(system.customer))
    expect(answer).toMatchObject({ kind: 'rejected', code: 'cost_limit_exceeded' })
    expect(await attemptsOf(system)).toEqual([])
  })
})

describe('a degraded delivery', () => {
  const urls = (kind: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({ url: `https://example.com/${kind}-${n + 1}` }))
  const asked = {
    facts: {
      ...VIDEO,
      degradation: null,
      inputs: { reference_images: 9, reference_videos: 2, reference_audios: 1 },
    },
    content: {
      prompt: 'a yard at night',
      inputs: {
        reference_images: urls('image', 9),
        reference_videos: urls('video', 2),
        reference_audios: urls('audio', 1),
      },
      metadata: {},
      echo: {},
    },
  }

  it('DEG-2, DEG-3, DEG-4, DEG-6: 933 to 900 sends the nine images in order and nothing else, and says so everywhere', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-mini-south'])
    const task = await admitted(system, engine, asked)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [attempt] = await attemptsOf(system, task)
    expect(attempt).toMatchObject({ supply_id: 'seedance-mini-south', tier: 'degraded' })
    const { request, posts } = await ledgerOf(system, attempt?.id ?? '')
    expect(posts).toBe(1)
    const sent = request.content as { type: string; image_url?: { url: string } }[]
    expect(sent.filter((part) => part.type !== 'text').map((part) => part.image_url?.url)).toEqual(
      urls('image', 9).map(({ url }) => url),
    )
    expect(JSON.stringify(request)).not.toMatch(/example\.com\/(video|audio)/)
    const told = {
      degraded: true,
      requested_profile: '933',
      actual_profile: '900',
      dropped_inputs: ['reference_videos', 'reference_audios'],
    }
    expect(JSON.parse(await customerSees(system, task))).toMatchObject(told)
    const usage = await rowsOf(
      system.db,
      `select degraded, requested_profile, actual_profile, dropped_inputs, parameters->'inputs' as inputs from usage_record`,
    )
    expect(usage).toEqual([{ ...told, inputs: { reference_images: 9 } }])
    expect(await alertCodes(system)).toEqual(
      expect.arrayContaining(['degradation_used', 'exact_unavailable']),
    )
    // DEG-6: what was asked for is kept as it was.
    const stored = await rowsOf(
      system.db,
      `select t.facts->'inputs' as facts, c.content->'inputs' as content from task t join task_content c on c.task_id = t.id`,
    )
    expect(stored).toEqual([{ facts: asked.facts.inputs, content: asked.content.inputs }])
  })

  it('DEG-2: with an exact supply there is no degradation, and all twelve are sent', async () => {
    const engine = await start()
    await leaveOnly(system, ['seedance-north', 'seedance-mini-south'])
    const task = await admitted(system, engine, asked)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', degraded: null })
    const [attempt] = await attemptsOf(system, task)
    const { request } = await ledgerOf(system, attempt?.id ?? '')
    expect(request.content as unknown[]).toHaveLength(13)
    expect(await alertCodes(system)).not.toContain('degradation_used')
  })
})
