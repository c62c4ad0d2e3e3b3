/** The stored catalog in the terms of a file, so that the two can be compared, and one be written from the other. */
import type { AdminState } from '../core/catalog.ts'
import { printInstant } from '../core/time.ts'
import type { BindingRow, CatalogRows, ChannelRow, SupplyRow } from '../store/catalog.ts'
import type {
  Binding,
  CapabilityDocument,
  Channel,
  Model,
  ModelDocument,
  PolicyDocument,
  PriceListDocument,
  RuleDocument,
  Supply,
} from './definitions.ts'
import { canonicalRate } from './notation.ts'

/** A definition with what the file does not carry. */
export interface SavedEntry<T> {
  readonly definition: T
  readonly archived: boolean
}

export interface SavedChannel extends SavedEntry<Channel> {
  readonly adminState: AdminState
  /** null: no secret is stored. */
  readonly credential: { readonly id: bigint; readonly keyId: string; readonly digest: Buffer } | null
}

export interface SavedSupply extends SavedEntry<Supply> {
  readonly adminState: AdminState
  readonly capabilityVersion: number
  readonly priceVersion: number | null
}

export interface Versioned<T> extends SavedEntry<T> {
  readonly version: number
  readonly versionId: bigint
}

export interface SavedRule extends Versioned<RuleDocument> {
  readonly published: boolean
}

export interface SavedModel extends Versioned<Model> {
  readonly enabled: boolean
  readonly published: boolean
  readonly releaseNumber: number | null
}

/** A binding whose verification names its version by number. */
export type NumberedBinding = Omit<Binding, 'verified'> & {
  readonly verified: {
    readonly by: string
    readonly at: string
    readonly evidence: string
    readonly capability: number
  } | null
}

export interface SavedBinding extends SavedEntry<NumberedBinding> {
  readonly enabled: boolean
  readonly capabilityVersionId: bigint | null
  /** What the supply could do when the binding was verified. */
  readonly capability: CapabilityDocument | null
}

export interface SavedCatalog {
  readonly currency: string | null
  readonly exchangeRates: Readonly<Record<string, string>>
  readonly channels: ReadonlyMap<string, SavedChannel>
  readonly supplies: ReadonlyMap<string, SavedSupply>
  readonly policies: ReadonlyMap<string, Versioned<PolicyDocument>>
  readonly rules: ReadonlyMap<string, SavedRule>
  readonly models: ReadonlyMap<string, SavedModel>
  readonly bindings: ReadonlyMap<string, SavedBinding>
}

// The documents below were written from these very types; PostgreSQL gives them back as they were.
export function savedCatalog(rows: CatalogRows): SavedCatalog {
  const { base_currency: currency, exchange_rates: rates } = rows.settings
  return {
    currency: typeof currency === 'string' ? currency : null,
    exchangeRates: (rates ?? {}) as Record<string, string>,
    channels: byId(rows.channels, (row) => ({
      definition: {
        provider: row.provider,
        base_url: row.base_url,
        credential: row.credential_ref,
        concurrency: row.concurrency,
        options: row.options,
      },
      archived: row.archived,
      adminState: row.admin_state,
      credential: credentialOf(row),
    })),
    supplies: byId(rows.supplies, savedSupply),
    policies: byId(rows.policies, (row) => ({
      ...versionOf(row),
      definition: row.document as PolicyDocument,
    })),
    rules: byId(rows.rules, (row) => ({
      ...versionOf(row),
      definition: row.document as RuleDocument,
      published: row.published,
    })),
    models: byId(rows.models, (row) => ({
      ...versionOf(row),
      definition: { media: row.media, document: row.document as ModelDocument },
      enabled: row.enabled,
      published: row.published,
      releaseNumber: row.release_number,
    })),
    bindings: byId(rows.bindings, savedBinding),
  }
}

function byId<R extends { id: string }, T>(rows: readonly R[], read: (row: R) => T): Map<string, T> {
  return new Map(rows.map((row) => [row.id, read(row)]))
}

function versionOf(row: { archived: boolean; version: number; version_id: bigint }) {
  return { archived: row.archived, version: row.version, versionId: row.version_id }
}

function credentialOf(row: ChannelRow): SavedChannel['credential'] {
  const { credential_id: id, credential_key_id: keyId, credential_digest: digest } = row
  return id === null || keyId === null || digest === null ? null : { id, keyId, digest }
}

function savedSupply(row: SupplyRow): SavedSupply {
  const { price_currency: currency, price_rate: rate } = row
  return {
    definition: {
      channel: row.channel_id,
      upstream_model: row.upstream_model,
      media: row.media,
      real_person: row.real_person,
      concurrency: row.concurrency,
      expected_seconds: row.expected_seconds,
      capability: row.capability as CapabilityDocument,
      prices:
        currency === null || rate === null
          ? null
          : { currency, rate: canonicalRate(rate) ?? rate, list: row.prices as PriceListDocument },
    },
    archived: row.archived,
    adminState: row.admin_state,
    capabilityVersion: row.capability_version,
    priceVersion: row.price_version,
  }
}

function savedBinding(row: BindingRow): SavedBinding {
  const {
    verified_by: by,
    verified_at: at,
    verified_evidence: evidence,
    capability_version: capability,
  } = row
  return {
    definition: {
      model: row.model_id,
      supply: row.supply_id,
      tier: row.tier,
      degradation_rule: row.degradation_rule_id,
      priority: row.priority,
      verified:
        by === null || at === null || capability === null
          ? null
          : { by, at: printInstant(at), evidence: evidence ?? '', capability },
    },
    archived: row.archived,
    enabled: row.enabled,
    capabilityVersionId: row.capability_version_id,
    capability: row.capability === null ? null : (row.capability as CapabilityDocument),
  }
}
