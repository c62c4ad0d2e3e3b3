/**
 * The stored catalog as a file that would change nothing if it were applied. What equals a default is left out, the order
 * is that of the IDs, and neither secrets nor switches nor flags are in it.
 */
import { stringify } from 'yaml'
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
    exchange_rates: saved.exchangeRates,
    channels: written(saved.channels, ({ definition }) => without({ ...definition }, { options: {} })),
    supplies: written(saved.supplies, (supply) => supplyEntry(supply, currency)),
    policies: written(saved.policies, ({ definition }, id) =>
      policyEntry(definition, mediaOfPolicy(saved, id)),
    ),
    degradation_rules: written(saved.rules, ({ definition }) => ({ ...definition })),
    models: written(saved.models, (model, id) => modelEntry(model, bindingsOf(saved, id))),
  }
  const shown = Object.fromEntries(Object.entries(file).filter(([, section]) => !sameContent(section, {})))
  return SCHEMA_LINE + stringify(shown, { lineWidth: 110, aliasDuplicateObjects: false })
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
  if ('resolutions' in mode)
    return without(
      { ...mode, duration_seconds: writeRange(mode.duration_seconds), inputs },
      { generate_audio: false, inputs: {} },
    )
  return without({ ...mode, count: writeRange(mode.count), inputs }, { qualities: [], inputs: {} })
}

function rangesEntry(ranges: Readonly<Record<string, RangeJson>>): Written {
  return Object.fromEntries(Object.entries(ranges).map(([kind, range]) => [kind, writeRange(range)]))
}

function pricesEntry({ currency, list }: SupplyPrices, assumed: { currency: string; mode: string }): Written {
  const { mode, bills_failures, prices } = list
  return {
    ...without({ currency, mode, bills_failures }, { ...assumed, bills_failures: false }),
    rows: prices.map(rowEntry),
  }
}

function rowEntry({ when, price }: PriceListDocument['prices'][number]): Written {
  return when === undefined ? { price } : { when: conditionEntry(when), price }
}

function conditionEntry(when: PriceConditionDocument): Written {
  const { duration_seconds: duration, inputs } = when
  return {
    ...when,
    ...(duration === undefined ? {} : { duration_seconds: writeRange(duration) }),
    ...(inputs === undefined ? {} : { inputs: rangesEntry(inputs) }),
  }
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
  const { spill_after_seconds, ...rest } = policyDefaults(media === 'both' ? 'video' : media)
  return without({ ...policy }, media === 'both' ? rest : { ...rest, spill_after_seconds })
}

function bindingsOf(saved: SavedCatalog, modelId: string): Written {
  const own = [...saved.bindings].filter(([, { definition }]) => definition.model === modelId)
  return written(new Map(own), (binding) => bindingEntry(binding, saved))
}

function modelEntry({ definition }: SavedModel, bindings: Written): Written {
  const { media, document } = definition
  const { limits, normal_cost: normal, ...rest } = document
  const shown = without(rest, {
    profile: MODEL_DEFAULTS.profile,
    description: MODEL_DEFAULTS.description,
    degradation: MODEL_DEFAULTS.degradation,
    defaults: {},
    emergency_cost_override: false,
    allowed_groups: null,
    max_run_seconds: MODEL_DEFAULTS.maxRunSeconds,
    image_timeout_seconds: MODEL_DEFAULTS.imageTimeoutSeconds,
  })
  return {
    media,
    ...shown,
    limits: limits.modes.map(modeEntry),
    ...(normal === null ? {} : { normal_cost: { mode: normal.mode, rows: normal.prices.map(rowEntry) } }),
    bindings,
  }
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
