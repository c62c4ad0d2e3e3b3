/** Requests that come again: by their Idempotency-Key, by the SDK's own count, and by clients that hang up. */
import OpenAI from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rowsOf, until } from '../system/kit.ts'
import { type Api, startApi } from './kit.ts'

let api: Api

beforeAll(async () => {
  api = await startApi({ running: true, simulator: { defaults: { duration_ms: 300 } } })
})
afterAll(() => api.stop())

const video = (more: object = {}) =>
  ({ model: 'seedance-2.0-933', prompt: 'a yard', seconds: '5', size: '1280x720', ...more }) as never
const image = { model: 'seedream-4.0', prompt: 'a yard' } as const
const withKey = (key: string) => ({ headers: { 'Idempotency-Key': key } })

describe('Idempotency-Key', () => {
  it('CUS-3: the same key and payload give the same video, as a form or as JSON, quoted or bare', async () => {
    const first = await api.client().videos.create(video(), withKey('order-1'))
    const again = await api.client().videos.create(video(), withKey('"order-1"'))
    const asJson = await api.fetch('/v1/videos', {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': 'order-1' },
      body: JSON.stringify({ size: '1280x720', seconds: 5, prompt: 'a yard', model: 'seedance-2.0-933' }),
    })
    expect(again.id).toBe(first.id)
    expect(await asJson.json()).toMatchObject({ id: first.id })
  })

  it('CUS-3: another payload under the key is 422; another customer’s key is its own', async () => {
    const first = await api.client().videos.create(video(), withKey('order-2'))
    const error = await api
      .client()
      .videos.create(video({ prompt: 'another' }), withKey('order-2'))
      .catch((thrown) => thrown)
    expect(error).toBeInstanceOf(OpenAI.UnprocessableEntityError)
    expect(error.code).toBe('idempotency_key_reused')
    const others = await api.client({ apiKey: api.otherKey }).videos.create(video(), withKey('order-2'))
    expect(others.id).not.toBe(first.id)
  })

  it('CUS-3: an image’s key is 409 while it runs, which the SDK repeats, then the same answer', async () => {
    const running = api.client().images.generate(image, withKey('picture-1'))
    await until(
      'the first one runs',
      async () =>
        (await rowsOf(api.system.db, `select 1 as one from idempotency_claim where key = 'picture-1'`))[0],
    )
    const meanwhile = await api
      .client()
      .images.generate(image, withKey('picture-1'))
      .catch((thrown) => thrown)
    expect(meanwhile).toBeInstanceOf(OpenAI.ConflictError)
    expect(meanwhile.code).toBe('idempotency_key_in_use')
    expect(meanwhile.headers.get('x-should-retry')).toBeNull()
    const patient = api.client({ maxRetries: 3 }).images.generate(image, withKey('picture-1'))
    const first = await running
    expect((await patient).data).toEqual(first.data)
    expect(await rowsOf(api.system.db, `select 1 as one from task where kind = 'image'`)).toHaveLength(1)
  })

  it('CUS-3: a key that cannot be one is refused', async () => {
    for (const key of ['x'.repeat(256), '"open', 'a\u00e9b']) {
      const response = await api.fetch('/v1/videos', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': key },
        body: JSON.stringify({ model: 'seedance-2.0-933', prompt: 'a', seconds: 5, size: '1280x720' }),
      })
      expect(response.status).toBe(400)
      expect(await response.json()).toMatchObject({ error: { param: 'Idempotency-Key' } })
    }
  })
})

describe('repeats of the SDK’s own', () => {
  it('CUS-4: an answer that was lost on the way is given again, and makes no second video', async () => {
    let lost = 0
    const client = api.client({
      maxRetries: 2,
      fetch: async (url, init) => {
        const response = await fetch(url, init)
        if (init?.method?.toLowerCase() === 'post' && lost++ === 0)
          throw new TypeError('the connection broke')
        return response
      },
    })
    const prompt = 'only once'
    const made = await client.videos.create(video({ prompt }))
    expect(lost).toBe(2)
    const rows = await rowsOf<{ hex: string }>(
      api.system.db,
      `select replace(t.id::text, '-', '') as hex from task t join task_content c on c.task_id = t.id where c.content->>'prompt' = $1`,
      [prompt],
    )
    expect(rows.map((row) => `video_${row.hex}`)).toEqual([made.id])
  })

  it('CUS-4: the same request without a count is a new one', async () => {
    const first = await api.client().videos.create(video({ prompt: 'twice' }))
    const second = await api.client().videos.create(video({ prompt: 'twice' }))
    expect(second.id).not.toBe(first.id)
  })
})

describe('a client that hangs up', () => {
  it('CUS-5: does not stop the work: the image is made, kept and accounted for', async () => {
    const prompt = 'nobody waits for this'
    const hangUp = new AbortController()
    const asked = api
      .client()
      .images.generate({ ...image, prompt }, { signal: hangUp.signal })
      .catch((error) => error)
    const find = () =>
      rowsOf<{ id: string; state: string }>(
        api.system.db,
        `select t.id, t.state from task t join task_content c on c.task_id = t.id where c.content->>'prompt' = $1`,
        [prompt],
      )
    await until('the request runs', async () => (await find())[0])
    hangUp.abort()
    expect(await asked).toBeInstanceOf(OpenAI.APIUserAbortError)
    const ended = await until('it ends', async () =>
      (await find()).find((task) => task.state !== 'running' && task.state !== 'queued'),
    )
    expect(ended.state).toBe('succeeded')
    const kept = await rowsOf(
      api.system.db,
      `select u.result, o.asset_digest is not null as kept from usage_record u join task_output o on o.task_id = u.task_id where u.task_id = $1`,
      [ended.id],
    )
    expect(kept).toEqual([{ result: 'succeeded', kept: true }])
  })
})
