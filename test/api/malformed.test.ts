/**
 * Malformed requests, generated: of each class at least twenty, each answered with a 4xx that says what is wrong, and
 * nothing left behind by any of them. Seeded, so that a failure comes again.
 */
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import fc from 'fast-check'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { LIMITS } from '../../src/api/limits.ts'
import { until } from '../system/kit.ts'
import { type Api, PNG, startApi, storedThings } from './kit.ts'

const RUNS = 40
const SEED = 20261201

let api: Api
let before: Awaited<ReturnType<typeof storedThings>>

beforeAll(async () => {
  api = await startApi({ running: false })
  before = await storedThings(api)
})
afterEach(async () => {
  expect(await storedThings(api), 'something was stored').toEqual(before)
  expect(api.system.faults).toEqual([])
})
afterAll(() => api.stop())

interface Sent {
  readonly path: '/v1/videos' | '/v1/images/generations'
  readonly contentType: string | null
  readonly body: string | Uint8Array
}

async function refused(sent: Sent): Promise<{ status: number; message: string }> {
  const headers: Record<string, string> =
    sent.contentType === null ? {} : { 'content-type': sent.contentType }
  const body = typeof sent.body === 'string' ? Buffer.from(sent.body) : Buffer.from(sent.body)
  const response = await api.fetch(sent.path, { method: 'POST', headers, body })
  const text = await response.text()
  const shown = `${response.status} ${text.slice(0, 300)} for ${body.subarray(0, 300).toString('latin1')}`
  expect(response.status, shown).toBeGreaterThanOrEqual(400)
  expect(response.status, shown).toBeLessThan(500)
  expect(response.headers.get('x-request-id')).toMatch(/^req_[0-9a-f]{32}$/)
  expect(response.headers.get('x-should-retry')).toBe('false')
  const { error } = JSON.parse(text)
  expect(error, shown).toEqual({
    message: expect.stringMatching(/\w+ .*\w/s),
    type: expect.any(String),
    code: expect.any(String),
    param: error.param === null ? null : expect.any(String),
  })
  expect(error.message.length, shown).toBeLessThan(1000)
  return { status: response.status, message: error.message }
}

function everyOneRefused(
  cases: fc.Arbitrary<Sent>,
  expected?: (answer: { status: number; message: string }) => void,
) {
  return fc.assert(
    fc.asyncProperty(cases, async (sent) => {
      const answer = await refused(sent)
      expected?.(answer)
    }),
    { numRuns: RUNS, seed: SEED },
  )
}

const VIDEO = { model: 'seedance-2.0-933', prompt: 'a yard', seconds: 5, size: '1280x720' }
const IMAGE = { model: 'seedream-4.0', prompt: 'a yard' }

function json(path: Sent['path'], value: unknown): Sent {
  return {
    path,
    contentType: 'application/json',
    body: typeof value === 'string' ? value : JSON.stringify(value),
  }
}

const video = (changed: object) => json('/v1/videos', { ...VIDEO, ...changed })
const image = (changed: object) => json('/v1/images/generations', { ...IMAGE, ...changed })
const path = fc.constantFrom('/v1/videos' as const, '/v1/images/generations' as const)

const BOUNDARY = 'yard-boundary-7'

function field(name: string, value: string): string {
  return `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
}

function file(name: string, bytes: Uint8Array, type = 'image/png'): Buffer {
  const head = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="${name}"; filename="a.png"\r\nContent-Type: ${type}\r\n\r\n`
  return Buffer.concat([Buffer.from(head), bytes, Buffer.from('\r\n')])
}

function form(...parts: (string | Uint8Array)[]): Sent {
  const body = Buffer.concat([...parts, `--${BOUNDARY}--\r\n`].map((part) => Buffer.from(part)))
  return { path: '/v1/videos', contentType: `multipart/form-data; boundary=${BOUNDARY}`, body }
}

const BASE_FORM = Object.entries(VIDEO).map(([name, value]) => field(name, String(value)))

describe('malformed requests', () => {
  it('CUS-3: types: a field of another type is named', async () => {
    const number = fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }))
    const object = fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), fc.integer(), { minKeys: 2, maxKeys: 3 })
    const notText = fc.oneof(
      number,
      fc.boolean(),
      object,
      fc.array(fc.string(), { minLength: 1, maxLength: 3 }),
    )
    const notBoolean = fc.oneof(number, fc.stringMatching(/^[a-z]{0,6}$/), object, fc.array(fc.boolean()))
    const notInteger = fc.oneof(
      fc.boolean(),
      fc.stringMatching(/^[a-z.]{1,6}$/),
      object,
      fc.constantFrom(1.5, 0.1, '4.0', '5s', ''),
    )
    const texts = fc.constantFrom(
      'prompt',
      'model',
      'size',
      'resolution',
      'aspect_ratio',
      'degradation',
      'billing_mode',
    )
    const cases = fc.oneof(
      fc.tuple(texts, notText).map(([name, value]) => video({ size: undefined, [name]: value })),
      fc
        .tuple(fc.constantFrom('generate_audio', 'real_person'), notBoolean)
        .map(([name, value]) => video({ [name]: value })),
      notInteger.map((seconds) => video({ seconds })),
      notInteger.map((n) => image({ n })),
      fc.oneof(number, fc.boolean(), object).map((first_frame) => video({ first_frame })),
      fc
        .oneof(number, fc.boolean(), fc.array(number, { minLength: 1 }))
        .map((metadata) => video({ metadata })),
      fc
        .oneof(number, fc.boolean(), fc.string(), fc.array(fc.anything().map(() => 1)))
        .map((root) => json('/v1/videos', JSON.stringify(root))),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: ranges: beyond what any model could take', async () => {
    const cases = fc.oneof(
      fc.oneof(fc.integer({ max: 0 }), fc.integer({ min: 86_401 })).map((seconds) => video({ seconds })),
      fc.oneof(fc.integer({ max: 0 }), fc.integer({ min: 101 })).map((n) => image({ n })),
      fc
        .integer({ min: 1, max: 2000 })
        .map((more) => video({ prompt: 'x'.repeat(LIMITS.promptCharacters + more) })),
      fc
        .constantFrom(
          '',
          '0x0',
          '1280',
          '1280x',
          'x720',
          '1280X720',
          '-1280x720',
          '1280x720x3',
          '99999999x1',
          '1281x721',
          '640x360',
          'auto',
        )
        .map((size) => video({ size })),
      fc
        .integer({ min: 1, max: 50 })
        .map((more) =>
          video({ reference_images: Array(LIMITS.inputsOfOneKind + more).fill('https://a.example/b.png') }),
        ),
      fc
        .integer({ min: 17, max: 60 })
        .map((keys) =>
          video({ metadata: Object.fromEntries(Array.from({ length: keys }, (_, n) => [`k${n}`, 'v'])) }),
        ),
      fc.integer({ min: 513, max: 900 }).map((length) => video({ metadata: { k: 'v'.repeat(length) } })),
      fc.integer({ min: 65, max: 200 }).map((length) => video({ metadata: { ['k'.repeat(length)]: 'v' } })),
      fc.integer({ min: 129, max: 500 }).map((length) => video({ model: 'm'.repeat(length) })),
      fc
        .integer({ min: 8193, max: 9000 })
        .map((length) => video({ first_frame: `https://a.example/${'p'.repeat(length)}` })),
      fc.constantFrom('strictest', 'BEST_EFFORT', '').map((degradation) => video({ degradation })),
      fc.constantFrom('per_image', 'per_minute', '').map((billing_mode) => video({ billing_mode })),
      fc.constantFrom('', 'jpeg', 'URL').map((response_format) => image({ response_format })),
      fc
        .constantFrom(
          { resolution: '480p' },
          { aspect_ratio: '9:16' },
          { resolution: '720p', aspect_ratio: '4:3' },
        )
        .map(video),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: encodings: what is not UTF-8, or not the base64 that it says', async () => {
    const broken = fc.constantFrom(
      [0xff],
      [0xc3, 0x28],
      [0xe2, 0x28, 0xa1],
      [0xf0, 0x28, 0x8c, 0xbc],
      [0xed, 0xa0, 0x80],
      [0xc0, 0xaf],
      [0xfe, 0xff],
      [0xf5, 0x80, 0x80, 0x80],
    )
    const inJson = fc
      .tuple(broken, path, fc.constantFrom('prompt', 'model', 'user'))
      .map(([bytes, to, name]) => {
        const [head = '', tail = ''] = JSON.stringify({
          ...(to === '/v1/videos' ? VIDEO : IMAGE),
          [name]: '@@',
        }).split('@@')
        return {
          path: to,
          contentType: 'application/json',
          body: Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)]),
        }
      })
    const inForm = fc.tuple(broken, fc.constantFrom('prompt', 'user', 'resolution')).map(([bytes, name]) => {
      const [head = '', tail = ''] = field(name, '@@').split('@@')
      return form(Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)]))
    })
    const utf16 = fc.constantFrom('utf16le' as const).map((encoding) => ({
      path: '/v1/videos' as const,
      contentType: 'application/json',
      body: Buffer.from(JSON.stringify(VIDEO), encoding),
    }))
    const dataUrl = fc
      .constantFrom(
        'data:image/png;base64,%%%%',
        'data:image/png;base64,abc',
        'data:image/png,abcd',
        'data:;base64,AAAA',
        'data:',
        'data:image/png;base64,',
        'data:image/png;base64,AAAA=AAA',
        'data:text/plain;base64,AAAA',
      )
      .map((first_frame) => video({ first_frame }))
    const transfer = fc
      .constantFrom('base64', 'quoted-printable', 'x-own')
      .map((encoding) =>
        form(
          ...BASE_FORM,
          `--${BOUNDARY}\r\nContent-Disposition: form-data; name="user"\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\nYQ==\r\n`,
        ),
      )
    const bom = fc.constant({
      path: '/v1/videos' as const,
      contentType: 'application/json',
      body: `\ufeff${JSON.stringify(VIDEO)}`,
    })
    await everyOneRefused(fc.oneof(inJson, inForm, utf16, dataUrl, transfer, bom))
  })

  it('CUS-3: nulls, and what is missing', async () => {
    const required = fc.constantFrom('prompt', 'model')
    const cases = fc.oneof(
      fc
        .tuple(path, required)
        .map(([to, name]) => json(to, { ...(to === '/v1/videos' ? VIDEO : IMAGE), [name]: null })),
      fc
        .tuple(path, required)
        .map(([to, name]) => json(to, { ...(to === '/v1/videos' ? VIDEO : IMAGE), [name]: undefined })),
      fc
        .tuple(path, required)
        .map(([to, name]) => json(to, { ...(to === '/v1/videos' ? VIDEO : IMAGE), [name]: '' })),
      fc
        .constantFrom('reference_images', 'reference_videos', 'reference_audios')
        .map((name) => video({ [name]: [null] })),
      fc.constantFrom('first_frame', 'input_reference').map((name) => video({ [name]: { image_url: null } })),
      fc
        .string({ minLength: 1, maxLength: 5, unit: 'grapheme-ascii' })
        .map((key) => video({ metadata: { [`k${key}`]: null } })),
      path.map((to) => json(to, 'null')),
      path.map((to) => json(to, '')),
      path.map((to) => json(to, '{}')),
      fc
        .constantFrom('prompt', 'model', 'seconds')
        .map((name) => form(...BASE_FORM.filter((part) => !part.includes(`"${name}"`)), field(name, ''))),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: unicode: halves of surrogate pairs and U+0000, wherever they stand', async () => {
    const bad = fc.constantFrom('\\u0000', '\\ud800', '\\udfff', 'a\\u0000b', '\\ude00\\ud83d', 'x\\udbff')
    const places: ((text: string) => string)[] = [
      (text) => `{"model":"seedance-2.0-933","prompt":"${text}"}`,
      (text) => `{"model":"${text}","prompt":"a"}`,
      (text) => `{"model":"seedance-2.0-933","prompt":"a","user":"${text}"}`,
      (text) => `{"model":"seedance-2.0-933","prompt":"a","metadata":{"k":"${text}"}}`,
      (text) => `{"model":"seedance-2.0-933","prompt":"a","metadata":{"${text}":"v"}}`,
      (text) => `{"model":"seedance-2.0-933","prompt":"a","${text}":"v"}`,
      (text) => `{"model":"seedance-2.0-933","prompt":"a","reference_images":["https://a.example/${text}"]}`,
      (text) => `{"model":"seedance-2.0-933","prompt":"a","first_frame":{"image_url":"${text}"}}`,
    ]
    const inJson = fc
      .tuple(bad, fc.constantFrom(...places), path)
      .map(([text, place, to]) => json(to, place(text)))
    const inForm = fc
      .constantFrom('prompt', 'user', 'model', 'metadata[k]', 'first_frame')
      .map((name) => form(field(name, 'a\0b')))
    const inName = fc.constantFrom('a\0', 'metadata[\0]').map((name) => form(...BASE_FORM, field(name, 'x')))
    const inMetadataText = bad.map((text) => form(...BASE_FORM, field('metadata', `{"k":"${text}"}`)))
    await everyOneRefused(fc.oneof(inJson, inForm, inName, inMetadataText))
  })

  it('CUS-3: huge numbers', async () => {
    const huge = fc.oneof(
      fc.constantFrom(
        '1e309',
        '-1e309',
        '1e999999',
        '9007199254740993',
        '1e21',
        '-0.5',
        '1e-400',
        '4.9999999999999999',
        '1E400',
      ),
      fc.integer({ min: 20, max: 400 }).map((digits) => '9'.repeat(digits)),
    )
    const cases = fc.oneof(
      huge
        .filter((text) => text !== '4.9999999999999999')
        .map((text) => json('/v1/videos', `{"model":"seedance-2.0-933","prompt":"a","seconds":${text}}`)),
      huge.map((text) => json('/v1/videos', `{"model":"seedance-2.0-933","prompt":"a","seconds":"${text}"}`)),
      huge
        .filter((text) => text !== '4.9999999999999999')
        .map((text) => json('/v1/images/generations', `{"model":"seedream-4.0","prompt":"a","n":${text}}`)),
      huge.map((text) =>
        form(field('model', 'seedance-2.0-933'), field('prompt', 'a'), field('seconds', text)),
      ),
      huge.map((text) => video({ size: `${text}x${text}` })),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: nesting without end', async () => {
    const depth = fc.oneof(fc.integer({ min: 17, max: 200 }), fc.constantFrom(10_000, 200_000))
    const nested = fc
      .tuple(depth, fc.constantFrom(['[', ']'], ['{"a":', '}']))
      .map(([levels, [open = '', close = '']]) => `${open.repeat(levels)}1${close.repeat(levels)}`)
    const cases = fc.oneof(
      nested.map((value) => json('/v1/videos', value)),
      fc
        .tuple(nested, fc.constantFrom('metadata', 'prompt', 'reference_images', 'unknown'))
        .map(([value, name]) =>
          json('/v1/videos', `{"model":"seedance-2.0-933","prompt":"a","${name}":${value}}`),
        ),
      depth.map((levels) => json('/v1/images/generations', '['.repeat(levels))),
      depth.map((levels) => json('/v1/images/generations', '{"a":'.repeat(levels))),
      fc
        .integer({ min: 17, max: 60 })
        .map((levels) =>
          form(...BASE_FORM, field('metadata', `{"a":${'['.repeat(levels)}${']'.repeat(levels)}}`)),
        ),
      fc
        .integer({ min: 2, max: 60 })
        .map((levels) => form(...BASE_FORM, field(`metadata${'[a]'.repeat(levels)}`, 'x'))),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: keys: unknown, given twice, or none that an object should have', async () => {
    const unknown = fc
      .stringMatching(/^[a-z]{3,12}$/)
      .filter(
        (name) =>
          !['user', 'size', 'prompt', 'model', 'seconds', 'metadata', 'resolution', 'quality'].includes(name),
      )
    const special = fc.constantFrom('__proto__', 'constructor', 'prototype')
    const cases = fc.oneof(
      fc
        .tuple(unknown, path)
        .map(([name, to]) => json(to, { ...(to === '/v1/videos' ? VIDEO : IMAGE), [`x${name}`]: 1 })),
      special.map((name) =>
        json('/v1/videos', `{"model":"seedance-2.0-933","prompt":"a","${name}":{"a":1}}`),
      ),
      special.map((name) =>
        json('/v1/videos', `{"model":"seedance-2.0-933","prompt":"a","metadata":{"${name}":"b"}}`),
      ),
      special.map((name) => form(...BASE_FORM, field(name, 'x'))),
      special.map((name) => form(...BASE_FORM, field(`metadata[${name}]`, 'x'))),
      fc
        .constantFrom('prompt', 'model', 'seconds')
        .map((name) =>
          json('/v1/videos', `{"model":"seedance-2.0-933","prompt":"a","seconds":5,"${name}":"b"}`),
        ),
      fc
        .constantFrom('prompt', 'model', 'seconds', 'generate_audio')
        .map((name) => form(...BASE_FORM, field(name, 'true'), field(name, 'true'))),
      fc
        .constantFrom('[]', '[a]', 'a[', 'a]', 'a[b', 'a[b][c]', '')
        .map((name) => form(...BASE_FORM, field(name, 'x'))),
      fc
        .constantFrom('metadata', 'prompt')
        .map((name) => form(...BASE_FORM, field(name, 'x'), field(`${name}[a]`, 'x'))),
      fc
        .constantFrom(
          { n: 2 },
          { output_format: 'png' },
          { stream: true },
          { image: 'https://a.example/b.png' },
        )
        .map((value) => ('n' in value ? video(value) : image(value))),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: references that are none', async () => {
    const name = fc.constantFrom('first_frame', 'last_frame', 'input_reference')
    const link = fc.constantFrom(
      '',
      'a',
      '/a.png',
      'ftp://a.example/b.png',
      'file:///etc/passwd',
      'https://',
      'http://u:p@a.example/',
      'javascript:alert(1)',
      'https://a.example/a b',
      'https://a.example/\t',
      'gs://bucket/a',
    )
    const cases = fc.oneof(
      fc.tuple(name, link).map(([key, value]) => video({ [key]: value })),
      link.map((value) => video({ reference_videos: ['https://a.example/b.mp4', value] })),
      fc.tuple(name, link).map(([key, value]) => form(...BASE_FORM, field(key, value))),
      name.map((key) => video({ [key]: { file_id: 'file-1' } })),
      name.map((key) =>
        video({ [key]: { image_url: 'https://a.example/b.png', url: 'https://a.example/b.png' } }),
      ),
      name.map((key) => video({ [key]: ['https://a.example/b.png'] })),
      fc.constant(
        video({ input_reference: 'https://a.example/b.png', first_frame: 'https://a.example/b.png' }),
      ),
      name.map((key) => form(...BASE_FORM, file(key, new Uint8Array(0)))),
      name.map((key) => form(...BASE_FORM, file(key, Buffer.from('plain text'), 'text/plain'))),
      fc.constant(form(...BASE_FORM, file('reference_videos', PNG))),
      fc.constant(form(...BASE_FORM, file('prompt', PNG))),
      fc.constant(form(...BASE_FORM, file('metadata', PNG))),
      fc.constant(form(...BASE_FORM, file('metadata[a]', PNG))),
    )
    await everyOneRefused(cases)
  })

  it('CUS-3: broken multipart, also after a good file', async () => {
    const whole = form(
      ...BASE_FORM,
      file('input_reference', Buffer.concat([PNG, Buffer.alloc(5000)])),
      field('user', 'u'),
    )
    const bytes = Buffer.from(whole.body)
    const cut = fc
      .integer({ min: 0, max: bytes.length - 4 })
      .map((length) => ({ ...whole, body: bytes.subarray(0, length) }))
    const type = fc
      .constantFrom(
        'multipart/form-data',
        'multipart/form-data; boundary=',
        'multipart/form-data; boundary=other',
        `multipart/form-data; boundary=${'b'.repeat(71)}`,
        'multipart/form-data; boundary="a b',
      )
      .map((contentType) => ({ ...whole, contentType }))
    const lines = [
      '',
      'Content-Type: text/plain',
      'Content-Disposition: attachment; name="a"',
      'Content-Disposition: form-data',
      'Content-Disposition: form-data; name=',
      'Content-Disposition: form-data; name=""',
      'no colon',
      ': x',
      'Content-Disposition: form-data; name="a',
      'Content-Disposition: form-data; name="a" trailing',
      'Content-Disposition:form-data;name="a"\nX: y',
    ]
    const head = fc
      .constantFrom(...lines)
      .map((line) =>
        form(file('input_reference', PNG), ...BASE_FORM, `--${BOUNDARY}\r\n${line}\r\n\r\nx\r\n`),
      )
    const glued = fc
      .constantFrom('x', '-', ' \t', '\n')
      .map((text) =>
        form(...BASE_FORM, `--${BOUNDARY}${text}Content-Disposition: form-data; name="user"\r\n\r\nx\r\n`),
      )
    const preamble = fc
      .constantFrom('x', 'preamble\r\n', '\r\n')
      .map((text) => ({ ...whole, body: Buffer.concat([Buffer.from(text), bytes]) }))
    await everyOneRefused(fc.oneof({ weight: 3, arbitrary: cut }, type, head, glued, preamble))
  })

  it('CUS-3: oversized: 413 and what the limit is', async () => {
    const tooLarge = (answer: { status: number; message: string }) => {
      expect(answer.status).toBe(413)
      expect(answer.message).toMatch(/\d/)
    }
    const cases = fc.oneof(
      fc
        .integer({ min: 1, max: 60 })
        .map((more) =>
          form(
            ...BASE_FORM,
            ...Array.from({ length: LIMITS.parts + more }, () =>
              field('reference_images[]', 'https://a.example/b'),
            ),
          ),
        ),
      fc
        .integer({ min: 1, max: 20 })
        .map((more) =>
          form(
            ...BASE_FORM,
            ...Array.from({ length: LIMITS.files + more }, () => file('reference_images[]', PNG)),
          ),
        ),
      fc
        .integer({ min: 1, max: 5000 })
        .map((more) => form(...BASE_FORM, field('user', 'u'.repeat(LIMITS.fieldBytes + more)))),
      fc
        .integer({ min: 1, max: 5000 })
        .map((more) =>
          form(
            ...BASE_FORM,
            `--${BOUNDARY}\r\nX-Long: ${'h'.repeat(LIMITS.partHeaderBytes + more)}\r\n\r\nx\r\n`,
          ),
        ),
    )
    await everyOneRefused(cases, tooLarge)
    tooLarge(
      await refused(
        form(...BASE_FORM, file('input_reference', Buffer.concat([PNG, Buffer.alloc(LIMITS.fileBytes)]))),
      ),
    )
    tooLarge(await refused(json('/v1/videos', { ...VIDEO, user: 'u'.repeat(LIMITS.bodyBytes) })))
    tooLarge(
      await refused(
        video({
          first_frame: `data:image/png;base64,${Buffer.alloc(LIMITS.fileBytes - (LIMITS.fileBytes % 3) + 3)
            .toString('base64')
            .slice(0, LIMITS.bodyBytes)}`,
        }),
      ),
    )
  })

  it('CUS-3: wrong content types: 415, or 400 where the body is not what its type says', async () => {
    const types = [
      'text/plain',
      'application/xml',
      'application/x-www-form-urlencoded',
      'application/octet-stream',
      'text/html',
      'image/png',
      'application/jsonx',
      'application/json-patch+json',
      'multipart/mixed; boundary=a',
      'multipart/related',
      'json',
      '*/*',
      'video/mp4',
      'application/graphql',
      'application/cbor',
      'application/msgpack',
      'text/json',
      'application/yaml',
      'application/ld+json',
      'multipart/x',
      ';',
      'a/b;c=d',
    ]
    const other = fc.tuple(fc.constantFrom(...types), path).map(([contentType, to]) => ({
      path: to,
      contentType,
      body: JSON.stringify(to === '/v1/videos' ? VIDEO : IMAGE),
    }))
    await everyOneRefused(other, ({ status }) => expect(status).toBe(415))
    const swapped = fc.constantFrom(
      {
        path: '/v1/videos' as const,
        contentType: `multipart/form-data; boundary=${BOUNDARY}`,
        body: JSON.stringify(VIDEO),
      },
      { path: '/v1/videos' as const, contentType: 'application/json', body: form(...BASE_FORM).body },
      {
        path: '/v1/videos' as const,
        contentType: 'application/json',
        body: 'model=seedance-2.0-933&prompt=a',
      },
      {
        path: '/v1/videos' as const,
        contentType: 'application/json',
        body: '{"model":"seedance-2.0-933","prompt":"a"',
      },
      {
        path: '/v1/videos' as const,
        contentType: 'application/json',
        body: '{"model":"seedance-2.0-933","prompt":"a"} x',
      },
      { path: '/v1/videos' as const, contentType: 'application/json', body: "{'model':'seedance-2.0-933'}" },
      { path: '/v1/videos' as const, contentType: 'application/json', body: '{"prompt":"a",}' },
      { path: '/v1/videos' as const, contentType: 'application/json', body: '{"prompt":NaN}' },
    )
    await everyOneRefused(swapped, ({ status }) => expect(status).toBe(400))
  })

  it('CUS-5: a client that leaves in the middle of its upload leaves nothing', async () => {
    const whole = Buffer.from(form(...BASE_FORM, file('input_reference', Buffer.alloc(2_000_000))).body)
    for (const length of [200, 700, 300_000, 1_900_000]) {
      const socket = connect(Number(new URL(api.url).port), '127.0.0.1')
      socket.write(`POST /v1/videos HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${api.key}\r\n`)
      socket.write(
        `Content-Type: multipart/form-data; boundary=${BOUNDARY}\r\nContent-Length: ${whole.length}\r\n\r\n`,
      )
      socket.write(whole.subarray(0, length))
      if (length > 1000) await until('the file arrives', async () => (await storedThings(api)).spooled === 1)
      socket.destroy()
      await until('nothing is left', async () => (await storedThings(api)).spooled === 0)
    }
  })

  it.each([
    [
      'with another boundary',
      400,
      `Authorization: Bearer @\r\nContent-Type: multipart/form-data; boundary=${BOUNDARY}`,
    ],
    ['of another type', 415, 'Authorization: Bearer @\r\nContent-Type: text/plain'],
    ['without a key', 401, `Content-Type: multipart/form-data; boundary=${BOUNDARY}`],
  ])(
    'CUS-3: a refused upload, %s, is read to its end, so that the connection goes on to serve',
    async (_, status, head) => {
      const body = Buffer.from(`not the boundary${'x'.repeat(3_000_000)}`)
      const socket = connect(Number(new URL(api.url).port), '127.0.0.1')
      socket.write(`POST /v1/videos HTTP/1.1\r\nHost: a\r\n${head.replace('@', api.key)}\r\n`)
      socket.write(`Content-Length: ${body.length}\r\n\r\n`)
      socket.write(body)
      socket.write('GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
      const answers = await text(socket)
      expect(answers).toContain(`HTTP/1.1 ${status} `)
      expect(answers).toContain('{"status":"ok"}')
    },
  )
})
