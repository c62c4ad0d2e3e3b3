/**
 * The catalog as it is stored, read whole: what a file is compared with, what an export writes, what the gate judges.
 * Definitions are documents here; what is in them is the catalog's business.
 */
import type { AdminState, RealPersonPolicy, Tier } from '../core/catalog.ts'
import type { Media } from '../core/request.ts'
import type { Instant } from '../core/time.ts'
import type { Sql } from './database.ts'

export interface ChannelRow {
  id: string
  provider: string
  base_url: string
  credential_ref: string
  credential_id: bigint | null
  credential_key_id: string | null
  /** Keyed digest of the stored secret. */
  credential_digest: Buffer | null
  concurrency: number
  admin_state: AdminState
  options: Record<string, unknown>
  archived: boolean
}

export interface SupplyRow {
  id: string
  channel_id: string
  upstream_model: string
  media: Media
  real_person: RealPersonPolicy
  concurrency: number
  expected_seconds: number
  admin_state: AdminState
  archived: boolean
  capability_version: number
  capability: unknown
  price_version: number | null
  price_currency: string | null
  /** Decimal text. */
  price_rate: string | null
  prices: unknown
}

export interface PolicyRow {
  id: string
  archived: boolean
  version: number
  version_id: bigint
  document: unknown
}

export interface RuleRow extends PolicyRow {
  published: boolean
}

export interface ModelRow extends PolicyRow {
  media: Media
  enabled: boolean
  published: boolean
  release_id: bigint | null
  release_number: number | null
}

export interface BindingRow {
  id: string
  model_id: string
  supply_id: string
  tier: Tier
  degradation_rule_id: string | null
  priority: number
  enabled: boolean
  archived: boolean
  capability_version_id: bigint | null
  /** Of the version that it was verified against. */
  capability_version: number | null
  capability: unknown
  verified_by: string | null
  verified_at: Instant | null
  verified_evidence: string | null
}

/** Archived ones are among them: an ID that comes back is the same thing. */
export interface CatalogRows {
  readonly settings: Readonly<Record<string, unknown>>
  readonly channels: readonly ChannelRow[]
  readonly supplies: readonly SupplyRow[]
  readonly policies: readonly PolicyRow[]
  readonly rules: readonly RuleRow[]
  readonly models: readonly ModelRow[]
  readonly bindings: readonly BindingRow[]
}

const SETTINGS = {
  name: 'catalog-settings',
  text: `select name, value from setting where name in ('base_currency', 'exchange_rates')`,
}

const CHANNELS = {
  name: 'catalog-channels',
  text: `select c.id, c.provider, c.base_url, c.credential_ref, c.credential_id, k.key_id as credential_key_id, k.digest as credential_digest, c.concurrency,
      c.admin_state, c.options, c.archived_at is not null as archived
    from channel c left join credential k on k.id = c.credential_id order by c.id`,
}

const SUPPLIES = {
  name: 'catalog-supplies',
  text: `select s.id, s.channel_id, s.upstream_model, s.media, s.real_person, s.concurrency, s.expected_seconds, s.admin_state,
      s.archived_at is not null as archived, cv.version as capability_version, cv.document as capability,
      pv.version as price_version, pv.currency as price_currency, pv.rate as price_rate, pv.document as prices
    from supply s
    join capability_version cv on cv.id = s.capability_version_id
    left join price_list_version pv on pv.id = s.price_list_version_id order by s.id`,
}

const POLICIES = {
  name: 'catalog-policies',
  text: `select p.id, p.archived_at is not null as archived, v.version, v.id as version_id, v.document
    from policy p join policy_version v on v.id = p.version_id order by p.id`,
}

const RULES = {
  name: 'catalog-rules',
  text: `select r.id, r.archived_at is not null as archived, r.published, v.version, v.id as version_id, v.document
    from degradation_rule r join degradation_rule_version v on v.id = r.version_id order by r.id`,
}

const MODELS = {
  name: 'catalog-models',
  text: `select m.id, m.media, m.enabled, m.published, m.release_id, r.number as release_number,
      m.archived_at is not null as archived, v.version, v.id as version_id, v.document
    from model m join model_version v on v.id = m.version_id left join release r on r.id = m.release_id order by m.id`,
}

const BINDINGS = {
  name: 'catalog-bindings',
  text: `select b.id, b.model_id, b.supply_id, b.tier, b.degradation_rule_id, b.priority, b.enabled,
      b.archived_at is not null as archived, b.capability_version_id, cv.version as capability_version,
      cv.document as capability, b.verified_by, b.verified_at, b.verified_evidence
    from binding b left join capability_version cv on cv.id = b.capability_version_id order by b.id`,
}

/** Everything, archived or not, in the order of IDs. */
export async function readCatalogRows(sql: Sql): Promise<CatalogRows> {
  const settings = (await sql.query<{ name: string; value: unknown }>(SETTINGS)).rows
  return {
    settings: Object.fromEntries(settings.map(({ name, value }) => [name, value])),
    channels: (await sql.query<ChannelRow>(CHANNELS)).rows,
    supplies: (await sql.query<SupplyRow>(SUPPLIES)).rows,
    policies: (await sql.query<PolicyRow>(POLICIES)).rows,
    rules: (await sql.query<RuleRow>(RULES)).rows,
    models: (await sql.query<ModelRow>(MODELS)).rows,
    bindings: (await sql.query<BindingRow>(BINDINGS)).rows,
  }
}

/** One writer of the catalog at a time: what a diff was computed from must still hold when it is applied. */
export async function lockCatalog(tx: Sql): Promise<void> {
  await tx.query({
    name: 'lock-catalog',
    text: `select pg_advisory_xact_lock(hashtext('yardmaster catalog'))`,
  })
}
