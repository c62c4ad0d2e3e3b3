/** What a customer is told where less is delivered than was asked for, and which models it is shown at all. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { rowsOf, until } from '../system/kit.ts'
import { type Api, startApi } from './kit.ts'

let api: Api

beforeAll(async () => {
  api = await startApi({
    running: true,
    simulator: { defaults: { duration_ms: 200 } },
    catalog: (text) =>
      text.replace('    limits: *seedream\n', '    limits: *seedream\n    allowed_groups: [vip]\n'),
  })
  await api.system.db.query(`update supply_health set state = 'circuit_open', open_until = clock_timestamp() + interval '1 hour'
    where supply_id like 'seedance-%' and supply_id <> 'seedance-mini-south'`)
})
afterAll(() => api.stop())

const REQUEST = {
  model: 'seedance-2.0-933',
  prompt: 'many references',
  seconds: '5',
  size: '1280x720',
  reference_images: Array.from({ length: 9 }, (_, n) => `https://a.example/${n}.png`),
  reference_videos: ['https://a.example/1.mp4', 'https://a.example/2.mp4'],
  reference_audios: ['https://a.example/1.mp3'],
}

it('DEG-2, DEG-3: the nine images are kept, the result says what was dropped, and so does the usage record', async () => {
  const { id } = await api.client().videos.create(REQUEST as never)
  const video = await until('the video ends', async () => {
    const seen = await api.client().videos.retrieve(id)
    return seen.status === 'completed' || seen.status === 'failed' ? seen : undefined
  })
  const told = {
    degraded: true,
    requested_profile: '933',
    actual_profile: '900',
    dropped_inputs: ['reference_videos', 'reference_audios'],
  }
  expect(video).toMatchObject({ status: 'completed', ...told })
  expect((await api.client().videos.list()).data[0]).toMatchObject(told)
  const usage = await rowsOf(
    api.system.db,
    'select degraded, requested_profile, actual_profile, dropped_inputs from usage_record where task_id = $1::uuid',
    [id.slice(6)],
  )
  expect(usage).toEqual([told])
})

it('DEG-1: strict is never degraded: it waits', async () => {
  const { id } = await api.client().videos.create({ ...REQUEST, degradation: 'strict' } as never)
  await until('the dispatcher has looked at it', async () => {
    const [task] = await rowsOf<{ wait_reason: string | null }>(
      api.system.db,
      'select wait_reason from task where id = $1::uuid',
      [id.slice(6)],
    )
    return task?.wait_reason === 'health'
  })
  expect(await api.client().videos.retrieve(id)).toMatchObject({
    status: 'queued',
    degraded: false,
    dropped_inputs: [],
  })
})

it('ORD-1: a model for other groups is not listed, and refused with 403', async () => {
  const listed = (await api.client().models.list()).data.map((model) => model.id)
  expect(listed).toEqual(['kling-3.0', 'seedance-2.0-933'])
  await expect(api.client().models.retrieve('seedream-4.0')).rejects.toMatchObject({ status: 404 })
  await expect(api.client().images.generate({ model: 'seedream-4.0', prompt: 'p' })).rejects.toMatchObject({
    status: 403,
    code: 'access_denied',
  })
  const [model] = (await api.client().models.list()).data
  expect(model?.created).toBeGreaterThan(1_700_000_000)
})
