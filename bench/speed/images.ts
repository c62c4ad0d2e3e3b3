/**
 * Images through the gateway, as a customer asks for them over HTTP: requests a second at 32 connections, and what one
 * adds to a request at one connection. Ours writes down every one durably; the peer keeps nothing.
 */
import { join } from 'node:path'
import { Pool } from 'undici'
import { createCustomer, createKey } from '../../src/store/accounts.ts'
import { openDatabase } from '../../src/store/database.ts'
import type { BenchDatabase } from './cluster.ts'
import type { Bench, Line } from './figure.ts'
import { type Running, startMock, startPortkey, startYardmaster } from './gateways.ts'
import { versionOf } from './peers.ts'
import { play, ratios, spreadOf } from './rounds.ts'
import { prepareYard } from './yard.ts'

const CONNECTIONS = 32

interface Target {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly model: string
}

export async function images(bench: Bench): Promise<Line[]> {
  const mock = await startMock()
  const open: { stop(): Promise<void> }[] = [mock]
  try {
    const ours = await openOurs(bench, mock, open)
    const peer = bench.peers ? await openPeer(mock, open) : undefined
    const direct = { url: mock.url, headers: {}, model: 'gpt-image-2' }
    const seconds = bench.short ? 1 : 5
    const many = await play(bench.rounds, {
      ours: () => durably(ours, () => perSecond(ours.target, CONNECTIONS, seconds)),
      ...(peer && { peer: () => perSecond(peer, CONNECTIONS, seconds) }),
    })
    const added = await addedLatency(bench, { ours: ours.target, direct, ...(peer && { peer }) })
    const name = bench.peers ? `@portkey-ai/gateway ${await versionOf('@portkey-ai/gateway')}` : ''
    return [
      compared(`images, ${CONNECTIONS} connections`, '1/s', many, { name, demanded: { least: 2 } }),
      compared('added latency of an image, one connection, p50', 'ms', added, {
        name,
        demanded: { most: 1 },
      }),
    ]
  } finally {
    for (const one of open.reverse()) await one.stop()
  }
}

type Figures = Readonly<Record<string, readonly number[]>>

function compared(
  what: string,
  unit: string,
  { ours = [], peer }: Figures,
  against: { name: string; demanded: NonNullable<Line['demanded']> },
): Line {
  if (!peer) return { what, unit, ours: spreadOf(ours) }
  return {
    what,
    unit,
    ours: spreadOf(ours),
    peer: { name: against.name, value: spreadOf(peer) },
    ratio: ratios(ours, peer),
    demanded: against.demanded,
  }
}

/** The middle of what each of them takes, less what the mock takes without anybody between, of the same round. */
async function addedLatency(bench: Bench, targets: Readonly<Record<string, Target>>): Promise<Figures> {
  const requests = bench.short ? 20 : 500
  const taken = await play(
    bench.rounds,
    Object.fromEntries(
      Object.entries(targets).map(([name, target]) => [name, () => middleMs(target, requests)]),
    ),
  )
  const { direct = [] } = taken
  return Object.fromEntries(
    Object.entries(taken).map(([name, values]) => [
      name,
      values.map((value, n) => value - (direct[n] ?? Number.NaN)),
    ]),
  )
}

let asked = 0

async function ask(pool: Pool, target: Target): Promise<void> {
  asked += 1
  const { statusCode, body } = await pool.request({
    path: '/v1/images/generations',
    method: 'POST',
    headers: { 'content-type': 'application/json', ...target.headers },
    body: JSON.stringify({
      model: target.model,
      prompt: `a yard at night, number ${asked}`,
      size: '1024x1024',
      response_format: 'b64_json',
    }),
  })
  const text = await body.text()
  if (statusCode !== 200 || !text.includes('b64_json'))
    throw new Error(`an image was answered with ${statusCode}: ${text.slice(0, 300)}`)
}

async function perSecond(target: Target, connections: number, seconds: number): Promise<number> {
  const pool = new Pool(target.url, { connections, pipelining: 1 })
  let answered = 0
  const until = (milliseconds: number) => {
    const end = performance.now() + milliseconds
    const loop = async () => {
      while (performance.now() < end) {
        await ask(pool, target)
        answered += 1
      }
    }
    return Promise.all(Array.from({ length: connections }, loop))
  }
  try {
    await until(1000)
    answered = 0
    const began = performance.now()
    await until(seconds * 1000)
    return (1000 * answered) / (performance.now() - began)
  } finally {
    await pool.close()
  }
}

async function middleMs(target: Target, requests: number): Promise<number> {
  const pool = new Pool(target.url, { connections: 1, pipelining: 1 })
  const taken: number[] = []
  try {
    for (let n = -20; n < requests; n += 1) {
      const began = performance.now()
      await ask(pool, target)
      if (n >= 0) taken.push(performance.now() - began)
    }
    return spreadOf(taken).median
  } finally {
    await pool.close()
  }
}

interface Ours {
  readonly target: Target
  readonly database: BenchDatabase
}

/** What was answered but not written down is no result. */
async function durably(ours: Ours, run: () => Promise<number>): Promise<number> {
  const before = asked
  const recordsBefore = await records(ours.database)
  const rate = await run()
  const made = (await records(ours.database)) - recordsBefore
  if (made !== asked - before)
    throw new Error(`${asked - before} images were asked for, ${made} are on record`)
  return rate
}

async function records(database: BenchDatabase): Promise<number> {
  const [row] = await database.rows<{ n: string }>(
    `select count(*) as n from usage_record u join task t on t.id = u.task_id
      where t.kind = 'image' and t.state = 'succeeded' and exists (select from round r where r.task_id = t.id)`,
  )
  return Number(row?.n)
}

async function openOurs(bench: Bench, mock: Running, open: { stop(): Promise<void> }[]): Promise<Ours> {
  const database = await bench.cluster.copyOf('images', (url) =>
    prepareYard(url, catalogOf('http://127.0.0.1:9')),
  )
  open.push({ stop: () => database.drop() })
  await database.rows('update channel set base_url = $1', [`${mock.url}/v1`])
  const gateway = await startYardmaster({
    url: database.url,
    dataDir: join(bench.cluster.dir, 'images'),
  })
  open.push(gateway)
  const db = await openDatabase({ url: database.url, poolSize: 1 })
  try {
    await createCustomer(db, { id: 'pictures', name: 'Pictures', groups: ['default'] })
    const { key } = await createKey(db, { customerId: 'pictures', name: 'bench' })
    const headers = { authorization: `Bearer ${key}` }
    return { database, target: { url: gateway.url, headers, model: 'bench-image' } }
  } finally {
    await db.close()
  }
}

async function openPeer(mock: Running, open: { stop(): Promise<void> }[]): Promise<Target> {
  const gateway = await startPortkey()
  open.push(gateway)
  const headers = {
    authorization: 'Bearer sk-of-nobody',
    'x-portkey-provider': 'openai',
    'x-portkey-custom-host': `${mock.url}/v1`,
  }
  return { url: gateway.url, headers, model: 'gpt-image-2' }
}

function catalogOf(mock: string): string {
  return `
currency: CNY
anchors:
  - &image [{ sizes: [1024x1024], count: 1-4 }]
  - &tried { by: bench, at: 2026-11-20, evidence: "the mock" }
channels:
  mock: { provider: openai, base_url: "${mock}/v1", credential: env:BENCH_KEY, concurrency: 1000, options: { image_response_format: b64_json } }
supplies:
  mock-image: { channel: mock, upstream_model: gpt-image-2, media: image, concurrency: 1000, expected_seconds: 1, capability: { modes: *image }, prices: { rows: [{ price: 0.1 }] } }
policies:
  image: { task_cost_limit: 4 }
models:
  bench-image:
    media: image
    limits: *image
    defaults: { size: 1024x1024, n: 1 }
    image_timeout_seconds: 30
    policy: image
    bindings:
      bench-image-mock: { supply: mock-image, verified: *tried }
`
}
