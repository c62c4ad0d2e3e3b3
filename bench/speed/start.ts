/** `npm start` until it says that it is ready, with a data directory that is there already. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Bench, Line } from './figure.ts'
import { spreadOf } from './rounds.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PATIENCE_MS = 180_000

export async function start(bench: Bench): Promise<Line[]> {
  const dataDir = join(bench.cluster.dir, 'started')
  const first = await secondsToReady(dataDir)
  const again: number[] = []
  for (let round = 0; round < bench.rounds; round += 1) again.push(await secondsToReady(dataDir))
  return [
    {
      what: '`npm start` to ready, existing data directory',
      unit: 's',
      ours: spreadOf(again),
      note: `the very first one, with the database made: ${first.toFixed(1)} s`,
    },
  ]
}

async function secondsToReady(dataDir: string): Promise<number> {
  const { DATABASE_URL: _, ...environment } = process.env
  const began = performance.now()
  const child = spawn('npm', ['start'], {
    cwd: ROOT,
    env: { ...environment, PORT: '0', DATA_DIR: dataDir, LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'pipe', 'pipe'],
    // npm passes signals on, but only to what it still knows: the whole group is told.
    detached: true,
  })
  let said = ''
  const gone = once(child, 'exit')
  try {
    return await new Promise<number>((resolve, reject) => {
      const late = setTimeout(
        () => reject(new Error(`npm start is not ready: ${said.slice(-500)}`)),
        PATIENCE_MS,
      )
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (chunk: Buffer) => {
          said += chunk
          if (!/is ready on http:/.test(said)) return
          clearTimeout(late)
          resolve((performance.now() - began) / 1000)
        })
      child.once('exit', () => reject(new Error(`npm start ended: ${said.slice(-500)}`)))
    })
  } finally {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGTERM')
    await gone
  }
}
