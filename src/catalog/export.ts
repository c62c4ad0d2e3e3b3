/**
 * The stored catalog as a file that would change nothing if it were applied. What equals a default is left out, the order
 * is that of the IDs, and neither secrets nor switches nor flags are in it.
 */
import { Document, isCollection, isScalar, visit } from 'yaml'
import { readCatalogRows } from '../store/catalog.ts'
import type { Sql } from '../store/database.ts'
import type {
  ModeDocument,
  PolicyDocument,
  PriceConditionDocument,
  PriceListDocument,
  SupplyPrices,
} from './definitions.ts'
import { sameContent } from './differences.ts'
import { type RangeJson, writeRange } from './notation.ts'
import { MODEL_DEFAULTS, policyDefaults, SUPPLY_DEFAULTS } from './policy-defaults.ts'
import {
  type NumberedBinding,
  type SavedBinding,
  type SavedCatalog,
  type SavedEntry,
  type SavedModel,
  type SavedSupply,
  savedCatalog,
} from './saved.ts'

type Written = Record<string, unknown>

const SCHEMA_LINE = '# yaml-language-server: $schema=./catalog.schema.json\n'

export async function exportCatalog(sql: Sql): Promise<string> {
  return catalogText(savedCatalog(await readCatalogRows(sql)))
}

/** Archived entries are left out. */
export function catalogText(saved: SavedCatalog): string {
  const currency = saved.currency ?? 'CNY'
  const file = {
    currency,
    exchange_rates: Object.fromEntries(
      Object.keys(saved.exchangeRates)
        .sort()
        .map((unit) => [unit, bare(saved.exchangeRates[unit] ?? '')]),
    ),
    channels: written(saved.channels, ({ definition }) => without({ ...definition }, { options: {} })),
    supplies: written(saved.supplies, (supply) => supplyEntry(supply, currency)),
    policies: written(saved.policies, ({ definition }, id) =>
      policyEntry(definition, mediaOfPolicy(saved, id)),
    ),
    degradation_rules: written(saved.rules, ({ definition: { from_profile, to_profile, operations } }) => ({
      from_profile,
      to_profile,
      operations: operations.map((operation) => ({ ...operation })),
    })),
    models: written(saved.models, (model, id) => modelEntry(model, bindingsOf(saved, id))),
  }
  const shown = Object.fromEntries(Object.entries(file).filter(([, section]) => !sameContent(section, {})))
  return SCHEMA_LINE + yamlText(shown)
}

const ON_ONE_LINE = new Set(['inputs', 'when', 'defaults', 'options', 'exchange_rates'])

/** Lists of names and small maps on one line, as people write them. */
function yamlText(shown: Written): string {
  const document = new Document(shown, { aliasDuplicateObjects: false })
  visit(document, {
    Seq: (_, node) => {
      if (node.items.every(isScalar)) node.flow = true
    },
    Pair: (_, { key, value }) => {
      if (isScalar(key) && ON_ONE_LINE.has(String(key.value)) && isCollection(value)) value.flow = true
    },
  })
  return document.toString({ lineWidth: 110, flowCollectionPadding: false })
}

function written<T extends SavedEntry<unknown>>(
  entries: ReadonlyMap<string, T>,
  entry: (value: T, id: string) => Written,
): Written {
  const live = [...entries].filter(([, value]) => !value.archived).sort(([a], [b]) => (a < b ? -1 : 1))
  return Object.fromEntries(live.map(([id, value]) => [id, entry(value, id)]))
}

/** The entry without what a reader of the file would assume anyway. */
function without(entry: Written, defaults: Written): Written {
  return Object.fromEntries(
    Object.entries(entry).filter(([key, value]) => !(key in defaults && sameContent(value, defaults[key]))),
  )
}

function supplyEntry({ definition }: SavedSupply, currency: string): Written {
  const { capability, prices, real_person: realPerson, ...rest } = definition
  const own = definition.media === 'video' ? { ...rest, real_person: realPerson } : rest
  return {
    ...without(own, {
      real_person: SUPPLY_DEFAULTS.realPerson,
      expected_seconds: SUPPLY_DEFAULTS.expectedSeconds[definition.media],
    }),
    capability: {
      ...without({ billing_mode: capability.billing_mode }, { billing_mode: 'per_image' }),
      modes: capability.modes.map(modeEntry),
    },
    ...(prices === null ? {} : { prices: pricesEntry(prices, { currency, mode: capability.billing_mode }) }),
  }
}

function modeEntry(mode: ModeDocument): Written {
  const inputs = rangesEntry(mode.inputs)
  if ('resolutions' in mode) {
    const { duration_seconds, resolutions, aspect_ratios, generate_audio } = mode
    const entry = {
      duration_seconds: writeRange(duration_seconds),
      resolutions,
      aspect_ratios,
      generate_audio,
      inputs,
    }
    return without(entry, { generate_audio: false, inputs: {} })
  }
  const { sizes, qualities, count } = mode
  return without({ sizes, qualities, count: writeRange(count), inputs }, { qualities: [], inputs: {} })
}

function rangesEntry(ranges: Readonly<Record<string, RangeJson>>): Written {
  const kinds = Object.keys(ranges).sort()
  return Object.fromEntries(kinds.map((kind) => [kind, writeRange(ranges[kind] ?? {})]))
}

function pricesEntry({ currency, list }: SupplyPrices, assumed: { currency: string; mode: string }): Written {
  const { mode, bills_failures, prices } = list
  return {
    ...without({ currency, mode, bills_failures }, { ...assumed, bills_failures: false }),
    rows: prices.map(rowEntry),
  }
}

function rowEntry({ when, price }: PriceListDocument['prices'][number]): Written {
  return when === undefined ? { price: bare(price) } : { when: conditionEntry(when), price: bare(price) }
}

/** Without quotes, where a number would be printed with the very same digits. */
function bare(amount: string): string | number {
  return String(Number(amount)) === amount ? Number(amount) : amount
}

function conditionEntry(when: PriceConditionDocument): Written {
  const { resolution, generate_audio, duration_seconds: duration, size, quality, inputs } = when
  const entry = {
    resolution,
    generate_audio,
    duration_seconds: duration && writeRange(duration),
    size,
    quality,
    inputs: inputs && rangesEntry(inputs),
  }
  return Object.fromEntries(Object.entries(entry).filter(([, value]) => value !== undefined))
}

/** The same media that a reader of the file would find, so that the same defaults are assumed. */
function mediaOfPolicy(saved: SavedCatalog, id: string): 'video' | 'image' | 'both' {
  const users = [...saved.models.values()].filter(
    (model) => !model.archived && model.definition.document.policy === id,
  )
  const media = new Set(users.map((model) => model.definition.media))
  if (media.size > 1) return 'both'
  return media.has('image') ? 'image' : 'video'
}

function policyEntry(policy: PolicyDocument, media: 'video' | 'image' | 'both'): Written {
  const defaults = policyDefaults(media === 'both' ? 'video' : media)
  const { spill_after_seconds, ...rest } = defaults
  // In the order of the defaults, whatever order the database keeps.
  const entry = { ...defaults, ...policy, ...limitsOf(policy) }
  return without(entry, media === 'both' ? rest : { ...rest, spill_after_seconds })
}

function limitsOf({ absolute_cost_limit: absolute, task_cost_limit: task }: PolicyDocument): Written {
  return {
    absolute_cost_limit: absolute === null ? null : bare(absolute),
    task_cost_limit: task === null ? null : bare(task),
  }
}

function bindingsOf(saved: SavedCatalog, modelId: string): Written {
  const own = [...saved.bindings].filter(([, { definition }]) => definition.model === modelId)
  return written(new Map(own), (binding) => bindingEntry(binding, saved))
}

function modelEntry({ definition }: SavedModel, bindings: Written): Written {
  const { media, document } = definition
  const { limits, normal_cost: normal, max_run_seconds, image_timeout_seconds } = document
  const { profile, description, defaults, degradation, policy, emergency_cost_override, allowed_groups } =
    document
  const limit = media === 'video' ? { max_run_seconds } : { image_timeout_seconds }
  const shown = {
    media,
    profile,
    description,
    policy,
    degradation,
    defaults,
    emergency_cost_override,
    allowed_groups,
    ...limit,
  }
  return {
    ...without(shown, MODEL_ASSUMED),
    limits: limits.modes.map(modeEntry),
    ...(normal === null ? {} : { normal_cost: { mode: normal.mode, rows: normal.prices.map(rowEntry) } }),
    bindings,
  }
}

const MODEL_ASSUMED: Written = {
  profile: MODEL_DEFAULTS.profile,
  description: MODEL_DEFAULTS.description,
  degradation: MODEL_DEFAULTS.degradation,
  defaults: {},
  emergency_cost_override: false,
  allowed_groups: null,
  max_run_seconds: MODEL_DEFAULTS.maxRunSeconds,
  image_timeout_seconds: MODEL_DEFAULTS.imageTimeoutSeconds,
}

function bindingEntry({ definition }: SavedBinding, saved: SavedCatalog): Written {
  const { model: _, verified, ...rest } = definition
  return {
    ...without(rest, { tier: 'exact', degradation_rule: null, priority: 0 }),
    ...(verified === null
      ? {}
      : { verified: verifiedEntry(verified, saved.supplies.get(definition.supply)?.capabilityVersion) }),
  }
}

/** `current` is assumed, so that a number shows that the supply has moved on since. */
function verifiedEntry(
  verified: NonNullable<NumberedBinding['verified']>,
  newest: number | undefined,
): Written {
  const { by, at, evidence, capability } = verified
  return {
    by,
    at: at.replace(/T00:00:00\.000Z$/, ''),
    evidence,
    ...(capability === newest ? {} : { capability }),
  }
}
