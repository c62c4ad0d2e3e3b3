/**
 * A TCP proxy before PostgreSQL that can fall silent, while connections stay open, or do as a pooler in transaction mode does:
 * every statement is answered, but LISTEN was another session's.
 */
import { connect, createServer, type Socket } from 'node:net'
import { addressOf, throughPort } from './commit-proxy.ts'

export interface MuteProxy {
  readonly url: string
  /** While true, what the server says reaches nobody. */
  mute: boolean
  /** While true, what new connections listen to is not what they asked for. */
  deaf: boolean
  close(): Promise<void>
}

export async function muteProxy(url: string): Promise<MuteProxy> {
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(addressOf(url))
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
        sockets.delete(socket)
      })
    }
    client.on('data', (data) => upstream.write(proxy.deaf ? misled(data) : data))
    upstream.on('data', (data) => proxy.mute || client.write(data))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  const proxy: MuteProxy = {
    url: throughPort(url, address.port),
    mute: false,
    deaf: false,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}

/** Of the same length, so that the message stays whole. */
function misled(data: Buffer): Buffer {
  return Buffer.from(
    data.toString('latin1').replace(/listen yardmaster_wake/, 'listen yardmaster_none'),
    'latin1',
  )
}
