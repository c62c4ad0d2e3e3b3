/**
 * Published releases and price lists, parsed. Both are immutable rows, so that a process reads each one once and keeps it.
 */
import type { Capability, PriceList } from '../core/catalog.ts'
import {
  MalformedInput,
  parseCapability,
  parseDegradationOperations,
  parseModes,
  parsePolicy,
  parsePriceList,
} from '../core/decision-json.ts'
import type { Release, ReleasedBinding, ReleasedRule } from '../core/frozen.ts'
import type { DegradationMode, Media } from '../core/request.ts'
import type { Sql } from './database.ts'

interface ReleaseRow {
  id: bigint
  model_id: string
  media: Media
  model: ModelDocument
  policy: Record<string, unknown>
  bindings: BindingDocument[]
  capabilities: Record<string, unknown>
  rules: Record<string, RuleDocument>
}

interface ModelDocument {
  profile: string
  limits: unknown
  defaults?: Record<string, string | number | boolean>
  degradation: DegradationMode
  normal_cost?: unknown
  emergency_cost_override?: boolean
  allowed_groups?: string[] | null
  max_run_seconds?: number
  image_timeout_seconds?: number
  description?: string
}

interface BindingDocument {
  id: string
  supply_id: string
  channel_id: string
  tier: ReleasedBinding['tier']
  priority: number
  capability_version_id: string | number
  degradation_rule_id: string | null
  degradation_rule_version_id: string | number | null
}

interface RuleDocument {
  id: string
  from_profile: string
  to_profile: string
  operations: unknown
}

const RELEASE = {
  name: 'release-by-id',
  text: `
    select r.id, r.model_id, m.media, mv.document as model, pv.document as policy, r.bindings,
      (select coalesce(jsonb_object_agg(cv.id::text, cv.document), '{}') from capability_version cv
        where cv.id in (select (b->>'capability_version_id')::bigint from jsonb_array_elements(r.bindings) b)) as capabilities,
      (select coalesce(jsonb_object_agg(dv.id::text, dv.document || jsonb_build_object('id', dv.rule_id)), '{}')
        from degradation_rule_version dv
        where dv.id in (select (b->>'degradation_rule_version_id')::bigint from jsonb_array_elements(r.bindings) b)) as rules
    from release r
    join model m on m.id = r.model_id
    join model_version mv on mv.id = r.model_version_id
    join policy_version pv on pv.id = r.policy_version_id
    where r.id = $1`,
}

const PRICES = {
  name: 'price-lists-by-id',
  text: 'select id, converted from price_list_version where id = any($1::bigint[])',
}

const MODELS = {
  name: 'models-now',
  text: `select m.id, m.media, m.enabled and m.archived_at is null as enabled,
      m.published and m.archived_at is null as published, m.release_id,
      coalesce((select array_agg(b.id) from binding b where b.model_id = m.id and (not b.enabled or b.archived_at is not null)), '{}') as off,
      coalesce((select array_agg(d.id) from degradation_rule d
        where d.published and d.archived_at is null
          and d.id in (select b.degradation_rule_id from binding b where b.model_id = m.id)), '{}') as rules
    from model m where ($1::text[] is null or m.id = any($1))`,
}

/** A model's switches as they stand (an archived one is off, and still has tasks that wait), and the release that decides. `releaseId` is null until it was published once. */
export interface ModelNow {
  readonly id: string
  readonly media: Media
  readonly enabled: boolean
  readonly published: boolean
  readonly releaseId: string | null
  /** Bindings that are switched off. */
  readonly off: readonly string[]
  /** Degradation rules that are published. */
  readonly rules: readonly string[]
}

export class Releases {
  readonly #releases = new Map<string, Release>()
  readonly #prices = new Map<string, PriceList>()

  /** A release by its ID; undefined where there is none. Throws MalformedInput where the stored definition is not one. */
  async release(sql: Sql, id: string): Promise<Release | undefined> {
    const known = this.#releases.get(id)
    if (known) return known
    const [row] = (await sql.query<ReleaseRow>(RELEASE, [id])).rows
    if (!row) return undefined
    const release = parseRelease(row)
    this.#releases.set(id, release)
    return release
  }

  /** Price lists by version ID, in the base currency. */
  async prices(sql: Sql, ids: Iterable<string | null>): Promise<ReadonlyMap<string, PriceList>> {
    const missing = [...new Set(ids)].filter((id) => id !== null && !this.#prices.has(id))
    if (missing.length > 0) {
      const { rows } = await sql.query<{ id: bigint; converted: unknown }>(PRICES, [missing])
      for (const row of rows)
        this.#prices.set(String(row.id), parsePriceList(row.converted, `price_list_version ${row.id}`))
    }
    return this.#prices
  }
}

/** Models as they stand now; all of them where no IDs are given. */
export async function modelsNow(
  sql: Sql,
  ids: readonly string[] | null,
): Promise<ReadonlyMap<string, ModelNow>> {
  const { rows } = await sql.query<{
    id: string
    media: Media
    enabled: boolean
    published: boolean
    release_id: bigint | null
    off: string[]
    rules: string[]
  }>(MODELS, [ids])
  return new Map(
    rows.map((row) => [
      row.id,
      {
        id: row.id,
        media: row.media,
        enabled: row.enabled,
        published: row.published,
        releaseId: row.release_id === null ? null : String(row.release_id),
        off: row.off,
        rules: row.rules,
      },
    ]),
  )
}

/** Every model that customers can use now, with its release. */
export async function publishedModels(sql: Sql, releases: Releases): Promise<Release[]> {
  const found: Release[] = []
  for (const model of (await modelsNow(sql, null)).values()) {
    if (!model.enabled || !model.published || model.releaseId === null) continue
    const release = await releases.release(sql, model.releaseId)
    if (release) found.push(release)
  }
  return found.sort((a, b) => (a.modelId < b.modelId ? -1 : 1))
}

function parseRelease(row: ReleaseRow): Release {
  const at = `release ${row.id}`
  const { model } = row
  return {
    id: String(row.id),
    modelId: row.model_id,
    media: row.media,
    profile: model.profile,
    allowedGroups: model.allowed_groups ?? null,
    limits: parseModes(row.media, model.limits, `${at}.limits`),
    degradation: model.degradation,
    normalCost: model.normal_cost ? parsePriceList(model.normal_cost, `${at}.normal_cost`) : null,
    emergencyCostOverride: model.emergency_cost_override ?? false,
    policy: parsePolicy(row.policy, `${at}.policy`),
    realPersonRefusal: row.policy.real_person_refusal === 'change_supply' ? 'change_supply' : 'stop',
    maxRunSeconds: model.max_run_seconds ?? 3600,
    imageTimeoutSeconds: model.image_timeout_seconds ?? 120,
    defaults: model.defaults ?? {},
    description: model.description ?? '',
    bindings: row.bindings.map((binding) => parseBinding(binding, row, at)),
    rules: Object.values(row.rules).map((rule) => parseRule(rule, at)),
  }
}

function parseBinding(binding: BindingDocument, row: ReleaseRow, at: string): ReleasedBinding {
  const version = String(binding.capability_version_id)
  const document = row.capabilities[version]
  if (document === undefined)
    throw new MalformedInput(`${at}.bindings`, `capability version ${version} is missing`)
  const capability: Capability = parseCapability(row.media, document, `capability_version ${version}`)
  return {
    id: binding.id,
    supplyId: binding.supply_id,
    channelId: binding.channel_id,
    tier: binding.tier,
    priority: binding.priority,
    capability,
    degradationRuleId: binding.degradation_rule_id,
    degradationRuleVersionId:
      binding.degradation_rule_version_id === null ? null : String(binding.degradation_rule_version_id),
  }
}

function parseRule(rule: RuleDocument, at: string): ReleasedRule {
  return {
    id: rule.id,
    fromProfile: rule.from_profile,
    toProfile: rule.to_profile,
    operations: parseDegradationOperations(rule.operations, `${at}.rules.${rule.id}`),
  }
}
