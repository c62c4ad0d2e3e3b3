/** Public models as operators see them: what is saved, what is published, and the bindings behind it. */
import type { Media } from '../core/request.ts'
import { readCatalogRows } from '../store/catalog.ts'
import type { Sql } from '../store/database.ts'
import type { ModelDocument } from './definitions.ts'
import { type NumberedBinding, savedCatalog } from './saved.ts'

export interface BindingView extends NumberedBinding {
  readonly id: string
  readonly enabled: boolean
}

export interface ModelView {
  readonly id: string
  readonly media: Media
  readonly enabled: boolean
  readonly published: boolean
  /** Number of the last published release; null: never published. */
  readonly release: number | null
  /** Of what is saved. */
  readonly version: number
  readonly archived: boolean
  readonly document: ModelDocument
  readonly bindings: readonly BindingView[]
}

/** All models in the order of their names, archived ones among them. */
export async function modelViews(sql: Sql): Promise<ModelView[]> {
  const { models, bindings } = savedCatalog(await readCatalogRows(sql))
  return [...models].map(([id, model]) => ({
    id,
    media: model.definition.media,
    enabled: model.enabled,
    published: model.published,
    release: model.releaseNumber,
    version: model.version,
    archived: model.archived,
    document: model.definition.document,
    bindings: [...bindings]
      .filter(([, binding]) => binding.definition.model === id && !binding.archived)
      .map(([name, { definition, enabled }]) => ({ id: name, enabled, ...definition })),
  }))
}
