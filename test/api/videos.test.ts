/** Lists, deletions and downloads of videos. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rowsOf } from '../system/kit.ts'
import { type Api, startApi } from './kit.ts'

let api: Api

beforeAll(async () => {
  api = await startApi({ running: false })
})
afterAll(() => api.stop())

const create = (prompt: string) =>
  api.client().videos.create({ model: 'seedance-2.0-933', prompt, seconds: '5', size: '1280x720' } as never)

describe('the list', () => {
  it('CUS-1: pages through one’s own videos, both ways, also past one that is gone', async () => {
    const ids: string[] = []
    for (let n = 0; n < 5; n += 1) ids.push((await create(`number ${n}`)).id)
    await api
      .client({ apiKey: api.otherKey })
      .videos.create({ model: 'seedance-2.0-933', prompt: 'b', seconds: '5', size: '1280x720' } as never)
    const pages = async (order: 'asc' | 'desc') => {
      const seen: string[] = []
      for await (const video of api.client().videos.list({ limit: 2, order })) seen.push(video.id)
      return seen
    }
    expect(await pages('asc')).toEqual(ids)
    expect(await pages('desc')).toEqual([...ids].reverse())
    const first = await (await api.fetch('/v1/videos?limit=2')).json()
    expect(first).toMatchObject({ object: 'list', first_id: ids[4], last_id: ids[3], has_more: true })
    await api.system.db.query(
      `update task set state = 'cancelled', ended_at = now(), hidden_at = now() where id = '${ids[3]?.slice(6)}'`,
    )
    const next = await (await api.fetch(`/v1/videos?limit=9&after=${ids[3]}`)).json()
    expect(next).toMatchObject({ first_id: ids[2], last_id: ids[0], has_more: false })
  })

  it('CUS-3: refuses what is no page', async () => {
    for (const query of [
      'limit=-1',
      'limit=101',
      'limit=x',
      'limit=1.5',
      'order=up',
      'after=x',
      'after=video_',
      'limit=1&limit=2',
      'after=%00',
    ]) {
      const response = await api.fetch(`/v1/videos?${query}`)
      expect(response.status, query).toBe(400)
      expect(await response.json()).toMatchObject({
        error: { code: 'invalid_request', param: query.split('=')[0] },
      })
    }
  })
})

describe('DELETE', () => {
  it('CUS-3: cancels what is queued; then the video shows as failed with code cancelled, and a second DELETE removes it', async () => {
    const { id } = await create('not after all')
    const client = api.client()
    expect(await client.videos.delete(id)).toEqual({ id, object: 'video.deleted', deleted: true })
    expect(await client.videos.retrieve(id)).toMatchObject({
      status: 'failed',
      error: { code: 'cancelled' },
      completed_at: null,
    })
    await client.videos.delete(id)
    await expect(client.videos.retrieve(id)).rejects.toMatchObject({ status: 404 })
    const kept = await rowsOf(api.system.db, 'select state from task where id = $1::uuid', [id.slice(6)])
    expect(kept).toEqual([{ state: 'cancelled' }])
  })
})

describe('content', () => {
  const bytes = Buffer.from(Array.from({ length: 1000 }, (_, n) => n % 251))
  let id: string

  beforeAll(async () => {
    id = (await create('finished')).id
    const { digest } = await api.system.assets.put(bytes, {
      contentType: 'video/mp4',
      expiresAt: (Date.now() + 3_600_000) * 1000,
      maxBytes: 5000,
    })
    const uuid = id.slice(6)
    await api.system.db.query(`update task set state = 'succeeded', ended_at = now() where id = '${uuid}';
      insert into task_output (task_id, place, asset_digest, content_type, bytes) values ('${uuid}', 0, '${digest}', 'video/mp4', 1000)`)
  })

  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    api.fetch(`/v1/videos/${id}/content`, { headers, method })

  it('CUS-3: whole, with its length, type, tag and name', async () => {
    const response = await get()
    expect(response.status).toBe(200)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-length': '1000',
      'content-type': 'video/mp4',
      'accept-ranges': 'bytes',
      etag: expect.stringMatching(/^"[0-9a-f]{64}"$/),
      'content-disposition': `inline; filename="${id}.mp4"`,
    })
    expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes)
  })

  it.each([
    ['bytes=0-0', 0, 0],
    ['bytes=100-199', 100, 199],
    ['bytes=990-', 990, 999],
    ['bytes=-10', 990, 999],
    ['bytes=-5000', 0, 999],
    ['bytes=10-99999', 10, 999],
  ])('CUS-3: one range, %s, is 206', async (range, start, end) => {
    const response = await get({ range })
    expect(response.status).toBe(206)
    expect(response.headers.get('content-range')).toBe(`bytes ${start}-${end}/1000`)
    expect(Buffer.from(await response.arrayBuffer())).toEqual(bytes.subarray(start, end + 1))
  })

  it.each(['bytes=1000-', 'bytes=5000-6000', 'bytes=-0'])(
    'CUS-3: a range outside, %s, is 416',
    async (range) => {
      const response = await get({ range })
      expect(response.status).toBe(416)
      expect(response.headers.get('content-range')).toBe('bytes */1000')
      expect(await response.json()).toMatchObject({ error: { code: 'range_not_satisfiable' } })
    },
  )

  it.each(['bytes=a-b', 'items=0-1', 'bytes=5-1', 'bytes=0-1,5-6', 'bytes=-'])(
    'CUS-3: what is no single range, %s, gets all',
    async (range) => {
      const response = await get({ range })
      expect(response.status).toBe(200)
      expect((await response.arrayBuffer()).byteLength).toBe(1000)
    },
  )

  it('CUS-3: If-Range with another tag gets all', async () => {
    const etag = (await get({}, 'HEAD')).headers.get('etag') ?? ''
    expect((await get({ range: 'bytes=0-1', 'if-range': '"other"' })).status).toBe(200)
    expect((await get({ range: 'bytes=0-1', 'if-range': etag })).status).toBe(206)
  })

  it('CUS-3: HEAD says the same without the content', async () => {
    const response = await get({}, 'HEAD')
    expect(response.status).toBe(200)
    expect(response.headers.get('content-length')).toBe('1000')
    expect((await response.arrayBuffer()).byteLength).toBe(0)
  })

  it('CUS-3: only the variant video is made', async () => {
    expect((await api.fetch(`/v1/videos/${id}/content?variant=video`)).status).toBe(200)
    const response = await api.fetch(`/v1/videos/${id}/content?variant=thumbnail`)
    expect(response.status).toBe(400)
    expect(await response.json()).toMatchObject({ error: { param: 'variant' } })
  })

  it('CUS-3: a result that is no longer kept is 404 with its own code', async () => {
    await api.system.db.query(`update asset set expires_at = now() - interval '1 second'`)
    const response = await get()
    expect(response.status).toBe(404)
    expect(await response.json()).toMatchObject({ error: { code: 'result_expired' } })
  })
})
