/** Degradation at work, beyond the plain 933 to 900 of money.test.ts: every operation down to the body, and every "no". */
import { afterEach, describe, expect, it } from 'vitest'
import type { VideoFacts } from '../../src/core/request.ts'
import { roundsOf } from '../../src/store/rounds.ts'
import { rowsOf, type System, type SystemOptions, startSystem, VIDEO } from '../system/kit.ts'
import {
  admitted,
  alertCodes,
  attemptIn,
  attemptsOf,
  customerSees,
  ended,
  leaveOnly,
  ledger,
  ledgerOf,
} from './facts.ts'

const MINI = 'seedance-mini-south'

let system: System
afterEach(() => system?.stop())

/** Loops run; where a test scans once more, it is to know that a task was looked at again. */
async function start(options: SystemOptions = {}) {
  system = await startSystem({ simulator: { defaults: { duration_ms: 100 } }, ...options })
  const engine = system.engine()
  await engine.start()
  return engine
}

const urls = (kind: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ url: `https://example.com/${kind}-${n + 1}` }))

function asking(facts: Partial<VideoFacts> = {}) {
  return {
    facts: {
      ...VIDEO,
      inputs: { reference_images: 9, reference_videos: 2, reference_audios: 1 },
      ...facts,
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
}

interface Seen extends Record<string, unknown> {
  readonly reason: string | null
  readonly mini: string | null
}

/** The newest round of a task, and why the degraded candidate was out of it. */
async function newestRound(taskId: string): Promise<Seen | undefined> {
  const round = (await roundsOf(system.db, taskId)).filter((one) => one.admitted).at(-1)
  if (!round) return undefined
  const { excluded = {} } = round.verdict as { excluded?: Record<string, string> }
  return { reason: round.reason, mini: excluded['seedance-900-mini'] ?? null }
}

/** A supply that takes four images, up to 720p and no sound, and a rule that leads there. */
function light(text: string): string {
  const taken = text.replace(
    /- &seedance-900\n(?: {4}- .*\n){3}/,
    `- &light-frame
    duration_seconds: 4-15
    resolutions: [480p, 720p]
    aspect_ratios: ["16:9", "4:3", "1:1", "3:4", "9:16", "21:9"]
    generate_audio: false
  - &seedance-900
    - *light-frame
    - { <<: *light-frame, inputs: { first_frame: 1, last_frame: 0-1 } }
    - { <<: *light-frame, inputs: { reference_images: 1-4 } }
`,
  )
  return taken.replace(
    'operations: [{ op: drop_inputs, inputs: [reference_videos, reference_audios] }]',
    `operations:
      - { op: drop_inputs, inputs: [reference_videos, reference_audios] }
      - { op: keep_first, inputs: reference_images, count: 4 }
      - { op: lower_resolution, to: 720p }
      - { op: drop_generated_audio }`,
  )
}

describe('each operation', () => {
  it('DEG-2, DEG-3, DEG-6: the first four images in order, 720p and no sound are sent, paid for, and told', async () => {
    const engine = await start({ catalog: light })
    await leaveOnly(system, [MINI])
    const asked = asking({ resolution: '1080p', generateAudio: true })
    const task = await admitted(system, engine, asked)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [attempt] = await attemptsOf(system, task)
    const { request } = await ledgerOf(system, attempt?.id ?? '')
    const parts = request.content as { type: string; image_url?: { url: string } }[]
    expect(parts.filter(({ type }) => type !== 'text').map((part) => part.image_url?.url)).toEqual(
      urls('image', 4).map(({ url }) => url),
    )
    expect(request).toMatchObject({ resolution: '720p', generate_audio: false })
    // Five seconds at 0.3: 720p's price, not the 0.75 of 1080p.
    expect(attempt).toMatchObject({ quote_micros: 1_500_000n, cost_micros: 1_500_000n })
    const told = {
      degraded: true,
      requested_profile: '933',
      actual_profile: '900',
      dropped_inputs: ['reference_videos', 'reference_audios', 'reference_images'],
    }
    const changes = [
      { field: 'reference_images', from: 9, to: 4 },
      { field: 'resolution', from: '1080p', to: '720p' },
      { field: 'generate_audio', from: true, to: false },
    ]
    // What was sent is what was promised: a 720p film is no silent downgrade here.
    expect(JSON.parse(await customerSees(system, task))).toMatchObject({ ...told, changes, shortfalls: [] })
    const sent = {
      duration_seconds: 5,
      resolution: '720p',
      generate_audio: false,
      inputs: { reference_images: 4 },
    }
    const usage = await rowsOf(
      system.db,
      'select degraded, requested_profile, actual_profile, dropped_inputs, parameters from usage_record',
    )
    expect(usage).toMatchObject([{ ...told, parameters: sent }])
    // Before and after, beside each other; no address of an input in what is kept of the attempt.
    const [stored] = await rowsOf<{ asked: object; kept: object }>(
      system.db,
      'select t.facts as asked, a.degraded as kept from task t join attempt a on a.task_id = t.id',
    )
    expect(stored).toMatchObject({
      asked: { resolution: '1080p', generate_audio: true, inputs: asked.facts.inputs },
      kept: { sent, changes },
    })
    expect(JSON.stringify(stored)).not.toContain('example.com')
    expect(await alertCodes(system)).toEqual(
      expect.arrayContaining(['degradation_used', 'exact_unavailable']),
    )
  })

  it('DEG-3, DEG-6: what is at the bound already is sent as it is, and still called by its actual profile', async () => {
    const engine = await start({ catalog: light })
    await leaveOnly(system, [MINI])
    const inputs = { reference_images: 3 }
    const { content } = asking()
    const task = await admitted(system, engine, {
      facts: { ...VIDEO, inputs, resolution: '480p' },
      content: { ...content, inputs: { reference_images: urls('image', 3) } },
    })
    await ended(system, task)
    const [attempt] = await attemptsOf(system, task)
    const { request } = await ledgerOf(system, attempt?.id ?? '')
    expect(request).toMatchObject({ resolution: '480p' })
    expect(request.content as unknown[]).toHaveLength(4)
    expect(JSON.parse(await customerSees(system, task))).toMatchObject({
      degraded: true,
      actual_profile: '900',
      dropped_inputs: [],
      changes: [],
    })
  })

  it('STR-6, DEG-6: the gate publishes no rule that leaves more than its supply takes', async () => {
    await start({ catalog: light })
    const lacking = light(system.demo).replace('      - { op: drop_generated_audio }\n', '')
    await expect(system.applyText(lacking)).rejects.toThrow(/degradation_fits: .*generate_audio true/)
  })
})

describe('no degradation', () => {
  async function waits(options: SystemOptions, act: () => Promise<unknown>, facts: Partial<VideoFacts> = {}) {
    const engine = await start(options)
    await act()
    const task = await admitted(system, engine, asking(facts))
    await engine.dispatchOnce()
    expect(await attemptsOf(system, task)).toEqual([])
    expect(await ledger(system)).toMatchObject({ posts: 0 })
    return newestRound(task)
  }

  it('DEG-1: where the request is strict, or the model', async () => {
    const strict = { degradation: 'strict' } as const
    expect(await waits({}, () => leaveOnly(system, [MINI]), strict)).toEqual({
      reason: 'health',
      mini: 'degradation_not_allowed',
    })
    await system.stop()
    const model = (text: string) => text.replace('degradation: best_effort', 'degradation: strict')
    const willing = { degradation: 'best_effort' } as const
    expect(await waits({ catalog: model }, () => leaveOnly(system, [MINI]), willing)).toEqual({
      reason: 'health',
      mini: 'degradation_not_allowed',
    })
  })

  it('DEG-1: by a rule that is no longer published', async () => {
    const seen = await waits({}, async () => {
      await leaveOnly(system, [MINI])
      await system.db.query('update degradation_rule set published = false')
    })
    expect(seen).toEqual({ reason: 'health', mini: 'degradation_rule_unavailable' })
  })

  it('DEG-7: over an open circuit', async () => {
    const seen = await waits({}, () => leaveOnly(system, []))
    expect(seen).toEqual({ reason: 'health', mini: 'supply_circuit_open' })
  })

  it('DEG-7: over a limit of cost', async () => {
    // 4.5 a second where the others stand at 1: more than the threefold.
    const dear = (text: string) => text.replace('price: 0.3 }', 'price: 4.5 }')
    const seen = await waits({ catalog: dear }, () => leaveOnly(system, [MINI]))
    expect(seen).toEqual({ reason: 'health', mini: 'over_fallback_limit' })
  })

  it('DEG-7: into a supply that does not take what is left: here, a real person', async () => {
    const seen = await waits({}, () => leaveOnly(system, [MINI]), { realPerson: true })
    expect(seen).toEqual({ reason: 'health', mini: 'real_person_denied' })
  })

  it('DEG-7, STR-7: beyond the slots of its supply', async () => {
    const engine = await start({ simulator: { defaults: { duration_ms: 60_000 } } })
    await leaveOnly(system, [MINI])
    const tasks: string[] = []
    for (let n = 0; n < 5; n += 1) tasks.push(await admitted(system, engine, asking()))
    const [first, second, third, fourth, fifth] = tasks
    for (const task of [first, second, third, fourth]) await attemptIn(system, task ?? '', 'accepted')
    await engine.dispatchOnce()
    expect(await attemptsOf(system, fifth)).toEqual([])
    expect(await newestRound(fifth ?? '')).toEqual({ reason: 'capacity', mini: 'supply_saturated' })
  })

  it('LAY-3, DEG-7: where an exact supply is only full', async () => {
    const engine = await start({ simulator: { defaults: { duration_ms: 60_000 } } })
    await leaveOnly(system, ['seedance-north', MINI])
    const tasks: string[] = []
    for (let n = 0; n < 6; n += 1) tasks.push(await admitted(system, engine, asking()))
    const last = tasks.pop() ?? ''
    for (const task of tasks)
      expect(await attemptIn(system, task, 'accepted')).toMatchObject({ supply_id: 'seedance-north' })
    await engine.dispatchOnce()
    expect(await attemptsOf(system, last)).toEqual([])
    expect(await newestRound(last)).toEqual({ reason: 'capacity', mini: 'layer_not_reached' })
    expect(await alertCodes(system)).not.toContain('degradation_used')
  })
})
