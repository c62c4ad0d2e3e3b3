/** Results looked into: a silent downgrade is delivered, told, and never passed off as what was promised. */
import { afterEach, describe, expect, it } from 'vitest'
import { isCutOff, measurePicture } from '../../src/core/artefact.ts'
import { lookInto } from '../../src/runtime/artefact.ts'
import { makeStill } from '../../src/simulator/media/still.ts'
import { imageRequest, rowsOf, type System, startSystem, until, VIDEO } from '../system/kit.ts'
import { admitted, alertCodes, attemptsOf, customerSees, ended, fault, ledger } from './facts.ts'

let system: System | undefined
afterEach(async () => {
  await system?.stop()
  system = undefined
})

async function start() {
  system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
  const engine = system.engine()
  await engine.start()
  return { system, engine }
}

const outputsOf = (of: System) =>
  rowsOf<{ measured: object | null; shortfalls: string[] }>(
    of.db,
    'select measured, shortfalls from task_output order by place',
  )

describe('a film', () => {
  it('DEG-7: as promised is measured, and nothing is said against it', async () => {
    const { system: of, engine } = await start()
    const task = await admitted(of, engine, { facts: { ...VIDEO, generateAudio: true } })
    expect(await ended(of, task)).toMatchObject({ state: 'succeeded' })
    expect(await outputsOf(of)).toEqual([
      { measured: { seconds: expect.closeTo(5, 0), width: 1280, height: 720, audio: true }, shortfalls: [] },
    ])
    expect(JSON.parse(await customerSees(of, task))).toMatchObject({
      shortfalls: [],
      measured: { width: 1280, height: 720 },
    })
    expect(await alertCodes(of)).toEqual([])
  })

  it('DEG-7: that is smaller, shorter and silent is delivered, recorded, told to its customer and to operators', async () => {
    const { system: of, engine } = await start()
    const less = { kind: 'other_artefact', width: 640, height: 360, seconds: 2, audio: false }
    await fault(of, { on: 'create', times: 1, fault: less })
    const task = await admitted(of, engine, { facts: { ...VIDEO, generateAudio: true } })
    expect(await ended(of, task)).toMatchObject({ state: 'succeeded' })
    expect(await outputsOf(of)).toMatchObject([
      {
        measured: { width: 640, height: 360, audio: false },
        shortfalls: ['duration', 'resolution', 'audio'],
      },
    ])
    expect(JSON.parse(await customerSees(of, task))).toMatchObject({
      status: 'completed',
      shortfalls: ['audio', 'duration', 'resolution'],
      measured: { width: 640, height: 360, seconds: expect.closeTo(2, 0), audio: false },
    })
    expect(await rowsOf(of.db, 'select shortfalls, result from usage_record')).toEqual([
      { shortfalls: ['audio', 'duration', 'resolution'], result: 'succeeded' },
    ])
    const [attempt] = await attemptsOf(of, task)
    const [alert] = await rowsOf<{ message: string }>(
      of.db,
      `select message from alert where code = 'silent_downgrade'`,
    )
    expect(alert?.message).toContain(attempt?.supply_id)
    expect(alert?.message).toContain('duration, resolution, audio')
  })

  it.each([
    ['cut short, as if it were whole', { kind: 'truncated_download', announced: false, keep: 0.5 }],
    [
      'a page under the type of a film',
      { kind: 'wrong_type', content_type: 'video/mp4', body: '<html>Please sign in</html>' },
    ],
    [
      'a message under the type of a film',
      { kind: 'wrong_type', content_type: 'video/mp4', body: '{"error":"no"}' },
    ],
  ])('DEG-7: %s, is no success: it is fetched again, and posted once', async (_, played) => {
    const { system: of, engine } = await start()
    await fault(of, { on: 'download', times: 1, fault: played })
    const task = await admitted(of, engine)
    await until('the first try', async () => of.notes.some((note) => note.event === 'poller.fetch_failed'))
    await rowsOf(
      of.db,
      'update attempt set next_poll_at = clock_timestamp() where poll_owner is null and ended_at is null',
    )
    expect(await ended(of, task)).toMatchObject({ state: 'succeeded' })
    expect(await outputsOf(of)).toMatchObject([{ measured: { width: 1280, height: 720 }, shortfalls: [] }])
    expect(await ledger(of)).toMatchObject({ posts: 1, accepted: 1 })
  })
})

describe('a file', () => {
  it.each([
    ['empty', Buffer.alloc(0), 'broken'],
    ['text', Buffer.from('Not found, sorry.'), 'broken'],
    ['a film of another family', Buffer.from([0x1a, 0x45, 0xdf, 0xa3, ...Buffer.alloc(40)]), 'unknown'],
    ['a head without a film', Buffer.from([0, 0, 0, 16, ...Buffer.from('ftypisom'), 0, 0, 2, 0]), 'broken'],
  ])('%s is %s', async (_, bytes, kind) => {
    system = await startSystem()
    const stored = await system.assets.put(bytes, {
      contentType: 'video/mp4',
      expiresAt: Date.now() * 2000,
      maxBytes: 1e6,
    })
    expect((await lookInto(system.assets, stored)).kind).toBe(kind)
  })
})

describe('a picture', () => {
  it.each(['png', 'jpeg', 'webp'] as const)('DEG-7: of the kind %s tells its size', (format) => {
    for (const [width, height] of [
      [1024, 1024],
      [2560, 1440],
      [17, 33],
    ] as const) {
      const bytes = makeStill(format, { width, height, rgb: [10, 20, 30], note: 'x' } as never)
      expect(measurePicture(bytes)).toMatchObject({ width, height })
      expect(measurePicture(bytes.subarray(0, 12))).toBeNull()
    }
  })

  it('DEG-7: as promised is measured', async () => {
    const { system: of, engine } = await start()
    expect((await engine.runImage(imageRequest(of.customer))).kind).toBe('finished')
    expect(await outputsOf(of)).toMatchObject([{ measured: { width: 2048, height: 2048 }, shortfalls: [] }])
  })

  it.each(['png', 'jpeg', 'webp'] as const)('DEG-7: of the kind %s is cut off without its end', (format) => {
    const whole = makeStill(format, { width: 64, height: 64, rgb: [10, 20, 30], note: 'x' } as never)
    expect(isCutOff(whole)).toBe(false)
    // Some encoders write something behind the end.
    expect(isCutOff(Buffer.concat([whole, Buffer.alloc(4096)]))).toBe(false)
    for (const part of [0, 11, 12, Math.floor(whole.length / 2), whole.length - 13])
      expect(isCutOff(whole.subarray(0, part))).toBe(true)
  })

  it('DEG-7: of a kind that is not known is let pass', () => {
    expect(isCutOff(Buffer.from('GIF89a, or whatever else'))).toBe(false)
  })

  it('DEG-7: smaller than promised is delivered and told', async () => {
    const { system: of, engine } = await start()
    await fault(of, { on: 'image', times: 1, fault: { kind: 'other_artefact', width: 512, height: 512 } })
    expect((await engine.runImage(imageRequest(of.customer))).kind).toBe('finished')
    expect(await outputsOf(of)).toMatchObject([
      { measured: { width: 512, height: 512 }, shortfalls: ['resolution'] },
    ])
    expect(await alertCodes(of)).toContain('silent_downgrade')
  })
})
