/**
 * The adapters against the simulator, which was written from the same documents and shares no code with them: whole
 * lives of jobs, and its faults, with the number of jobs that each attempt really made (UNK-7, UNK-10).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type {
  Account,
  ImageOrder,
  PollReply,
  ProviderAdapter,
  Submission,
  VideoOrder,
} from '../../src/providers/adapter.ts'
import { createCaller } from '../../src/providers/call.ts'
import { createProviders } from '../../src/providers/registry.ts'

let simulator: ChildProcess
let url = ''
const caller = createCaller()
const providers = createProviders(caller)

beforeAll(async () => {
  const program = fileURLToPath(new URL('../../src/simulator/main.ts', import.meta.url))
  simulator = spawn(process.execPath, [program, '--port', '0', '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface({ input: simulator.stdout! })
  const [line] = await once(lines, 'line')
  url = JSON.parse(line).url
})
afterAll(async () => {
  await caller.close()
  const gone = once(simulator, 'exit')
  simulator.kill('SIGTERM')
  await gone
})
beforeEach(async () => {
  await control('POST', '/reset')
  await control('POST', '/configuration', { defaults: { duration_ms: 30 } })
})

async function control(method: string, path: string, body?: unknown) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await fetch(`${url}/control${path}`, init)
  const said = await answer.json()
  if (!answer.ok) throw new Error(JSON.stringify(said))
  return said
}

const ledger = (attempt: string) => control('GET', `/ledger/${attempt}`)
const fault = (on: string, kind: string, given: object = {}) =>
  control('POST', '/faults', { on, fault: { kind, ...given } })

interface Place {
  readonly name: string
  readonly adapter: ProviderAdapter
  readonly account: (options?: Account['options']) => Account
  readonly model: string
  readonly imageModel: string
  readonly codes?: Readonly<Record<string, string>>
  readonly expired?: object
}
const place = (name: string, base: string, models: readonly [string, string]): Place => ({
  name,
  adapter: providers.get(name)!,
  account: (options = {}) => ({ channelId: name, baseUrl: `${url}${base}`, credential: 'k-123456', options }),
  model: models[0],
  imageModel: models[1],
})
const ARK = place('ark', '/ark/main/api/v3', ['doubao-seedance-2-0-260128', 'doubao-seedream-4-5-251128'])
const OPENAI = place('openai', '/openai/main/v1', ['wan-video', 'gpt-image-2'])
const BOTH = [ARK, OPENAI]
const KLING: Place = {
  ...place('kling', '/kling/main', ['kling-3.0', '']),
  // Its own ways: permission is of the model, everything expires in words, and it has one code for people and content.
  codes: { forbidden: 'model_not_open', real_person: 'content_refused' },
  expired: { category: 'supply', code: 'upstream_timeout' },
}

const LIMITS = { timeoutMs: 5_000 }
let count = 0
function submission<Order>(order: Order, given: Partial<Submission<Order>>): Submission<Order> {
  return {
    attemptId: `attempt-${++count}`,
    upstreamModel: 'x',
    order,
    callbackUrl: null,
    timeoutMs: 5_000,
    mayStillSend: () => true,
    ...given,
  }
}
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
  prompt: 'a boat',
  size: '1024x1024',
  quality: null,
  count: 2,
  inputs: {},
}

const video = (at: Place, given: Partial<Submission<VideoOrder>> = {}) =>
  submission(VIDEO, { upstreamModel: at.model, ...given })
const image = (at: Place) => submission(IMAGE, { upstreamModel: at.imageModel })

/** Polls until the job has ended, at most for the test's own time. */
async function ended(at: Place, id: string): Promise<PollReply> {
  for (;;) {
    const seen = await at.adapter.poll!(at.account(), id, LIMITS)
    if (seen.kind !== 'running') return seen
  }
}

async function accepted(at: Place, order = video(at)): Promise<string> {
  const said = await at.adapter.submitVideo!(at.account(), order)
  if (said.kind !== 'accepted') throw new Error(JSON.stringify(said))
  return said.providerTaskId
}

describe.each(BOTH)('images of $name', (at) => {
  it('a batch of images', async () => {
    const order = image(at)
    const said = await at.adapter.generateImage!(at.account(), order)
    expect(said).toMatchObject({ kind: 'finished', items: [{ ok: true }, { ok: true }] })
    expect(await ledger(order.attemptId)).toMatchObject({ posts: 1, accepted: 1 })
  })

  it('images by link', async () => {
    const options = at.name === 'ark' ? { response_format: 'url' } : { image_response_format: 'url' }
    const said = await at.adapter.generateImage!(at.account(options), image(at))
    expect(said).toMatchObject({
      kind: 'finished',
      items: [{ ok: true, image: { contentType: expect.stringMatching(/^image\//) } }, { ok: true }],
    })
  })

  const byLink = () =>
    at.account(at.name === 'ark' ? { response_format: 'url' } : { image_response_format: 'url' })

  it.each([
    ['cut short, as if it were whole', { kind: 'truncated_download', announced: false, keep: 0.5 }],
    ['a page under the type of a picture', { kind: 'wrong_type', content_type: 'image/png', body: '<html>' }],
    ['cut off', { kind: 'truncated_download' }],
    ['refused', { kind: 'result_forbidden' }],
  ])('DEG-7, COST-7: an image by link that is %s: fetched again, and never made again', async (_, played) => {
    await control('POST', '/faults', { on: 'download', times: 1, fault: played })
    const order = image(at)
    expect(await at.adapter.generateImage!(byLink(), order)).toMatchObject({
      kind: 'finished',
      items: [{ ok: true }, { ok: true }],
    })
    expect(await ledger(order.attemptId)).toMatchObject({ posts: 1, accepted: 1 })
  })

  it('DEG-7, COST-7: images that stay cut short: no result, and no cause to make them again', async () => {
    await control('POST', '/faults', {
      on: 'download',
      times: 'forever',
      fault: { kind: 'truncated_download', announced: false, keep: 0.5 },
    })
    const order = image(at)
    expect(await at.adapter.generateImage!(byLink(), order)).toMatchObject({
      kind: 'finished',
      items: [
        { ok: false, billed: true, fault: { code: 'result_unavailable', retryable: false } },
        { ok: false, billed: true },
      ],
    })
    expect(await ledger(order.attemptId)).toMatchObject({ posts: 1, accepted: 1 })
  })

  it('a batch of images in part', async () => {
    await fault('image', 'partial_images')
    const said = await at.adapter.generateImage!(at.account(), image(at))
    expect(said).toMatchObject({ kind: 'finished', items: [{ ok: true }, { ok: false, billed: false }] })
  })
})

describe.each([...BOTH, KLING])('$name', (at) => {
  it('a video from request to file, one job of one attempt', async () => {
    const order = video(at)
    const id = await accepted(at, order)
    const done = await ended(at, id)
    if (done.kind !== 'succeeded') throw new Error(JSON.stringify(done))
    const file = await at.adapter.download!(at.account(), done.video.location, LIMITS)
    if (file.kind !== 'body') throw new Error(JSON.stringify(file))
    const pieces: Uint8Array[] = []
    for await (const piece of file.stream) pieces.push(piece)
    expect(Buffer.concat(pieces).subarray(4, 8).toString()).toBe('ftyp')
    expect(file.contentType).toBe('video/mp4')
    expect(await ledger(order.attemptId)).toMatchObject({ posts: 1, accepted: 1, jobs: [id] })
  })

  it.each([
    ['bad_parameter', 'request', 'invalid_request'],
    ['asset_download_failed', 'request', 'input_unreadable'],
    ['content_refused', 'content', 'content_refused'],
    ['real_person', 'content', 'real_person_refused'],
    ['copyright', 'content', 'content_refused'],
    ['unauthorized', 'supply', 'key_refused'],
    ['no_money', 'supply', 'balance_exhausted'],
    ['forbidden', 'supply', 'access_refused'],
    ['model_missing', 'supply', 'model_missing'],
    ['rate_limited', 'capacity', 'rate_limited'],
  ])('ERR-1: refuses by %s: %s, %s, and no job', async (name, category, code) => {
    for (const on of at.adapter.generateImage ? ['create', 'image'] : ['create']) {
      await fault(on, 'error', { name, retry_after_s: 7 })
      const order = on === 'create' ? video(at) : image(at)
      const said =
        order.order.media === 'video'
          ? await at.adapter.submitVideo!(at.account(), { ...order, order: VIDEO })
          : await at.adapter.generateImage!(at.account(), { ...order, order: IMAGE })
      expect(said).toMatchObject({
        kind: 'fault',
        fault: { category, code: at.codes?.[name] ?? code, certainty: 'rejected', retryAfterMs: 7_000 },
      })
      expect(await ledger(order.attemptId)).toMatchObject({ posts: 1, accepted: 0 })
    }
  })

  it.each([
    ['internal error', 'error', { name: 'internal' }, 0],
    ['a page of a bad gateway', 'html_502', {}, 0],
    ['a redirect', 'redirect', {}, 0],
    ['a connection closed before the body', 'reset', {}, 0],
    ['accepted, connection closed', 'accept_then_drop', {}, 1],
    ['accepted, 500', 'accept_then_respond', {}, 1],
    ['accepted, 503 in the provider’s words', 'accept_then_error', { name: 'internal' }, 1],
    ['accepted, an empty 200', 'empty_200', {}, 1],
    ['accepted, half of the JSON', 'truncated_json', {}, 1],
    ['accepted, cut off', 'cut_off', {}, 1],
    ['accepted, too late', 'slow_answer', { ms: 30_000 }, 1],
  ])('UNK-7, UNK-10: %s: unknown, and one POST', async (_, kind, given, jobs) => {
    await fault('create', kind, given)
    const order = video(at, { timeoutMs: kind === 'slow_answer' ? 1_500 : 10_000 })
    const said = await at.adapter.submitVideo!(at.account(), order)
    expect(said).toMatchObject({
      kind: 'fault',
      fault: { category: 'unknown', certainty: 'unknown', retryable: false },
    })
    expect(await ledger(order.attemptId)).toMatchObject({ posts: 1, accepted: jobs })
  })

  it('stopped at the last moment: the provider never heard of it', async () => {
    const order = video(at, { mayStillSend: () => false })
    expect(await at.adapter.submitVideo!(at.account(), order)).toEqual({ kind: 'stopped_before_sending' })
    await expect(ledger(order.attemptId)).rejects.toThrow(/nothing is known/)
  })

  it.each([
    ['fails', {}, { kind: 'failed', fault: { category: 'supply', retryable: true, certainty: 'rejected' } }],
    [
      'content_refused_later',
      {},
      { kind: 'failed', fault: { category: 'content', code: 'content_refused' } },
    ],
    ['real_person_later', {}, { kind: 'failed', fault: { category: 'content', realPerson: true } }],
    ['expires', {}, { kind: 'failed', fault: 'expired' }],
    ['unknown_status', {}, { kind: 'unknown_status', status: 'reviewing' }],
    ['not_found_at_first', {}, { kind: 'not_found' }],
  ])('a job that %s', async (kind, given, expected) => {
    await fault('create', kind, given)
    const fault_ = at.expired ?? { category: 'capacity', code: 'job_expired' }
    const wanted = kind === 'expires' ? { ...expected, fault: fault_ } : expected
    expect(await ended(at, await accepted(at))).toMatchObject(wanted)
  })

  it.each(['error', 'html_502', 'reset', 'accept_then_drop', 'empty_200', 'truncated_json', 'cut_off'])(
    'HLT-10: a poll that meets %s is no answer, and the next one is',
    async (kind) => {
      const id = await accepted(at)
      await fault('query', kind, kind === 'error' ? { name: 'internal' } : {})
      expect(await at.adapter.poll!(at.account(), id, LIMITS)).toMatchObject({
        kind: 'no_answer',
        fault: { retryable: true, category: 'supply' },
      })
      expect(['running', 'succeeded']).toContain((await at.adapter.poll!(at.account(), id, LIMITS)).kind)
    },
  )

  it.each(['result_forbidden', 'wrong_type', 'html_502'])(
    'a result that is %s is no answer',
    async (kind) => {
      const done = await ended(at, await accepted(at))
      if (done.kind !== 'succeeded') throw new Error(done.kind)
      await fault('download', kind)
      const file = await at.adapter.download!(at.account(), done.video.location, LIMITS)
      expect(file).toMatchObject({ kind: 'no_answer', fault: { category: 'supply' } })
    },
  )

  it('a result that is cut short breaks off', async () => {
    const done = await ended(at, await accepted(at))
    if (done.kind !== 'succeeded') throw new Error(done.kind)
    await fault('download', 'truncated_download')
    const file = await at.adapter.download!(at.account(), done.video.location, LIMITS)
    if (file.kind !== 'body') throw new Error(file.kind)
    const stream = file.stream
    await expect(
      (async () => {
        for await (const _piece of stream);
      })(),
    ).rejects.toThrow(/broke off/)
  })

  it('HLT-14: ping', async () => {
    expect(await at.adapter.ping!(at.account(), LIMITS)).toEqual({ ok: true, fault: null })
    await control('POST', '/configuration', {
      accounts: [{ protocol: at.name, account: 'main', keys: ['other'] }],
    })
    const shut = await at.adapter.ping!(at.account(), LIMITS)
    expect(shut).toMatchObject({ ok: false, fault: { code: 'key_refused', impact: 'persistent_failure' } })
  })
})

it('at Ark, a job that succeeds without a link is asked again, and is no missing answer', async () => {
  await fault('create', 'without_url')
  const seen = await ended(ARK, await accepted(ARK))
  expect(seen).toEqual({ kind: 'unknown_status', status: 'succeeded, without a video_url' })
})

describe('cancelling', () => {
  it('at Ark: what is queued, not what runs', async () => {
    await fault('create', 'stuck', { in: 'queued' })
    await fault('create', 'stuck', { in: 'running' })
    const [queued, running] = [await accepted(ARK), await accepted(ARK)]
    expect(await ARK.adapter.cancel!(ARK.account(), queued, LIMITS)).toEqual({ kind: 'cancelled' })
    expect(await ARK.adapter.cancel!(ARK.account(), running, LIMITS)).toMatchObject({ kind: 'refused' })
    expect(await ARK.adapter.poll!(ARK.account(), queued, LIMITS)).toEqual({ kind: 'cancelled' })
  })
})
