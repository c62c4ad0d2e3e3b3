/** Publishing: through the gate, in the caller's transaction, into a release that never changes again (STR-6). */
import { lockCatalog, readCatalogRows } from '../store/catalog.ts'
import type { Database, Sql } from '../store/database.ts'
import { insertRelease, type ReleasedBindingRow, setModelFlags } from '../store/publication.ts'
import { type GateReport, judgeGate } from './gate.ts'
import { type SavedCatalog, savedCatalog } from './saved.ts'

export interface Published {
  readonly modelId: string
  readonly releaseId: string
  readonly number: number
  readonly report: GateReport
}

/** The gate said no: nothing was published, and what was to be applied with it was not applied. */
export class GateRefused extends Error {
  readonly reports: readonly GateReport[]

  constructor(reports: readonly GateReport[]) {
    super(reports.flatMap(refusalLines).join('\n'))
    this.name = 'GateRefused'
    this.reports = reports
  }
}

export function refusalLines(report: GateReport): string[] {
  return report.refusals.map(
    (refusal) => `${report.modelId}: ${refusal.check}: ${refusal.missing}; ${refusal.mend}`,
  )
}

export interface Publication {
  readonly modelId: string
  /** Who publishes; kept with the release. */
  readonly by: string
  /** The flag `enabled` of the model after that. */
  readonly enabled: boolean
}

/** `yardmaster model publish`. Throws GateRefused. */
export async function publishModel(db: Database, modelId: string, by: string): Promise<Published> {
  const [published] = await db.transaction(async (tx) => {
    await lockCatalog(tx)
    return publishAll(tx, [{ modelId, by, enabled: true }])
  })
  if (!published) throw new Error(`model ${modelId} was not published`)
  return published
}

/** Publish several, or none: throws GateRefused with what each of them lacks. The caller holds the catalog's lock. */
export async function publishAll(tx: Sql, publications: readonly Publication[]): Promise<Published[]> {
  const catalog = savedCatalog(await readCatalogRows(tx))
  const judged = publications.map((publication) => ({
    publication,
    report: judgeGate(catalog, publication.modelId),
  }))
  const refused = judged.filter(({ report }) => report.refusals.length > 0)
  if (refused.length > 0) throw new GateRefused(refused.map(({ report }) => report))
  const published: Published[] = []
  for (const { publication, report } of judged) {
    const release = await insertRelease(tx, {
      modelId: publication.modelId,
      policyVersionId: policyVersionOf(catalog, publication.modelId),
      bindings: releasedBindings(catalog, publication.modelId),
      evidence: report.passed,
      publishedBy: publication.by,
      enabled: publication.enabled,
    })
    published.push({ modelId: publication.modelId, releaseId: release.id, number: release.number, report })
  }
  return published
}

function policyVersionOf(catalog: SavedCatalog, modelId: string): bigint {
  const policy = catalog.policies.get(catalog.models.get(modelId)?.definition.document.policy ?? '')
  if (!policy) throw new Error(`the policy of model ${modelId} passed the gate but is not there`)
  return policy.versionId
}

function releasedBindings(catalog: SavedCatalog, modelId: string): ReleasedBindingRow[] {
  return [...catalog.bindings].flatMap(([id, { definition, archived, capabilityVersionId }]) => {
    if (archived || definition.model !== modelId) return []
    const supply = catalog.supplies.get(definition.supply)
    if (!supply || capabilityVersionId === null)
      throw new Error(`binding ${id} passed the gate without a verified supply`)
    const rule = definition.degradation_rule === null ? null : catalog.rules.get(definition.degradation_rule)
    return [
      {
        id,
        supply_id: definition.supply,
        channel_id: supply.definition.channel,
        tier: definition.tier,
        priority: definition.priority,
        capability_version_id: String(capabilityVersionId),
        degradation_rule_id: definition.degradation_rule,
        degradation_rule_version_id: rule ? String(rule.versionId) : null,
      },
    ]
  })
}

export class NoSuchModel extends Error {
  constructor(modelId: string) {
    super(`there is no model ${modelId}`)
    this.name = 'NoSuchModel'
  }
}

/** Customers can no longer use it; what was admitted goes on with the last release (ORD-19). */
export async function unpublishModel(db: Database, modelId: string): Promise<void> {
  await db.transaction(async (tx) => {
    await lockCatalog(tx)
    if (!(await setModelFlags(tx, modelId, { enabled: null, published: false })))
      throw new NoSuchModel(modelId)
  })
}

/** The switch of a published model. Answers whether it is published: only then does the switch mean anything. */
export async function switchModel(
  db: Database,
  modelId: string,
  enabled: boolean,
): Promise<{ published: boolean }> {
  return db.transaction(async (tx) => {
    await lockCatalog(tx)
    const flags = await setModelFlags(tx, modelId, { enabled, published: null })
    if (!flags) throw new NoSuchModel(modelId)
    return { published: flags.published }
  })
}
