// One request and what belongs to it, as the protocols get it.

import type { IncomingHttpHeaders } from 'node:http'
import type { Answer, NamedError } from './answer.ts'
import type { Body } from './body.ts'
import type { Protocol } from './configuration.ts'
import type { Effect } from './faults/effect.ts'
import type { Operation } from './faults/kinds.ts'
import type { Job } from './job.ts'
import type { LedgerEntry } from './ledger.ts'
import type { World } from './world.ts'

/** What a method and a path ask for. `models` and `index` are not subject to faults. */
export type Route = {
  operation: Operation | 'models'
  jobId?: string
  variant?: string
  /** Where the path, and not the body, names it. */
  model?: string
}

export type Exchange = Route & {
  world: World
  protocol: Protocol
  account: string
  method: string
  query: URLSearchParams
  headers: IncomingHttpHeaders
  body: Body
  /** The job that the path names, if the account has it. */
  job: Job | undefined
  /** Scheme, host and port as the client knows them. */
  origin: string
  requestId: string
  attempt: string | null
  entry: LedgerEntry | undefined
  effect: Effect
}

/** A provider's way of talking. */
export type ProtocolServer = {
  protocol: Protocol
  requestIdHeader: string
  /** What this method and path (below the base URL) ask for, or undefined. */
  route: (method: string, path: string, query: URLSearchParams) => Route | undefined
  noRoute: (method: string, path: string, requestId: string) => Answer
  /** The provider's own words for an error that a script names. */
  named: (name: NamedError, requestId: string) => Answer
  tooLarge: (requestId: string) => Answer
  act: (exchange: Exchange) => Answer | Promise<Answer>
}

/** The key of `Authorization: Bearer …`, or undefined. */
export function bearer(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
}
