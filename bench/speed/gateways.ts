/** Gateways as real processes: ours as it is served, and what it is compared with. */
import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { PEERS } from './peers.ts'
import { KEY_TEXT } from './yard.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))

export interface Running {
  readonly url: string
  readonly pid: number
  stop(): Promise<void>
}

export async function startMock(): Promise<Running> {
  const child = fork(fileURLToPath(new URL('contestants/image-mock.ts', import.meta.url)))
  const [port] = await once(child, 'message')
  return { url: `http://127.0.0.1:${port}`, pid: child.pid ?? 0, stop: () => ended(child, 'SIGTERM') }
}

/** `yardmaster serve`, once it says that it is ready. */
export async function startYardmaster(want: {
  readonly url: string
  readonly dataDir: string
  readonly roles?: string
  readonly environment?: Readonly<Record<string, string>>
}): Promise<Running> {
  // The launcher replaces itself by Node, so that the child's PID is the gateway's.
  const child = spawn(PROGRAM, ['serve', '--roles', want.roles ?? 'api,dispatch,poll,reconcile'], {
    env: {
      ...process.env,
      PORT: '0',
      DATA_DIR: want.dataDir,
      DATABASE_URL: want.url,
      MASTER_KEY: KEY_TEXT,
      LOG_LEVEL: 'warn',
      ...want.environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk) => (said += chunk))
  const url = await waitFor(child, () => /is ready on (http:\S+)/.exec(said)?.[1])
  if (url === undefined) throw new Error(`the gateway does not start: ${said.slice(-500)}`)
  return { url, pid: child.pid ?? 0, stop: () => ended(child, 'SIGTERM') }
}

export async function startPortkey(): Promise<Running> {
  const port = await freePort()
  const program = join(PEERS, 'node_modules/@portkey-ai/gateway/build/start-server.js')
  const child = spawn(process.execPath, [program, `--port=${port}`, '--headless'], { stdio: 'ignore' })
  const url = `http://127.0.0.1:${port}`
  let answers = false
  const asking = setInterval(() => {
    fetch(url).then(
      () => {
        answers = true
      },
      () => undefined,
    )
  }, 100)
  const found = await waitFor(child, () => answers || undefined)
  clearInterval(asking)
  if (!found) throw new Error('@portkey-ai/gateway does not start')
  return { url, pid: child.pid ?? 0, stop: () => ended(child, 'SIGKILL') }
}

async function waitFor<T>(child: ChildProcess, found: () => T | undefined): Promise<T | undefined> {
  const until = performance.now() + 120_000
  while (performance.now() < until && child.exitCode === null) {
    const value = found()
    if (value !== undefined) return value
    await sleep(5)
  }
  return undefined
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = once(child, 'exit')
  child.kill(signal)
  const late = setTimeout(() => child.kill('SIGKILL'), 30_000)
  await gone
  clearTimeout(late)
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('no port is free')
  return address.port
}
