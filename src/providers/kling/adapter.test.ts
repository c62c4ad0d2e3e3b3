/** The Kling adapter on recorded shapes, over real HTTP: what it sends, and what it makes of every answer. */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import {
  type Scripted,
  type ScriptedServer,
  type Seen,
  scriptedServer,
} from '../../../test/conformance/scripted-server.ts'
import type { Account, OutboundInput, Submission, VideoOrder } from '../adapter.ts'
import { createCaller } from '../call.ts'
import { createKlingAdapter } from './adapter.ts'
import { KLING_FAULTS } from './faults.ts'

const caller = createCaller()
const kling = createKlingAdapter(caller)
afterAll(() => caller.close())

const open: ScriptedServer[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

async function serve(answer: (seen: Seen) => Scripted): Promise<ScriptedServer> {
  const server = await scriptedServer(answer)
  open.push(server)
  return server
}

const account = (server: ScriptedServer, options: Account['options'] = {}): Account => ({
  channelId: 'c1',
  baseUrl: server.url,
  credential: 'kling-key-0001',
  options,
})
const VIDEO: VideoOrder = {
  media: 'video',
  prompt: 'a lighthouse',
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: true,
  inputs: {},
}
const submission = (
  order: VideoOrder,
  given: Partial<Submission<VideoOrder>> = {},
): Submission<VideoOrder> => ({
  attemptId: 'attempt-1',
  upstreamModel: 'kling-3.0',
  order,
  callbackUrl: null,
  timeoutMs: 10_000,
  mayStillSend: () => true,
  ...given,
})
const LIMITS = { timeoutMs: 5_000 }
const link = (url: string): OutboundInput => ({ kind: 'url', url })
const picture = (bytes: number): OutboundInput => ({
  kind: 'bytes',
  bytes: new Uint8Array(bytes).fill(1),
  contentType: 'image/png',
  filename: 'a.png',
})
const json = (status: number, body: object): Scripted => ({ status, body })
const ACCEPTED = {
  code: 0,
  message: 'SUCCEED',
  request_id: 'req-1',
  data: {
    id: '893605946402811985',
    status: 'submitted',
    create_time: 1781080778802,
    external_id: 'attempt-1',
  },
}
const task = (more: object) => json(200, { code: 0, data: [{ id: 't1', ...more }] })

async function sent(
  order: VideoOrder,
  given: Partial<Submission<VideoOrder>> = {},
  options: Account['options'] = {},
) {
  const seen: Seen[] = []
  const server = await serve((one) => {
    seen.push(one)
    return json(200, ACCEPTED)
  })
  const reply = await kling.submitVideo?.(account(server, options), submission(order, given))
  const [first] = seen
  return {
    reply,
    path: first?.path,
    headers: first?.headers,
    body: JSON.parse(String(first?.body ?? 'null')),
  }
}

describe('what is sent', () => {
  it('a text alone, with the attempt’s ID as Kling’s client ID', async () => {
    const { reply, path, headers, body } = await sent(VIDEO, {
      callbackUrl: 'https://yard.example/callbacks/a/b',
    })
    expect(reply).toEqual({ kind: 'accepted', providerTaskId: '893605946402811985', requestId: 'req-1' })
    expect(path).toBe('/text-to-video/kling-3.0')
    expect(headers).toMatchObject({
      authorization: 'Bearer kling-key-0001',
      'x-client-request-id': 'attempt-1',
    })
    expect(body).toEqual({
      contents: [{ type: 'prompt', text: 'a lighthouse' }],
      settings: { resolution: '720p', duration: 5, aspect_ratio: '16:9', sound: 'on' },
      options: {
        external_task_id: 'attempt-1',
        watermark_info: { enabled: false },
        callback_url: 'https://yard.example/callbacks/a/b',
      },
    })
  })

  it('frames: a link as it is, bytes as bare base64', async () => {
    const inputs = { first_frame: [link('https://x.example/a.png')], last_frame: [picture(3)] }
    const { path, body } = await sent({ ...VIDEO, inputs })
    expect(path).toBe('/image-to-video/kling-3.0')
    expect(body.contents.slice(1)).toEqual([
      { type: 'first_frame', url: 'https://x.example/a.png' },
      { type: 'last_frame', url: 'AQEB' },
    ])
  })

  it('references to an omni model', async () => {
    const inputs = { reference_images: [link('https://x.example/1'), link('https://x.example/2')] }
    const { path, body } = await sent({ ...VIDEO, inputs }, { upstreamModel: 'kling-3.0-omni' })
    expect(path).toBe('/omni-video/kling-3.0-omni')
    expect(body.contents.slice(1)).toEqual([
      { type: 'reference_image', url: 'https://x.example/1' },
      { type: 'reference_image', url: 'https://x.example/2' },
    ])
  })

  it('a channel’s own settings', async () => {
    const options = { omit: ['sound'], extra_settings: { mode: 'pro' }, watermark: true }
    const { body } = await sent(VIDEO, {}, options)
    expect(body.settings).toEqual({ resolution: '720p', duration: 5, aspect_ratio: '16:9', mode: 'pro' })
    expect(body.options.watermark_info).toEqual({ enabled: true })
  })

  it.each([
    [
      'reference_images to a model that takes none',
      { inputs: { reference_images: [link('https://x.example/1')] } },
      'order_unsupported',
    ],
    ['a prompt of 2,501 characters', { prompt: 'x'.repeat(2501) }, 'order_unsupported'],
    [
      'an image of more than 10 MB',
      { inputs: { first_frame: [picture(10 * 1024 * 1024 + 1)] } },
      'input_too_large',
    ],
  ])('nothing, of %s: another supply may serve it', async (_, more, code) => {
    const { reply, path } = await sent({ ...VIDEO, ...more })
    expect(path).toBeUndefined()
    expect(reply).toMatchObject({
      kind: 'fault',
      fault: { code, category: 'supply', retryable: true, certainty: 'not_sent', impact: 'none' },
    })
  })
})

describe('what an answer means', () => {
  it.each([
    [429, 1101, 'supply', 'channel', 'balance_exhausted', 'persistent_failure'],
    [429, 1102, 'supply', 'channel', 'quota_exhausted', 'persistent_failure'],
    [429, 1100, 'supply', 'channel', 'access_refused', 'persistent_failure'],
    [429, 1304, 'supply', 'channel', 'access_refused', 'persistent_failure'],
    [429, 1302, 'capacity', 'channel', 'rate_limited', 'capacity'],
    [429, 1303, 'capacity', 'supply', 'concurrency_full', 'capacity'],
    [401, 1004, 'supply', 'channel', 'key_refused', 'persistent_failure'],
    [403, 1103, 'supply', 'supply', 'model_not_open', 'persistent_failure'],
    [400, 1201, 'request', 'request', 'invalid_request', 'none'],
    [404, 1203, 'supply', 'supply', 'model_missing', 'failure'],
    [400, 1300, 'content', 'request', 'content_refused', 'none'],
    [400, 1301, 'content', 'request', 'content_refused', 'none'],
  ])(
    'ERR-1, HLT-2: %d with code %d is %s of the %s: money trouble is no rate limit',
    async (status, code, category, scope, named, impact) => {
      const server = await serve(() => json(status, { code, message: 'said so', request_id: 'r' }))
      expect(await kling.submitVideo?.(account(server), submission(VIDEO))).toMatchObject({
        kind: 'fault',
        fault: { category, scope, code: named, impact, certainty: 'rejected', providerCode: String(code) },
      })
    },
  )

  it.each([
    ['500 in its own words', json(500, { code: 5000, message: 'internal', request_id: 'r' })],
    ['503 in its own words', json(503, { code: 5001, message: 'maintenance', request_id: 'r' })],
    ['a 2xx without an ID', json(200, { code: 0, data: {} })],
    ['a 2xx with an error code', json(200, { code: 1301, message: 'content' })],
    ['a 2xx with an ID and an error code', json(200, { code: 5000, data: { id: '1' } })],
    ['no JSON', { status: 200, body: '<html>' }],
  ])('UNK-7: %s is unknown', async (_, answer) => {
    const server = await serve(() => answer)
    expect(await kling.submitVideo?.(account(server), submission(VIDEO))).toMatchObject({
      kind: 'fault',
      fault: { category: 'unknown', certainty: 'unknown', retryable: false },
    })
  })

  it('UNK-7: a 5xx that the channel declares to mean “not accepted” is a refusal', async () => {
    const server = await serve(() => json(503, { code: 5001, message: 'maintenance' }))
    const at = account(server, { refusals_5xx: ['5001'] })
    expect(await kling.submitVideo?.(at, submission(VIDEO))).toMatchObject({
      fault: { category: 'supply', code: 'upstream_error', certainty: 'rejected', retryable: true },
    })
  })

  it.each([
    ['Failed by content security policy', 'content', 'content_refused'],
    ['触发内容安全风控', 'content', 'content_refused'],
    ['The image contains a real person', 'content', 'real_person_refused'],
    ['Failed to download the image', 'request', 'input_unreadable'],
    ['Internal error, please try again later', 'supply', 'upstream_error'],
    ['Task timed out', 'supply', 'upstream_timeout'],
    ['', 'unknown', 'generation_failed'],
    ['something nobody has seen', 'unknown', 'generation_failed'],
  ])(
    'ERR-1: a task that failed with “%s” is %s: what is not understood is nobody’s content',
    async (message, category, code) => {
      const server = await serve(() => task({ status: 'failed', message }))
      expect(await kling.poll?.(account(server), 't1', LIMITS)).toMatchObject({
        kind: 'failed',
        fault: { category, code, certainty: 'rejected' },
        billed: null,
      })
    },
  )

  it.each([
    ['submitted', { kind: 'running', phase: 'queued' }],
    ['processing', { kind: 'running', phase: 'running' }],
    ['reviewing', { kind: 'unknown_status', status: 'reviewing' }],
    ['succeeded', { kind: 'unknown_status', status: 'succeeded, without a video URL' }],
  ])('a task that is %s', async (status, expected) => {
    const server = await serve(() => task({ status }))
    expect(await kling.poll?.(account(server), 't1', LIMITS)).toMatchObject(expected)
  })

  it.each(['succeeded', 'succeed'])(
    'COST-7: a task that has %s, with what Kling says of its price',
    async (status) => {
      const billing = [{ charge_type: 'cash', amount: '3.0', currency: 'CNY', list_price: '4.0' }]
      const outputs = [{ type: 'video', id: 'o', url: 'https://cdn.example/v.mp4', duration: '5.1' }]
      const server = await serve(() => task({ status, outputs, billing }))
      expect(await kling.poll?.(account(server), 't1', LIMITS)).toEqual({
        kind: 'succeeded',
        video: {
          location: 'https://cdn.example/v.mp4',
          reported: { duration: '5.1', charge_type: 'cash', amount: '3.0', currency: 'CNY' },
        },
      })
    },
  )

  it.each([
    ['an empty list', json(200, { code: 0, data: [] })],
    ['somebody else’s task', json(200, { code: 0, data: [{ id: 'other', status: 'succeeded' }] })],
    ['1203', json(404, { code: 1203, message: 'not found' })],
  ])('a query answered by %s finds no task', async (_, answer) => {
    const server = await serve(() => answer)
    expect(await kling.poll?.(account(server), 't1', LIMITS)).toEqual({ kind: 'not_found' })
  })

  it('every row of the table is met by something', () => {
    const codes = KLING_FAULTS.flatMap((row) => row.code ?? [])
    const documented = [
      1000, 1001, 1002, 1003, 1004, 1100, 1101, 1102, 1103, 1200, 1201, 1202, 1203, 1300, 1301, 1302, 1303,
      1304, 5000, 5001, 5002,
    ]
    expect(new Set(codes)).toEqual(new Set(documented.map(String)))
  })
})

describe('lookup', () => {
  const lost = { attemptId: 'attempt-1', from: 1781080700000, until: 1781080800000 }

  it('UNK-9: by client ID', async () => {
    const paths: string[] = []
    const server = await serve((seen) => {
      paths.push(seen.path)
      return json(200, {
        code: 0,
        data: [{ id: 't9', status: 'submitted', create_time: 1781080778802, external_id: 'attempt-1' }],
      })
    })
    const reply = await kling.lookup?.byClientId?.(account(server), lost, LIMITS)
    expect(paths).toEqual(['/tasks?external_task_ids=attempt-1'])
    expect(reply).toMatchObject({
      kind: 'jobs',
      complete: true,
      jobs: [{ providerTaskId: 't9', clientId: 'attempt-1', createdAtMs: 1781080778802 }],
    })
  })

  it('UNK-9: by time, page after page', async () => {
    const asked: Record<string, unknown>[] = []
    const server = await serve((seen) => {
      asked.push(JSON.parse(String(seen.body)))
      const first = asked.length === 1
      return json(200, {
        code: 0,
        data: { result: [{ id: first ? 'a' : 'b' }], next_cursor: first ? 'c2' : '' },
      })
    })
    const reply = await kling.lookup?.byTime?.(account(server), lost, LIMITS)
    expect(reply).toMatchObject({
      kind: 'jobs',
      complete: true,
      jobs: [{ providerTaskId: 'a' }, { providerTaskId: 'b' }],
    })
    expect(asked).toEqual([
      { start_time: lost.from - 120_000, end_time: lost.until + 120_000, limit: 500 },
      { start_time: lost.from - 120_000, end_time: lost.until + 120_000, limit: 500, cursor: 'c2' },
    ])
  })

  it('UNK-9: a list without an end is not complete', async () => {
    const server = await serve(() => json(200, { code: 0, data: { result: [], next_cursor: 'more' } }))
    expect(await kling.lookup?.byTime?.(account(server), lost, LIMITS)).toMatchObject({
      kind: 'jobs',
      complete: false,
    })
  })

  it.each([json(500, { code: 5000 }), { status: 200, body: 'no JSON' }, json(200, { code: 1302 })])(
    'UNK-9: %j is no answer',
    async (answer) => {
      const server = await serve(() => answer)
      for (const look of [kling.lookup?.byClientId, kling.lookup?.byTime])
        expect(await look?.(account(server), lost, LIMITS)).toMatchObject({ kind: 'no_answer' })
    },
  )

  it('UNK-9: of a callback only the ID is read', () => {
    const body = (value: unknown) => Buffer.from(JSON.stringify(value))
    expect(kling.taskIdInCallback?.(body({ id: '12', status: 'succeeded' }))).toBe('12')
    expect(kling.taskIdInCallback?.(body({ id: 12 }))).toBeNull()
    expect(kling.taskIdInCallback?.(body([]))).toBeNull()
    expect(kling.taskIdInCallback?.(Buffer.from([0xff]))).toBeNull()
  })
})
