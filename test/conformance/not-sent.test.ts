/**
 * What a create may claim (UNK-7, UNK-10): every way in which it can end, played by sockets that count what reached
 * them. "Not sent" is only ever said where no byte of the request arrived, and one attempt is at most one POST.
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect as connectPlain, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'
import { afterEach, describe, expect, it } from 'vitest'
import type { Account, Submission, SubmitReply, VideoOrder } from '../../src/providers/adapter.ts'
import { createArkAdapter } from '../../src/providers/ark/adapter.ts'
import { type Caller, type CallerOptions, createCaller } from '../../src/providers/call.ts'
import { answering, type Connection, listen, type RawServer, rawServer, reply } from './raw-server.ts'

const open: (() => Promise<unknown> | unknown)[] = []
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close()
})

const ACCOUNT: Account = {
  channelId: 'c1',
  baseUrl: 'http://127.0.0.1',
  credential: 'sk-secret-123',
  options: {},
}
const ORDER: VideoOrder = {
  media: 'video',
  prompt: 'a lighthouse',
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: false,
  inputs: {},
}
const EIGHT_MEGABYTES: VideoOrder['inputs'] = {
  first_frame: [
    { kind: 'bytes', bytes: new Uint8Array(8 * 1024 * 1024), contentType: 'image/png', filename: 'a.png' },
  ],
}

interface Given extends Partial<Omit<Submission<VideoOrder>, 'order'>> {
  readonly inputs?: VideoOrder['inputs']
  readonly caller?: CallerOptions
  readonly credential?: string
}

function callerWith(options: CallerOptions = {}): Caller {
  const caller = createCaller({ connectTimeoutMs: 2_000, ...options })
  open.push(() => caller.close())
  return caller
}

function submitTo(url: string, given: Given = {}, caller = callerWith(given.caller)): Promise<SubmitReply> {
  const account = { ...ACCOUNT, baseUrl: url, ...(given.credential ? { credential: given.credential } : {}) }
  return createArkAdapter(caller).submitVideo!(account, {
    attemptId: 'attempt-1',
    upstreamModel: 'seedance',
    callbackUrl: null,
    timeoutMs: 10_000,
    mayStillSend: () => true,
    ...given,
    order: { ...ORDER, inputs: given.inputs ?? {} },
  })
}

async function play(script: (connection: Connection) => void): Promise<RawServer> {
  const server = await rawServer(script)
  open.push(server.close)
  return server
}

function faultOf(said: SubmitReply) {
  if (said.kind !== 'fault') throw new Error(`expected a fault, got ${said.kind}`)
  return said.fault
}

const NOT_SENT = {
  category: 'supply',
  scope: 'channel',
  retryable: true,
  certainty: 'not_sent',
  connection: true,
}
const UNKNOWN = {
  category: 'unknown',
  scope: 'attempt',
  retryable: false,
  certainty: 'unknown',
  impact: 'failure',
  code: 'submission_unknown',
}

describe('before the first byte', () => {
  it('UNK-7: a host that cannot be resolved: not sent', async () => {
    // A label longer than 63 characters is refused by the resolver itself: no query leaves this machine.
    const fault = faultOf(await submitTo(`http://${'a'.repeat(64)}.invalid`))
    expect(fault).toMatchObject({ ...NOT_SENT, impact: 'failure', code: 'connection_failed' })
    expect(fault.fingerprint).toBe('supply|channel|connecting|ENOTFOUND')
  })

  it('UNK-7: a refused connection: not sent', async () => {
    const server = createServer()
    const port = await listen(server)
    server.close()
    await once(server, 'close')
    const fault = faultOf(await submitTo(`http://127.0.0.1:${port}`))
    expect(fault).toMatchObject({ ...NOT_SENT, impact: 'failure' })
    expect(fault.fingerprint).toBe('supply|channel|connecting|ECONNREFUSED')
  })

  it('UNK-7: a reset right after accept is "not sent" only if no byte arrived', async () => {
    const server = await play(({ socket }) => socket.resetAndDestroy())
    const fault = faultOf(await submitTo(server.url))
    expect(['not_sent', 'unknown']).toContain(fault.certainty)
    if (fault.certainty === 'not_sent') expect(server.received()).toBe('')
    else expect(fault).toMatchObject(UNKNOWN)
  })

  it('UNK-7: mayStillSend answering no: the server saw a connection and no byte, and it was no attempt', async () => {
    const server = await play(answering((socket) => socket.end(reply(200, { id: 'cgt-1' }))))
    const asked: number[] = []
    const mayStillSend = () => {
      asked.push(server.connections())
      return false
    }
    const gone = new Promise<void>((resolve) => {
      const caller = callerWith()
      void submitTo(server.url, { mayStillSend }, caller).then(async (said) => {
        expect(said).toEqual({ kind: 'stopped_before_sending' })
        await caller.close()
        resolve()
      })
    })
    await gone
    expect(asked).toHaveLength(1)
    expect(server.received()).toBe('')
  })

  it('UNK-7: a mayStillSend that throws stops the call as well', async () => {
    const server = await play(answering((socket) => socket.end(reply(200, { id: 'cgt-1' }))))
    const mayStillSend = () => {
      throw new Error('the database is gone')
    }
    expect(await submitTo(server.url, { mayStillSend })).toEqual({ kind: 'stopped_before_sending' })
    expect(server.received()).toBe('')
  })

  it('UNK-7: our deadline before the first byte is no attempt, and none leaves when the handshake ends later', async () => {
    const holding = await heldTlsServer()
    const caller = callerWith({ ca: certificate('localhost'), connectTimeoutMs: 8_000 })
    expect(await submitTo(holding.url, { timeoutMs: 150 }, caller)).toEqual({
      kind: 'stopped_before_sending',
    })
    await holding.release()
    expect(holding.requestBytes()).toBe(0)
  })

  it('UNK-7: closing the client while it connects is no attempt', async () => {
    const holding = await heldTlsServer()
    const caller = callerWith({ ca: certificate('localhost') })
    const said = submitTo(holding.url, {}, caller)
    await holding.connected
    await caller.close()
    expect(await said).toEqual({ kind: 'stopped_before_sending' })
    expect(await submitTo(holding.url, {}, caller)).toEqual({ kind: 'stopped_before_sending' })
    expect(holding.requestBytes()).toBe(0)
  })

  it('UNK-7: a channel that cannot be called at all is not sent, and does not heal by itself', async () => {
    const server = await play(() => {})
    const shut = {
      ...NOT_SENT,
      connection: false,
      impact: 'persistent_failure',
      code: 'channel_misconfigured',
    }
    expect(faultOf(await submitTo('not a url'))).toMatchObject(shut)
    expect(faultOf(await submitTo('ftp://127.0.0.1'))).toMatchObject(shut)
    expect(faultOf(await submitTo(`${server.url}?version=1`))).toMatchObject(shut)
    const broken = faultOf(await submitTo(server.url, { credential: 'two\nlines' }))
    expect(broken).toMatchObject(shut)
    expect(broken.message).not.toContain('lines')
    expect(server.connections()).toBe(0)
  })

  it('UNK-7: a call that we built wrongly is ours, and not sent', async () => {
    const server = await play(() => {})
    const fault = faultOf(await submitTo(server.url, { attemptId: 'a\r\nx-evil: 1' }))
    expect(fault).toMatchObject({
      category: 'request',
      scope: 'attempt',
      certainty: 'not_sent',
      impact: 'none',
    })
    expect(fault).toMatchObject({ code: 'call_misbuilt', retryable: false, connection: false })
    expect(server.received()).toBe('')
  })
})

describe('in the TLS handshake', () => {
  it('UNK-7: a certificate that nobody vouches for: not sent, and it does not heal by itself (HLT-14)', async () => {
    const { url, requestBytes } = await tlsServer('localhost')
    const fault = faultOf(await submitTo(url))
    expect(fault).toMatchObject({ ...NOT_SENT, impact: 'persistent_failure', code: 'certificate_refused' })
    expect(requestBytes()).toBe(0)
  })

  it.each([
    ['another host', 'other-host', 'ERR_TLS_CERT_ALTNAME_INVALID'],
    ['the past', 'expired', 'CERT_HAS_EXPIRED'],
  ] as const)(
    'UNK-7: a certificate of %s: not sent, and it does not heal by itself',
    async (_, name, code) => {
      const { url, requestBytes } = await tlsServer(name)
      const fault = faultOf(await submitTo(url, { caller: { ca: certificate(name) } }))
      expect(fault).toMatchObject({ ...NOT_SENT, impact: 'persistent_failure', code: 'certificate_refused' })
      expect(fault.fingerprint).toBe(`supply|channel|connecting|${code}`)
      expect(requestBytes()).toBe(0)
    },
  )

  it.each([
    ['speaks no TLS', (socket: Socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')],
    ['resets', (socket: Socket) => socket.resetAndDestroy()],
    ['hangs up', (socket: Socket) => socket.end()],
  ])('UNK-7: a server that %s: not sent', async (_, act) => {
    const server = await play(({ socket, firstBytes }) => void firstBytes.then(() => act(socket)))
    const fault = faultOf(await submitTo(server.url.replace('http:', 'https:')))
    expect(fault).toMatchObject({ ...NOT_SENT, impact: 'failure', code: 'connection_failed' })
    expect(server.received()).not.toContain('POST')
  })

  it('UNK-7: the same ECONNRESET is "not sent" in the handshake and "unknown" after the request', async () => {
    const early = await play(({ socket, firstBytes }) => void firstBytes.then(() => socket.resetAndDestroy()))
    const late = await play(answering((socket) => socket.resetAndDestroy()))
    const inHandshake = faultOf(await submitTo(early.url.replace('http:', 'https:')))
    const afterRequest = faultOf(await submitTo(late.url))
    expect([inHandshake.fingerprint, afterRequest.fingerprint]).toEqual([
      'supply|channel|connecting|ECONNRESET',
      'unknown|attempt|awaiting_head|ECONNRESET',
    ])
    expect([inHandshake.certainty, afterRequest.certainty]).toEqual(['not_sent', 'unknown'])
  })

  it('UNK-7: a handshake that never ends: not sent', async () => {
    const server = await play(() => {})
    const given = { caller: { connectTimeoutMs: 300 } }
    const fault = faultOf(await submitTo(server.url.replace('http:', 'https:'), given))
    expect(fault).toMatchObject({ ...NOT_SENT, impact: 'failure' })
    expect(fault.fingerprint).toBe('supply|channel|connecting|UND_ERR_CONNECT_TIMEOUT')
  })
})

describe('after the first byte', () => {
  const broken: [string, (socket: Socket) => void][] = [
    ['the server hangs up', (socket) => socket.end()],
    ['the server resets', (socket) => socket.resetAndDestroy()],
    ['it hangs up inside the head', (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-le')],
    ['it says 100 and hangs up', (socket) => socket.end('HTTP/1.1 100 Continue\r\n\r\n')],
    ['it says 102 and hangs up', (socket) => socket.end('HTTP/1.1 102 Processing\r\n\r\n')],
    ['it answers in no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n')],
    ['its head is endless', (socket) => socket.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`)],
    ['a 200 ends before its length', (socket) => socket.end(head(200, 'content-length: 40') + GOOD)],
    [
      'a 200 resets inside its body',
      (socket) => socket.write(head(200, 'content-length: 40') + GOOD, () => socket.resetAndDestroy()),
    ],
    [
      'a chunked 200 is cut',
      (socket) => socket.end(`${head(200, 'transfer-encoding: chunked')}10\r\n{"id":`),
    ],
    ['a 400 ends before its length', (socket) => socket.end(head(400, 'content-length: 90') + REFUSAL)],
    ['a 429 is cut', (socket) => socket.end(`${head(429, 'transfer-encoding: chunked')}90\r\n{"err`)],
    ['a 500 ends before its length', (socket) => socket.end(head(500, 'content-length: 90') + REFUSAL)],
  ]
  it.each(broken)('UNK-7: %s: unknown', async (_, act) => {
    const server = await play(answering(act))
    const fault = faultOf(await submitTo(server.url))
    expect(fault).toMatchObject(UNKNOWN)
    // A 1xx is no head.
    expect(fault.httpStatus).not.toBeOneOf([100, 102])
    expect(server.posts()).toBe(1)
  })

  it('UNK-7: no answer until our deadline: unknown, and a failure of the supply (UNK-8)', async () => {
    const server = await play(() => {})
    expect(faultOf(await submitTo(server.url, { timeoutMs: 1_500 }))).toMatchObject(UNKNOWN)
    expect(server.posts()).toBe(1)
  })

  it('UNK-7: a body that stalls: unknown', async () => {
    const server = await play(answering((socket) => socket.write(head(200, 'content-length: 40') + GOOD)))
    const fault = faultOf(await submitTo(server.url, { caller: { bodyTimeoutMs: 500 } }))
    expect(fault).toMatchObject({ ...UNKNOWN, httpStatus: 200 })
    expect(fault.fingerprint).toBe('unknown|attempt|reading_body|UND_ERR_BODY_TIMEOUT')
  })

  it('UNK-7: an upload that the server never reads is no proof of anything: unknown', async () => {
    const server = await play(({ socket }) => socket.pause())
    const said = await submitTo(server.url, { inputs: EIGHT_MEGABYTES, timeoutMs: 2_000 })
    expect(faultOf(said)).toMatchObject(UNKNOWN)
  })

  it('UNK-7: a reset in the middle of the upload: unknown', async () => {
    const server = await play(
      ({ socket, firstBytes }) => void firstBytes.then(() => socket.resetAndDestroy()),
    )
    expect(faultOf(await submitTo(server.url, { inputs: EIGHT_MEGABYTES }))).toMatchObject(UNKNOWN)
  })

  it('UNK-7: an answer larger than is allowed: unknown', async () => {
    const server = await play(
      answering((socket) => socket.end(reply(200, { id: 'cgt-1', pad: 'x'.repeat(5_000) }))),
    )
    const fault = faultOf(await submitTo(server.url, { caller: { maxAnswerBytes: 1_000 } }))
    expect(fault).toMatchObject(UNKNOWN)
    expect(fault.fingerprint).toBe('unknown|attempt|reading_body|too_large')
  })

  it('UNK-7: closing the client after the first byte: unknown, without a word about the supply', async () => {
    const server = await play(() => {})
    const caller = callerWith()
    const said = submitTo(server.url, {}, caller)
    await untilPosted(server)
    await caller.close()
    expect(faultOf(await said)).toMatchObject({ ...UNKNOWN, impact: 'none' })
  })
})

describe('a complete answer', () => {
  it('an ID under 200, 201 or 202 is an acceptance, with the provider’s number for it', async () => {
    for (const status of [200, 201, 202]) {
      const text = reply(status, { id: 'cgt-7' }, { 'x-request-id': 'req-1' })
      const server = await play(answering((socket) => socket.end(text)))
      expect(await submitTo(server.url)).toEqual({
        kind: 'accepted',
        providerTaskId: 'cgt-7',
        requestId: 'req-1',
      })
    }
  })

  const unreadable: [string, string][] = [
    ['an empty 200', reply(200, '')],
    ['a 200 without an ID', reply(200, {})],
    ['a 200 whose ID is no text', reply(200, { id: 7 })],
    ['a page under 200', reply(200, '<html>Welcome</html>', { 'content-type': 'text/html' })],
    ['a 200 cut off, its end being the connection’s', `${head(200, 'connection: close')}{"id":"cgt-`],
    [
      'a 200 with an error that no document puts there',
      reply(200, { error: { code: 'InvalidParameter', message: 'x' } }),
    ],
    ['a 202 without an ID', reply(202, { status: 'ok' })],
    ['a 204', 'HTTP/1.1 204 No Content\r\n\r\n'],
  ]
  it.each(unreadable)('UNK-7: %s: unknown', async (_, text) => {
    const server = await play(answering((socket) => socket.end(text)))
    expect(faultOf(await submitTo(server.url))).toMatchObject(UNKNOWN)
    expect(server.posts()).toBe(1)
  })

  it.each([301, 302, 303, 307, 308])('UNK-7, UNK-10: a %d is not followed: unknown', async (status) => {
    const elsewhere = await play(answering((socket) => socket.end(reply(200, { id: 'cgt-1' }))))
    const text = reply(status, '', { location: `${elsewhere.url}/moved` })
    const server = await play(answering((socket) => socket.end(text)))
    expect(faultOf(await submitTo(server.url))).toMatchObject({ ...UNKNOWN, httpStatus: status })
    expect(elsewhere.connections()).toBe(0)
  })

  it.each([408, 500, 501, 502, 503, 504, 520])(
    'UNK-7, UNK-10: a bare %d: unknown, and one POST',
    async (status) => {
      const server = await play(
        answering((socket) => socket.end(reply(status, '<h1>Bad</h1>', { 'retry-after': '1' }))),
      )
      expect(faultOf(await submitTo(server.url))).toMatchObject({ ...UNKNOWN, httpStatus: status })
      expect(server.posts()).toBe(1)
    },
  )

  it('UNK-7: a 413 before the body was read is a complete refusal', async () => {
    const server = await play(
      ({ socket, firstBytes }) => void firstBytes.then(() => socket.write(reply(413, ''))),
    )
    const fault = faultOf(await submitTo(server.url, { inputs: EIGHT_MEGABYTES }))
    expect(fault).toMatchObject({
      category: 'request',
      scope: 'request',
      certainty: 'rejected',
      impact: 'none',
    })
  })

  it('UNK-10: each create has its own connection, and carries the attempt’s ID', async () => {
    const text = reply(200, { id: 'cgt-1' }, { connection: 'keep-alive' })
    const server = await play(answering((socket) => socket.write(text)))
    const caller = callerWith()
    await submitTo(server.url, {}, caller)
    await submitTo(server.url, { attemptId: 'attempt-2' }, caller)
    expect(server.connections()).toBe(2)
    expect(server.received().match(/x-client-request-id: (attempt-\d)/g)).toHaveLength(2)
    expect(server.received().match(/connection: close\r\n/g)).toHaveLength(2)
  })

  it('a credential never stands in a fault, even where the provider repeats it', async () => {
    const message = 'Incorrect API key provided: sk-secret-123. See https://x.test/keys?sig=abcdef'
    const text = reply(401, { error: { code: 'AuthenticationError', message } })
    const server = await play(answering((socket) => socket.end(text)))
    const fault = faultOf(await submitTo(server.url))
    expect(JSON.stringify(fault)).not.toMatch(/secret|abcdef/)
    expect(fault.message).toContain('AuthenticationError')
  })
})

const GOOD = '{"id":"cgt-1"}'
const REFUSAL = '{"error":{"code":"InvalidParameter"'

function head(status: number, line: string): string {
  return `HTTP/1.1 ${status} X\r\ncontent-type: application/json\r\n${line}\r\n\r\n`
}

async function untilPosted(server: RawServer): Promise<void> {
  while (server.posts() === 0) await new Promise((resolve) => setImmediate(resolve))
}

type CertificateName = 'localhost' | 'other-host' | 'expired'

function certificate(name: CertificateName): string {
  return readFileSync(new URL(`./tls/${name}.pem`, import.meta.url), 'utf8')
}

const key = readFileSync(new URL('./tls/key.pem', import.meta.url), 'utf8')

/** A TLS server that counts what it decrypts. */
async function tlsServer(name: CertificateName) {
  let bytes = 0
  const server = createTlsServer({ key, cert: certificate(name) }, (socket: TLSSocket) => {
    socket.on('error', () => {})
    socket.on('data', (piece) => {
      bytes += piece.length
      if (piece.includes('\r\n\r\n')) socket.end(reply(200, { id: 'cgt-1' }))
    })
  })
  server.on('tlsClientError', () => {})
  const port = await listen(server)
  open.push(() => server.close())
  return { url: `https://localhost:${port}`, port, requestBytes: () => bytes }
}

/** A TLS server behind a gate: connections are accepted, and nothing passes until it is released. */
async function heldTlsServer() {
  const behind = await tlsServer('localhost')
  const waiting: Socket[] = []
  const connected = Promise.withResolvers<void>()
  const gate = createServer((socket) => {
    socket.on('error', () => {})
    waiting.push(socket)
    connected.resolve()
  })
  const port = await listen(gate)
  open.push(
    () => gate.close(),
    () => waiting.forEach((socket) => void socket.destroy()),
  )
  return {
    url: `https://localhost:${port}`,
    connected: connected.promise,
    requestBytes: behind.requestBytes,
    /** Lets the handshake happen, and waits until the client has ended its connection. */
    release: async () => {
      const ended = waiting.map((socket) => once(socket, 'close'))
      for (const socket of waiting) {
        const inner = connectPlain(behind.port, '127.0.0.1')
        inner.on('error', () => {})
        socket.pipe(inner).pipe(socket)
      }
      await Promise.all(ended)
    },
  }
}
