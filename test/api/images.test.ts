/** What an image's answer holds when not all went well, and links that end. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { LinkSigner } from '../../src/api/public/links.ts'
import { uuidOfHex } from '../../src/api/public/task-id.ts'
import type { IncomingRequest } from '../../src/runtime/service.ts'
import { rowsOf } from '../system/kit.ts'
import { type Api, dispatchingThat, LINK_KEY, PNG, startApi } from './kit.ts'

let api: Api
let asked: IncomingRequest | undefined

beforeAll(async () => {
  api = await startApi({
    running: false,
    public: { dispatching: dispatchingThat({ runImage: partialBatch }) },
  })
})
afterAll(() => api.stop())

/** Runtime's work by hand: three places, of which the second failed, on a degraded supply. */
async function partialBatch(request: IncomingRequest) {
  asked = request
  const { digest } = await api.system.assets.put(PNG, {
    contentType: 'image/png',
    expiresAt: (Date.now() + 3_600_000) * 1000,
    maxBytes: 1000,
  })
  const [row] = await rowsOf<{ id: string }>(
    api.system.db,
    `insert into task (kind, customer_id, api_key_id, model_id, release_id, state, lane, facts, ended_at, degraded)
      select 'image', 'acme', $1, model_id, id, 'succeeded', 'l', $2, clock_timestamp(), $3 from release where model_id = 'seedream-4.0'
      returning id`,
    [
      request.caller.keyId,
      JSON.stringify({ media: 'image', size: '1024x1024', quality: null, count: 3, inputs: {} }),
      JSON.stringify({ requested_profile: '4k', actual_profile: '2k', dropped_inputs: [] }),
    ],
  )
  const taskId = row?.id ?? ''
  await rowsOf(
    api.system.db,
    `insert into task_output (task_id, place, asset_digest, content_type, bytes, error) values
      ($1, 0, $2, 'image/png', 70, null), ($1, 1, null, null, null, '{"code": "content_refused", "message": "upstream words"}'),
      ($1, 2, $2, 'image/png', 70, null)`,
    [taskId, digest],
  )
  return { kind: 'finished', taskId, repeated: false } as const
}

it('CUS-3: a batch that succeeds in part gives what there is, and names the others in our words', async () => {
  const made = await api
    .client()
    .images.generate({ model: 'seedream-4.0', prompt: 'p', n: 3, quality: 'auto', size: 'auto' })
  expect(made).toMatchObject({
    data: [{ b64_json: PNG.toString('base64') }, { b64_json: PNG.toString('base64') }],
    failed: [{ index: 1, code: 'content_refused', message: expect.stringContaining('content review') }],
    output_format: 'png',
    size: '1024x1024',
    degraded: true,
    requested_profile: '4k',
    actual_profile: '2k',
    dropped_inputs: [],
  })
  expect(JSON.stringify(made)).not.toContain('upstream words')
  expect(asked?.facts).toMatchObject({ count: 3, quality: null, size: '2048x2048' })
})

it('CUS-5: a signed link ends with its time, and is good for that image alone', async () => {
  const made = await api
    .client()
    .images.generate({ model: 'seedream-4.0', prompt: 'p', response_format: 'url' })
  const [first = { url: '' }] = made.data ?? []
  const link = new URL(first.url ?? '')
  const fetched = await fetch(link)
  expect(Buffer.from(await fetched.arrayBuffer())).toEqual(PNG)
  const expires = Number(link.searchParams.get('expires'))
  for (const forged of [
    link.href.replace('/0?', '/2?'),
    link.href.replace(`expires=${expires}`, `expires=${expires + 3600}`),
    link.href.replace(/&signature=.*/, ''),
    link.href.replace(/expires=\d+/, 'expires=x'),
  ]) {
    const refused = await fetch(forged)
    expect(refused.status, forged).toBe(403)
    expect(await refused.json()).toMatchObject({ error: { code: 'link_refused' } })
  }
  const [, task = ''] = /assets\/([0-9a-f]+)\//.exec(link.pathname) ?? []
  const past = { taskId: uuidOfHex(task), place: 0, expires: Math.floor(Date.now() / 1000) - 1 }
  const late = await fetch(api.url + new LinkSigner(LINK_KEY).path(past))
  expect(late.status).toBe(403)
  expect(((await late.json()) as { error: { message: string } }).error.message).toContain('expired')
})
