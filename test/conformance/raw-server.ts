/**
 * A server made of sockets, for answers that no HTTP library would give. It counts the bytes of every request that
 * reached it, and the POSTs among them: what a client may claim is judged by that.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'

export interface Connection {
  readonly socket: Socket
  /** Resolves when a whole request (head and Content-Length) has arrived. */
  readonly wholeRequest: Promise<string>
  /** Resolves with the first bytes. */
  readonly firstBytes: Promise<void>
}

export interface RawServer {
  readonly url: string
  readonly port: number
  /** Everything that arrived, of all connections. */
  readonly received: () => string
  readonly connections: () => number
  readonly posts: () => number
  readonly close: () => Promise<void>
}

/** `script` plays the server's part on each connection. */
export async function rawServer(script: (connection: Connection) => void): Promise<RawServer> {
  const pieces: Buffer[] = []
  const sockets = new Set<Socket>()
  let connections = 0
  const server = createServer((socket) => {
    connections++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    script(observe(socket, pieces))
  })
  const port = await listen(server)
  const received = () => Buffer.concat(pieces).toString('latin1')
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    received,
    connections: () => connections,
    posts: () => received().split('POST /').length - 1,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

export async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address: AddressInfo | string | null = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}

function observe(socket: Socket, pieces: Buffer[]): Connection {
  const own: Buffer[] = []
  const first = Promise.withResolvers<void>()
  const whole = Promise.withResolvers<string>()
  socket.on('data', (piece) => {
    pieces.push(piece)
    own.push(piece)
    first.resolve()
    const request = Buffer.concat(own)
    if (isWhole(request)) whole.resolve(request.toString('latin1'))
  })
  return { socket, wholeRequest: whole.promise, firstBytes: first.promise }
}

function isWhole(request: Buffer): boolean {
  const end = request.indexOf('\r\n\r\n')
  if (end < 0) return false
  const length = /content-length: (\d+)/i.exec(request.subarray(0, end).toString('latin1'))?.[1] ?? '0'
  return request.length >= end + 4 + Number(length)
}

/** A server that waits for the whole request and then plays `answer`. */
export function answering(answer: (socket: Socket) => void): (connection: Connection) => void {
  return ({ socket, wholeRequest }) => {
    void wholeRequest.then(() => answer(socket))
  }
}

/** A complete answer with its length. */
export function reply(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const lines = Object.entries({ 'content-type': 'application/json', ...headers }).map(
    ([k, v]) => `${k}: ${v}\r\n`,
  )
  return `HTTP/1.1 ${status} X\r\n${lines.join('')}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}
