/** Health, metrics, the API's own description, and the admin API. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ADMIN_TOKEN, type Api, startApi } from './kit.ts'

let api: Api
let draining = false
let migrated = true

beforeAll(async () => {
  api = await startApi({
    running: false,
    operation: { draining: () => draining, migrated: async () => migrated },
    admin: { explainTask: async (id) => (id.startsWith('0') ? { task: { id }, steps: [] } : undefined) },
  })
})
afterAll(() => api.stop())

describe('health', () => {
  it('/livez asks nobody; /readyz asks database, migrations and whether we are leaving', async () => {
    expect(await (await api.fetch('/livez', { key: null })).json()).toEqual({ status: 'ok' })
    expect((await api.fetch('/readyz', { key: null })).status).toBe(200)
    draining = true
    const leaving = await api.fetch('/readyz', { key: null })
    expect(leaving.status).toBe(503)
    expect(await leaving.json()).toEqual({
      status: 'not_ready',
      checks: { database: 'ok', migrations: 'ok', draining: 'failed' },
    })
    draining = false
    migrated = false
    expect((await api.fetch('/readyz', { key: null })).status).toBe(503)
    migrated = true
  })

  it('/metrics counts requests by route and status, never by path', async () => {
    await api.fetch('/v1/videos/video_123')
    const response = await api.fetch('/metrics', { key: null })
    expect(response.status).toBe(200)
    const text = await response.text()
    expect(text).toContain(
      'yardmaster_http_request_duration_seconds_count{method="GET",route="/v1/videos/:id",status="404"} 1',
    )
    expect(text).not.toContain('video_123')
  })

  it('without its database it is alive, and not ready', async () => {
    const alone = await startApi({
      running: false,
      operation: { sql: { query: () => Promise.reject(new Error('no database')) } },
    })
    expect((await alone.fetch('/livez')).status).toBe(200)
    const response = await alone.fetch('/readyz')
    expect(response.status).toBe(503)
    expect(await response.json()).toMatchObject({ checks: { database: 'failed', migrations: 'failed' } })
    await alone.stop()
  })
})

describe('/openapi.json', () => {
  it('is OpenAPI 3.1 with every public route, and no schema that nothing refers to', async () => {
    const response = await api.fetch('/openapi.json', { key: null })
    const text = await response.text()
    const document = JSON.parse(text)
    expect(document.openapi).toMatch(/^3\.1/)
    expect(Object.keys(document.paths).sort()).toEqual([
      '/livez',
      '/metrics',
      '/readyz',
      '/v1/assets/{task}/{place}',
      '/v1/images/generations',
      '/v1/models',
      '/v1/models/{model}',
      '/v1/videos',
      '/v1/videos/{id}',
      '/v1/videos/{id}/content',
    ])
    const { post } = document.paths['/v1/videos']
    expect(Object.keys(post.requestBody.content)).toEqual(['application/json', 'multipart/form-data'])
    expect(post.responses['4XX'].content['application/json'].schema.$ref).toBe('#/components/schemas/Error')
    for (const name of Object.keys(document.components.schemas)) {
      expect(name).not.toMatch(/Input$/)
      expect(text).toContain(`"#/components/schemas/${name}"`)
    }
    const fields = Object.keys(document.components.schemas.CreateVideo.properties)
    for (const name of [
      'prompt',
      'seconds',
      'size',
      'first_frame',
      'billing_mode',
      'degradation',
      'metadata',
    ])
      expect(fields).toContain(name)
  })
})

describe('the admin API', () => {
  const admin = (path: string, init: RequestInit & { key?: string | null } = {}) =>
    api.fetch(`/admin/api${path}`, { key: ADMIN_TOKEN, ...init })

  const rows = async (path: string) => (await (await admin(path)).json()) as { data: { id: string }[] }

  it('takes its own token only, and answers RFC 9457 problems', async () => {
    for (const key of [null, api.key, `${ADMIN_TOKEN}x`]) {
      const response = await admin('/tasks', { key })
      expect(response.status).toBe(401)
      expect(response.headers.get('content-type')).toContain('application/problem+json')
      expect(response.headers.get('www-authenticate')).toContain('Bearer')
      expect(await response.json()).toMatchObject({
        type: 'urn:yardmaster:problem:invalid_api_key',
        title: 'Unauthorized',
        status: 401,
        detail: expect.any(String),
        instance: '/admin/api/tasks',
        request_id: response.headers.get('x-request-id'),
      })
    }
    expect((await admin('/nothing')).status).toBe(404)
    expect((await admin('/tasks?limit=x')).status).toBe(400)
    expect((await admin('/tasks/nonsense')).status).toBe(400)
  })

  it('lists tasks of all customers, explains one, and cancels one', async () => {
    const { id } = await api
      .client()
      .videos.create({ model: 'seedance-2.0-933', prompt: 'a', seconds: '5', size: '1280x720' } as never)
    const listed = await rows('/tasks?state=queued&customer=acme')
    expect(listed.data).toEqual([
      expect.objectContaining({
        customer_id: 'acme',
        state: 'queued',
        kind: 'video',
        created_at: expect.stringMatching(/Z$/),
      }),
    ])
    expect(JSON.stringify(listed)).not.toContain('prompt')
    expect(await (await admin(`/tasks/${id}`)).json()).toMatchObject({ task: { id: listed.data[0]?.id } })
    expect((await admin(`/tasks/${'f'.repeat(32)}`)).status).toBe(404)
    expect(await (await admin(`/tasks/${id}/cancel`, { method: 'POST' })).json()).toEqual({ cancelled: true })
    expect((await admin(`/tasks/${id}/cancel`, { method: 'POST' })).status).toBe(409)
  })

  it('shows channels, supplies and models with health and leases, without a secret', async () => {
    const channels = await rows('/channels')
    expect(channels.data[0]).toMatchObject({ id: 'ark-north', health: 'healthy', concurrency: 12, in_use: 0 })
    const supplies = await rows('/supplies')
    expect(supplies.data.map((supply) => supply.id)).toContain('seedance-south')
    const models = await rows('/models')
    expect(models.data[1]).toMatchObject({
      id: 'seedance-2.0-933',
      published: true,
      bindings: expect.arrayContaining([
        expect.objectContaining({ tier: 'exact', supply_health: 'healthy' }),
      ]),
    })
    expect(JSON.stringify([channels, supplies, models])).not.toContain('sk-simulated-secret')
    expect(await (await admin('/alerts')).json()).toEqual({ data: [] })
  })
})
