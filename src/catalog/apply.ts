/**
 * `catalog apply`: one transaction, one applier at a time. The diff is computed from what the lock protects, so that it
 * is what happens; with `publish` the gate judges what was just written, and a refusal takes all of it back.
 */
import { lockCatalog, readCatalogRows } from '../store/catalog.ts'
import {
  archive,
  clearFlags,
  saveBinding,
  saveCapability,
  saveChannel,
  saveCredential,
  saveModel,
  savePolicy,
  savePrices,
  saveRule,
  saveSetting,
  saveSupply,
} from '../store/catalog-writes.ts'
import type { Database, Sql } from '../store/database.ts'
import { lockLevels } from '../store/levels.ts'
import { isSealed, type Keyring, seal } from '../store/secrets.ts'
import type { Catalog, PriceListDocument, SupplyPrices } from './definitions.ts'
import { type Environment, resolveSecret } from './environment.ts'
import { convert } from './notation.ts'
import { type Change, type ChangeKind, type Family, type Plan, planApply, ratesAfter } from './plan.ts'
import { type Publication, type Published, publishAll } from './publish.ts'
import { type SavedCatalog, savedCatalog } from './saved.ts'

export interface ApplyOptions {
  readonly publish: boolean
  readonly prune: boolean
  /** Do all of it, gate included, and take it back. */
  readonly dryRun: boolean
  /** Who applies; kept with releases. */
  readonly by: string
  readonly environment: Environment
  /** Seals credentials; its first key is used. */
  readonly keyring: Keyring
}

export interface Applied {
  readonly changes: readonly Change[]
  readonly settings: Plan['settings']
  readonly notes: readonly string[]
  /** Channels that got a new secret, and those whose secret could not be read, with why. */
  readonly credentials: {
    readonly stored: readonly string[]
    readonly unresolved: readonly { channel: string; why: string }[]
  }
  /** Models that were published and no longer are, with what was saved. */
  readonly cleared: readonly { readonly modelId: string; readonly why: readonly string[] }[]
  readonly published: readonly Published[]
  readonly dryRun: boolean
}

/** What the file asks for cannot be: nothing was applied. */
export class CatalogRefused extends Error {
  readonly refusals: readonly string[]

  constructor(refusals: readonly string[]) {
    super(refusals.join('\n'))
    this.name = 'CatalogRefused'
    this.refusals = refusals
  }
}

/** Takes a dry run's transaction back. */
class TakenBack extends Error {
  readonly applied: Applied

  constructor(applied: Applied) {
    super('dry run')
    this.applied = applied
  }
}

/** Throws CatalogRefused and GateRefused; then nothing was applied. */
export async function applyCatalog(db: Database, catalog: Catalog, options: ApplyOptions): Promise<Applied> {
  const body = async (tx: Sql) => {
    const applied = await applyIn(tx, catalog, options)
    if (options.dryRun) throw new TakenBack(applied)
    return applied
  }
  try {
    return await db.transaction(body, { retry: true })
  } catch (error) {
    if (error instanceof TakenBack) return error.applied
    throw error
  }
}

async function applyIn(tx: Sql, wanted: Catalog, options: ApplyOptions): Promise<Applied> {
  await lockCatalog(tx)
  const saved = savedCatalog(await readCatalogRows(tx))
  const plan = planApply(saved, wanted, options)
  if (plan.refusals.length > 0) throw new CatalogRefused(plan.refusals)
  const write = new Writing(tx, { saved, wanted, plan, options })
  await write.settings()
  await write.locks()
  const credentials = await write.channels()
  await write.supplies()
  await write.policiesAndRules()
  await write.models()
  await write.bindings()
  await write.archivals()
  await clearFlags(tx, [...plan.touched.keys()])
  const published = options.publish ? await publishAll(tx, publications(saved, wanted, plan, options.by)) : []
  return {
    changes: plan.changes,
    settings: plan.settings,
    notes: plan.notes,
    credentials,
    cleared: clearedModels(saved, plan, published),
    published,
    dryRun: options.dryRun,
  }
}

interface Work {
  readonly saved: SavedCatalog
  readonly wanted: Catalog
  readonly plan: Plan
  readonly options: ApplyOptions
}

class Writing {
  readonly #tx: Sql
  readonly #work: Work

  constructor(tx: Sql, work: Work) {
    this.#tx = tx
    this.#work = work
  }

  async settings(): Promise<void> {
    const { saved, wanted, plan, options } = this.#work
    if (plan.settings.length === 0) return
    await saveSetting(this.#tx, 'base_currency', wanted.currency)
    await saveSetting(this.#tx, 'exchange_rates', ratesAfter(saved, wanted, options))
  }

  /** Whoever changes a level's limit holds its health row first: channels before supplies, each by ID. */
  locks(): Promise<void> {
    return lockLevels(this.#tx, {
      channels: this.#ids('channel', 'change', 'restore'),
      supplies: this.#ids('supply', 'change', 'restore'),
    })
  }

  async channels(): Promise<Applied['credentials']> {
    const { saved, wanted, options } = this.#work
    const changed = new Set(this.#ids('channel', 'add', 'change', 'restore'))
    const stored: string[] = []
    const unresolved: { channel: string; why: string }[] = []
    for (const [id, channel] of wanted.channels) {
      if (changed.has(id)) await saveChannel(this.#tx, id, channel)
      const secret = await resolveSecret(channel.credential, options.environment)
      if (!secret.ok) unresolved.push({ channel: id, why: secret.why })
      else if (isNew(secret.value, { id, saved, keyring: options.keyring })) {
        const sealed = seal(options.keyring, secret.value, id)
        await saveCredential(this.#tx, { id, reference: channel.credential }, sealed)
        stored.push(id)
      }
    }
    return { stored, unresolved }
  }

  async supplies(): Promise<void> {
    const { wanted } = this.#work
    for (const change of this.#changes('supply', 'add', 'change', 'restore')) {
      const supply = wanted.supplies.get(change.id)
      if (!supply) continue
      await saveSupply(this.#tx, change.id, supply)
      if (concerns(change, 'capability')) await saveCapability(this.#tx, change.id, supply.capability)
      if (concerns(change, 'prices'))
        await savePrices(this.#tx, change.id, supply.prices && pricesRow(supply.prices))
    }
  }

  async policiesAndRules(): Promise<void> {
    const { wanted } = this.#work
    for (const { id, fields } of this.#changes('policy', 'add', 'change', 'restore'))
      await savePolicy(this.#tx, id, fields.length > 0 ? (wanted.policies.get(id) ?? null) : null)
    for (const { id, fields } of this.#changes('degradation_rule', 'add', 'change', 'restore'))
      await saveRule(this.#tx, id, fields.length > 0 ? (wanted.rules.get(id) ?? null) : null)
  }

  async models(): Promise<void> {
    for (const { id, fields } of this.#changes('model', 'add', 'change', 'restore')) {
      const model = this.#work.wanted.models.get(id)
      if (model)
        await saveModel(this.#tx, { id, media: model.media }, fields.length > 0 ? model.document : null)
    }
  }

  /** Set aside first, so that two bindings may exchange their supplies. */
  async bindings(): Promise<void> {
    const { plan } = this.#work
    await archive(this.#tx, 'binding', this.#ids('binding', 'change', 'archive'))
    for (const id of this.#ids('binding', 'add', 'change', 'restore')) {
      const binding = plan.bindings.get(id)
      if (binding) await saveBinding(this.#tx, id, binding)
    }
  }

  async archivals(): Promise<void> {
    for (const family of ['model', 'degradation_rule', 'policy', 'supply', 'channel'] as const)
      await archive(this.#tx, family, this.#ids(family, 'archive'))
  }

  #changes(family: Family, ...kinds: ChangeKind[]): Change[] {
    return this.#work.plan.changes.filter((change) => change.family === family && kinds.includes(change.kind))
  }

  #ids(family: Family, ...kinds: ChangeKind[]): string[] {
    return this.#changes(family, ...kinds).map(({ id }) => id)
  }
}

function concerns(change: Change, part: string): boolean {
  return change.fields.some(
    ({ field }) => field === part || field.startsWith(`${part}.`) || field.startsWith(`${part}[`),
  )
}

function isNew(
  text: string,
  { id, saved, keyring }: { id: string; saved: SavedCatalog; keyring: Keyring },
): boolean {
  const stored = saved.channels.get(id)?.credential
  return !stored || !isSealed(keyring, stored, { text, channelId: id })
}

function pricesRow({ currency, rate, list }: SupplyPrices) {
  return { currency, rate, document: list, converted: convertedList(list, rate) }
}

/** In the base currency, each price rounded up to a micro-unit (COST-7, STR-10). */
export function convertedList(list: PriceListDocument, rate: string): PriceListDocument {
  return { ...list, prices: list.prices.map((row) => ({ ...row, price: convert(row.price, rate) })) }
}

/**
 * What this file leaves unpublished. A published model that the operator switched off stays switched off: applying never
 * flips a switch.
 */
function publications(saved: SavedCatalog, wanted: Catalog, plan: Plan, by: string): Publication[] {
  return [...wanted.models.keys()].flatMap((modelId) => {
    const before = saved.models.get(modelId)
    if (before?.published && !plan.touched.has(modelId)) return []
    const switchedOff = before?.published === true && !before.enabled
    return [{ modelId, by, enabled: !switchedOff }]
  })
}

function clearedModels(saved: SavedCatalog, plan: Plan, published: readonly Published[]): Applied['cleared'] {
  const again = new Set(published.map(({ modelId }) => modelId))
  return [...plan.touched]
    .filter(([modelId]) => saved.models.get(modelId)?.published && !again.has(modelId))
    .map(([modelId, why]) => ({ modelId, why }))
}
