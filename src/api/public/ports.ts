/** What the public API asks about models, so that its tests need no catalog. */
import type { Release } from '../../core/frozen.ts'
import type { Sql } from '../../store/database.ts'
import { modelsNow, publishedModels, type Releases } from '../../store/releases.ts'

export interface Models {
  /** Those that customers can use now. */
  list(): Promise<readonly Release[]>
  /** The last published release, also of a model that is switched off now. */
  find(id: string): Promise<Release | undefined>
}

/** Models as the catalog has published them. */
export function storedModels(sql: Sql, releases: Releases): Models {
  return {
    list: () => publishedModels(sql, releases),
    find: async (id) => {
      const releaseId = (await modelsNow(sql, [id])).get(id)?.releaseId
      return releaseId == null ? undefined : releases.release(sql, releaseId)
    },
  }
}
