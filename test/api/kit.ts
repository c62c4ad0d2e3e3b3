/**
 * A whole Yardmaster behind a real listening server: the simulator over HTTP, the demo catalog, an engine, and keys.
 */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import OpenAI, { type ClientOptions } from 'openai'
import { Registry } from 'prom-client'
import { LinkSigner } from '../../src/api/public/links.ts'
import { storedModels } from '../../src/api/public/ports.ts'
import { buildServer, type ServerDeps } from '../../src/api/server.ts'
import { Callbacks } from '../../src/runtime/callbacks.ts'
import type { Engine, EngineOptions } from '../../src/runtime/engine.ts'
import type { Dispatching } from '../../src/runtime/service.ts'
import { createCustomer, createKey } from '../../src/store/accounts.ts'
import { rowsOf, type System, type SystemOptions, startSystem } from '../system/kit.ts'

export const LINK_KEY = Buffer.alloc(32, 9)
export const ADMIN_TOKEN = 'yma_for-tests-only-0123456789'

export interface ApiOptions extends SystemOptions {
  /** Whether the engine's loops run. */
  readonly running: boolean
  readonly engine?: Partial<EngineOptions>
  readonly public?: Partial<ServerDeps['public']>
  readonly admin?: Partial<ServerDeps['admin']>
  readonly operation?: Partial<ServerDeps['operation']>
}

export interface Api {
  readonly system: System
  readonly engine: Engine
  readonly app: FastifyInstance
  readonly url: string
  /** Of the customers `acme` and `other`. */
  readonly key: string
  readonly otherKey: string
  readonly spool: string
  /** Where a provider would call back about that attempt. */
  callbackPath(attemptId: string): string
  client(options?: ClientOptions): OpenAI
  fetch(path: string, init?: RequestInit & { readonly key?: string | null }): Promise<Response>
  stop(): Promise<void>
}

export async function startApi(options: ApiOptions): Promise<Api> {
  const system = await startSystem(options)
  const { db } = system
  const key = await createKey(db, { customerId: 'acme', name: 'test' })
  await createCustomer(db, { id: 'other', name: 'Other', groups: ['default'] })
  const otherKey = await createKey(db, { customerId: 'other', name: 'test' })
  const callbacks = new Callbacks(system.keyring, system.providers)
  let url = ''
  const engine = system.engine({
    scanMs: 50,
    callbackUrl: (attemptId) => (url === '' ? null : `${url}${callbacks.path(attemptId)}`),
    ...options.engine,
  })
  if (options.running) await engine.start()
  const spool = join(system.dir, 'spool')
  const app = buildServer({
    public: {
      sql: db,
      dispatching: engine,
      models: storedModels(db, engine.releases),
      assets: system.assets,
      links: new LinkSigner(LINK_KEY),
      linkSeconds: 3600,
      publicUrl: null,
      spoolDirectory: spool,
      ...options.public,
    },
    admin: {
      sql: db,
      token: ADMIN_TOKEN,
      dispatching: engine,
      desk: engine.desk,
      outbox: engine.outbox,
      keyring: system.keyring,
      explainTask: async () => undefined,
      ...options.admin,
    },
    operation: {
      sql: db,
      metrics: new Registry(),
      migrated: async () => true,
      draining: () => false,
      ...options.operation,
    },
    callback: (called) => callbacks.take(db, called),
    version: 'test',
    log: { note: () => {}, fault: (event, error) => system.faults.push({ event, error }) },
  })
  url = await app.listen({ host: '127.0.0.1', port: 0 })
  return {
    system,
    engine,
    app,
    url,
    callbackPath: (attemptId) => callbacks.path(attemptId),
    key: key.key,
    otherKey: otherKey.key,
    spool,
    client: (more) => new OpenAI({ apiKey: key.key, baseURL: `${url}/v1`, maxRetries: 0, ...more }),
    fetch: (path, init = {}) => {
      const { key: own = key.key, ...rest } = init
      const headers = new Headers(rest.headers)
      if (own !== null) headers.set('authorization', `Bearer ${own}`)
      return fetch(`${url}${path}`, { ...rest, headers })
    },
    stop: async () => {
      await app.close()
      await system.stop()
    },
  }
}

/** A stand-in for runtime where an answer must be forced that the real one gives only by bad luck. */
export function dispatchingThat(answers: Partial<Dispatching>): Dispatching {
  const unexpected = async () => {
    throw new Error('runtime was asked for what this test does not expect')
  }
  return { admitVideo: unexpected, runImage: unexpected, cancelTask: unexpected, ...answers }
}

/** What a request may leave behind. */
export async function storedThings(api: Api) {
  const [row] = await rowsOf<{ tasks: number; assets: number; claims: number; usage: number }>(
    api.system.db,
    `select (select count(*)::int from task) as tasks, (select count(*)::int from asset) as assets,
      (select count(*)::int from idempotency_claim) as claims, (select count(*)::int from usage_record) as usage`,
  )
  return {
    ...row,
    spooled: (await readdir(api.spool).catch(() => [])).length,
    files: (await readdir(join(api.system.dir, 'assets'), { recursive: true }).catch(() => [])).filter(
      (name) => !/^(parts|[0-9a-f]{2})$/.test(name),
    ).length,
  }
}

/** A real PNG of one pixel. */
export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
