/**
 * What saving the catalog writes. Definitions become new version rows and are pointed at; switches (`admin_state`,
 * `enabled` of a binding) are in none of these statements.
 */
import type { RealPersonPolicy, Tier } from '../core/catalog.ts'
import type { Media } from '../core/request.ts'
import type { Sql } from './database.ts'
import type { Sealed } from './secrets.ts'

const SETTING = {
  name: 'save-setting',
  text: `insert into setting (name, value) values ($1, $2) on conflict (name) do update set value = excluded.value`,
}

export async function saveSetting(tx: Sql, name: string, value: unknown): Promise<void> {
  await tx.query(SETTING, [name, JSON.stringify(value)])
}

const CREDENTIAL = {
  name: 'save-credential',
  text: `insert into credential (channel_id, reference, key_id, nonce, ciphertext, digest) values ($1, $2, $3, $4, $5, $6)
    returning id`,
}

const POINT_AT_CREDENTIAL = {
  name: 'point-at-credential',
  text: 'update channel set credential_id = $2, updated_at = clock_timestamp() where id = $1',
}

/** A new secret beside the old ones, which running attempts keep. */
export async function saveCredential(
  tx: Sql,
  channel: { id: string; reference: string },
  sealed: Sealed,
): Promise<void> {
  const { keyId, nonce, ciphertext, digest } = sealed
  const values = [channel.id, channel.reference, keyId, nonce, ciphertext, digest]
  const { rows } = await tx.query<{ id: bigint }>(CREDENTIAL, values)
  await tx.query(POINT_AT_CREDENTIAL, [channel.id, rows[0]?.id])
}

export interface ChannelColumns {
  readonly provider: string
  readonly base_url: string
  readonly credential: string
  readonly concurrency: number
  readonly options: Readonly<Record<string, unknown>>
}

const CHANNEL = {
  name: 'save-channel',
  text: `insert into channel (id, provider, base_url, credential_ref, concurrency, options) values ($1, $2, $3, $4, $5, $6)
    on conflict (id) do update set provider = excluded.provider, base_url = excluded.base_url,
      credential_ref = excluded.credential_ref, concurrency = excluded.concurrency, options = excluded.options,
      archived_at = null, updated_at = clock_timestamp()`,
}

const CHANNEL_HEALTH = {
  name: 'new-channel-health',
  text: 'insert into channel_health (channel_id) values ($1) on conflict do nothing',
}

/** Its health row is locked by the caller where the limit changes. */
export async function saveChannel(tx: Sql, id: string, channel: ChannelColumns): Promise<void> {
  const { provider, base_url, credential, concurrency, options } = channel
  await tx.query(CHANNEL, [id, provider, base_url, credential, concurrency, JSON.stringify(options)])
  await tx.query(CHANNEL_HEALTH, [id])
}

export interface SupplyColumns {
  readonly channel: string
  readonly upstream_model: string
  readonly media: Media
  readonly real_person: RealPersonPolicy
  readonly concurrency: number
  readonly expected_seconds: number
}

const SUPPLY = {
  name: 'save-supply',
  text: `insert into supply (id, channel_id, upstream_model, media, real_person, concurrency, expected_seconds)
    values ($1, $2, $3, $4, $5, $6, $7)
    on conflict (id) do update set real_person = excluded.real_person, concurrency = excluded.concurrency,
      expected_seconds = excluded.expected_seconds, archived_at = null, updated_at = clock_timestamp()`,
}

const SUPPLY_HEALTH = {
  name: 'new-supply-health',
  text: 'insert into supply_health (supply_id) values ($1) on conflict do nothing',
}

/** What a supply is (channel, upstream model, media) never changes. Its health row is locked as a channel's is. */
export async function saveSupply(tx: Sql, id: string, supply: SupplyColumns): Promise<void> {
  await tx.query(SUPPLY, [
    id,
    supply.channel,
    supply.upstream_model,
    supply.media,
    supply.real_person,
    supply.concurrency,
    supply.expected_seconds,
  ])
  await tx.query(SUPPLY_HEALTH, [id])
}

const CAPABILITY = {
  name: 'new-capability-version',
  text: `with made as (
      insert into capability_version (supply_id, version, document)
      select $1::text, coalesce(max(version), 0) + 1, $2::jsonb from capability_version where supply_id = $1::text returning id, version)
    update supply set capability_version_id = made.id, updated_at = clock_timestamp() from made where supply.id = $1::text
    returning made.version`,
}

export async function saveCapability(tx: Sql, supplyId: string, document: object): Promise<void> {
  await tx.query(CAPABILITY, [supplyId, JSON.stringify(document)])
}

const PRICES = {
  name: 'new-price-list-version',
  text: `with made as (
      insert into price_list_version (supply_id, version, currency, rate, document, converted)
      select $1::text, coalesce(max(version), 0) + 1, $2::text, $3::numeric, $4::jsonb, $5::jsonb
      from price_list_version where supply_id = $1::text returning id)
    update supply set price_list_version_id = made.id, updated_at = clock_timestamp() from made where supply.id = $1::text`,
}

const NO_PRICES = {
  name: 'no-price-list',
  text: 'update supply set price_list_version_id = null where id = $1',
}

/** null: no price is known from now on. */
export async function savePrices(
  tx: Sql,
  supplyId: string,
  prices: { currency: string; rate: string; document: object; converted: object } | null,
): Promise<void> {
  if (prices === null) await tx.query(NO_PRICES, [supplyId])
  else {
    const { currency, rate, document, converted } = prices
    await tx.query(PRICES, [supplyId, currency, rate, JSON.stringify(document), JSON.stringify(converted)])
  }
}

const POLICY = {
  name: 'save-policy',
  text: 'insert into policy (id) values ($1) on conflict (id) do update set archived_at = null',
}

const POLICY_VERSION = {
  name: 'new-policy-version',
  text: `with made as (
      insert into policy_version (policy_id, version, document)
      select $1::text, coalesce(max(version), 0) + 1, $2::jsonb from policy_version where policy_id = $1::text returning id)
    update policy set version_id = made.id from made where policy.id = $1::text`,
}

/** `document` null: only brought back, as it was. */
export async function savePolicy(tx: Sql, id: string, document: object | null): Promise<void> {
  await tx.query(POLICY, [id])
  if (document !== null) await tx.query(POLICY_VERSION, [id, JSON.stringify(document)])
}

const RULE = {
  name: 'save-rule',
  text: 'insert into degradation_rule (id) values ($1) on conflict (id) do update set archived_at = null',
}

const RULE_VERSION = {
  name: 'new-rule-version',
  text: `with made as (
      insert into degradation_rule_version (rule_id, version, document)
      select $1::text, coalesce(max(version), 0) + 1, $2::jsonb from degradation_rule_version where rule_id = $1::text returning id)
    update degradation_rule set version_id = made.id, published = false from made where degradation_rule.id = $1::text`,
}

/** A new version is not published; `document` null: only brought back, as it was. */
export async function saveRule(tx: Sql, id: string, document: object | null): Promise<void> {
  await tx.query(RULE, [id])
  if (document !== null) await tx.query(RULE_VERSION, [id, JSON.stringify(document)])
}

const MODEL = {
  name: 'save-model',
  text: 'insert into model (id, media) values ($1, $2) on conflict (id) do update set archived_at = null',
}

const MODEL_VERSION = {
  name: 'new-model-version',
  text: `with made as (
      insert into model_version (model_id, version, document)
      select $1::text, coalesce(max(version), 0) + 1, $2::jsonb from model_version where model_id = $1::text returning id)
    update model set version_id = made.id from made where model.id = $1::text`,
}

export async function saveModel(
  tx: Sql,
  model: { id: string; media: Media },
  document: object | null,
): Promise<void> {
  await tx.query(MODEL, [model.id, model.media])
  if (document !== null) await tx.query(MODEL_VERSION, [model.id, JSON.stringify(document)])
}

export interface BindingColumns {
  readonly model: string
  readonly supply: string
  readonly tier: Tier
  readonly degradation_rule: string | null
  readonly priority: number
  /** `capability`: the number of the version that it was verified against. */
  readonly verified: { by: string; at: string; evidence: string; capability: number } | null
}

const BINDING = {
  name: 'save-binding',
  text: `insert into binding (id, model_id, supply_id, tier, degradation_rule_id, priority, capability_version_id, verified_by,
      verified_at, verified_evidence)
    values ($1, $2, $3::text, $4, $5, $6, (select id from capability_version where supply_id = $3::text and version = $7::int), $8, $9, $10)
    on conflict (id) do update set supply_id = excluded.supply_id, tier = excluded.tier,
      degradation_rule_id = excluded.degradation_rule_id, priority = excluded.priority,
      capability_version_id = excluded.capability_version_id, verified_by = excluded.verified_by,
      verified_at = excluded.verified_at, verified_evidence = excluded.verified_evidence, archived_at = null`,
}

export async function saveBinding(tx: Sql, id: string, binding: BindingColumns): Promise<void> {
  const { model, supply, tier, degradation_rule, priority, verified } = binding
  await tx.query(BINDING, [
    id,
    model,
    supply,
    tier,
    degradation_rule,
    priority,
    verified?.capability ?? null,
    verified?.by ?? null,
    verified?.at ?? null,
    verified?.evidence ?? null,
  ])
}

const ARCHIVE = {
  channel: { name: 'archive-channels', text: set('channel') },
  supply: { name: 'archive-supplies', text: set('supply') },
  policy: { name: 'archive-policies', text: set('policy') },
  degradation_rule: { name: 'archive-rules', text: set('degradation_rule', ', published = false') },
  model: { name: 'archive-models', text: set('model', ', enabled = false, published = false') },
  binding: { name: 'archive-bindings', text: set('binding') },
}

function set(table: string, more = ''): string {
  return `update ${table} set archived_at = clock_timestamp()${more} where id = any($1::text[]) and archived_at is null`
}

export async function archive(tx: Sql, family: keyof typeof ARCHIVE, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await tx.query(ARCHIVE[family], [ids])
}

const CLEAR_FLAGS = {
  name: 'clear-flags',
  text: 'update model set enabled = false, published = false where id = any($1::text[])',
}

/** STR-6: what was saved takes effect only once it is published. */
export async function clearFlags(tx: Sql, modelIds: readonly string[]): Promise<void> {
  if (modelIds.length > 0) await tx.query(CLEAR_FLAGS, [modelIds])
}
