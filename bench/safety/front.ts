/** What stands before the gateways: one address for customers and callbacks, whichever gateway is alive. */
import { once } from 'node:events'
import { request as call, createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTcp } from 'node:net'

export interface Front {
  /** Without a slash at the end. */
  readonly url: string
  close(): Promise<void>
}

/** `backends`: URLs of those that are ready now. A request goes to one of them, once: repeating is the caller's to decide. */
export async function startFront(backends: () => readonly string[]): Promise<Front> {
  let turn = 0
  const server = createServer((request, response) => {
    const ready = backends()
    const backend = ready[turn++ % Math.max(1, ready.length)]
    if (backend === undefined) return void response.writeHead(502).end('no gateway is ready')
    forward(request, response, backend)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `http://127.0.0.1:${portOf(server.address())}`,
    close: async () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

function forward(request: IncomingMessage, response: ServerResponse, backend: string): void {
  const onward = call(
    `${backend}${request.url}`,
    { method: request.method, headers: request.headers },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(response)
      answer.once('error', () => response.destroy())
    },
  )
  onward.once('error', () => {
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end('the gateway is gone')
  })
  request.pipe(onward)
}

/** Accepts, and answers whatever comes with no TLS. */
export async function startBrokenTls(): Promise<{ port: number; close(): Promise<void> }> {
  const server = createTcp((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => socket.end('this is no TLS\n'))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: portOf(server.address()),
    close: async () => {
      server.close()
    },
  }
}

export function portOf(address: ReturnType<ReturnType<typeof createTcp>['address']>): number {
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}
