import { execFile, spawn } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import OpenAI from 'openai'
import { afterEach, describe, expect, it } from 'vitest'
import { until } from './kit.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))
const run = promisify(execFile)
const undo: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step()
})

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (typeof address !== 'object' || address === null) throw new Error('no port')
  return address.port
}

async function place() {
  const dir = await mkdtemp(join(tmpdir(), 'yard master '))
  undo.push(() => rm(dir, { recursive: true, force: true }))
  const { DATABASE_URL: _, ...rest } = process.env
  const ports = { PORT: String(await freePort()), SIMULATOR_PORT: String(await freePort()) }
  return { ...rest, ...ports, DATA_DIR: join(dir, 'data'), LOG_LEVEL: 'error' }
}

async function serve(env: NodeJS.ProcessEnv) {
  const child = spawn(PROGRAM, ['serve', '--demo'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      output += chunk
    })
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  undo.push(async () => {
    child.kill('SIGTERM')
    await ended
  })
  await until('serve to be ready', async () => {
    if (child.exitCode !== null) throw new Error(output)
    return output.includes('Stop with Ctrl-C.')
  })
  return { child, ended, output: () => output }
}

/** Runs the line as a shell would; where the machine has no curl, sends what it says. */
async function paste(line: string): Promise<string> {
  try {
    return (await run('sh', ['-c', line])).stdout
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 127)) throw error
    const [, url = ''] = /(http:\S+)/.exec(line) ?? []
    const [, authorization = ''] = /Authorization: ([^']+)/.exec(line) ?? []
    const [, body = ''] = /-d '([^']+)'/.exec(line) ?? []
    const headers = { authorization, 'content-type': 'application/json' }
    return (await fetch(url, { method: 'POST', headers, body })).text()
  }
}

/** Running programs that name this text. */
async function commandLines(text: string): Promise<string[]> {
  const found: string[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const line = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    if (line.includes(text)) found.push(line.replaceAll('\0', ' '))
  }
  return found
}

describe('yardmaster serve --demo', () => {
  it('prints a line that works, explains what came of it, survives a kill, and stops with its database', {
    timeout: 120_000,
  }, async () => {
    const env = await place()
    const first = await serve(env)
    const line = /^ {2}(curl .*)$/m.exec(first.output())?.[1] ?? ''
    const video = JSON.parse(await paste(line))
    expect(video).toMatchObject({ object: 'video', status: 'queued', model: 'seedance-2.0-933' })

    const apiKey = /Demo API key {2}(ym_\S+)/.exec(first.output())?.[1] ?? ''
    const client = new OpenAI({ baseURL: `http://127.0.0.1:${env.PORT}/v1`, apiKey })
    await until('the video', async () => (await client.videos.retrieve(video.id)).status === 'completed')
    const mp4 = new Uint8Array(await (await client.videos.downloadContent(video.id)).arrayBuffer())
    expect(new TextDecoder().decode(mp4.slice(4, 8))).toBe('ftyp')
    const { data } = await client.images.generate({ model: 'seedream-4.0', prompt: 'A signal box in snow' })
    expect(data?.[0]?.b64_json).toBeTruthy()

    // Commands share the PostgreSQL that serve runs.
    const explained = await run(PROGRAM, ['explain', video.id], { env })
    for (const title of [
      '1. Hard capabilities',
      '2. Health and capacity',
      '3. Strategy and cost',
      '4. At most one change of supply',
    ])
      expect(explained.stdout).toContain(title)
    expect((await run(PROGRAM, ['replay'], { env })).stdout).toMatch(/^3 rounds replayed, 0 differences/)

    // Killed: nothing that it leaves behind stands in the way.
    first.child.kill('SIGKILL')
    await first.ended
    const second = await serve(env)
    expect((await client.videos.retrieve(video.id)).status).toBe('completed')
    second.child.kill('SIGINT')
    expect(await second.ended).toBe(0)
    expect(second.output()).toContain('Stopped.')
    const left = await commandLines(env.DATA_DIR)
    expect(left).toEqual([])
  })

  it('ends with status 2 and the name of a setting that cannot be used', async () => {
    const env = { ...(await place()), PORT: 'eighty' }
    await expect(run(PROGRAM, ['serve'], { env })).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('PORT is "eighty", but must be a whole number'),
    })
    await expect(run(PROGRAM, ['serve', '--roles', 'cook'], { env: await place() })).rejects.toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--roles has "cook", but knows api'),
    })
  })

  it.each([
    [['nonsense']],
    [['decide']],
    [['explain', 'x']],
    [['replay', '--since', 'yesterday']],
    [['task', 'list', '--limit', '0']],
    [['simulator', '--port', 'x']],
  ])('misuse ends with status 2: %j', async (args) => {
    const env = await place()
    await expect(run(PROGRAM, args, { env })).rejects.toMatchObject({ code: 2, stdout: '' })
  })

  it.each([
    'serve',
    'decide',
    'replay',
    'migrate',
    'simulator',
    'explain',
    'catalog apply',
    'catalog check',
    'catalog export',
    'task list',
    'task show',
    'task cancel',
    'channel list',
    'key rotate',
    'customer create',
    'usage',
    'alerts',
  ])('%s --help has an example', async (command) => {
    const { stdout } = await run(PROGRAM, [...command.split(' '), '--help'])
    expect(stdout).toMatch(/Examples?:\n/)
  })
})
