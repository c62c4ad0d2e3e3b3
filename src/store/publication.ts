/** Releases are inserted, and models pointed at them; whether that may be is the gate's to say. */
import type { Tier } from '../core/catalog.ts'
import type { Sql } from './database.ts'

/** As a release keeps it. Versions are decimal text of a bigint. */
export interface ReleasedBindingRow {
  readonly id: string
  readonly supply_id: string
  readonly channel_id: string
  readonly tier: Tier
  readonly priority: number
  readonly capability_version_id: string
  readonly degradation_rule_id: string | null
  readonly degradation_rule_version_id: string | null
}

export interface NewRelease {
  readonly modelId: string
  readonly policyVersionId: bigint
  readonly bindings: readonly ReleasedBindingRow[]
  readonly evidence: readonly object[]
  readonly publishedBy: string
  readonly enabled: boolean
}

const INSERT = {
  name: 'new-release',
  text: `with made as (
      insert into release (model_id, number, model_version_id, policy_version_id, bindings, evidence, published_by)
      select m.id, coalesce((select max(number) from release where model_id = m.id), 0) + 1, m.version_id, $2::bigint, $3::jsonb, $4::jsonb, $5::text
      from model m where m.id = $1::text
      returning id, number)
    update model set enabled = $6::boolean, published = true, release_id = made.id from made where model.id = $1::text
    returning made.id, made.number`,
}

const PUBLISH_RULES = {
  name: 'publish-rules',
  text: 'update degradation_rule set published = true where id = any($1::text[])',
}

export async function insertRelease(tx: Sql, release: NewRelease): Promise<{ id: string; number: number }> {
  const { rows } = await tx.query<{ id: bigint; number: number }>(INSERT, [
    release.modelId,
    release.policyVersionId,
    JSON.stringify(release.bindings),
    JSON.stringify(release.evidence),
    release.publishedBy,
    release.enabled,
  ])
  const rules = release.bindings.flatMap(({ degradation_rule_id: id }) => (id === null ? [] : [id]))
  if (rules.length > 0) await tx.query(PUBLISH_RULES, [rules])
  const made = rows[0]
  if (!made) throw new Error(`there is no model ${release.modelId} to release`)
  return { id: String(made.id), number: made.number }
}

const SWITCH_MODEL = {
  name: 'switch-model',
  text: `update model set enabled = coalesce($2::boolean, enabled), published = coalesce($3::boolean, published)
    where id = $1 and archived_at is null returning enabled, published`,
}

/** null leaves a flag as it is. Undefined where there is no such model. */
export async function setModelFlags(
  tx: Sql,
  id: string,
  flags: { enabled: boolean | null; published: boolean | null },
) {
  const { rows } = await tx.query<{ enabled: boolean; published: boolean }>(SWITCH_MODEL, [
    id,
    flags.enabled,
    flags.published,
  ])
  return rows[0]
}
