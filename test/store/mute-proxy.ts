/** A TCP proxy before PostgreSQL that can fall silent: connections stay open, and nothing comes through any more. */
import { connect, createServer, type Socket } from 'node:net'
import { addressOf, throughPort } from './commit-proxy.ts'

export interface MuteProxy {
  readonly url: string
  /** While true, what the server says reaches nobody. */
  mute: boolean
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
    client.on('data', (data) => upstream.write(data))
    upstream.on('data', (data) => proxy.mute || client.write(data))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  const proxy: MuteProxy = {
    url: throughPort(url, address.port),
    mute: false,
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
  return proxy
}
