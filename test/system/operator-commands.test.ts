/** The operator's commands that call providers and receivers, as they are typed. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { TIMING_DEFAULTS } from '../../src/runtime/timing.ts'
import { raiseAlerts } from '../../src/store/alerts.ts'
import { admitted, attemptIn, attemptsOf, ended, fault, leaveOnly, ledger } from '../runtime/facts.ts'
import { KEY_TEXT, type System, startSystem } from './kit.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/yardmaster', import.meta.url))
const NEVER = { ...TIMING_DEFAULTS, lookupMs: 3_600_000, lookupMaxMs: 3_600_000 }

// Each command is a process of its own.
vi.setConfig({ testTimeout: 180_000 })

let system: System
afterEach(() => system?.stop())

interface Ran {
  readonly status: number
  readonly out: string
  readonly err: string
}

function run(words: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<Ran> {
  const env = {
    ...process.env,
    USER: 'ann',
    DATABASE_URL: system.url,
    DATA_DIR: system.dir,
    MASTER_KEY: KEY_TEXT,
    ...more,
  }
  return new Promise((resolve) => {
    execFile(PROGRAM, [...words], { env }, (error, out, err) =>
      resolve({ status: typeof error?.code === 'number' ? error.code : 0, out, err }),
    )
  })
}

async function lost(kind: object) {
  system = await startSystem({ simulator: { defaults: { duration_ms: 100 } } })
  const engine = system.engine({ timing: NEVER })
  await engine.start()
  await leaveOnly(system, ['seedance-north', 'seedance-south'])
  await fault(system, { on: 'create', times: 1, fault: kind })
  const task = await admitted(system, engine)
  const attempt = await attemptIn(system, task, 'submission_uncertain')
  return { task, attempt }
}

describe('yardmaster uncertain', () => {
  it('UNK-4, UNK-9: lists, looks, and resolves as accepted what the account has', async () => {
    const { task, attempt } = await lost({ kind: 'accept_then_drop' })
    expect((await run(['uncertain'])).out).toContain(attempt.id)
    expect(JSON.parse((await run(['uncertain', 'list', '--json'])).out)).toMatchObject([
      { attempt_id: attempt.id },
    ])
    const { jobs } = (await system.control('GET', `/ledger/${attempt.id}`)) as { jobs: string[] }
    const look = await run(['uncertain', 'look', attempt.id])
    expect(look).toMatchObject({ status: 0 })
    expect(look.out).toContain('still open')
    expect(look.out).toContain(jobs[0])
    const wrong = await run(['uncertain', 'accepted', attempt.id, 'cgt-nobody'])
    expect(wrong).toMatchObject({ status: 1 })
    expect(wrong.err).toContain('has no job cgt-nobody')
    const right = await run(['uncertain', 'accepted', attempt.id, jobs[0] ?? '', '--note', 'seen there'])
    expect(right).toEqual({ status: 0, out: 'resolved as accepted (operator)\n', err: '' })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    expect((await run(['uncertain'])).out).toBe('no uncertain submissions\n')
    expect(await run(['uncertain', 'look', attempt.id])).toMatchObject({ status: 1 })
  })

  it('UNK-6: resolves as not accepted, and the task is served elsewhere', async () => {
    const { task, attempt } = await lost({ kind: 'reset' })
    expect(await run(['uncertain', 'not-accepted', attempt.id, '--by', 'bob'])).toMatchObject({
      status: 0,
      out: 'resolved as not accepted (operator)\n',
    })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    expect((await attemptsOf(system, task)).map((one) => one.state)).toEqual(['failed', 'succeeded'])
    expect(await ledger(system)).toMatchObject({ posts: 2, accepted: 1 })
  })

  it('UNK-4: says what would be right', async () => {
    system = await startSystem()
    expect(await run(['uncertain', 'look', 'video_1'])).toMatchObject({
      status: 2,
      err: expect.stringContaining('expected a UUID'),
    })
    const nobody = '00000000-0000-0000-0000-000000000000'
    expect(await run(['uncertain', 'not-accepted', nobody])).toMatchObject({
      status: 1,
      err: expect.stringContaining('there is no such attempt'),
    })
    expect(await run(['uncertain', 'accepted', nobody, 'two words'])).toMatchObject({ status: 2 })
  })
})

describe('yardmaster alert-endpoint', () => {
  it('adds, tries, switches, shows and removes, without showing the address', async () => {
    system = await startSystem()
    let tests = 0
    const server = createServer((request, response) => {
      request.resume()
      tests += 1
      response.end('ok')
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const address = server.address()
    const port = typeof address === 'object' ? address?.port : 0
    const HOOK = `http://127.0.0.1:${port}/services/very-secret-token`
    try {
      const add = [
        'alert-endpoint',
        'add',
        'ops',
        '--kind',
        'slack',
        '--url',
        'env:HOOK',
        '--min-severity',
        'high',
      ]
      expect(await run(add, { HOOK })).toMatchObject({ status: 0, err: '' })
      expect(await run(add, { HOOK })).toMatchObject({ status: 1, err: expect.stringContaining('already') })
      expect(await run(['alert-endpoint', 'test', 'ops'])).toEqual({ status: 0, out: 'delivered\n', err: '' })
      expect(tests).toBe(1)
      await raiseAlerts(system.db, [
        { fingerprint: 'f', code: 'request_unsendable', severity: 'high', message: 'm', subject: {} },
      ])
      expect((await run(['alert-endpoint', 'deliveries', 'ops'])).out).toMatch(
        /raised +request_unsendable +0 +waiting/,
      )
      expect((await run(['alert-endpoint', 'disable', 'ops'])).out).toBe('ops is off\n')
      const list = (await run(['alert-endpoint'])).out
      expect(list).toContain('off: by an operator')
      expect(list).toContain(`127.0.0.1:${port}`)
      expect(list).not.toContain('very-secret-token')
      expect((await run(['alert-endpoint', 'enable', 'ops'])).out).toBe('ops is on\n')
      expect((await run(['alert-endpoint', 'remove', 'ops'])).out).toBe('ops is removed\n')
      expect(await run(['alert-endpoint', 'test', 'ops'])).toMatchObject({ status: 1 })
      expect((await run(['alert-endpoint', 'list'])).out).toBe('no alert endpoints\n')
    } finally {
      server.close()
    }
  })

  it.each([
    [['add', 'ops', '--kind', 'pager', '--url', 'env:X'], 2, 'Expected one of webhook'],
    [['add', 'Not An ID', '--kind', 'slack', '--url', 'env:X'], 2, 'lower-case'],
    [['add', 'ops', '--kind', 'slack', '--url', 'env:NOT_SET_ANYWHERE'], 1, 'NOT_SET_ANYWHERE is not set'],
    [['add', 'ops', '--kind', 'slack', '--url', 'https://x.example'], 1, 'env:NAME'],
  ])('%j: what would be right', async (words, status, text) => {
    system = await startSystem()
    const ran = await run(['alert-endpoint', ...words])
    expect(ran.status).toBe(status)
    expect(ran.err).toContain(text)
  })
})
