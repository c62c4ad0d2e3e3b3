/** The operators' verbs as they are typed: what they print, and with which status they end. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Command, CommanderError } from 'commander'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as alerts from '../../src/cli/alerts.ts'
import * as binding from '../../src/cli/binding.ts'
import * as catalog from '../../src/cli/catalog.ts'
import * as channel from '../../src/cli/channel.ts'
import type { CliContext } from '../../src/cli/context.ts'
import * as customer from '../../src/cli/customer.ts'
import * as key from '../../src/cli/key.ts'
import * as model from '../../src/cli/model.ts'
import * as supply from '../../src/cli/supply.ts'
import * as usage from '../../src/cli/usage.ts'
import { raiseAlerts } from '../../src/store/alerts.ts'
import { openDatabase } from '../../src/store/database.ts'
import { type TestDatabase, testDatabase } from '../store/database.ts'
import { KEYRING, SMALL } from './files.ts'

const COMMANDS = [alerts, binding, catalog, channel, customer, key, model, supply, usage]

let test: TestDatabase
let folder: string
beforeAll(async () => {
  test = await testDatabase()
  folder = mkdtempSync(join(tmpdir(), 'catalog-'))
  writeFileSync(join(folder, 'small.yaml'), SMALL)
  writeFileSync(
    join(folder, 'faulty.yaml'),
    SMALL.replace('policy: p', 'policy: q').replace('provider: ark', 'provider: arc'),
  )
  writeFileSync(
    join(folder, 'unverified.yaml'),
    SMALL.replace(', verified: { by: ann, at: 2026-11-20, evidence: job 7 }', ''),
  )
})
afterAll(async () => {
  rmSync(folder, { recursive: true })
  await test.drop()
})

class Ended extends Error {
  readonly status: number
  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

interface Outcome {
  status: number
  out: string
  err: string
}

async function run(...words: string[]): Promise<Outcome> {
  const outcome = { status: 0, out: '', err: '' }
  const stdout = {
    write: (text: string) => {
      outcome.out += text
    },
  }
  const stderr = {
    write: (text: string) => {
      outcome.err += text
    },
  }
  const context: CliContext = {
    openDatabase: () => openDatabase({ url: test.url }),
    openKeyring: async () => KEYRING,
    stdout,
    stderr,
    env: { KEY: 'secret-1', USER: 'ann' },
    fail: (status, message) => {
      throw new Ended(status, message)
    },
  }
  const program = new Command('yardmaster')
  for (const command of COMMANDS) command.register(program, context)
  strict(program, { writeOut: stdout.write, writeErr: stderr.write })
  try {
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    if (error instanceof Ended) {
      outcome.status = error.status
      outcome.err += error.message
    } else if (error instanceof CommanderError) outcome.status = error.exitCode === 0 ? 0 : 2
    else throw error
  }
  return outcome
}

function strict(
  command: Command,
  output: { writeOut: (text: string) => void; writeErr: (text: string) => void },
): void {
  command.exitOverride().configureOutput(output)
  for (const child of command.commands) strict(child, output)
}

function* everyCommand(command: Command, path: string[] = []): Generator<string[]> {
  for (const child of command.commands) {
    yield [...path, child.name()]
    yield* everyCommand(child, [...path, child.name()])
  }
}

describe('operators’ verbs', () => {
  it('each has help with an example', async () => {
    const program = new Command()
    const nothing = {
      stdout: { write() {} },
      stderr: { write() {} },
      env: {},
      openDatabase,
      openKeyring: async () => KEYRING,
      fail: (_: number, message: string): never => {
        throw new Error(message)
      },
    }
    for (const command of COMMANDS)
      command.register(program, { ...nothing, openDatabase: () => openDatabase({ url: test.url }) })
    const paths = [...everyCommand(program)]
    expect(paths.length).toBeGreaterThan(30)
    for (const path of paths) {
      const { out, status } = await run(...path, '--help')
      expect(status).toBe(0)
      expect(out, path.join(' ')).toMatch(/Examples?:\n {2}\$ yardmaster /)
    }
  })

  it('catalog check names all faults and ends with 2', async () => {
    const faulty = join(folder, 'faulty.yaml')
    const { status, err } = await run('catalog', 'check', faulty)
    expect(status).toBe(2)
    expect(err).toContain(
      `${faulty}:3:18: error: channels.c.provider: no provider is called "arc"; did you mean "ark"?`,
    )
    expect(err).toContain('there is no "q" in policies; known policies: p')
    expect(err).toContain('2 errors')
    const json = await run('catalog', 'check', faulty, '--json')
    expect(json.status).toBe(2)
    expect(JSON.parse(json.out)).toMatchObject({ ok: false, problems: [{ line: 3, severity: 'error' }, {}] })
    expect(await run('catalog', 'check', join(folder, 'none.yaml'))).toMatchObject({
      status: 2,
      err: expect.stringContaining('cannot be read (ENOENT)'),
    })
    expect((await run('catalog', 'check')).status).toBe(2)
  })

  it('catalog apply shows the diff, and ends with 1 where the gate refuses', async () => {
    const refused = await run('catalog', 'apply', join(folder, 'unverified.yaml'), '--publish')
    expect(refused.status).toBe(1)
    expect(refused.err).toContain(
      'the gate refuses, nothing was applied:\nm: capabilities_verified: binding b was not verified; try s and write verified',
    )
    const dry = await run('catalog', 'apply', join(folder, 'small.yaml'), '--publish', '--dry-run')
    expect(dry.out).toContain('would be made')
    const applied = await run('catalog', 'apply', join(folder, 'small.yaml'), '--publish')
    expect(applied.out).toContain('+ supply s\n')
    expect(applied.out).toContain('~ channel c: new secret\n')
    expect(applied.out).toContain('model m is published as release 1\n')
    expect(applied.out + applied.err).not.toContain('secret-1')
    writeFileSync(
      join(folder, 'dearer.yaml'),
      SMALL.replace('price: 0.1', 'price: 0.2').replace('p: {}', 'p: { max_attempts: 1 }'),
    )
    const changed = await run('catalog', 'apply', join(folder, 'dearer.yaml'))
    expect(changed.out).toContain('~ supply s\n    prices.list.prices[0].price: 0.1 → 0.2\n')
    expect(changed.out).toContain('model m is no longer published, since these were saved: policy p\n')
    expect((await run('model', 'publish', 'm')).out).toBe('model m is published as release 2\n')
    expect((await run('catalog', 'export')).out).toContain('max_attempts: 1')
    expect(
      JSON.parse((await run('catalog', 'apply', join(folder, 'dearer.yaml'), '--json')).out),
    ).toMatchObject({ changes: [] })
  })

  it('lists, shows, switches and limits', async () => {
    await run('catalog', 'apply', join(folder, 'small.yaml'), '--publish')
    expect((await run('channel', 'list')).out).toBe(
      'CHANNEL  PROVIDER  SWITCH   HEALTH   IN USE  LIMIT  SUPPLIES\nc        ark       enabled  healthy  0       5      1\n',
    )
    expect((await run('supply', 'disable', 's')).out).toBe('supply s is disabled; health: disabled\n')
    expect((await run('supply', 'enable', 's', '--probe')).out).toBe('supply s is enabled; health: probing\n')
    expect((await run('supply', 'limit', 's', '3')).out).toBe('supply s may run 3 at once\n')
    expect(JSON.parse((await run('supply', 'show', 's', '--json')).out)).toMatchObject({
      concurrency: 3,
      health: 'probing',
      models: ['m'],
      open_until: null,
    })
    expect((await run('channel', 'show', 'c')).out).toMatch(/credential +env:KEY \(stored\)/)
    expect((await run('binding', 'disable', 'b')).out).toBe('binding b is disabled\n')
    expect((await run('model', 'show', 'm')).out).toMatch(/^b +s +exact +- +0 +no +version 1 by ann$/m)
    expect((await run('model', 'disable', 'm')).out).toBe('model m: not enabled, published\n')
    expect((await run('model', 'unpublish', 'm')).out).toBe('model m: not published\n')
    expect((await run('model', 'gate', 'm')).out).toMatch(/^ok +exact_covers_limits: /m)
    expect(JSON.parse((await run('model', 'list', '--json')).out)).toMatchObject([
      { id: 'm', enabled: false, published: false },
    ])
  })

  it('ends with 1 for what is not there, and with 2 for misuse', async () => {
    for (const words of [
      ['channel', 'show', 'x'],
      ['supply', 'disable', 'x'],
      ['model', 'show', 'x'],
      ['binding', 'enable', 'x'],
      ['key', 'revoke', 'ym_x'],
      ['customer', 'suspend', 'x'],
      ['model', 'publish', 'x'],
      ['alerts', 'ack', 'x'],
    ])
      expect(await run(...words), words.join(' ')).toMatchObject({
        status: 1,
        err: expect.stringMatching(/there is no/),
      })
    for (const words of [
      ['channel', 'limit', 'c', '0'],
      ['channel', 'limit', 'c', '1.5'],
      ['channel', 'show', 'NO'],
      ['supply', 'limit', 's'],
      ['customer', 'create', 'A B'],
      ['key', 'rotate', 'x', '--overlap', '5'],
      ['usage', '--from', 'yesterday'],
      ['usage', '--csv', '--json'],
      ['usage', '--from', '2026-12-02', '--to', '2026-12-01'],
      ['alerts', 'ack'],
      ['model', 'nonsense'],
      ['channel', 'list', '--no-such'],
    ])
      expect((await run(...words)).status, words.join(' ')).toBe(2)
  })

  it('CUS-1: customers and keys', async () => {
    expect((await run('customer', 'create', 'acme', '--name', 'Acme Film', '--group', 'beta')).out).toBe(
      'customer acme is created, in beta\n',
    )
    const made = await run('key', 'create', 'acme', '--name', 'production')
    expect(made.out).toMatch(/^ym_[A-Za-z0-9_-]{43}\n$/)
    const rotated = JSON.parse(
      (await run('key', 'rotate', made.out.slice(0, 9), '--overlap', '24h', '--json')).out,
    )
    expect(rotated).toMatchObject({ customer: 'acme', key: expect.stringMatching(/^ym_/) })
    const listed = await run('key', 'list', '--customer', 'acme')
    expect(listed.out).toMatch(/expiring[\s\S]*active/)
    expect(listed.out).not.toContain(made.out.trim())
    expect((await run('key', 'revoke', rotated.id)).out).toBe(`key ${rotated.id} is revoked\n`)
    expect((await run('customer', 'suspend', 'acme')).out).toBe('customer acme is suspended\n')
    expect((await run('customer', 'list')).out).toMatch(/^acme +Acme Film +beta +no +1 +2/m)
  })

  it('CUS-2: usage per customer and period, exactly, and safe for a spreadsheet', async () => {
    await run('customer', 'create', 'studio')
    const record = (day: number, cost: bigint, code: string | null) =>
      test.db.query(
        `insert into usage_record (task_id, customer_id, api_key_id, model_id, kind, parameters, result, error_code, degraded,
          requested_profile, actual_profile, dropped_inputs, cost_micros, currency, created_at, ended_at)
        values (gen_random_uuid(), 'studio', gen_random_uuid(), 'm', 'video', '{"duration_seconds": 5, "resolution": "720p"}', 'succeeded', $3, true,
          '933', '900', '{reference_videos,reference_audios}', $2, 'CNY', make_timestamptz(2026, 11, $1, 0, 0, 0, 'UTC'), make_timestamptz(2026, 11, $1, 1, 0, 0, 'UTC'))`,
        [day, cost, code],
      )
    await record(1, 5_010_001n, null)
    await record(2, 9_007_199_254_740_993n, '=1+1')
    await record(3, 1n, null)
    const csv = await run(
      'usage',
      '--customer',
      'studio',
      '--from',
      '2026-11-01',
      '--to',
      '2026-11-03',
      '--csv',
    )
    const lines = csv.out.split('\r\n')
    expect(lines).toHaveLength(4)
    expect(lines[1]).toMatch(
      /,studio,.*,m,video,succeeded,,true,933,900,reference_videos reference_audios,5\.010001,CNY,/,
    )
    expect(lines[1]).toContain('"{""resolution"":""720p"",""duration_seconds"":5}"')
    expect(lines[2]).toContain(`succeeded,'=1+1,`)
    expect(lines[2]).toContain('9007199254.740993,CNY')
    const json = await run('usage', '--customer', 'studio', '--json')
    expect(
      json.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).cost),
    ).toEqual(['5.010001', '9007199254.740993', '0.000001'])
    const boundary = ['--from', '2026-11-01T01:00:00Z', '--to', '2026-11-02T01:00:00Z']
    expect((await run('usage', '--customer', 'studio', ...boundary)).out).toContain(
      '1 request, 5.010001 CNY\n',
    )
    expect((await run('usage', '--customer', 'studio', '--to', '2026-11-02')).out).toContain(
      '1 request, 5.010001 CNY\n',
    )
    expect((await run('usage', '--customer', 'nobody')).out).toContain('0 requests\n')
  })

  it('alerts are listed once, the gravest first, and acknowledged', async () => {
    const alert = (code: 'unknown_status' | 'own_network_suspected', severity: 'warning' | 'critical') => ({
      fingerprint: code,
      code,
      severity,
      message: `${code} happened`,
      subject: {},
    })
    await raiseAlerts(test.db, [
      alert('unknown_status', 'warning'),
      alert('own_network_suspected', 'critical'),
      alert('unknown_status', 'warning'),
    ])
    const { out } = await run('alerts')
    expect(
      out
        .split('\n')
        .slice(1, 3)
        .map((line) => line.split(/ +/).slice(0, 3)),
    ).toEqual([
      ['critical', 'own_network_suspected', '1'],
      ['warning', 'unknown_status', '2'],
    ])
    expect((await run('alerts', 'ack', '--all')).out).toBe('2 alerts acknowledged by ann\n')
    expect(JSON.parse((await run('alerts', 'list', '--json')).out)).toMatchObject([
      { acknowledged_by: 'ann' },
      { acknowledged_by: 'ann' },
    ])
  })
})
