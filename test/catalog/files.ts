/** What tests of the catalog share: a small file to change, an environment, and a keeper of secrets. */
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type Applied, type ApplyOptions, applyCatalog, type SecretKeeper } from '../../src/catalog/apply.ts'
import { checkCatalog } from '../../src/catalog/check.ts'
import type { Catalog } from '../../src/catalog/definitions.ts'
import type { Environment } from '../../src/catalog/environment.ts'
import { printProblem } from '../../src/catalog/problems.ts'
import type { Database } from '../../src/store/database.ts'

export const DEMO = readFileSync(new URL('../../demo/catalog.yaml', import.meta.url), 'utf8')

export function environmentOf(
  variables: Record<string, string> = { SIMULATOR_KEY: 'sim-secret' },
): Environment {
  return {
    variables,
    readFile: (path) => {
      throw Object.assign(new Error(`no ${path} in a test`), { code: 'ENOENT' })
    },
  }
}

/** The real thing's shape, without AES: what is stored here nobody opens. */
export const KEEPER: SecretKeeper = {
  digest: (secret) => createHmac('sha256', 'test').update(secret).digest(),
  seal: (secret) => ({
    keyId: 'test',
    nonce: createHash('sha256').update(secret).digest().subarray(0, 12),
    ciphertext: Buffer.from(secret).toReversed(),
    digest: KEEPER.digest(secret),
  }),
}

/** A file that must be without errors. */
export function catalogOf(text: string, environment = environmentOf()): Catalog {
  const { catalog, problems } = checkCatalog(text, environment)
  if (catalog === null) throw new Error(problems.map((problem) => printProblem('test', problem)).join('\n'))
  return catalog
}

export function apply(db: Database, text: string, options: Partial<ApplyOptions> = {}): Promise<Applied> {
  const environment = options.environment ?? environmentOf()
  return applyCatalog(db, catalogOf(text, environment), {
    publish: false,
    prune: false,
    dryRun: false,
    by: 'test',
    secrets: KEEPER,
    ...options,
    environment,
  })
}

/** One channel, one supply, one model: short enough to be changed by `replace`. */
export const SMALL = `
channels:
  c: { provider: ark, base_url: http://127.0.0.1:1/api, credential: env:KEY, concurrency: 5 }
supplies:
  s:
    channel: c
    upstream_model: m-1
    media: video
    concurrency: 5
    capability:
      billing_mode: per_second
      modes: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"] }]
    prices: { rows: [{ price: 0.1 }] }
policies:
  p: {}
models:
  m:
    media: video
    limits: [{ duration_seconds: 4-15, resolutions: [480p, 720p], aspect_ratios: ["16:9"] }]
    policy: p
    bindings:
      b: { supply: s, verified: { by: ann, at: 2026-11-20, evidence: job 7 } }
`

export const SMALL_ENVIRONMENT = environmentOf({ KEY: 'secret-1' })
