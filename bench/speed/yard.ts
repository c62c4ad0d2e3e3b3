/**
 * The yard of the bench: one published model over several channels and supplies whose limits never bind, and as many
 * waiting tasks as wanted, stored in bulk through the product's own schema and catalog.
 */
import { randomBytes } from 'node:crypto'
import { applyCatalog } from '../../src/catalog/apply.ts'
import { checkCatalog } from '../../src/catalog/check.ts'
import { type FactsJson, factsToJson } from '../../src/core/frozen.ts'
import type { VideoFacts } from '../../src/core/request.ts'
import { laneDigest } from '../../src/runtime/lane.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { migrate } from '../../src/store/migrate.ts'
import { maintainPartitions } from '../../src/store/partitions.ts'
import { parseKeyring } from '../../src/store/secrets.ts'

export const KEY_TEXT = Buffer.alloc(32, 9).toString('base64')
export const MODEL = 'bench-video'
/** What an upstream model begins with whose jobs never end. */
export const ENDLESS = 'endless'

export interface YardSize {
  readonly channels: number
  readonly suppliesPerChannel: number
  /** Of every channel and supply. */
  readonly concurrency: number
}

/** A model with channels and supplies of its own. */
export interface Ground extends YardSize {
  readonly model: string
  readonly expectedSeconds?: number
  /** Its jobs never end (null-provider.ts). */
  readonly endless?: boolean
}

export const WIDE: YardSize = { channels: 4, suppliesPerChannel: 2, concurrency: 100_000 }

/** Lanes differ by length of the film. */
const SECONDS = [4, 5, 6, 7] as const

/** Supplies alike in all, so that the load is spread over them by the order of the ranking. */
export function yardCatalog(size: YardSize): string {
  return catalogOf([{ ...size, model: MODEL }])
}

export function catalogOf(grounds: readonly Ground[]): string {
  const parts = grounds.map(partsOf)
  return `
currency: CNY
anchors:
  - &video
    - { duration_seconds: 4-15, resolutions: [480p, 720p, 1080p], aspect_ratios: ["16:9", "9:16", "1:1"], generate_audio: true }
  - &tried { by: bench, at: 2026-11-20, evidence: "the null provider" }
channels:
${parts.flatMap((part) => part.channels).join('\n')}
supplies:
${parts.flatMap((part) => part.supplies).join('\n')}
policies:
  video: { retry_window_seconds: 1200 }
models:
${parts.map((part) => part.model).join('\n')}
`
}

function partsOf(ground: Ground, at: number) {
  const { model, concurrency, expectedSeconds = 1, endless = false } = ground
  // The frozen statements (lifecycle.sql) know those of the first ground by name.
  const prefix = at === 0 ? '' : `${at}-`
  const channels = Array.from({ length: ground.channels }, (_, n) => `channel-${prefix}${n}`)
  const supplies = channels.flatMap((channel, n) =>
    Array.from({ length: ground.suppliesPerChannel }, (_, m) => ({
      id: `supply-${prefix}${n}-${m}`,
      channel,
    })),
  )
  const upstream = endless ? ENDLESS : 'null'
  return {
    channels: channels.map(
      (id) =>
        `  ${id}: { provider: ark, base_url: "http://127.0.0.1:9", credential: env:BENCH_KEY, concurrency: ${concurrency} }`,
    ),
    supplies: supplies.map(
      ({ id, channel }) =>
        `  ${id}: { channel: ${channel}, upstream_model: ${upstream}-${id}, media: video, real_person: allowed, concurrency: ${concurrency}, expected_seconds: ${expectedSeconds}, capability: { billing_mode: per_second, modes: *video }, prices: { rows: [{ price: 1 }] } }`,
    ),
    model: `  ${model}:
    media: video
    limits: *video
    defaults: { seconds: 5, resolution: 720p, aspect_ratio: "16:9", generate_audio: false }
    max_run_seconds: 3600
    policy: video
    bindings:
${supplies.map(({ id }) => `      ${model}-${id}: { supply: ${id}, verified: *tried }`).join('\n')}`,
  }
}

/** A migrated database with the catalog published and a customer in it. */
export async function prepareYard(url: string, catalog: string): Promise<void> {
  const db = await openDatabase({ url, poolSize: 2 })
  try {
    await migrate(db)
    await applyYard(db, catalog)
    await maintainPartitions(db, { aheadDays: 7, retainDays: { round: 90, health_events: 90 } })
    await db.query(`insert into customer (id, name) values ('bench', 'Bench')`)
    const key = {
      name: 'bench-key',
      text: `insert into api_key (customer_id, prefix, digest) values ('bench', 'ym_b', $1)`,
    }
    await db.query(key, [randomBytes(32)])
  } finally {
    await db.close()
  }
}

async function applyYard(db: Database, text: string): Promise<void> {
  const environment = { BENCH_KEY: 'sk-of-nobody' }
  const checked = await checkCatalog(text, environment)
  if (!checked.catalog) throw new Error(JSON.stringify(checked.problems, null, 1))
  const keyring = parseKeyring(KEY_TEXT, 'the bench')
  await applyCatalog(db, checked.catalog, {
    publish: true,
    prune: false,
    dryRun: false,
    by: 'bench',
    environment,
    keyring,
  })
}

export function factsOf(seconds: number): VideoFacts {
  return {
    media: 'video',
    billingMode: null,
    degradation: null,
    realPerson: false,
    durationSeconds: seconds,
    resolution: '720p',
    aspectRatio: '16:9',
    generateAudio: false,
    inputs: {},
  }
}

const FILL = {
  name: 'bench-fill',
  text: `with t as (
      insert into task (id, kind, customer_id, api_key_id, model_id, release_id, state, lane, facts, request_id, fingerprint)
      select new_time_id(), 'video', 'bench', (select id from api_key limit 1), $2, (select max(id) from release where model_id = $2),
        'queued', $3, $4::jsonb, 'req_' || gen_random_uuid(), sha256(convert_to(n::text || $3, 'utf8'))
      from generate_series(1, $1::int) n returning id)
    insert into task_content (task_id, content) select id, $5::jsonb from t`,
}

/** Waiting tasks of a model, in four lanes or as many as lengths are given. */
export async function fillQueue(
  url: string,
  want: { readonly tasks: number; readonly model?: string; readonly seconds?: readonly number[] },
): Promise<void> {
  const { tasks, model = MODEL, seconds = SECONDS } = want
  const db = await openDatabase({ url, poolSize: 1, statementTimeout: 0 })
  try {
    for (const [n, length] of seconds.entries()) {
      const facts: FactsJson = factsToJson(factsOf(length))
      const share = Math.floor((tasks * (n + 1)) / seconds.length) - Math.floor((tasks * n) / seconds.length)
      const content = {
        prompt: 'a yard at night',
        inputs: {},
        metadata: {},
        echo: { seconds: String(length), size: '1280x720' },
      }
      await db.query(FILL, [
        share,
        model,
        laneDigest(model, facts, []),
        JSON.stringify(facts),
        JSON.stringify(content),
      ])
    }
  } finally {
    await db.close()
  }
}

/** For contestant.ts. A task has a usage record exactly when it is over; those who count see to it that all went well. */
export const FINISHED = `select count(*) as done, extract(epoch from statement_timestamp()) as at from usage_record`
