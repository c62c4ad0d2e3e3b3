/** The OpenAI-compatible adapter on the shapes of OpenAI and of the gateways that speak its dialect, over real HTTP. */
import { readFileSync } from 'node:fs'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import {
  type Scripted,
  type ScriptedServer,
  type Seen,
  scriptedServer,
} from '../../../test/conformance/scripted-server.ts'
import type { Fault } from '../../core/outcome.ts'
import type { Account, ImageOrder, OutboundInput, Submission, VideoOrder } from '../adapter.ts'
import { createCaller } from '../call.ts'
import { createOpenAiAdapter } from './adapter.ts'
import { OPENAI_FAULTS } from './faults.ts'
import { sizeOf } from './size.ts'

const caller = createCaller()
const openai = createOpenAiAdapter(caller)
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
  baseUrl: `${server.url}/v1`,
  credential: 'sk-key-0001',
  options,
})
const VIDEO: VideoOrder = {
  media: 'video',
  prompt: 'a lighthouse',
  durationSeconds: 4,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: true,
  inputs: {},
}
const IMAGE: ImageOrder = {
  media: 'image',
  prompt: 'a lighthouse',
  size: '1024x1024',
  quality: 'low',
  count: 1,
  inputs: {},
}
const submission = <Order>(order: Order, given: Partial<Submission<Order>> = {}): Submission<Order> => ({
  attemptId: 'attempt-1',
  upstreamModel: 'sora-2',
  order,
  callbackUrl: 'https://ym.test/callbacks/x',
  timeoutMs: 10_000,
  mayStillSend: () => true,
  ...given,
})
const LIMITS = { timeoutMs: 5_000 }
const PICTURE: OutboundInput = {
  kind: 'bytes',
  bytes: Buffer.from('picture'),
  contentType: 'image/png',
  filename: 'first.png',
}
const link = (url: string): OutboundInput => ({ kind: 'url', url })
const formOf = ({ body, headers }: Seen) =>
  new Response(new Uint8Array(body), {
    headers: { 'content-type': String(headers['content-type']) },
  }).formData()

interface Fixture extends Scripted {
  readonly name: string
  readonly count?: number
  readonly options?: Account['options']
  readonly says: object
}
interface Row {
  readonly name: string
  readonly status: number
  readonly code: string
  readonly body: object
  readonly says: string
}
interface Said {
  readonly code?: string | null
  readonly type?: string | null
}
const fixture = (name: string) =>
  JSON.parse(readFileSync(new URL(`./fixtures/${name}.json`, import.meta.url), 'utf8'))
const verdict = ({ category, scope, retryable, impact, code }: Fault) =>
  `${category}/${scope} ${retryable ? 'retryable' : 'final'} ${impact} ${code}`

describe('creating a video', () => {
  it('UNK-10: is sent as the SDK sends it, with the attempt’s ID, and the gateway’s own retries off', async () => {
    const server = await serve(() => ({
      body: { id: 'video_1', status: 'queued' },
      headers: { 'x-request-id': 'r-1' },
    }))
    const order = submission({ ...VIDEO, inputs: { first_frame: [PICTURE] } })
    const said = await openai.submitVideo!(account(server), order)
    expect(said).toEqual({ kind: 'accepted', providerTaskId: 'video_1', requestId: 'r-1' })
    const request = server.seen[0]!
    expect(request).toMatchObject({
      method: 'POST',
      path: '/v1/videos',
      headers: {
        authorization: 'Bearer sk-key-0001',
        'x-client-request-id': 'attempt-1',
        'x-litellm-num-retries': '0',
      },
    })
    const form = await formOf(request)
    const file = form.get('input_reference')
    if (!(file instanceof File)) throw new Error('no file was sent')
    expect([file.name, file.type, await file.text()]).toEqual(['first.png', 'image/png', 'picture'])
    form.delete('input_reference')
    expect(Object.fromEntries(form)).toEqual({
      model: 'sora-2',
      prompt: 'a lighthouse',
      seconds: '4',
      size: '1280x720',
    })
  })

  it('takes a link as input_reference[image_url], and an older gateway’s task_id for an ID', async () => {
    const server = await serve(() => ({ body: { task_id: 'task_9' } }))
    const inputs = { first_frame: [link('https://a.test/a.png')] }
    const said = await openai.submitVideo!(account(server), submission({ ...VIDEO, inputs }))
    expect(said).toMatchObject({ kind: 'accepted', providerTaskId: 'task_9' })
    expect((await formOf(server.seen[0]!)).get('input_reference[image_url]')).toBe('https://a.test/a.png')
  })

  it('as JSON to a gateway that knows our fields: resolution and ratio beside the size, all inputs', async () => {
    const server = await serve(() => ({ body: { id: 'v' } }))
    const options = {
      request_format: 'json',
      extensions: true,
      extra_body: { metadata: { a: 1 } },
      omit: ['seconds'],
    }
    const inputs = {
      first_frame: [PICTURE],
      last_frame: [link('https://a.test/z.png')],
      reference_images: [link('https://a.test/1.png'), PICTURE],
    }
    await openai.submitVideo!(account(server, options), submission({ ...VIDEO, inputs }))
    expect(JSON.parse(String(server.seen[0]?.body))).toEqual({
      model: 'sora-2',
      prompt: 'a lighthouse',
      size: '1280x720',
      resolution: '720p',
      aspect_ratio: '16:9',
      generate_audio: true,
      metadata: { a: 1 },
      input_reference: { image_url: 'data:image/png;base64,cGljdHVyZQ==' },
      last_frame: 'https://a.test/z.png',
      reference_images: ['https://a.test/1.png', 'data:image/png;base64,cGljdHVyZQ=='],
    })
  })

  it('as a form to a gateway that knows our fields', async () => {
    const server = await serve(() => ({ body: { id: 'v' } }))
    const inputs = { reference_images: [link('https://a.test/1.png'), PICTURE], last_frame: [PICTURE] }
    const options = { extensions: true, extra_body: { metadata: { a: 1 } } }
    await openai.submitVideo!(account(server, options), submission({ ...VIDEO, inputs }))
    const form = await formOf(server.seen[0]!)
    expect(form.getAll('reference_images[]')).toEqual(['https://a.test/1.png', expect.any(File)])
    expect(form.get('last_frame')).toBeInstanceOf(File)
    expect([form.get('generate_audio'), form.get('metadata')]).toEqual(['true', '{"a":1}'])
  })

  it('a gateway that knows our fields needs no size: what gives none is sent without', async () => {
    const server = await serve(() => ({ body: { id: 'v' } }))
    const options = { extensions: true, request_format: 'json' }
    await openai.submitVideo!(account(server, options), submission({ ...VIDEO, resolution: 'cinema' }))
    const sent = JSON.parse(String(server.seen[0]?.body))
    expect(sent).toMatchObject({ resolution: 'cinema', aspect_ratio: '16:9' })
    expect(sent).not.toHaveProperty('size')
  })

  it('UNK-10: LiteLLM is told in the body too not to retry or fall back', async () => {
    const server = await serve(() => ({ body: { id: 'v' } }))
    await openai.submitVideo!(
      account(server, { gateway: 'litellm', request_format: 'json' }),
      submission(VIDEO),
    )
    expect(JSON.parse(String(server.seen[0]?.body))).toMatchObject({
      num_retries: 0,
      disable_fallbacks: true,
    })
  })

  it.each([
    [
      'inputs that the dialect has no name for',
      { inputs: { reference_videos: [link('https://a.test/1.mp4')] } },
      {},
    ],
    ['a kind that nobody knows', { inputs: { masks: [PICTURE] } }, { extensions: true }],
    ['a resolution that gives no size', { resolution: 'cinema' }, {}],
  ])('%s are not sent, and another supply may serve them', async (_, order, options) => {
    const server = await serve(() => ({ body: { id: 'v' } }))
    const said = await openai.submitVideo!(account(server, options), submission({ ...VIDEO, ...order }))
    expect(said).toMatchObject({
      fault: {
        category: 'supply',
        retryable: true,
        certainty: 'not_sent',
        impact: 'none',
        code: 'order_unsupported',
      },
    })
    expect(server.seen).toHaveLength(0)
  })

  it.each([
    [
      'an ID beside a status of failed',
      { id: 'v', status: 'failed', error: { code: 'x', message: 'y' } },
      'accepted',
    ],
    ['a number for an ID', { id: 17 }, 'accepted'],
    ['an error and no ID', { error: { code: 'moderation_blocked', message: 'y' } }, 'unknown'],
    ['a flat error and no ID', { code: 'fail', message: 'y' }, 'unknown'],
    ['nothing', {}, 'unknown'],
  ])('UNK-7: 200 with %s: %s', async (_, body, expected) => {
    const server = await serve(() => ({ body }))
    const said = await openai.submitVideo!(account(server), submission(VIDEO))
    expect(said.kind === 'fault' ? said.fault.certainty : said.kind).toBe(expected)
  })
})

describe('the size of a video', () => {
  it.each([
    ['480p', '16:9', '854x480'],
    ['720p', '16:9', '1280x720'],
    ['720p', '9:16', '720x1280'],
    ['720p', '1:1', '720x720'],
    ['720p', '4:3', '960x720'],
    ['720p', '3:4', '720x960'],
    ['720p', '21:9', '1680x720'],
    ['1080p', '16:9', '1920x1080'],
    ['1080p', '9:16', '1080x1920'],
    ['4k', '16:9', '3840x2160'],
    ['720p', 'adaptive', null],
    ['720p', 'wide', undefined],
    ['720p', '16:0', undefined],
    ['huge', '16:9', undefined],
  ])('%s at %s is %s', (resolution, aspectRatio, size) => {
    expect(sizeOf({ resolution, aspectRatio }, {})).toBe(size)
  })

  it('a channel’s own table comes first', () => {
    expect(sizeOf({ resolution: '1080p', aspectRatio: '16:9' }, { '1080p 16:9': '1792x1024' })).toBe(
      '1792x1024',
    )
  })
})

describe('the errors of the dialect', () => {
  const { rows, unproven, jobs } = fixture('errors')

  it.each<Row>(rows)('ERR-1: $status $name: $says', async ({ status, body, says }) => {
    const server = await serve(() => ({ status, body }))
    for (const said of [
      await openai.submitVideo!(account(server), submission(VIDEO)),
      await openai.generateImage!(account(server), submission(IMAGE)),
    ]) {
      if (said.kind !== 'fault') throw new Error(said.kind)
      expect(verdict(said.fault)).toBe(says)
      expect(said.fault).toMatchObject({
        certainty: 'rejected',
        realPerson: says.endsWith('real_person_refused'),
      })
    }
  })

  it.each<Row>(unproven)(
    'UNK-7: $status $code on a create proves nothing, unless the channel declares it',
    async ({ status, code }) => {
      const server = await serve(() => ({ status, body: { error: { code, message: 'x' } } }))
      const bare = await openai.submitVideo!(account(server), submission(VIDEO))
      const declared = await openai.submitVideo!(account(server, { refusals_5xx: [code] }), submission(VIDEO))
      expect(bare).toMatchObject({ fault: { category: 'unknown', certainty: 'unknown', retryable: false } })
      expect(declared).toMatchObject({ fault: { category: 'supply', certainty: 'rejected' } })
    },
  )

  it('every row of the adapter’s table is met', () => {
    const codes: string[] = rows.flatMap(({ body }: { body: { error?: Said } & Said }) => {
      const said = body.error ?? body
      return [said.code ?? said.type ?? '']
    })
    const tried = [...codes, ...jobs.map(([code]: [string]) => code)]
    const met = (code: string) =>
      code.endsWith('*') ? tried.some((each) => each.startsWith(code.slice(0, -1))) : tried.includes(code)
    expect(OPENAI_FAULTS.flatMap(({ code }) => (code === undefined || met(code) ? [] : [code]))).toEqual([])
  })

  it.each<[string, string]>(jobs)('ERR-1: %s of a failed video: %s', async (code, says) => {
    const server = await serve(() => ({ body: { id: 'v', status: 'failed', error: { code, message: 'x' } } }))
    const said = await openai.poll!(account(server), 'v', LIMITS)
    if (said.kind !== 'failed') throw new Error(said.kind)
    expect(verdict(said.fault)).toBe(says)
    expect(said.fault.certainty).toBe('rejected')
  })
})

describe('asking after a video', () => {
  it.each<Fixture>(fixture('videos').replies)('$name', async ({ says, options, ...reply }) => {
    const server = await serve(() => reply)
    const expected = JSON.parse(JSON.stringify(says).replaceAll('{base}', `${server.url}/v1`))
    expect(await openai.poll!(account(server, options ?? {}), 'video/1', LIMITS)).toMatchObject(expected)
    expect(server.seen[0]?.path).toBe('/v1/videos/video%2F1')
  })
})

describe('cancelling a video', () => {
  const cancelling = (status: string, answer: Scripted) =>
    serve(({ method }) => (method === 'GET' ? { body: { id: 'v', status } } : answer))
  const deletes = (server: ScriptedServer) => server.seen.filter(({ method }) => method === 'DELETE').length
  const DELETED = { body: { id: 'v', object: 'video.deleted', deleted: true } }

  it('is not tried where the channel does not say that it works', async () => {
    const server = await cancelling('queued', DELETED)
    expect(await openai.cancel!(account(server), 'v', LIMITS)).toMatchObject({ kind: 'refused' })
    expect(server.seen).toHaveLength(0)
  })

  it.each([
    ['queued', DELETED, 'cancelled', 1],
    ['in_progress', { body: { id: 'v', status: 'cancelled' } }, 'cancelled', 1],
    ['in_progress', { body: {} }, 'no_answer', 1],
    ['in_progress', { status: 409, body: { error: { code: 'conflict', message: 'it runs' } } }, 'refused', 1],
    ['in_progress', { status: 404, body: { error: { code: null, message: 'gone' } } }, 'refused', 1],
    ['in_progress', { status: 503, body: '' }, 'no_answer', 1],
    ['completed', DELETED, 'refused', 0],
    ['failed', DELETED, 'refused', 0],
  ])('%s, answered %j: %s', async (status, answer, kind, sent) => {
    const server = await cancelling(status, answer)
    expect(await openai.cancel!(account(server, { cancel: true }), 'v', LIMITS)).toMatchObject({ kind })
    expect(deletes(server)).toBe(sent)
  })
})

describe('fetching a film, and asking whether the account answers', () => {
  it('the gateway gets the credential, the storage that it redirects to does not', async () => {
    const storage = await serve(() => ({
      headers: { 'content-type': 'video/mp4' },
      body: Buffer.alloc(1_000, 7),
    }))
    const server = await serve(() => ({ status: 302, headers: { location: `${storage.url}/x.mp4?sig=1` } }))
    const said = await openai.download!(account(server), `${server.url}/v1/videos/v/content`, LIMITS)
    if (said.kind !== 'body') throw new Error(said.kind)
    let size = 0
    for await (const piece of said.stream) size += piece.length
    expect(size).toBe(1_000)
    expect(server.seen[0]?.headers.authorization).toBe('Bearer sk-key-0001')
    expect(storage.seen[0]?.headers.authorization).toBeUndefined()
  })

  it('HLT-14: ping is the list of models, and free', async () => {
    const server = await serve(() => ({ body: { object: 'list', data: [] } }))
    expect(await openai.ping!(account(server), LIMITS)).toEqual({ ok: true, fault: null })
    expect(server.seen[0]).toMatchObject({ method: 'GET', path: '/v1/models' })
    const shut = await serve(() => ({
      status: 401,
      body: { error: { code: 'invalid_api_key', message: 'x' } },
    }))
    expect(await openai.ping!(account(shut), LIMITS)).toMatchObject({
      ok: false,
      fault: { code: 'key_refused' },
    })
  })
})

describe('images', () => {
  const { replies, png } = fixture('images')

  it.each<Fixture>(replies)('COST-7: $name', async ({ says, count, ...reply }) => {
    const server = await serve(({ path }) => {
      if (path === '/result.png')
        return { headers: { 'content-type': 'image/png' }, body: Buffer.from(png, 'base64') }
      if (path === '/gone.png') return { status: 404, body: '' }
      return { ...reply, body: JSON.parse(JSON.stringify(reply.body).replaceAll('{server}', server.url)) }
    })
    const said = await openai.generateImage!(account(server), submission({ ...IMAGE, count: count ?? 1 }))
    expect(said).toMatchObject(says)
    expect(server.seen.filter(({ method }) => method === 'POST')).toHaveLength(1)
  })

  it('sends what GPT image models want, and response_format only where the channel asks for it', async () => {
    const server = await serve(() => ({ body: { data: [{ b64_json: png }] } }))
    await openai.generateImage!(account(server), submission({ ...IMAGE, count: 2 }))
    const options = { image_response_format: 'url', sizes: { '1024x1024': 'auto' } }
    await openai.generateImage!(account(server, options), submission({ ...IMAGE, quality: null }))
    const [plain, asked] = server.seen.map(({ body }) => JSON.parse(String(body)))
    expect(plain).toEqual({
      model: 'sora-2',
      prompt: 'a lighthouse',
      n: 2,
      size: '1024x1024',
      quality: 'low',
    })
    expect(asked).toMatchObject({ size: 'auto', response_format: 'url' })
    expect(asked).not.toHaveProperty('quality')
    expect(server.seen[0]).toMatchObject({
      path: '/v1/images/generations',
      headers: { 'x-client-request-id': 'attempt-1' },
    })
  })

  it('images that come with the order go to /images/edits as files; links it does not take', async () => {
    const server = await serve(() => ({ body: { data: [{ b64_json: png }] } }))
    const order = { ...IMAGE, inputs: { reference_images: [PICTURE, PICTURE] } }
    expect(await openai.generateImage!(account(server), submission(order))).toMatchObject({
      kind: 'finished',
    })
    expect(server.seen[0]?.path).toBe('/v1/images/edits')
    const form = await formOf(server.seen[0]!)
    expect(form.getAll('image[]')).toEqual([expect.any(File), expect.any(File)])
    expect([form.get('n'), form.get('prompt')]).toEqual(['1', 'a lighthouse'])
    const links = { ...IMAGE, inputs: { reference_images: [link('https://a.test/1.png')] } }
    expect(await openai.generateImage!(account(server), submission(links))).toMatchObject({
      kind: 'fault',
      fault: { code: 'order_unsupported', certainty: 'not_sent', retryable: true },
    })
    expect(server.seen).toHaveLength(1)
  })
})
