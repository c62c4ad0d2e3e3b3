/** The main job as a customer's own program does it: the unmodified `openai` package against a real server. */
import { createReadStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import OpenAI, { toFile } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rowsOf, until } from '../system/kit.ts'
import { type Api, PNG, startApi } from './kit.ts'

let api: Api
let openai: OpenAI

beforeAll(async () => {
  api = await startApi({ running: true, simulator: { defaults: { duration_ms: 200 } } })
  openai = api.client()
})
afterAll(() => api.stop())

const MODEL = 'seedance-2.0-933'

async function finished(id: string) {
  return until(`video ${id} ends`, async () => {
    const video = await openai.videos.retrieve(id)
    return video.status === 'completed' || video.status === 'failed' ? video : undefined
  })
}

describe('videos with the openai package', () => {
  it('CUS-3: create, retrieve until completed, download, list, delete', async () => {
    const created = await openai.videos.create({
      model: MODEL,
      prompt: 'a yard at night',
      seconds: '5' as '4',
      size: '1280x720',
    })
    expect(created.id).toMatch(/^video_[0-9a-f]{32}$/)
    expect(['queued', 'in_progress']).toContain(created.status)
    for (const key of ['completed_at', 'error', 'expires_at', 'remixed_from_video_id', 'progress'])
      expect(created).toHaveProperty(key)
    const video = await finished(created.id)
    expect(video).toMatchObject({
      status: 'completed',
      progress: 100,
      seconds: '5',
      size: '1280x720',
      error: null,
    })
    expect(video.completed_at).toBeGreaterThanOrEqual(video.created_at)
    expect(video.expires_at).toBeGreaterThan(video.created_at)
    const content = await openai.videos.downloadContent(created.id)
    const bytes = Buffer.from(await content.arrayBuffer())
    expect(content.headers.get('content-type')).toBe('video/mp4')
    expect(bytes.toString('latin1', 4, 8)).toBe('ftyp')
    const listed = []
    for await (const each of openai.videos.list({ limit: 1 })) listed.push(each.id)
    expect(listed).toContain(created.id)
    expect(await openai.videos.delete(created.id)).toEqual({
      id: created.id,
      object: 'video.deleted',
      deleted: true,
    })
    await expect(openai.videos.retrieve(created.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError)
    const kept = await rowsOf(api.system.db, `select 1 as one from task where hidden_at is not null`)
    expect(kept).toHaveLength(1)
  })

  it('DEG-3: the result says what was asked for and what is delivered', async () => {
    const created = await openai.videos.create({
      model: MODEL,
      prompt: 'a yard',
      size: '1280x720',
      seconds: '4',
    })
    expect(created).toMatchObject({
      degraded: false,
      requested_profile: '933',
      actual_profile: '933',
      dropped_inputs: [],
    })
  })

  it('CUS-5: an uploaded input_reference becomes the first frame', async () => {
    const created = await openai.videos.create({
      model: MODEL,
      prompt: 'it begins here',
      seconds: '4',
      size: '720x1280',
      input_reference: await toFile(PNG, 'start.png'),
    })
    const [row] = await rowsOf<{
      facts: { inputs: object }
      content: { inputs: { first_frame: unknown[] } }
    }>(
      api.system.db,
      `select facts, content from task t join task_content c on c.task_id = t.id where t.id = $1::uuid`,
      [created.id.slice(6)],
    )
    expect(row?.facts.inputs).toEqual({ first_frame: 1 })
    expect(row?.content.inputs.first_frame).toEqual([
      { asset: expect.stringMatching(/^[0-9a-f]{64}$/), contentType: 'image/png', filename: 'start.png' },
    ])
    expect(await finished(created.id)).toMatchObject({ status: 'completed' })
  })

  it('CUS-5: a file that is streamed arrives whole', async () => {
    const path = join(api.system.dir, 'streamed.png')
    await writeFile(path, Buffer.concat([PNG, Buffer.alloc(700_000, 'x')]))
    const created = await openai.videos.create({
      model: MODEL,
      prompt: 'from a stream',
      input_reference: createReadStream(path),
    })
    const [row] = await rowsOf<{ bytes: bigint }>(
      api.system.db,
      `select bytes from asset a join task_content c on c.content->'inputs'->'first_frame'->0->>'asset' = a.digest
       where c.task_id = $1::uuid`,
      [created.id.slice(6)],
    )
    expect(Number(row?.bytes)).toBe(PNG.length + 700_000)
    // Seconds and size were left out: they come from the model's defaults.
    expect(created).toMatchObject({ seconds: '5', size: '1280x720' })
  })

  it('CUS-5: extensions go through the plain SDK as further fields', async () => {
    const body = {
      model: MODEL,
      prompt: 'with references',
      seconds: '6',
      resolution: '720p',
      aspect_ratio: '16:9',
      generate_audio: true,
      real_person: false,
      degradation: 'strict',
      billing_mode: 'per_second',
      reference_images: ['https://example.com/a.png', await toFile(PNG, 'b.png')],
      metadata: { order: '17' },
    }
    const created = await openai.videos.create(body as never)
    expect(created).toMatchObject({
      size: '1280x720',
      seconds: '6',
      generate_audio: true,
      resolution: '720p',
      metadata: { order: '17' },
    })
    const [row] = await rowsOf<{ facts: Record<string, unknown> }>(
      api.system.db,
      `select facts from task where id = $1::uuid`,
      [created.id.slice(6)],
    )
    expect(row?.facts).toMatchObject({
      inputs: { reference_images: 2 },
      degradation: 'strict',
      billing_mode: 'per_second',
      duration_seconds: 6,
    })
  })
})

describe('images with the openai package', () => {
  it('CUS-5: generate answers b64_json by default', async () => {
    const made = await openai.images.generate({
      model: 'seedream-4.0',
      prompt: 'a yard',
      n: 2,
      size: '1024x1024',
    })
    expect(made.data).toHaveLength(2)
    const bytes = Buffer.from(made.data?.[0]?.b64_json ?? '', 'base64')
    expect(made.output_format).toBe('jpeg')
    expect(bytes.toString('latin1', 0, 3)).toBe('\xff\xd8\xff')
    expect(made).toMatchObject({ size: '1024x1024', degraded: false })
    expect(made.created).toBeGreaterThan(1_700_000_000)
  })

  it('CUS-5: response_format url gives a signed link that works without a key', async () => {
    const made = await openai.images.generate({
      model: 'seedream-4.0',
      prompt: 'a yard',
      response_format: 'url',
    })
    const link = made.data?.[0]?.url ?? ''
    const fetched = await fetch(link)
    expect(fetched.status).toBe(200)
    expect(fetched.headers.get('content-type')).toBe('image/jpeg')
    expect(Buffer.from(await fetched.arrayBuffer()).toString('latin1', 0, 3)).toBe('\xff\xd8\xff')
    const forged = await fetch(link.replace(/signature=./, 'signature=!'))
    expect(forged.status).toBe(403)
  })
})

describe('models with the openai package', () => {
  it('DEG-5: the list says what may be lost', async () => {
    const models = []
    for await (const model of openai.models.list()) models.push(model)
    const video = models.find((model) => model.id === MODEL)
    expect(video).toMatchObject({
      object: 'model',
      media: 'video',
      profile: '933',
      possible_degradations: [
        {
          from_profile: '933',
          to_profile: '900',
          dropped_inputs: ['reference_videos', 'reference_audios'],
          changes: [],
        },
      ],
    })
    expect(await openai.models.retrieve(MODEL)).toEqual(video)
    await expect(openai.models.retrieve('nothing/like-it')).rejects.toBeInstanceOf(OpenAI.NotFoundError)
  })
})
