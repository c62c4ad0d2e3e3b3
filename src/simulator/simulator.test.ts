// The simulator over real HTTP: each protocol's shapes, each kind of fault, the ledger.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import OpenAI from 'openai'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { FAULT_KINDS } from './faults/kinds.ts'
import { type Simulator, startSimulator } from './server.ts'

let simulator: Simulator
beforeAll(async () => {
  simulator = await startSimulator({ seed: 7 })
})
afterAll(() => simulator.close())
beforeEach(async () => {
  await control('POST', '/reset')
  await control('POST', '/configuration', { defaults: { duration_ms: 60_000 } })
})

// biome-ignore lint/suspicious/noExplicitAny: bodies of many shapes, read field by field
type Got = { status: number; headers: Headers; text: string; body: Record<string, any> }

async function call(method: string, path: string, body?: unknown, attempt?: string): Promise<Got> {
  const response = await fetch(simulator.url + path, {
    method,
    redirect: 'manual',
    headers: {
      authorization: 'Bearer key',
      'content-type': 'application/json',
      ...(attempt === undefined ? {} : { 'x-client-request-id': attempt }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: parse(text) }
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text)
  } catch {
    return {}
  }
}

async function control(method: string, path: string, body?: unknown) {
  const got = await call(method, `/control${path}`, body)
  if (got.status !== 200) throw new Error(got.text)
  return got.body
}

const script = (on: string, fault: unknown, more: object = {}) =>
  control('POST', '/faults', { on, fault, ...more })
const advance = (ms: number) => control('POST', '/clock', { advance_ms: ms })
const ledger = (attempt: string) => control('GET', `/ledger/${attempt}`)

const TASKS = '/ark/a/api/v3/contents/generations/tasks'
const PICTURES = '/ark/a/api/v3/images/generations'
const OPENAI = '/openai/b/v1'
const prompt = { type: 'text', text: 'a cat' }
const reference = (kind: string) => ({
  type: `${kind}_url`,
  [`${kind}_url`]: { url: `https://example.test/x.${kind}` },
  role: `reference_${kind}`,
})
const request = (more: object = {}) => ({ model: 'doubao-seedance-2-0-260128', content: [prompt], ...more })
const create = (more: object = {}, attempt?: string) => call('POST', TASKS, request(more), attempt)
const created = async (more: object = {}, attempt?: string): Promise<string> =>
  (await create(more, attempt)).body.id
const query = (id: string) => call('GET', `${TASKS}/${id}`)

describe('Ark videos', () => {
  it('creates, runs, succeeds, and serves an MP4 of the requested size', async () => {
    const answer = await create({ duration: 5, resolution: '720p', ratio: '9:16', return_last_frame: true })
    expect(answer.body).toEqual({ id: expect.stringMatching(/^cgt-\d{14}-/) })
    expect(answer.headers.get('x-request-id')).toBeTruthy()
    expect((await query(answer.body.id)).body).toMatchObject({ status: 'running', error: null })
    await advance(60_000)
    const { body } = await query(answer.body.id)
    expect(body).toMatchObject({
      status: 'succeeded',
      resolution: '720p',
      ratio: '9:16',
      duration: 5,
      usage: { completion_tokens: 108_900 },
    })
    const file = Buffer.from(await (await fetch(body.content.video_url)).arrayBuffer())
    expect(file.toString('latin1', 4, 12)).toBe('ftypisom')
    const head = file.indexOf('tkhd')
    expect([file.readUInt32BE(head + 80) / 65536, file.readUInt32BE(head + 84) / 65536]).toEqual([720, 1280])
    const movie = file.indexOf('mvhd')
    expect(file.readUInt32BE(movie + 20) / file.readUInt32BE(movie + 16)).toBe(5)
    expect((await fetch(body.content.video_url, { method: 'HEAD' })).status).toBe(403)
    const frame = await fetch(body.content.last_frame_url)
    expect(frame.headers.get('content-type')).toBe('image/png')
    await advance(86_400_000)
    expect((await fetch(body.content.video_url)).status).toBe(403)
  })

  it('lets what exceeds the concurrency wait in queued, and cancels only that', async () => {
    await control('POST', '/configuration', {
      accounts: [{ protocol: 'ark', account: 'a', models: { '*': { concurrency: 1, duration_ms: 60_000 } } }],
    })
    const ids = [await created(), await created(), await created()]
    const states = async () => Promise.all(ids.map(async (id) => (await query(id)).body.status))
    expect(await states()).toEqual(['running', 'queued', 'queued'])
    expect((await call('DELETE', `${TASKS}/${ids[0]}`)).body.error.code).toBe('OperationDenied.InvalidState')
    expect((await call('DELETE', `${TASKS}/${ids[1]}`)).status).toBe(200)
    await advance(90_000)
    expect(await states()).toEqual(['succeeded', 'cancelled', 'running'])
    const [model] = (await control('GET', '/ledger')).models
    expect(model).toMatchObject({ max_running: 1, accepted: 3 })
    await call('DELETE', `${TASKS}/${ids[0]}`)
    expect((await query(String(ids[0]))).status).toBe(404)
  })

  it('lists the newest first, in pages, filtered', async () => {
    const ids = [await created({ safety_identifier: 'u1' }), await created(), await created()]
    const page = await call('GET', `${TASKS}?page_num=2&page_size=2`)
    expect(page.body).toMatchObject({ total: 3, items: [{ id: ids[0], safety_identifier: 'u1' }] })
    const two = await call('GET', `${TASKS}?filter.task_ids=${ids[0]}&filter.task_ids=${ids[2]}`)
    expect(two.body.items.map((item: { id: string }) => item.id)).toEqual([ids[2], ids[0]])
    expect((await call('GET', `${TASKS}?page_size=501`)).status).toBe(400)
  })

  const many = (kind: string, count: number) => Array.from({ length: count }, () => reference(kind))
  const frame = (role: string) => ({ ...reference('image'), role })
  it.each([
    ['no model', { model: undefined }, 'MissingParameter.model'],
    ['no content', { content: undefined }, 'MissingParameter.content'],
    ['ten images', { content: [prompt, ...many('image', 10)] }, 'InvalidParameter'],
    ['four videos', { content: [prompt, ...many('video', 4)] }, 'InvalidParameter'],
    ['four audios', { content: [...many('image', 1), ...many('audio', 4)] }, 'InvalidParameter'],
    ['audio alone', { content: [prompt, reference('audio')] }, 'InvalidParameter'],
    ['last frame alone', { content: [prompt, frame('last_frame')] }, 'InvalidParameter'],
    ['mixed modes', { content: [frame('first_frame'), reference('image')] }, 'InvalidParameter'],
    ['unknown role', { content: [frame('hero')] }, 'InvalidParameter'],
    ['too long', { duration: 16 }, 'InvalidParameter'],
    ['bad resolution', { resolution: '8k' }, 'InvalidParameter'],
    ['seed on 2.0', { seed: 3 }, 'InvalidParameter'],
    ['unknown parameter', { colour: 'red' }, 'InvalidParameter.UnsupportedParameter'],
  ])('refuses %s', async (_, change, code) => {
    const answer = await create(change)
    expect([answer.status, answer.body.error.code]).toEqual([400, code])
    expect(answer.body.error).toMatchObject({ message: expect.any(String), type: 'BadRequest' })
  })

  it('accepts 9 images, 3 videos and 3 audios', async () => {
    const content = [prompt, ...many('image', 9), ...many('video', 3), ...many('audio', 3)]
    expect((await create({ content })).status).toBe(200)
  })

  it('knows its keys and models when it is strict', async () => {
    await control('POST', '/configuration', {
      accounts: [{ protocol: 'ark', account: 'a', keys: ['other'], strict: true, models: {} }],
    })
    expect((await create()).body.error.code).toBe('AuthenticationError')
    await control('POST', '/configuration', {
      accounts: [{ protocol: 'ark', account: 'a', keys: ['key'], strict: true, models: {} }],
    })
    expect((await create()).body.error.code).toBe('InvalidEndpointOrModel.NotFound')
  })
})

describe('pictures', () => {
  beforeEach(() => control('POST', '/configuration', { defaults: { duration_ms: 10 } }))

  it('Ark: answers addresses, and names the failed ones inside a 200', async () => {
    await script('image', { kind: 'partial_images', failed: 1 })
    const { body } = await call('POST', PICTURES, {
      model: 'seedream',
      prompt: 'x',
      size: '1024x768',
      output_format: 'png',
      sequential_image_generation: 'auto',
      sequential_image_generation_options: { max_images: 2 },
    })
    expect(body.data).toMatchObject([
      { size: '1024x768' },
      { error: { code: 'OutputImageSensitiveContentDetected' } },
    ])
    expect(body.usage.generated_images).toBe(1)
    const png = Buffer.from(await (await fetch(body.data[0].url)).arrayBuffer())
    expect([png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([1024, 768])
  })

  it('OpenAI: answers base64 that differs from picture to picture, and leaves out the failed ones', async () => {
    const ask = { model: 'm', prompt: 'x', n: 2, size: '512x512' }
    const { body } = await call('POST', `${OPENAI}/images/generations`, ask)
    expect(new Set(body.data.map((one: { b64_json: string }) => one.b64_json)).size).toBe(2)
    await script('image', { kind: 'partial_images' })
    expect((await call('POST', `${OPENAI}/images/generations`, ask)).body.data).toHaveLength(1)
  })
})

describe('the unmodified openai package', () => {
  it('creates, retrieves, downloads, lists and deletes', async () => {
    const client = new OpenAI({ apiKey: 'key', baseURL: simulator.url + OPENAI, maxRetries: 0 })
    const video = await client.videos.create({
      model: 'm',
      prompt: 'a dog',
      seconds: '4',
      size: '1280x720',
      input_reference: await OpenAI.toFile(Buffer.from('picture'), 'a.png', { type: 'image/png' }),
    })
    expect(video).toMatchObject({ status: 'queued', prompt: 'a dog', seconds: '4', size: '1280x720' })
    expect((await client.videos.retrieve(video.id)).status).toBe('in_progress')
    await expect(client.videos.delete(video.id)).rejects.toMatchObject({ status: 409 })
    await advance(60_000)
    expect((await client.videos.retrieve(video.id)).status).toBe('completed')
    const file = await client.videos.downloadContent(video.id)
    expect(file.headers.get('content-type')).toBe('video/mp4')
    expect((await client.videos.list()).data.map((one) => one.id)).toEqual([video.id])
    expect((await client.videos.delete(video.id)).deleted).toBe(true)
    await expect(client.videos.retrieve(video.id)).rejects.toBeInstanceOf(OpenAI.NotFoundError)
  })

  it('gets 429 when the model is full', async () => {
    await control('POST', '/configuration', { defaults: { concurrency: 1 } })
    const ask = { model: 'm', prompt: 'x' }
    expect((await call('POST', `${OPENAI}/videos`, ask)).status).toBe(200)
    const full = await call('POST', `${OPENAI}/videos`, ask)
    expect([full.status, full.body.error.code]).toEqual([429, 'rate_limit_exceeded'])
  })
})

describe('faults that answer instead', () => {
  it.each([
    ['rate_limited', 429, 'ModelAccountRpmRateLimitExceeded'],
    ['no_money', 403, 'AccountOverdueError'],
    ['unauthorized', 401, 'AuthenticationError'],
    ['model_missing', 404, 'InvalidEndpointOrModel.NotFound'],
    ['content_refused', 400, 'InputTextSensitiveContentDetected'],
    ['real_person', 400, 'InputImageSensitiveContentDetected.PrivacyInformation'],
    ['internal', 500, 'InternalServiceError'],
  ])('error %s: nothing is accepted', async (name, status, code) => {
    await script('create', { kind: 'error', name, retry_after_s: 7 })
    const answer = await create({}, `e-${name}`)
    expect([answer.status, answer.body.error.code]).toEqual([status, code])
    expect(answer.headers.get('retry-after')).toBe('7')
    expect(await ledger(`e-${name}`)).toMatchObject({ posts: 1, accepted: 0, statuses: [status] })
  })

  it('respond, html_502 and redirect', async () => {
    await script('create', { kind: 'respond', status: 418, body: { a: 1 }, headers: { 'x-a': 'b' } })
    await script('create', { kind: 'html_502' })
    await script('create', { kind: 'redirect', location: 'http://127.0.0.1:1/' })
    const literal = await create({}, 'r')
    expect([literal.status, literal.body, literal.headers.get('x-a')]).toEqual([418, { a: 1 }, 'b'])
    const page = await create({}, 'r')
    expect([page.status, page.headers.get('content-type')]).toEqual([502, 'text/html'])
    const moved = await create({}, 'r')
    expect([moved.status, moved.headers.get('location')]).toEqual([307, 'http://127.0.0.1:1/'])
    expect(await ledger('r')).toMatchObject({ posts: 3, accepted: 0 })
  })

  it('reset: the connection goes before the body is read', async () => {
    await script('create', { kind: 'reset' })
    await expect(create({}, 'reset')).rejects.toThrow()
    expect(await ledger('reset')).toMatchObject({ accepted: 0, statuses: ['dropped'] })
  })
})

describe('faults after acceptance: one job each, whatever the client hears', () => {
  it.each([
    ['accept_then_drop', {}, 'dropped'],
    ['accept_then_respond', { status: 504 }, 504],
    ['accept_then_error', { name: 'internal' }, 500],
    ['empty_200', {}, 200],
    ['truncated_json', {}, 200],
    ['slow_answer', { ms: 20 }, 200],
    ['delay', { ms: 20 }, 200],
  ])('%s', async (kind, parameters, told) => {
    await script('create', { kind, ...parameters })
    const answer = await create({}, kind).catch(() => undefined)
    expect(await ledger(kind)).toMatchObject({ posts: 1, accepted: 1, statuses: [told], faults: [kind] })
    if (kind === 'empty_200') expect(answer?.text).toBe('')
    if (kind === 'truncated_json') expect(answer?.body).toEqual({})
  })

  it('cut_off: the answer ends early', async () => {
    await script('create', { kind: 'cut_off' })
    await expect(create({}, 'cut')).rejects.toThrow()
    expect((await ledger('cut')).accepted).toBe(1)
  })

  it('duplicate_accept: the ledger shows two jobs for one attempt', async () => {
    await script('create', { kind: 'duplicate_accept' })
    await create({}, 'twice')
    expect(await ledger('twice')).toMatchObject({ posts: 1, accepted: 2 })
    expect(await control('GET', '/ledger')).toMatchObject({
      attempts_with_several_jobs: 1,
      several: ['twice'],
    })
    expect((await control('GET', '/attempts?min_accepted=2')).total).toBe(1)
  })
})

describe('faults of a job', () => {
  const statuses = async (id: string, looks: number) => {
    const seen: string[] = []
    for (let i = 0; i < looks; i++) seen.push((await query(id)).body.status ?? 'none')
    return seen
  }

  it('content_refused_later after so many polls, and real_person_later', async () => {
    await script('create', { kind: 'content_refused_later', after_polls: 3 })
    const id = await created()
    expect(await statuses(id, 3)).toEqual(['running', 'running', 'failed'])
    expect((await query(id)).body.error.code).toBe('OutputVideoSensitiveContentDetected')
    await script('create', { kind: 'real_person_later', after_ms: 0 })
    expect((await query(await created())).body.error.code).toMatch(/PrivacyInformation$/)
  })

  it('fails, expires, takes', async () => {
    await script('create', { kind: 'fails', code: 'X', message: 'y', after_ms: 0 })
    expect((await query(await created())).body.error).toEqual({ code: 'X', message: 'y' })
    await script('create', { kind: 'expires', after_ms: 0 })
    expect((await query(await created())).body.status).toBe('expired')
    await script('create', { kind: 'takes', after_ms: 0 })
    expect((await query(await created())).body.status).toBe('succeeded')
  })

  it('stuck, until the job expires by its own term', async () => {
    await script('create', { kind: 'stuck', in: 'queued' })
    await script('create', { kind: 'stuck', in: 'running' })
    const ids = [await created({ execution_expires_after: 3600 }), await created()]
    await advance(3_000_000)
    expect((await query(String(ids[0]))).body.status).toBe('queued')
    expect((await query(String(ids[1]))).body.status).toBe('running')
    await advance(700_000)
    expect((await query(String(ids[0]))).body.status).toBe('expired')
  })

  it('unknown_status, status_regress, not_found_at_first, show_status', async () => {
    await script('create', { kind: 'unknown_status' })
    expect(await statuses(await created(), 2)).toEqual(['reviewing', 'running'])
    await script('create', { kind: 'status_regress' })
    expect(await statuses(await created(), 3)).toEqual(['running', 'queued', 'running'])
    await script('create', { kind: 'not_found_at_first', polls: 2 })
    expect(await statuses(await created(), 3)).toEqual(['none', 'none', 'running'])
    await script('query', { kind: 'show_status', status: 'odd' })
    expect(await statuses(await created(), 2)).toEqual(['odd', 'running'])
  })

  it('without_url and other_artefact', async () => {
    await script('create', [{ kind: 'without_url' }, { kind: 'takes', after_ms: 0 }])
    expect((await query(await created())).body).toMatchObject({ status: 'succeeded', content: {} })
    await script('create', [
      { kind: 'other_artefact', seconds: 2 },
      { kind: 'takes', after_ms: 0 },
    ])
    const { content } = (await query(await created({ duration: 8 }))).body
    const file = Buffer.from(await (await fetch(content.video_url)).arrayBuffer())
    expect(file.readUInt32BE(file.indexOf('mvhd') + 20)).toBe(2000)
  })
})

describe('faults of a download', () => {
  it('result_forbidden, truncated_download, wrong_type', async () => {
    await script('create', { kind: 'takes', after_ms: 0 })
    const { video_url } = (await query(await created())).body.content
    const whole = (await (await fetch(video_url)).arrayBuffer()).byteLength
    await script('download', { kind: 'result_forbidden' })
    expect((await fetch(video_url)).status).toBe(403)
    await script('download', { kind: 'truncated_download' })
    await expect(fetch(video_url).then((response) => response.arrayBuffer())).rejects.toThrow()
    await script('download', { kind: 'truncated_download', announced: false })
    expect((await (await fetch(video_url)).arrayBuffer()).byteLength).toBe(Math.floor(whole / 2))
    await script('download', { kind: 'wrong_type' })
    expect((await fetch(video_url)).headers.get('content-type')).toBe('text/html')
    expect((await fetch(video_url)).headers.get('content-type')).toBe('video/mp4')
  })
})

describe('callbacks', () => {
  async function receiver(until: number) {
    const got: { status: string; content?: { video_url: string } }[] = []
    const server = createServer((incoming, response) => {
      let text = ''
      incoming.on('data', (chunk) => {
        text += chunk
      })
      incoming.on('end', () => {
        got.push(JSON.parse(text))
        response.end()
        if (got.length === until) server.emit('enough')
      })
    })
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const enough = once(server, 'enough')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/cb`
    return { url, got, enough, close: () => server.closeAllConnections() ?? server.close() }
  }

  it('one on each change of state, in order', async () => {
    const hook = await receiver(3)
    await script('create', { kind: 'takes', after_ms: 30 })
    await created({ callback_url: hook.url })
    await hook.enough
    expect(hook.got.map((one) => one.status)).toEqual(['queued', 'running', 'succeeded'])
    hook.close()
  })

  it('callbacks_early: the first arrives before the answer', async () => {
    const hook = await receiver(1)
    await script('create', { kind: 'callbacks_early' })
    await created({ callback_url: hook.url })
    expect(hook.got[0]).toMatchObject({ status: 'queued' })
    hook.close()
  })

  it('callback_doubled, callback_lost, callback_late, callback_forged', async () => {
    const hook = await receiver(4)
    await script('callback', { kind: 'callback_lost' }, { status: 'queued' })
    await script('callback', { kind: 'callback_late', ms: 60 }, { status: 'running' })
    await script('callback', [{ kind: 'callback_forged' }, { kind: 'callback_doubled' }], {
      status: 'succeeded',
    })
    await script('create', { kind: 'takes', after_ms: 0 })
    await created({ callback_url: hook.url })
    await hook.enough
    expect(hook.got.map((one) => one.status)).toEqual(['succeeded', 'succeeded', 'succeeded', 'running'])
    expect(hook.got[0]?.content?.video_url).toContain('attacker.invalid')
    hook.close()
  })
})

describe('the control API', () => {
  it('plays a rule on the nth match, so many times, only where it fits', async () => {
    await script('create', { kind: 'error', name: 'internal' }, { prompt: 'cat', nth: 2, times: 1 })
    const dog = await call('POST', TASKS, request({ content: [{ type: 'text', text: 'a dog' }] }))
    const cats = [await create(), await create(), await create()]
    expect([dog, ...cats].map((answer) => answer.status)).toEqual([200, 200, 500, 200])
  })

  it('says what is wrong with a rule or a configuration, and takes none of it', async () => {
    const bad = await call('POST', '/control/faults', { on: 'query', fault: { kind: 'duplicate_accept' } })
    expect([bad.status, bad.body.error]).toEqual([
      400,
      'rule.fault.kind: duplicate_accept happens on create, not on query',
    ])
    const odd = await call('POST', '/control/configuration', { defaults: { durationms: 1 } })
    expect(odd.body.error).toContain('defaults.durationms: unknown')
    expect((await control('GET', '/faults')).rules).toEqual([])
  })

  it('keeps digests of data URLs and files', async () => {
    const url = `data:image/png;base64,${Buffer.from('abc').toString('base64')}`
    const image = { type: 'image_url', image_url: { url }, role: 'first_frame' }
    await create({ content: [prompt, image] }, 'digest')
    const kept = (await ledger('digest')).request.content[1].image_url.url
    expect(kept).toMatchObject({ data_url: 'image/png', length: 3 })
  })

  it('ends a job by hand, and shows it', async () => {
    const id = await created({}, 'hand')
    await control('POST', `/jobs/${id}/end`, { state: 'failed', code: 'C', message: 'm' })
    expect((await query(id)).body.error).toEqual({ code: 'C', message: 'm' })
    expect((await control('GET', '/jobs?attempt=hand')).jobs).toMatchObject([{ id, state: 'failed' }])
  })

  it('describes every kind of fault', async () => {
    const { kinds } = await control('GET', '/faults/kinds')
    expect(Object.keys(kinds)).toEqual(Object.keys(FAULT_KINDS))
  })
})
