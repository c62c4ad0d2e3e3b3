/**
 * What applying a file would do, computed without a database: changes field by field, new versions, and the models whose
 * flags are cleared. Only saving a binding, a policy, a model or a rule clears flags (STR-6).
 */
import type { Binding, Catalog } from './definitions.ts'
import { differences, type FieldChange, sameContent } from './differences.ts'
import type { NumberedBinding, SavedCatalog, SavedEntry } from './saved.ts'

export type Family = 'channel' | 'supply' | 'policy' | 'degradation_rule' | 'model' | 'binding'
export type ChangeKind = 'add' | 'change' | 'restore' | 'archive'

export interface Change {
  readonly kind: ChangeKind
  readonly family: Family
  readonly id: string
  readonly fields: readonly FieldChange[]
}

export interface Plan {
  readonly changes: readonly Change[]
  readonly settings: readonly FieldChange[]
  /** Models whose flags are cleared, each with what was saved. */
  readonly touched: ReadonlyMap<string, readonly string[]>
  readonly bindings: ReadonlyMap<string, NumberedBinding>
  /** Why the file cannot be applied; empty where it can. */
  readonly refusals: readonly string[]
  /** What the writer may not expect. */
  readonly notes: readonly string[]
}

export function planApply(saved: SavedCatalog, wanted: Catalog, options: { readonly prune: boolean }): Plan {
  const numbered = numberBindings(saved, wanted)
  const families: readonly [
    Family,
    ReadonlyMap<string, SavedEntry<unknown>>,
    ReadonlyMap<string, unknown>,
  ][] = [
    ['channel', saved.channels, wanted.channels],
    ['supply', saved.supplies, wanted.supplies],
    ['policy', saved.policies, wanted.policies],
    ['degradation_rule', saved.rules, wanted.rules],
    ['model', saved.models, wanted.models],
    ['binding', saved.bindings, numbered.bindings],
  ]
  const changes = families.flatMap(([family, before, after]) => [
    ...changesOf(family, before, after),
    ...(options.prune ? archivals(family, before, after) : []),
  ])
  return {
    changes,
    settings: settingChanges(saved, wanted, options),
    touched: touchedModels(changes, saved, { ...wanted, bindings: numbered.bindings }),
    bindings: numbered.bindings,
    refusals: [
      ...currencyRefusals(saved, wanted),
      ...numbered.refusals,
      ...identityRefusals(changes),
      ...(options.prune ? [] : leftovers(saved, wanted)),
    ],
    notes: numbered.notes,
  }
}

function changesOf(
  family: Family,
  before: ReadonlyMap<string, SavedEntry<unknown>>,
  after: ReadonlyMap<string, unknown>,
): Change[] {
  return [...after].flatMap(([id, definition]): Change[] => {
    const old = before.get(id)
    if (!old) return [{ kind: 'add', family, id, fields: differences({}, definition) }]
    const fields = differences(old.definition, definition)
    if (old.archived) return [{ kind: 'restore', family, id, fields }]
    return fields.length > 0 ? [{ kind: 'change', family, id, fields }] : []
  })
}

function archivals(
  family: Family,
  before: ReadonlyMap<string, SavedEntry<unknown>>,
  after: ReadonlyMap<string, unknown>,
): Change[] {
  return [...before].flatMap(([id, old]): Change[] =>
    old.archived || after.has(id) ? [] : [{ kind: 'archive', family, id, fields: [] }],
  )
}

/** Rates that the file omits stay, as everything does without --prune. */
export function ratesAfter(saved: SavedCatalog, wanted: Catalog, options: { readonly prune: boolean }) {
  return options.prune ? wanted.exchangeRates : { ...saved.exchangeRates, ...wanted.exchangeRates }
}

function settingChanges(
  saved: SavedCatalog,
  wanted: Catalog,
  options: { readonly prune: boolean },
): FieldChange[] {
  return [
    ...differences(saved.currency ?? undefined, wanted.currency, 'currency'),
    ...differences(saved.exchangeRates, ratesAfter(saved, wanted, options), 'exchange_rates'),
  ]
}

/**
 * `current` is what stands beside it when a verification is first saved. While by, at and evidence stay as they are, the
 * binding stays with the version that was tried, whatever the supply's capability becomes.
 */
function numberBindings(saved: SavedCatalog, wanted: Catalog) {
  const bindings = new Map<string, NumberedBinding>()
  const notes: string[] = []
  const refusals: string[] = []
  for (const [id, binding] of wanted.bindings) {
    const newest = newestCapability(binding.supply, saved, wanted)
    const number = capabilityNumber(binding, saved.bindings.get(id)?.definition, newest)
    if (number !== null && number > newest)
      refusals.push(
        `binding ${id}: supply ${binding.supply} has no capability version ${number}; the newest is ${newest}`,
      )
    else if (number !== null && number < newest)
      notes.push(
        `binding ${id} stays with capability version ${number} of ${binding.supply}, which it was verified against; the newest is ${newest}. Try the supply again and write a new verified.at to move on.`,
      )
    const { verified, ...rest } = binding
    bindings.set(id, {
      ...rest,
      verified: verified === null || number === null ? null : { ...verified, capability: number },
    })
  }
  return { bindings, notes, refusals }
}

/** The number that the supply's capability will have once the file is applied. */
function newestCapability(supplyId: string, saved: SavedCatalog, wanted: Catalog): number {
  const old = saved.supplies.get(supplyId)
  if (!old) return 1
  const same = sameContent(old.definition.capability, wanted.supplies.get(supplyId)?.capability)
  return same ? old.capabilityVersion : old.capabilityVersion + 1
}

function capabilityNumber(binding: Binding, old: NumberedBinding | undefined, newest: number): number | null {
  const { verified } = binding
  if (verified === null) return null
  if (verified.capability !== 'current') return verified.capability
  const before = old?.verified
  const sameTrial =
    before &&
    old.supply === binding.supply &&
    before.by === verified.by &&
    before.at === verified.at &&
    before.evidence === verified.evidence
  return sameTrial ? before.capability : newest
}

function touchedModels(
  changes: readonly Change[],
  saved: SavedCatalog,
  after: { models: Catalog['models']; bindings: ReadonlyMap<string, NumberedBinding> },
): Map<string, string[]> {
  const touched = new Map<string, string[]>()
  const touch = (model: string, why: string) => touched.set(model, [...(touched.get(model) ?? []), why])
  const modelDocument = (id: string) => after.models.get(id) ?? saved.models.get(id)?.definition
  const allModels = new Set([...after.models.keys(), ...saved.models.keys()])
  const allBindings = new Map<string, NumberedBinding>([
    ...[...saved.bindings]
      .filter(([, binding]) => !binding.archived)
      .map(([id, { definition }]) => [id, definition] as const),
    ...after.bindings,
  ])
  for (const { family, id } of changes) {
    const why = `${family} ${id}`
    if (family === 'model') touch(id, why)
    if (family === 'binding')
      for (const model of modelsOfBinding(id, saved, after.bindings)) touch(model, why)
    if (family === 'policy')
      for (const model of allModels) if (modelDocument(model)?.document.policy === id) touch(model, why)
    if (family === 'degradation_rule')
      for (const model of new Set(
        [...allBindings.values()].filter((b) => b.degradation_rule === id).map((b) => b.model),
      ))
        touch(model, why)
  }
  return touched
}

function modelsOfBinding(
  id: string,
  saved: SavedCatalog,
  after: ReadonlyMap<string, NumberedBinding>,
): Set<string> {
  const models = [saved.bindings.get(id)?.definition.model, after.get(id)?.model]
  return new Set(models.filter((model) => model !== undefined))
}

function currencyRefusals(saved: SavedCatalog, wanted: Catalog): string[] {
  if (saved.currency === null || saved.currency === wanted.currency) return []
  return [
    `currency: the base currency is ${saved.currency}, and stored costs are counted in it; ${wanted.currency} needs a database of its own`,
  ]
}

const IDENTITY: Partial<Record<Family, readonly string[]>> = {
  channel: ['provider'],
  supply: ['channel', 'upstream_model', 'media'],
  model: ['media'],
  binding: ['model'],
}

/** An ID is the same thing for ever: its health, its figures and its records go by it. */
function identityRefusals(changes: readonly Change[]): string[] {
  return changes
    .filter((change) => change.kind === 'change' || change.kind === 'restore')
    .flatMap(({ family, id, fields }) =>
      fields
        .filter(({ field }) => IDENTITY[family]?.includes(field))
        .map(
          ({ field, from, to }) =>
            `${family} ${id}: ${field} is part of what it is and cannot become ${JSON.stringify(to)} (it is ${JSON.stringify(from)}); give the new one a new ID`,
        ),
    )
}

/** What the file omits stays, so that two bindings of one supply and tier could meet. */
function leftovers(saved: SavedCatalog, wanted: Catalog): string[] {
  const key = (b: Pick<Binding, 'model' | 'supply' | 'tier' | 'degradation_rule'>) =>
    JSON.stringify([b.model, b.supply, b.tier, b.degradation_rule])
  const staying = new Map(
    [...saved.bindings]
      .filter(([id, b]) => !b.archived && !wanted.bindings.has(id))
      .map(([id, { definition }]) => [key(definition), id]),
  )
  return [...wanted.bindings].flatMap(([id, binding]) => {
    const other = staying.get(key(binding))
    return other === undefined
      ? []
      : [
          `binding ${id}: ${binding.supply} is bound as ${binding.tier} by ${other} already, which the file omits; keep that ID, or apply with --prune`,
        ]
  })
}
