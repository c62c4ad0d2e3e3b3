/** A catalog file as text → definitions, with every fault of its shape at once. */
import type { z } from 'zod'
import type {
  Binding,
  Catalog,
  Channel,
  Model,
  ModelDocument,
  PolicyDocument,
  PriceListDocument,
  RuleDocument,
  Supply,
  SupplyPrices,
} from './definitions.ts'
import {
  type BindingEntry,
  catalogJsonSchema,
  ENTRY,
  MODEL_ID,
  type ModelEntry,
  type PolicyEntry,
  SLUG,
  type SupplyEntry,
  TOP_KEYS,
} from './format.ts'
import { policyDefaults } from './policy-defaults.ts'
import { type Finding, findingsOf, suggest } from './problems.ts'
import { type LocatedYaml, type Path, readYaml } from './yaml-text.ts'

/** What could be read of a file. Entries with faults are left out of the maps; their IDs stand in `ids`. */
export interface ReadFile {
  readonly yaml: LocatedYaml
  readonly findings: readonly Finding[]
  readonly catalog: Catalog
  readonly ids: Readonly<Record<Section, ReadonlySet<string>>>
  /** The file as it stands, whatever its faults: references are followed in this. */
  readonly root: Readonly<Record<string, unknown>>
  /** Where each binding stands. */
  readonly bindingPaths: ReadonlyMap<string, Path>
}

export type Section = 'channels' | 'supplies' | 'policies' | 'degradation_rules' | 'models'

export function readCatalogText(text: string): ReadFile {
  const yaml = readYaml(text)
  const findings: Finding[] = []
  const root = yaml.faults.length > 0 ? {} : mapAt(yaml.value ?? {}, [], findings)
  for (const key of Object.keys(root))
    if (!TOP_KEYS.includes(key))
      findings.push(fault([key], `unknown key "${key}"`, suggest(key, TOP_KEYS, 'keys'), 'key'))

  const currency =
    root.currency == null ? 'CNY' : (parsed(ENTRY.currency, root.currency, ['currency'], findings) ?? 'CNY')
  const exchangeRates = entriesOf(root, 'exchange_rates', findings, (written, path) =>
    parsed(ENTRY.rate, written, path, findings),
  )
  const read = <T>(section: Section, schema: z.ZodType<T>) =>
    entriesOf(root, section, findings, (written, path) => {
      const model = section === 'models'
      const id = String(path[1])
      if (!(model ? MODEL_ID : SLUG).test(id))
        findings.push(fault(path, `"${id}" is no ID`, ID_REMEDY[model ? 'model' : 'other'], 'key'))
      return parsed(schema, written, path, findings)
    })

  const channels = read('channels', ENTRY.channel)
  const supplies = read('supplies', ENTRY.supply)
  const policies = read('policies', ENTRY.policy)
  const rules = read('degradation_rules', ENTRY.rule)
  const models = read('models', ENTRY.model)
  const { bindings, bindingPaths } = bindingsOf(models, findings)
  return {
    yaml,
    findings,
    root,
    catalog: {
      currency,
      exchangeRates: Object.fromEntries(exchangeRates),
      channels: mapValues(channels, (entry): Channel => entry),
      supplies: mapValues(supplies, (entry, id) =>
        supplyOf(entry, { currency, exchangeRates, id, findings }),
      ),
      policies: policiesOf(policies, models, findings),
      rules: mapValues(rules, (entry): RuleDocument => entry),
      models: mapValues(models, modelOf),
      bindings,
    },
    ids: {
      channels: idsOf(root, 'channels'),
      supplies: idsOf(root, 'supplies'),
      policies: idsOf(root, 'policies'),
      degradation_rules: idsOf(root, 'degradation_rules'),
      models: idsOf(root, 'models'),
    },
    bindingPaths,
  }
}

const ID_REMEDY = {
  model:
    'a model\'s name has letters, digits and ".", "_", ":", "/", "-", at most 128, the first a letter or digit',
  other: 'an ID has lower-case letters, digits, ".", "_" and "-", at most 63, the first a letter or digit',
}

function fault(path: Path, problem: string, remedy: string, at: 'key' | 'value' = 'value'): Finding {
  return { severity: 'error', path, at, problem, remedy }
}

function mapAt(value: unknown, path: Path, findings: Finding[]): Record<string, unknown> {
  if (value === null || value === undefined) return {}
  if (isRecord(value)) return value
  findings.push(fault(path, 'found no map', 'expected a map of keys and values'))
  return {}
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function idsOf(root: Record<string, unknown>, section: Section): Set<string> {
  const entries = root[section]
  return new Set(isRecord(entries) ? Object.keys(entries) : [])
}

function entriesOf<T>(
  root: Record<string, unknown>,
  section: string,
  findings: Finding[],
  read: (written: unknown, path: Path) => T | undefined,
): Map<string, T> {
  const found = new Map<string, T>()
  for (const [id, written] of Object.entries(mapAt(root[section], [section], findings))) {
    const entry = read(written, [section, id])
    if (entry !== undefined) found.set(id, entry)
  }
  return found
}

function parsed<T>(schema: z.ZodType<T>, written: unknown, path: Path, findings: Finding[]): T | undefined {
  const result = schema.safeParse(written ?? {}, { reportInput: true })
  if (result.success) return result.data
  findings.push(...findingsOf(result.error.issues, path, (inner) => keysAt([...path, ...inner])))
  return undefined
}

let schema: unknown

/** The keys that JSON Schema knows at a path of a file. */
function keysAt(path: Path): string[] {
  // Made once: it takes longer than reading a file.
  schema ??= catalogJsonSchema()
  let here: unknown[] = [schema]
  for (const part of path) here = here.flatMap((schema) => stepInto(schema, part))
  return [
    ...new Set(
      here
        .flatMap(branches)
        .flatMap((schema) => Object.keys(isRecord(schema.properties) ? schema.properties : {})),
    ),
  ]
}

function stepInto(schema: unknown, part: string | number): unknown[] {
  return branches(schema).flatMap((branch) => {
    if (typeof part === 'number') return branch.items === undefined ? [] : [branch.items]
    const own = isRecord(branch.properties) ? branch.properties[part] : undefined
    return [own ?? branch.additionalProperties].filter((next) => next !== undefined)
  })
}

function branches(schema: unknown): Record<string, unknown>[] {
  if (!isRecord(schema)) return []
  const choices = [schema.anyOf, schema.oneOf].flatMap((choice) => (Array.isArray(choice) ? choice : []))
  return [schema, ...choices.flatMap(branches)]
}

function mapValues<A, B>(from: ReadonlyMap<string, A>, change: (value: A, id: string) => B): Map<string, B> {
  return new Map([...from].map(([id, value]) => [id, change(value, id)]))
}

interface PriceContext {
  readonly currency: string
  readonly exchangeRates: ReadonlyMap<string, string>
  readonly id: string
  readonly findings: Finding[]
}

function supplyOf(entry: SupplyEntry, context: PriceContext): Supply {
  return {
    channel: entry.channel,
    upstream_model: entry.upstream_model,
    media: entry.media,
    // Nobody reads it of an image: there is no such policy for images (ORD-6).
    real_person: entry.media === 'video' ? entry.real_person : 'restricted',
    concurrency: entry.concurrency,
    expected_seconds: entry.expected_seconds,
    capability: entry.capability,
    prices: pricesOf(entry, context),
  }
}

function pricesOf(
  entry: SupplyEntry,
  { currency, exchangeRates, id, findings }: PriceContext,
): SupplyPrices | null {
  const { prices } = entry
  if (prices === null) return null
  const path = ['supplies', id, 'prices']
  const mode = prices.mode ?? entry.capability.billing_mode
  if (mode !== entry.capability.billing_mode)
    findings.push(
      fault(
        [...path, 'mode'],
        `bills ${mode}, but the capability bills ${entry.capability.billing_mode}`,
        'leave mode out, or make them agree',
      ),
    )
  const own = prices.currency ?? currency
  const rate = own === currency ? '1' : exchangeRates.get(own)
  if (rate === undefined)
    findings.push(
      fault(
        [...path, 'currency'],
        `no rate of exchange for ${own}`,
        `write exchange_rates: {${own}: …}, what 1 ${own} costs in ${currency}`,
      ),
    )
  return {
    currency: own,
    rate: rate ?? '1',
    list: { mode, bills_failures: prices.bills_failures, prices: rowsOf(prices.rows) },
  }
}

function rowsOf(rows: PriceListDocument['prices']): PriceListDocument['prices'] {
  return rows.map(({ when, price }) => (when && Object.keys(when).length > 0 ? { when, price } : { price }))
}

function modelOf(entry: ModelEntry): Model {
  const { normal_cost: normal } = entry
  const common = {
    profile: entry.profile,
    description: entry.description,
    limits: { modes: entry.limits },
    defaults: definedOnly(entry.defaults),
    degradation: entry.degradation,
    normal_cost:
      normal === null ? null : { mode: normal.mode, bills_failures: false, prices: rowsOf(normal.rows) },
    emergency_cost_override: entry.emergency_cost_override,
    allowed_groups: entry.allowed_groups === null ? null : [...new Set(entry.allowed_groups)].sort(),
    policy: entry.policy,
  } satisfies ModelDocument
  const own =
    entry.media === 'video'
      ? { max_run_seconds: entry.max_run_seconds }
      : { image_timeout_seconds: entry.image_timeout_seconds }
  return { media: entry.media, document: { ...common, ...own } }
}

function definedOnly<T>(values: Readonly<Record<string, T | undefined>>): Record<string, T> {
  const defined: Record<string, T> = {}
  for (const [key, value] of Object.entries(values)) if (value !== undefined) defined[key] = value
  return defined
}

/** A policy's defaults are those of the media whose models use it: a video can wait in a queue, an image cannot. */
function policiesOf(
  policies: ReadonlyMap<string, PolicyEntry>,
  models: ReadonlyMap<string, ModelEntry>,
  findings: Finding[],
): Map<string, PolicyDocument> {
  return mapValues(policies, (entry, id) => {
    const media = new Set(
      [...models.values()].filter((model) => model.policy === id).map((model) => model.media),
    )
    if (media.size > 1 && entry.spill_after_seconds === undefined)
      findings.push(
        fault(
          ['policies', id],
          'models of both media use this policy, and spill_after_seconds has another default for each',
          'write it, or make two policies',
          'key',
        ),
      )
    return { ...policyDefaults(media.has('image') ? 'image' : 'video'), ...definedPolicy(entry) }
  })
}

function definedPolicy(entry: PolicyEntry): Partial<PolicyDocument> {
  return JSON.parse(JSON.stringify(entry))
}

function bindingsOf(models: ReadonlyMap<string, ModelEntry>, findings: Finding[]) {
  const bindings = new Map<string, Binding>()
  const bindingPaths = new Map<string, Path>()
  for (const [model, entry] of models)
    for (const [id, written] of Object.entries(entry.bindings)) {
      const path = ['models', model, 'bindings', id]
      const first = bindingPaths.get(id)
      if (first)
        findings.push(
          fault(
            path,
            `the ID "${id}" is taken by a binding of ${first[1]}`,
            'IDs of bindings are unique in the whole file',
            'key',
          ),
        )
      bindingPaths.set(id, path)
      bindings.set(id, bindingOf(model, written))
    }
  return { bindings, bindingPaths }
}

function bindingOf(model: string, written: BindingEntry): Binding {
  return { model, ...written }
}
