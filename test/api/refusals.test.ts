/** Refusals by status, each as the exception class of the unmodified `openai` package, with its code and its message. */

import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import OpenAI, { APIError } from 'openai'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CancelAnswer, Dispatching, ImageAnswer, VideoAdmission } from '../../src/runtime/service.ts'
import { createKey, revokeKey, setCustomerActive } from '../../src/store/accounts.ts'
import { rowsOf, until } from '../system/kit.ts'
import { type Api, startApi } from './kit.ts'

let api: Api
/** The same system behind a runtime whose answers are set by hand. */
let forced: Api
let answers: { video?: VideoAdmission | Error; image?: ImageAnswer; cancel?: CancelAnswer } = {}

const stub: Dispatching = {
  admitVideo: async () => {
    if (answers.video instanceof Error) throw answers.video
    return answers.video ?? { kind: 'key_reused' }
  },
  runImage: async () => answers.image ?? { kind: 'key_reused' },
  cancelTask: async () => answers.cancel ?? { kind: 'not_found' },
}

beforeAll(async () => {
  api = await startApi({ running: false })
  forced = await startApi({ running: false, public: { dispatching: stub } })
})
afterAll(async () => {
  await api.stop()
  await forced.stop()
})

const VIDEO = { model: 'seedance-2.0-933', prompt: 'a yard', seconds: '5', size: '1280x720' } as never
const IMAGE = { model: 'seedream-4.0', prompt: 'a yard' } as const

async function failure(work: PromiseLike<unknown>): Promise<APIError> {
  const error = await work.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof APIError)) throw new Error(`expected the SDK's APIError, got ${String(error)}`)
  expect(error.requestID).toMatch(/^req_[0-9a-f]{32}$/)
  expect(error.error).toMatchObject({ message: expect.any(String), type: expect.any(String) })
  return error
}

const shouldRetry = (error: APIError) => error.headers?.get('x-should-retry') ?? null

describe('400', () => {
  it('CUS-3: what the model does not take, by the name that the customer used, with what it does take', async () => {
    const cases: [object, string, string][] = [
      [{ seconds: '99' }, 'seconds', '4 to 15 seconds'],
      [{ size: '3840x2160' }, 'size', '480p, 720p, 1080p'],
      [{ size: undefined, resolution: '999p', aspect_ratio: '16:9' }, 'resolution', '480p, 720p, 1080p'],
      [{ reference_audios: ['https://a.example/a.mp3'] }, 'reference_audios', 'reference_images 1 to 9'],
    ]
    for (const [changed, param, takes] of cases) {
      const error = await failure(api.client().videos.create({ ...(VIDEO as object), ...changed } as never))
      expect(error).toBeInstanceOf(OpenAI.BadRequestError)
      expect(error).toMatchObject({ code: 'invalid_request', param, type: 'invalid_request_error' })
      expect(error.message).toContain(takes)
    }
    const images = await failure(api.client().images.generate({ ...IMAGE, n: 9 }))
    expect(images).toMatchObject({ status: 400, code: 'invalid_request', param: 'n' })
    expect(images.message).toContain('1 to 4')
  })

  it('ORD-19: such a refusal is kept with its verdict, and is no video of its customer', async () => {
    const [row] = await rowsOf<{
      state: string
      error_param: string
      rounds: number
      request_id: string
      hex: string
    }>(
      api.system.db,
      `select state, error_param, rounds, request_id, replace(id::text, '-', '') as hex from task where kind = 'video' limit 1`,
    )
    expect(row).toMatchObject({ state: 'rejected', rounds: 1, request_id: expect.stringMatching(/^req_/) })
    expect((await api.client().videos.list()).data).toEqual([])
    await expect(api.client().videos.retrieve(`video_${row?.hex}`)).rejects.toBeInstanceOf(
      OpenAI.NotFoundError,
    )
  })

  it('ERR-3: refused content and real persons', async () => {
    for (const code of ['content_refused', 'real_person_refused']) {
      answers = { image: { kind: 'failed', taskId: 't', code, submitted: true } }
      const error = await failure(forced.client({ maxRetries: 2 }).images.generate(IMAGE))
      expect(error).toBeInstanceOf(OpenAI.BadRequestError)
      expect(error.code).toBe(code)
      expect(shouldRetry(error)).toBe('false')
    }
  })

  it('CUS-3: what is no HTTP at all', async () => {
    for (const [sent, status] of [
      ['GET / HTTP/9.9\r\n\r\n', '400'],
      ['nonsense\r\n\r\n', '400'],
      [`GET /v1/models HTTP/1.1\r\nHost: a\r\nX: ${'x'.repeat(40_000)}\r\n\r\n`, '431'],
      ['POST /v1/videos HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde', '400'],
    ] as const) {
      const answer = await raw(sent)
      expect(answer).toContain(`HTTP/1.1 ${status}`)
      expect(answer).toMatch(/x-request-id: req_/i)
      expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({
        error: { type: 'invalid_request_error' },
      })
    }
    expect(await raw('GET /v1/%zz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).toMatch(
      /^HTTP\/1.1 40[04].*"error":/s,
    )
  })

  async function raw(sent: string): Promise<string> {
    const socket = connect(Number(new URL(api.url).port), '127.0.0.1')
    await once(socket, 'connect')
    socket.write(sent)
    return text(socket)
  }
})

describe('401 and 403', () => {
  it('CUS-1: no key, a strange one, an unknown one', async () => {
    for (const apiKey of ['sk-proj-123', `ym_${'x'.repeat(43)}`]) {
      const error = await failure(api.client({ apiKey }).models.list())
      expect(error).toBeInstanceOf(OpenAI.AuthenticationError)
      expect(error).toMatchObject({ status: 401, code: 'access_denied' })
      expect(error.message).not.toContain(apiKey)
    }
    for (const path of ['/v1/models', '/v1/videos', '/v1/videos/video_1', '/v1/videos/video_1/content'])
      expect((await api.fetch(path, { key: null })).status).toBe(401)
    const upload = await api.fetch('/v1/videos', {
      key: null,
      method: 'POST',
      body: new Uint8Array(3_000_000),
    })
    expect(upload.status).toBe(401)
  })

  it('CUS-1: a revoked key is refused within the few seconds that it is believed', async () => {
    const key = await createKey(api.system.db, { customerId: 'acme', name: 'short-lived' })
    const client = api.client({ apiKey: key.key })
    await client.models.list()
    await revokeKey(api.system.db, key.id)
    await until(
      'the revoked key is refused',
      async () =>
        client.models.list().then(
          () => false,
          (error) => error instanceof OpenAI.AuthenticationError,
        ),
      4,
    )
    const [row] = await rowsOf<{ used: boolean }>(
      api.system.db,
      'select last_used_at is not null as used from api_key where id = $1',
      [key.id],
    )
    expect(row?.used).toBe(true)
  })

  it('CUS-1: an expired key is refused', async () => {
    const key = await createKey(api.system.db, { customerId: 'acme', name: 'expired' })
    await api.system.db.query(
      `update api_key set expires_at = clock_timestamp() - interval '1 second' where name = 'expired'`,
    )
    expect(await failure(api.client({ apiKey: key.key }).models.list())).toMatchObject({
      status: 401,
      code: 'access_denied',
    })
  })

  it('ORD-1: a suspended customer, and a model that is for others', async () => {
    await setCustomerActive(api.system.db, 'other', false)
    const error = await failure(api.client({ apiKey: api.otherKey }).models.list())
    expect(error).toBeInstanceOf(OpenAI.PermissionDeniedError)
    expect(error.code).toBe('access_denied')
    answers = { video: { kind: 'rejected', taskId: 't', code: 'access_denied', param: null } }
    expect(await failure(forced.client().videos.create(VIDEO))).toMatchObject({
      status: 403,
      code: 'access_denied',
      param: 'model',
    })
  })
})

describe('404 and 405', () => {
  it('CUS-3: a model that does not exist', async () => {
    for (const work of [
      () => api.client().videos.create({ ...(VIDEO as object), model: 'sora-2' } as never),
      () => api.client().images.generate({ ...IMAGE, model: 'dall-e-3' }),
      () => api.client().models.retrieve('sora-2'),
    ]) {
      const error = await failure(work())
      expect(error).toBeInstanceOf(OpenAI.NotFoundError)
      expect(error).toMatchObject({ code: 'model_not_available', param: 'model' })
      expect(shouldRetry(error)).toBe('false')
    }
  })

  it('CUS-1: another customer’s video is not there, for any method', async () => {
    const video = await forced.client().videos.list()
    expect(video.data).toEqual([])
    const [task] = await queuedVideo()
    const stranger = forced.client({ apiKey: forced.otherKey })
    for (const work of [
      () => stranger.videos.retrieve(task),
      () => stranger.videos.delete(task),
      () => stranger.videos.downloadContent(task),
      () => forced.client().videos.retrieve('video_123'),
      () => forced.client().videos.retrieve(`video_${'0'.repeat(32)}`),
    ])
      expect(await failure(work())).toMatchObject({ status: 404, code: 'not_found' })
    expect((await stranger.videos.list()).data).toEqual([])
    expect((await forced.client().videos.retrieve(task)).id).toBe(task)
  })

  it('CUS-3: unknown paths, and methods that a path does not have', async () => {
    const lost = await api.fetch('/v1/chat/completions', {
      method: 'POST',
      body: '{}',
      headers: { 'content-type': 'application/json' },
    })
    expect(lost.status).toBe(404)
    expect(await lost.json()).toMatchObject({ error: { code: 'not_found', type: 'invalid_request_error' } })
    const wrong = await api.fetch('/v1/videos', { method: 'PUT' })
    expect(wrong.status).toBe(405)
    expect(wrong.headers.get('allow')).toBe('GET, POST')
    expect(await wrong.json()).toMatchObject({ error: { code: 'method_not_allowed' } })
    expect((await api.fetch('/v1/videos/video_1/remix', { method: 'POST' })).status).toBe(404)
  })
})

/** IDs of videos that wait in the forced system's queue, made by the real door. */
async function queuedVideo(): Promise<[string]> {
  const door = await startedDoor()
  return [door]
}

async function startedDoor(): Promise<string> {
  answers = {}
  const real = await forced.engine.admitVideo({
    caller: { customerId: 'acme', keyId: forced.system.customer.keyId, groups: ['default'] },
    modelId: 'seedance-2.0-933',
    facts: {
      media: 'video',
      billingMode: null,
      degradation: null,
      realPerson: false,
      durationSeconds: 5,
      resolution: '720p',
      aspectRatio: '16:9',
      generateAudio: false,
      inputs: {},
    },
    content: { prompt: 'a yard', inputs: {}, metadata: {}, echo: { size: '1280x720' } },
    requestId: 'req_test',
    idempotency: null,
    repeat: { count: 0, fingerprint: Buffer.alloc(32) },
  })
  if (real.kind !== 'admitted') throw new Error(`not admitted: ${real.kind}`)
  return `video_${real.taskId.replaceAll('-', '')}`
}

describe('409', () => {
  it('UNK-6: DELETE says why it cannot cancel, and the SDK does not repeat it', async () => {
    const id = await startedDoor()
    for (const why of [
      'submitting',
      'uncertain',
      'provider_cannot',
      'provider_refused',
      'provider_silent',
    ] as const) {
      answers = { cancel: { kind: 'refused', why } }
      const error = await failure(forced.client({ maxRetries: 2 }).videos.delete(id))
      expect(error).toBeInstanceOf(OpenAI.ConflictError)
      expect(error.code).toBe('cannot_cancel')
      expect(shouldRetry(error)).toBe('false')
    }
  })

  it('CUS-3: content before it is there', async () => {
    const error = await failure(forced.client().videos.downloadContent(await startedDoor()))
    expect(error).toMatchObject({ status: 409, code: 'not_ready' })
    expect(error.message).toContain('queued')
    expect(shouldRetry(error)).toBe('false')
  })
})

describe('429, 5xx', () => {
  it('RTY-5: an image without capacity is told 429, otherwise 503, each with Retry-After', async () => {
    answers = { image: { kind: 'wait', taskId: 't', reason: 'capacity', retryAfterSeconds: 7 } }
    const full = await failure(forced.client().images.generate(IMAGE))
    expect(full).toBeInstanceOf(OpenAI.RateLimitError)
    expect(full.code).toBe('capacity')
    expect(full.headers?.get('retry-after')).toBe('7')
    expect(shouldRetry(full)).toBeNull()
    for (const reason of ['health', 'disabled', 'cost'] as const) {
      answers = { image: { kind: 'wait', taskId: 't', reason, retryAfterSeconds: 30 } }
      const open = await failure(forced.client().images.generate(IMAGE))
      expect(open).toBeInstanceOf(OpenAI.InternalServerError)
      expect(open).toMatchObject({ status: 503, code: 'temporarily_unavailable' })
      expect(open.headers?.get('retry-after')).toBe('30')
    }
  })

  it('CUS-3: what waiting does not help is 503 without a repeat', async () => {
    for (const code of ['no_capable_supply', 'cost_limit_exceeded'] as const) {
      answers = { video: { kind: 'rejected', taskId: 't', code, param: null } }
      const error = await failure(forced.client({ maxRetries: 2 }).videos.create(VIDEO))
      expect(error).toMatchObject({ status: 503, code })
      expect(error.headers?.get('retry-after')).toBe('60')
    }
  })

  it('CUS-3: after a possible submission every error says x-should-retry: false', async () => {
    for (const [code, status] of [
      ['submission_unresolved', 504],
      ['generation_timeout', 504],
      ['attempts_exhausted', 502],
      ['generation_failed', 502],
      ['upstream_error', 502],
      ['rate_limited', 502],
      ['capacity', 429],
    ] as const) {
      answers = { image: { kind: 'failed', taskId: 't', code, submitted: true } }
      const error = await failure(forced.client({ maxRetries: 2 }).images.generate(IMAGE))
      expect(error.status, code).toBe(status)
      expect(shouldRetry(error), code).toBe('false')
      expect(error.headers?.get('retry-after') ?? null, code).toBeNull()
    }
  })

  it('ERR-3: a fault of our own is 500, says nothing of its cause, and is written down', async () => {
    answers = { video: new Error('secret detail at 10.0.0.1') }
    const error = await failure(forced.client({ maxRetries: 2 }).videos.create(VIDEO))
    expect(error).toMatchObject({ status: 500, code: 'internal_error' })
    expect(error.message).not.toContain('secret')
    expect(shouldRetry(error)).toBe('false')
    expect(forced.system.faults.splice(0)).toEqual([{ event: 'api.request_failed', error: answers.video }])
  })

  it('CUS-3: a database that cannot be reached is 503 with Retry-After', async () => {
    answers = { video: Object.assign(new Error('no'), { code: 'ECONNREFUSED' }) }
    const error = await failure(forced.client().videos.create(VIDEO))
    expect(error).toMatchObject({ status: 503, code: 'service_unavailable' })
    expect(error.headers?.get('retry-after')).toBe('5')
    forced.system.faults.splice(0)
  })
})
