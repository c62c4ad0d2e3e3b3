/** What tests of the catalog share: a small file to change, an environment, and a key. */
import { readFileSync } from 'node:fs'
import { type Applied, type ApplyOptions, applyCatalog } from '../../src/catalog/apply.ts'
import { checkCatalog } from '../../src/catalog/check.ts'
import type { Catalog } from '../../src/catalog/definitions.ts'
import type { Environment } from '../../src/catalog/environment.ts'
import { printProblem } from '../../src/catalog/problems.ts'
import type { Database } from '../../src/store/database.ts'
import { parseKeyring } from '../../src/store/secrets.ts'

export const DEMO = readFileSync(new URL('../../demo/catalog.yaml', import.meta.url), 'utf8')

export const DEMO_ENVIRONMENT: Environment = { SIMULATOR_KEY: 'sim-secret' }
export const SMALL_ENVIRONMENT: Environment = { KEY: 'secret-1' }
export const KEYRING = parseKeyring('11'.repeat(32), 'a test')

/** A file that must be without errors. */
export async function catalogOf(text: string, environment: Environment): Promise<Catalog> {
  const { catalog, problems } = await checkCatalog(text, environment)
  if (catalog === null) throw new Error(problems.map((problem) => printProblem('test', problem)).join('\n'))
  return catalog
}

export async function apply(
  db: Database,
  text: string,
  options: Partial<ApplyOptions> = {},
): Promise<Applied> {
  const environment = options.environment ?? { ...DEMO_ENVIRONMENT, ...SMALL_ENVIRONMENT }
  return applyCatalog(db, await catalogOf(text, environment), {
    publish: false,
    prune: false,
    dryRun: false,
    by: 'test',
    keyring: KEYRING,
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
