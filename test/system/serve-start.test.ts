/** The start of `serve` on an external database: with nothing there yet, and where something keeps it from listening. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { testDatabase } from '../store/database.ts'
import { KEY_TEXT, rowsOf, until } from './kit.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))
const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function started(more: NodeJS.ProcessEnv = {}) {
  const database = await testDatabase()
  undo.push(() => database.drop())
  const dir = await mkdtemp(join(tmpdir(), 'yardmaster-start-'))
  undo.push(() => rm(dir, { recursive: true, force: true }))
  const { ADMIN_TOKEN: _, ...rest } = process.env
  const child = spawn(PROGRAM, ['serve'], {
    env: {
      ...rest,
      PORT: '0',
      DATABASE_URL: database.url,
      MASTER_KEY: KEY_TEXT,
      // Nobody has made it yet.
      DATA_DIR: join(dir, 'not', 'there'),
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk
    })
  const ended = once(child, 'exit')
  undo.push(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { database, child, ended, output: () => output }
}

describe('serve', () => {
  it('starts on a database and a key from outside, with no folder and no token yet', async () => {
    const { child, output } = await started()
    const url = await until('serve to be ready', async () => {
      if (child.exitCode !== null) throw new Error(output())
      return /is ready on (http:\S+)/.exec(output())?.[1]
    })
    expect((await fetch(`${url}/openapi.json`)).status).toBe(200)
  })

  it('that cannot listen says why, leaves nothing running, and ends', { timeout: 120_000 }, async () => {
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    undo.push(() => new Promise((resolve) => other.close(resolve)))
    const address = other.address()
    if (typeof address !== 'object' || address === null) throw new Error('no port')
    const { database, ended, output } = await started({ PORT: String(address.port), HOST: '127.0.0.1' })
    const [code] = await ended
    expect(code).not.toBe(0)
    expect(output()).toContain(String(address.port))
    const alive = 'select id from process where stopped_at is null'
    expect(await rowsOf(database.db, alive)).toEqual([])
  })
})
