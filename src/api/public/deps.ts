/** What the public routes are given by the composition root, and what a request carries once its key was checked. */
import type { Caller, Dispatching } from '../../runtime/service.ts'
import type { AssetStore } from '../../store/assets.ts'
import type { Sql } from '../../store/database.ts'
import type { LinkSigner } from './links.ts'
import type { Models } from './ports.ts'

export interface PublicDeps {
  readonly sql: Sql
  readonly dispatching: Dispatching
  readonly models: Models
  readonly assets: AssetStore
  /** How long an uploaded input is kept, in ms: a week where absent, since no task may take so long. */
  readonly uploadLifeMs?: number
  readonly links: LinkSigner
  /** How long a signed link to an image is good, in seconds. */
  readonly linkSeconds: number
  /** Where customers reach this service; null: as the request's Host says. */
  readonly publicUrl: string | null
  /** Uploads wait there until their request is known to be valid. */
  readonly spoolDirectory: string
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set on every route that asks for a key. */
    caller: Caller
  }
}
