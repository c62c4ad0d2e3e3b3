/**
 * A whole Yardmaster for a test: real PostgreSQL, the simulator over real HTTP, the demo catalog published, and engines
 * as many as wanted, in this process. Durations are scaled down; nothing is pretended.
 */

import { randomBytes, randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { checkCatalog } from '../../src/catalog/check.ts'
import type { ImageFacts, VideoFacts } from '../../src/core/request.ts'
import { createCaller } from '../../src/providers/call.ts'
import { createProviders } from '../../src/providers/registry.ts'
import { Engine, type EngineOptions } from '../../src/runtime/engine.ts'
import type { Journal } from '../../src/runtime/journal.ts'
import { replay } from '../../src/runtime/replay.ts'
import type { IncomingRequest } from '../../src/runtime/service.ts'
import { startSimulator } from '../../src/simulator/server.ts'
import { AssetStore } from '../../src/store/assets.ts'
import { maintainPartitions } from '../../src/store/partitions.ts'
import { Releases } from '../../src/store/releases.ts'
import { parseKeyring } from '../../src/store/secrets.ts'
import { testDatabase } from '../store/database.ts'

export interface Fault {
  readonly event: string
  readonly error: unknown
}

export type System = Awaited<ReturnType<typeof startSystem>>

export interface SystemOptions {
  /** Changes the text of the demo catalog before it is applied. */
  readonly catalog?: (text: string) => string
  /** What the simulator is told first, as in POST /control/configuration. */
  readonly simulator?: object
}

/** Rounds from here on were planted by a test. */
const PLANTED_FROM = 1000

export const KEY_TEXT = Buffer.alloc(32, 7).toString('base64')

export async function startSystem(options: SystemOptions = {}) {
  const database = await testDatabase({ poolSize: 10 })
  const { db } = database
  const dir = await mkdtemp(join(tmpdir(), 'yardmaster-system-'))
  const simulator = await startSimulator({ seed: 1 })
  if (options.simulator) await control(simulator.url, 'POST', '/configuration', options.simulator)
  const keyring = parseKeyring(KEY_TEXT, 'the test')
  const demo = await readFile(new URL('../../demo/catalog.yaml', import.meta.url), 'utf8')
  await applyText({ db, keyring, simulatorUrl: simulator.url }, (options.catalog ?? ((text) => text))(demo))
  await maintainPartitions(db, { aheadDays: 3, retainDays: { round: 90, health_events: 90 } })
  const customer = await addCustomer(db, 'acme')
  const assets = new AssetStore(db, join(dir, 'assets'))
  const caller = createCaller()
  const providers = createProviders(caller)
  const engines: Engine[] = []
  const faults: Fault[] = []
  const notes: { event: string; details: unknown }[] = []
  const journal: Journal = {
    note: (event, details) => notes.push({ event, details }),
    fault: (event, error) => faults.push({ event, error }),
  }
  return {
    db,
    url: database.url,
    simulatorUrl: simulator.url,
    keyring,
    assets,
    providers,
    customer,
    faults,
    notes,
    dir,
    control: (method: string, path: string, body?: unknown) => control(simulator.url, method, path, body),
    applyText: (text: string, environment?: Readonly<Record<string, string>>) =>
      applyText({ db, keyring, simulatorUrl: simulator.url }, text, environment),
    demo,
    /** An engine that is not started: `engine.start()` begins its loops, `dispatchOnce` scans once. */
    engine(more: Partial<EngineOptions> = {}): Engine {
      const engine = new Engine({
        db,
        keyring,
        assets,
        providers,
        journal,
        roles: ['api', 'dispatch', 'poll', 'reconcile'],
        version: 'test',
        resultLifeMs: 3_600_000,
        largestResultBytes: 50_000_000,
        alertCaller: caller,
        ...more,
      })
      engines.push(engine)
      return engine
    },
    /** Stop, after everything that was stored has been replayed: no test may leave a decision that cannot be explained. */
    async stop() {
      for (const engine of engines) await engine.stop()
      const { differences } = await replay(db, new Releases(), '1970-01-01')
      const planted = differences.filter((difference) => difference.number > PLANTED_FROM)
      if (differences.length > planted.length)
        throw new Error(`replay differs: ${JSON.stringify(differences[0])}`)
      await caller.close()
      await simulator.close()
      await database.drop()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

interface Target {
  readonly db: Awaited<ReturnType<typeof testDatabase>>['db']
  readonly keyring: ReturnType<typeof parseKeyring>
  readonly simulatorUrl: string
}

async function applyText(target: Target, text: string, more: Readonly<Record<string, string>> = {}) {
  const environment = {
    SIMULATOR_PORT: new URL(target.simulatorUrl).port,
    SIMULATOR_KEY: 'sk-simulated-secret',
    ...more,
  }
  const checked = await checkCatalog(text, environment)
  if (!checked.catalog) throw new Error(JSON.stringify(checked.problems, null, 1))
  return applyCatalog(target.db, checked.catalog, {
    publish: true,
    prune: false,
    dryRun: false,
    by: 'test',
    environment,
    keyring: target.keyring,
  })
}

export async function addCustomer(db: Target['db'], id: string) {
  await db.query(`insert into customer (id, name) values ('${id}', '${id}')`)
  const { rows } = await db.query<{ id: string }>(
    {
      name: 'add-key',
      text: 'insert into api_key (customer_id, prefix, digest) values ($1, $2, $3) returning id',
    },
    [id, 'ym_test', randomBytes(32)],
  )
  return { customerId: id, keyId: rows[0]?.id ?? '', groups: ['default'] }
}

async function control(url: string, method: string, path: string, body?: unknown): Promise<unknown> {
  const response = await fetch(`${url}/control${path}`, {
    method,
    headers: { 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} /control${path}: ${response.status} ${text}`)
  return JSON.parse(text)
}

export const VIDEO: VideoFacts = {
  media: 'video',
  billingMode: null,
  degradation: null,
  realPerson: false,
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: false,
  inputs: {},
}

export const IMAGE: ImageFacts = {
  media: 'image',
  billingMode: null,
  degradation: null,
  size: '2048x2048',
  quality: null,
  count: 1,
  inputs: {},
}

export function videoRequest(
  caller: IncomingRequest['caller'],
  more: Partial<IncomingRequest> = {},
): IncomingRequest {
  return {
    caller,
    modelId: 'seedance-2.0-933',
    facts: VIDEO,
    content: {
      prompt: 'a yard at night',
      inputs: {},
      metadata: {},
      echo: { seconds: '5', size: '1280x720' },
    },
    requestId: `req_${randomUUID()}`,
    idempotency: null,
    repeat: { count: 0, fingerprint: randomBytes(32) },
    ...more,
  }
}

export function imageRequest(
  caller: IncomingRequest['caller'],
  more: Partial<IncomingRequest> = {},
): IncomingRequest {
  return videoRequest(caller, { modelId: 'seedream-4.0', facts: IMAGE, ...more })
}

/** Look again until `found` answers something; the bound is generous, and names what was waited for. */
export async function until<T>(
  what: string,
  found: () => Promise<T | undefined | false | null>,
  seconds = 60,
): Promise<T> {
  const end = performance.now() + seconds * 1000
  for (;;) {
    const value = await found()
    if (value) return value
    if (performance.now() > end) throw new Error(`waited ${seconds} s for: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
}

export async function rowsOf<Row extends Record<string, unknown>>(
  db: Target['db'],
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  return (
    await db.query<Row>(
      { name: `t${Buffer.from(text).toString('base64url').slice(0, 50)}${text.length}`, text },
      values,
    )
  ).rows
}
