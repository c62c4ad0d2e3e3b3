/** Gateways as real processes on one database, to be killed. */
import { type ChildProcess, spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { KEY_TEXT, rowsOf, type System, until } from './kit.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))

export interface Gateway {
  readonly child: ChildProcess
  readonly pid: number
  /** Without a slash at the end. */
  readonly url: string
  /** Waits until it is gone. */
  kill(signal: NodeJS.Signals): Promise<void>
  readonly output: () => string
}

/** A `serve` process with all roles, or those given, once it says that it is ready. */
export async function startGateway(system: System, roles = 'api,dispatch,poll,reconcile'): Promise<Gateway> {
  // The launcher replaces itself by Node, so that the child's PID is the gateway's.
  const child = spawn(PROGRAM, ['serve', '--roles', roles], {
    env: {
      ...process.env,
      PORT: '0',
      DATA_DIR: system.dir,
      DATABASE_URL: system.url,
      MASTER_KEY: KEY_TEXT,
      DATABASE_POOL: '8',
      LOG_LEVEL: 'warn',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk
  })
  child.stderr?.on('data', (chunk: Buffer) => {
    output += chunk
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const url = await until('a gateway to be ready', async () => {
    if (child.exitCode !== null) throw new Error(`the gateway ended at once: ${output}`)
    return /is ready on (http:\S+)/.exec(output)?.[1]
  })
  return {
    child,
    pid: child.pid ?? 0,
    url,
    output: () => output,
    kill: async (signal) => {
      child.kill(signal)
      await ended
    },
  }
}

/** How many attempts of this process stand between `submitting` and their answer. */
export async function submittingOf(system: System, pid: number): Promise<number> {
  const [row] = await rowsOf<{ n: number }>(
    system.db,
    `select count(*)::int as n from attempt a join process p on p.id = a.owner where a.state = 'submitting' and p.pid = $1 and p.stopped_at is null`,
    [pid],
  )
  return row?.n ?? 0
}
