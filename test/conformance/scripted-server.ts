/** An ordinary HTTP server that answers as it is told, and remembers what it was asked. */
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'

export interface Seen {
  readonly method: string
  /** With its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface Scripted {
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** An object is sent as JSON. */
  readonly body?: unknown
}

export interface ScriptedServer {
  readonly url: string
  readonly seen: readonly Seen[]
  readonly close: () => Promise<void>
}

export async function scriptedServer(answer: (seen: Seen) => Scripted): Promise<ScriptedServer> {
  const seen: Seen[] = []
  const server = createServer(async (request, response) => {
    const pieces: Uint8Array[] = []
    for await (const piece of request) pieces.push(piece)
    const { method = '', url = '', headers } = request
    seen.push({ method, path: url, headers, body: Buffer.concat(pieces) })
    const { status = 200, headers: own = {}, body = '' } = answer(seen[seen.length - 1]!)
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    response.writeHead(status, { 'content-type': 'application/json', ...own })
    response.end(isRaw ? body : JSON.stringify(body))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    seen,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
