/** A TCP proxy before PostgreSQL that cuts a connection around COMMIT, as a network or a failover does. */
import { connect, createServer, type Socket } from 'node:net'
import pg from 'pg'

export type Cut =
  /** COMMIT reaches the server and is answered, but the answer is lost. */
  | 'after the answer'
  /** COMMIT reaches the server; the connection is gone while it works. */
  | 'at once'
  /** COMMIT never reaches the server. */
  | 'before'

export interface CommitProxy {
  readonly url: string
  /** How often COMMIT was asked for. */
  readonly commits: () => number
  /** Cut the next COMMIT so; from then on, connections lead to the server of `then`, as after a failover. */
  cutNext(cut: Cut, then?: string): void
  close(): Promise<void>
}

const COMMIT = Buffer.from('commit\0')

export async function commitProxy(url: string): Promise<CommitProxy> {
  let target = url
  let cut: Cut | null = null
  let afterCut = url
  let commits = 0
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(addressOf(target))
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        client.destroy()
        upstream.destroy()
        sockets.delete(socket)
      })
    }
    let mute = false
    upstream.on('data', (data) => (mute ? client.destroy() : client.write(data)))
    client.on('data', (data) => {
      if (!data.includes(COMMIT)) return void upstream.write(data)
      commits++
      const how = cut
      cut = null
      if (how) target = afterCut
      if (how === 'before') return void client.destroy()
      mute = how === 'after the answer'
      upstream.write(data, () => how === 'at once' && client.destroy())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port')
  return {
    url: throughPort(url, address.port),
    commits: () => commits,
    cutNext: (how, then = url) => {
      cut = how
      afterCut = then
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

export function addressOf(url: string) {
  const { host, port } = new pg.Client({ connectionString: url })
  return host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port }
}

export function throughPort(url: string, port: number): string {
  const { user = '', password, database = '' } = new pg.Client({ connectionString: url })
  const who = `${encodeURIComponent(user)}:${encodeURIComponent(password ?? '')}`
  return `postgres://${who}@127.0.0.1:${port}/${database}`
}
