/** The operator's routes for alerts and their endpoints. */
import { afterEach, describe, expect, it } from 'vitest'
import { raiseAlerts } from '../../src/store/alerts.ts'
import { ADMIN_TOKEN, type Api, startApi } from '../api/kit.ts'

let api: Api
afterEach(() => api?.stop())

function admin(method: string, path: string, body?: object): Promise<Response> {
  return fetch(`${api.url}/admin/api${path}`, {
    method,
    headers: {
      authorization: `Bearer ${ADMIN_TOKEN}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

const HOOK = { id: 'ops', kind: 'webhook', url: 'http://127.0.0.1:9/hook/very-secret-token' }

describe('alert endpoints', () => {
  it('are added with a secret that is shown once, listed without it, tried, switched and removed', async () => {
    api = await startApi({ running: false })
    const added = await admin('POST', '/alert-endpoints', HOOK)
    expect(added.status).toBe(201)
    const { secret } = (await added.json()) as { secret: string }
    expect(secret).toMatch(/^whsec_/)
    expect((await admin('POST', '/alert-endpoints', HOOK)).status).toBe(409)
    const list = await (await admin('GET', '/alert-endpoints')).text()
    expect(JSON.parse(list).data).toMatchObject([
      { id: 'ops', host: '127.0.0.1:9', enabled: true, min_severity: 'warning' },
    ])
    expect(list).not.toContain('very-secret-token')
    expect(list).not.toContain(secret)
    const tried = await (await admin('POST', '/alert-endpoints/ops/test')).text()
    expect(JSON.parse(tried)).toMatchObject({ delivered: false })
    expect(tried).not.toContain('very-secret-token')
    const moved = await admin('PUT', '/alert-endpoints/ops/address', { url: 'http://127.0.0.1:10/x' })
    expect(((await moved.json()) as { secret: string }).secret).not.toBe(secret)
    expect(await (await admin('POST', '/alert-endpoints/ops/disable')).json()).toEqual({ enabled: false })
    expect(await (await admin('GET', '/alert-endpoints')).text()).toContain('by an operator')
    await raiseAlerts(api.system.db, [
      { fingerprint: 'f', code: 'unknown_status', severity: 'warning', message: 'm', subject: {} },
    ])
    expect(await (await admin('GET', '/alert-endpoints/ops/deliveries')).json()).toEqual({ data: [] })
    expect(await (await admin('POST', '/alert-endpoints/ops/enable')).json()).toEqual({ enabled: true })
    expect(await (await admin('DELETE', '/alert-endpoints/ops')).json()).toEqual({ removed: true })
    expect((await admin('DELETE', '/alert-endpoints/ops')).status).toBe(404)
  })

  it.each([
    [{ ...HOOK, url: 'ftp://x.example' }, 'url', 'must be an absolute http or https address'],
    [{ ...HOOK, url: 'https://user:pass@x.example/' }, 'url', 'must not carry a user name or password'],
    [{ ...HOOK, secret: 'short' }, 'secret', 'must be whsec_ and 24 to 64 bytes in base64'],
    [{ ...HOOK, kind: 'slack', secret: 'x' }, 'secret', 'is not used by slack'],
  ])('%j: what is wrong, where, and what would be right', async (body, param, why) => {
    api = await startApi({ running: false })
    const answer = await admin('POST', '/alert-endpoints', body)
    expect(answer.status).toBe(400)
    expect(await answer.json()).toMatchObject({ param, detail: expect.stringContaining(why) })
  })

  it.each([
    { ...HOOK, id: 'Not An ID' },
    { ...HOOK, kind: 'pager' },
    { ...HOOK, min_severity: 'loud' },
    { ...HOOK, more: 1 },
    {},
  ])('%j is refused', async (body) => {
    api = await startApi({ running: false })
    expect((await admin('POST', '/alert-endpoints', body)).status).toBe(400)
  })
})

describe('alerts', () => {
  it('are acknowledged by somebody, once, and stay open', async () => {
    api = await startApi({ running: false })
    const alert = {
      fingerprint: 'f',
      code: 'unknown_status',
      severity: 'warning',
      message: 'm',
      subject: {},
    } as const
    await raiseAlerts(api.system.db, [alert])
    const read = async () =>
      (
        (await (await admin('GET', '/alerts')).json()) as {
          data: { id: string; acknowledged_by: string | null }[]
        }
      ).data[0]
    const id = (await read())?.id
    expect((await admin('POST', `/alerts/${id}/acknowledge`, {})).status).toBe(400)
    expect((await admin('POST', `/alerts/${id}/acknowledge`, { by: 'ann' })).status).toBe(200)
    expect((await admin('POST', `/alerts/${id}/acknowledge`, { by: 'bob' })).status).toBe(200)
    expect(await read()).toMatchObject({ acknowledged_by: 'ann', resolved_at: null })
    const nobody = '00000000-0000-0000-0000-000000000000'
    expect((await admin('POST', `/alerts/${nobody}/acknowledge`, { by: 'ann' })).status).toBe(404)
  })
})
