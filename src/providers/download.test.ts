/** Fetching a result: sizes, cuts, redirects, and where the credential goes. */
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { answering, type RawServer, rawServer, reply } from '../../test/conformance/raw-server.ts'
import { createCaller } from './call.ts'
import { BrokenDownload, type Fetch, openDownload } from './download.ts'

const caller = createCaller()
afterAll(() => caller.close())
const open: RawServer[] = []
afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

async function serving(text: (server: RawServer) => string): Promise<RawServer> {
  const server: RawServer = await rawServer(answering((socket) => socket.end(text(server))))
  open.push(server)
  return server
}

const fetch = (url: string, given: Partial<Fetch> = {}) =>
  openDownload(caller, {
    channelId: 'c1',
    url,
    credentialHeaders: { authorization: 'Bearer sk-key-0001' },
    trustedOrigin: new URL(url).origin,
    timeoutMs: 5_000,
    maxBytes: 1_000_000,
    secrets: ['sk-key-0001'],
    ...given,
  })

const MP4 = { 'content-type': 'video/mp4' }

async function sizeOf(opened: Awaited<ReturnType<typeof openDownload>>): Promise<number> {
  if (opened.kind !== 'body') throw new Error(opened.kind)
  let size = 0
  for await (const piece of opened.stream) size += piece.length
  return size
}

describe('a result', () => {
  it('comes with its type and length', async () => {
    const server = await serving(() => reply(200, 'x'.repeat(5_000), MP4))
    const opened = await fetch(server.url)
    expect(opened).toMatchObject({ kind: 'body', contentType: 'video/mp4', contentLength: 5_000 })
    expect(await sizeOf(opened)).toBe(5_000)
  })

  it('that is larger than allowed breaks off', async () => {
    const server = await serving(() => reply(200, 'x'.repeat(5_000), MP4))
    const read = sizeOf(await fetch(server.url, { maxBytes: 4_999 }))
    await expect(read).rejects.toMatchObject({ name: 'BrokenDownload', code: 'TOO_LARGE' })
  })

  it('that is cut short breaks off, and names no address', async () => {
    const server = await serving(
      () => `HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\ncontent-length: 90\r\n\r\nhalf`,
    )
    const error = await sizeOf(await fetch(`${server.url}/v.mp4?sig=abc`)).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BrokenDownload)
    expect(String(error)).not.toMatch(/sig=|v\.mp4/)
  })

  it('that stalls ends with the time of the call', async () => {
    const server = await rawServer(({ socket, wholeRequest }) => {
      void wholeRequest.then(() =>
        socket.write('HTTP/1.1 200 OK\r\ncontent-type: video/mp4\r\ncontent-length: 90\r\n\r\nhalf'),
      )
    })
    open.push(server)
    await expect(sizeOf(await fetch(server.url, { timeoutMs: 1_500 }))).rejects.toBeInstanceOf(BrokenDownload)
  })

  it('is not opened once the client is closed', async () => {
    const server = await serving(() => reply(200, 'x', MP4))
    const closing = createCaller()
    await closing.close()
    const opened = await openDownload(closing, {
      channelId: 'c1',
      url: server.url,
      credentialHeaders: {},
      trustedOrigin: '',
      timeoutMs: 5_000,
      maxBytes: 10,
      secrets: [],
    })
    expect(opened).toMatchObject({ kind: 'broken', evidence: { end: { code: 'UND_ERR_CLOSED' } } })
    expect(server.connections()).toBe(0)
  })

  it.each([
    ['a page', reply(200, '<html></html>', { 'content-type': 'text/html' })],
    ['an error in JSON', reply(200, { error: { code: 'x', message: 'y' } })],
    ['nothing', reply(200, '', MP4)],
    ['a refusal', reply(403, '<Error>expired</Error>', { 'content-type': 'application/xml' })],
  ])('that is %s is none', async (_, text) => {
    const server = await serving(() => text)
    expect(await fetch(server.url)).toMatchObject({ kind: 'answered' })
  })
})

describe('a redirect', () => {
  it('is followed three times, without the credential on another origin', async () => {
    const storage = await serving(() => reply(200, 'film', MP4))
    const server = await serving(({ received, url }) => {
      const hops = received().split('GET ').length - 1
      return reply(302, '', { location: hops < 3 ? `${url}/${hops}` : `${storage.url}/film` })
    })
    expect(await sizeOf(await fetch(server.url))).toBe(4)
    expect(server.received().split('sk-key-0001').length - 1).toBe(3)
    expect(storage.received()).not.toContain('sk-key-0001')
  })

  it('is not followed a fourth time', async () => {
    const server = await serving(({ url }) => reply(302, '', { location: `${url}/again` }))
    const opened = await fetch(server.url)
    expect(opened).toMatchObject({ kind: 'broken', evidence: { end: { code: 'TOO_MANY_REDIRECTS' } } })
    expect(server.connections()).toBe(4)
  })

  it.each([
    'file:///etc/passwd',
    'ftp://127.0.0.1/x',
    'data:video/mp4;base64,AAAA',
    'javascript:1',
    'http://',
  ])('to %j is an answer like any other, and not followed', async (location) => {
    const server = await serving(() => reply(302, '', { location }))
    expect(await fetch(server.url)).toMatchObject({ kind: 'answered', answer: { status: 302 } })
  })
})
