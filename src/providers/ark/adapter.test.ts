/** The Ark adapter on recorded shapes, over real HTTP: what it sends, and what it makes of every answer. */
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
import { createArkAdapter } from './adapter.ts'
import { ARK_FAULTS } from './faults.ts'

const caller = createCaller()
const ark = createArkAdapter(caller)
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
  baseUrl: `${server.url}/api/v3/`,
  credential: 'ark-key-0001',
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
const IMAGE: ImageOrder = {
  media: 'image',
  prompt: 'a lighthouse',
  size: '2K',
  quality: null,
  count: 1,
  inputs: {},
}
const submission = <Order>(order: Order, given: Partial<Submission<Order>> = {}): Submission<Order> => ({
  attemptId: 'attempt-1',
  upstreamModel: 'doubao-seedance-2-0-260128',
  order,
  callbackUrl: null,
  timeoutMs: 10_000,
  mayStillSend: () => true,
  ...given,
})
const LIMITS = { timeoutMs: 5_000 }
const picture = (bytes: number): OutboundInput => ({
  kind: 'bytes',
  bytes: new Uint8Array(bytes),
  contentType: 'image/png',
  filename: 'a.png',
})
const link = (url: string): OutboundInput => ({ kind: 'url', url })

interface Fixture extends Scripted {
  readonly name: string
  readonly count?: number
  readonly says: object
}
interface Row {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly says: string
}
const fixture = (name: string) =>
  JSON.parse(readFileSync(new URL(`./fixtures/${name}.json`, import.meta.url), 'utf8'))
const verdict = ({ category, scope, retryable, impact, code }: Fault) =>
  `${category}/${scope} ${retryable ? 'retryable' : 'final'} ${impact} ${code}`

describe('creating a video', () => {
  it('sends the task as documented, the inputs by their roles and in their order, and the attempt’s ID', async () => {
    const server = await serve(() => ({ body: { id: 'cgt-1' }, headers: { 'x-request-id': 'r-1' } }))
    const inputs = {
      reference_audios: [link('https://a.test/s.mp3')],
      reference_images: [link('https://a.test/1.png'), picture(3)],
      reference_videos: [link('https://a.test/1.mp4')],
    }
    const order = submission({ ...VIDEO, inputs }, { callbackUrl: 'https://ym.test/callbacks/x' })
    const said = await ark.submitVideo!(account(server), order)
    expect(said).toEqual({ kind: 'accepted', providerTaskId: 'cgt-1', requestId: 'r-1' })
    const [request] = server.seen
    expect(request?.path).toBe('/api/v3/contents/generations/tasks')
    expect(request?.headers).toMatchObject({
      authorization: 'Bearer ark-key-0001',
      'content-type': 'application/json',
      'x-client-request-id': 'attempt-1',
    })
    expect(JSON.parse(String(request?.body))).toEqual({
      model: 'doubao-seedance-2-0-260128',
      content: [
        { type: 'text', text: 'a lighthouse' },
        { type: 'image_url', image_url: { url: 'https://a.test/1.png' }, role: 'reference_image' },
        { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' }, role: 'reference_image' },
        { type: 'video_url', video_url: { url: 'https://a.test/1.mp4' }, role: 'reference_video' },
        { type: 'audio_url', audio_url: { url: 'https://a.test/s.mp3' }, role: 'reference_audio' },
      ],
      resolution: '720p',
      ratio: '16:9',
      duration: 5,
      generate_audio: true,
      watermark: false,
      callback_url: 'https://ym.test/callbacks/x',
    })
  })

  it('sends first and last frame, and what the channel’s options add and leave out', async () => {
    const server = await serve(() => ({ body: { id: 'cgt-1' } }))
    const inputs = { last_frame: [link('https://a.test/z.png')], first_frame: [link('https://a.test/a.png')] }
    const options = { watermark: true, omit: ['generate_audio'], extra_body: { service_tier: 'flex' } }
    await ark.submitVideo!(account(server, options), submission({ ...VIDEO, prompt: '', inputs }))
    const sent = JSON.parse(String(server.seen[0]?.body))
    expect(sent).toMatchObject({ watermark: true, service_tier: 'flex' })
    expect(sent).not.toHaveProperty('generate_audio')
    expect(sent).not.toHaveProperty('callback_url')
    expect(sent.content.map((part: { role: string }) => part.role)).toEqual(['first_frame', 'last_frame'])
  })

  it.each([
    ['a kind that Ark has no role for', { masks: [link('https://a.test/m.png')] }, 'order_unsupported'],
    ['a video as bytes', { reference_videos: [picture(3)] }, 'order_unsupported'],
    ['an image of 30 MB', { first_frame: [picture(30 * 1024 * 1024)] }, 'input_too_large'],
    ['an audio of 15 MB', { reference_audios: [picture(15 * 1024 * 1024)] }, 'input_too_large'],
    ['more than 64 MB in all', { reference_images: [picture(26e6), picture(26e6)] }, 'input_too_large'],
  ])('%s is not sent, and another supply may serve it', async (_, inputs, code) => {
    const server = await serve(() => ({ body: { id: 'cgt-1' } }))
    const said = await ark.submitVideo!(account(server), submission({ ...VIDEO, inputs }))
    const fault = {
      category: 'supply',
      scope: 'supply',
      retryable: true,
      certainty: 'not_sent',
      impact: 'none',
      code,
    }
    expect(said).toMatchObject({ kind: 'fault', fault })
    expect(server.seen).toHaveLength(0)
  })

  it('says which option is wrong, and calls nobody', async () => {
    const server = await serve(() => ({ body: { id: 'cgt-1' } }))
    const said = await ark.submitVideo!(account(server, { watermark: 'yes', nonsense: 1 }), submission(VIDEO))
    expect(said).toMatchObject({ fault: { code: 'channel_misconfigured', certainty: 'not_sent' } })
    expect(said.kind === 'fault' && said.fault.message).toMatch(/options\.watermark: .*boolean.*nonsense/i)
    expect(ark.optionProblems!({ watermark: 'yes' })).toEqual([
      expect.stringMatching(/^options\.watermark: /),
    ])
    expect(ark.optionProblems!({})).toEqual([])
    expect(server.seen).toHaveLength(0)
  })
})

describe('the official error table', () => {
  const { rows, unproven } = fixture('errors')

  it.each<Row>(rows)(
    'ERR-1: $status $code at once and in a failed task: $says',
    async ({ status, code, message, says }) => {
      const body = { error: { code, message, param: '', type: 'x' } }
      const server = await serve(({ method }) =>
        method === 'POST' ? { status, body } : { body: { id: 'cgt-1', status: 'failed', ...body } },
      )
      const at = account(server)
      const [sync, later] = [
        await ark.submitVideo!(at, submission(VIDEO)),
        await ark.poll!(at, 'cgt-1', LIMITS),
      ]
      if (sync.kind !== 'fault' || later.kind !== 'failed') throw new Error(`${sync.kind}, ${later.kind}`)
      expect([verdict(sync.fault), verdict(later.fault)]).toEqual([says, says])
      expect([sync.fault.certainty, later.fault.certainty]).toEqual(['rejected', 'rejected'])
      expect(sync.fault.providerCode).toBe(code)
      expect(sync.fault.realPerson).toBe(says.endsWith('real_person_refused'))
    },
  )

  it.each<Row>(unproven)(
    'UNK-7: $status $code on a create proves nothing: unknown',
    async ({ status, code }) => {
      const server = await serve(() => ({ status, body: { error: { code, message: 'x' } } }))
      const said = await ark.submitVideo!(account(server), submission(VIDEO))
      expect(said).toMatchObject({ fault: { category: 'unknown', certainty: 'unknown', retryable: false } })
    },
  )

  it('UNK-7: a code that the channel declares a refusal counts as one under 5xx, if the table knows it', async () => {
    const answers = ['FlowLimitExceeded', 'NeverHeardOf']
    for (const code of answers) {
      const server = await serve(() => ({ status: 503, body: { error: { code, message: 'x' } } }))
      const said = await ark.submitVideo!(account(server, { refusals_5xx: answers }), submission(VIDEO))
      const known = code === 'FlowLimitExceeded'
      expect(said).toMatchObject({ fault: { certainty: known ? 'rejected' : 'unknown', retryable: known } })
    }
  })

  it('every row of the adapter’s table is met by the official one, or marked', () => {
    const tried = new Set(rows.map(({ code }: { code: string }) => code))
    const asynchronous = [
      'FlowLimitExceeded',
      'InternalServiceError',
      'InternalServiceTimeout',
      'ServiceUnavailableTemp',
    ]
    const met = (code: string) =>
      code.endsWith('*')
        ? [...tried].some((each) => String(each).startsWith(code.slice(0, -1)))
        : tried.has(code)
    const unmet = ARK_FAULTS.flatMap(({ code }) => (code === undefined || met(code) ? [] : [code]))
    expect(unmet).toEqual(asynchronous)
  })
})

describe('asking after a task', () => {
  it.each<Fixture>(fixture('tasks').replies)('$name', async ({ says, ...reply }) => {
    const server = await serve(() => reply)
    expect(await ark.poll!(account(server), 'cgt/1', LIMITS)).toMatchObject(says)
    expect(server.seen[0]?.path).toBe('/api/v3/contents/generations/tasks/cgt%2F1')
  })

  it('HLT-10: nobody there is no answer, and changes nothing for the job', async () => {
    const server = await serve(() => ({}))
    const at = account(server)
    await server.close()
    open.length = 0
    const said = await ark.poll!(at, 'cgt-1', LIMITS)
    expect(said).toMatchObject({ kind: 'no_answer', fault: { connection: true, retryable: true } })
  })
})

describe('cancelling a task', () => {
  const states = (...statuses: string[]) => {
    const left = [...statuses]
    return ({ method }: Seen): Scripted => {
      if (method === 'DELETE') return { body: '' }
      const status = left.shift()
      return status === 'gone'
        ? { status: 404, body: { error: { code: 'NotFound', message: 'x' } } }
        : { body: { id: 'cgt-1', status, content: { video_url: 'https://a.test/x.mp4' } } }
    }
  }
  const deletes = (server: ScriptedServer) => server.seen.filter(({ method }) => method === 'DELETE').length

  it('a queued one is cancelled, and looked at again', async () => {
    const server = await serve((seen) => (seen.method === 'DELETE' ? { body: {} } : byTurn(seen)))
    const byTurn = states('queued', 'cancelled')
    expect(await ark.cancel!(account(server), 'cgt-1', LIMITS)).toEqual({ kind: 'cancelled' })
    expect(deletes(server)).toBe(1)
  })

  it.each(['running', 'succeeded', 'failed', 'expired', 'gone', 'new-status'])(
    'one that is %s is left alone: DELETE would be refused, or delete its record',
    async (status) => {
      const server = await serve(states(status))
      expect(await ark.cancel!(account(server), 'cgt-1', LIMITS)).toMatchObject({ kind: 'refused' })
      expect(deletes(server)).toBe(0)
    },
  )

  it('one that ended in between is not said to be cancelled', async () => {
    for (const then of ['gone', 'running', 'succeeded']) {
      const server = await serve(states('queued', then))
      expect(await ark.cancel!(account(server), 'cgt-1', LIMITS)).toMatchObject({ kind: 'refused' })
    }
  })

  it('a DELETE that is refused, and one that is not answered', async () => {
    const turn = (status: number) =>
      serve(({ method }) =>
        method === 'GET'
          ? { body: { id: 'cgt-1', status: 'queued' } }
          : {
              status,
              body: {
                error: { code: status === 400 ? 'InvalidParameter' : 'InternalServiceError', message: 'x' },
              },
            },
      )
    expect(await ark.cancel!(account(await turn(400)), 'cgt-1', LIMITS)).toMatchObject({ kind: 'refused' })
    expect(await ark.cancel!(account(await turn(500)), 'cgt-1', LIMITS)).toMatchObject({ kind: 'no_answer' })
  })
})

describe('fetching a film, and asking whether the account answers', () => {
  it('streams it, and sends the signed link no credential', async () => {
    const film = Buffer.alloc(200_000, 7)
    const server = await serve(() => ({ headers: { 'content-type': 'video/mp4' }, body: film }))
    const said = await ark.download!(account(server), `${server.url}/x.mp4?sig=1`, LIMITS)
    if (said.kind !== 'body') throw new Error(said.kind)
    const pieces: Uint8Array[] = []
    for await (const piece of said.stream) pieces.push(piece)
    expect(Buffer.concat(pieces).equals(film)).toBe(true)
    expect(said.contentType).toBe('video/mp4')
    expect(server.seen[0]).toMatchObject({ method: 'GET', path: '/x.mp4?sig=1' })
    expect(server.seen[0]?.headers.authorization).toBeUndefined()
  })

  it('HLT-14: ping is a list of one, and free', async () => {
    const server = await serve(() => ({ body: { items: [], total: 0 } }))
    expect(await ark.ping!(account(server), LIMITS)).toEqual({ ok: true, fault: null })
    expect(server.seen[0]).toMatchObject({
      method: 'GET',
      path: '/api/v3/contents/generations/tasks?page_num=1&page_size=1',
    })
    const shut = await serve(() => ({
      status: 403,
      body: { error: { code: 'AccountOverdueError', message: 'x' } },
    }))
    expect(await ark.ping!(account(shut), LIMITS)).toMatchObject({
      ok: false,
      fault: { code: 'balance_exhausted' },
    })
  })
})

describe('images', () => {
  const { replies, png } = fixture('images')

  it.each<Fixture>(replies)('COST-7: $name', async ({ says, count, ...reply }) => {
    const server = await serve(({ path }) => {
      if (path === '/result.png')
        return { headers: { 'content-type': 'image/png' }, body: Buffer.from(png, 'base64') }
      if (path === '/page') return { headers: { 'content-type': 'text/html' }, body: '<html></html>' }
      if (path === '/gone.png') return { status: 403, body: '' }
      return { ...reply, body: JSON.parse(JSON.stringify(reply.body).replaceAll('{server}', server.url)) }
    })
    const said = await ark.generateImage!(account(server), submission({ ...IMAGE, count: count ?? 1 }))
    expect(said).toMatchObject(says)
    expect(server.seen.filter(({ method }) => method === 'POST')).toHaveLength(1)
  })

  it('one is asked for without a sequence, several as a sequence; sizes by the channel’s table', async () => {
    const server = await serve(() => ({ body: { data: [{ b64_json: png }] } }))
    const options = { sizes: { '1024x1024': '2K' }, response_format: 'url' }
    const inputs = { reference_images: [link('https://a.test/1.png')] }
    await ark.generateImage!(account(server), submission(IMAGE))
    await ark.generateImage!(
      account(server, options),
      submission({ ...IMAGE, size: '1024x1024', count: 2, inputs }),
    )
    const [one, two] = server.seen.map(({ body }) => JSON.parse(String(body)))
    expect(one).toMatchObject({
      size: '2K',
      sequential_image_generation: 'disabled',
      response_format: 'b64_json',
    })
    expect(one).not.toHaveProperty('image')
    expect(two).toMatchObject({
      size: '2K',
      image: 'https://a.test/1.png',
      sequential_image_generation: 'auto',
      sequential_image_generation_options: { max_images: 2 },
      response_format: 'url',
    })
    expect(server.seen[0]).toMatchObject({ path: '/api/v3/images/generations' })
  })

  it('a link that fails twice and then works costs one POST, and gives the image', async () => {
    let tries = 0
    const server = await serve(({ method }) => {
      if (method === 'POST') return { body: { data: [{ url: `${server.url}/r.png` }] } }
      return ++tries < 3
        ? { status: 503, body: '' }
        : { headers: { 'content-type': 'image/png' }, body: Buffer.from(png, 'base64') }
    })
    const said = await ark.generateImage!(account(server), submission(IMAGE))
    expect(said).toMatchObject({ kind: 'finished', items: [{ ok: true }] })
    expect(server.seen.map(({ method }) => method)).toEqual(['POST', 'GET', 'GET', 'GET'])
  })

  it('COST-7: a link that nobody answers is paid, and not retryable', async () => {
    const server = await serve(() => ({ body: { data: [{ url: 'http://127.0.0.1:1/x.png' }] } }))
    const said = await ark.generateImage!(account(server), submission(IMAGE))
    expect(said).toMatchObject({
      kind: 'finished',
      items: [{ ok: false, billed: true, fault: { code: 'result_unavailable', retryable: false } }],
    })
  })
})
