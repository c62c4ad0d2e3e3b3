/**
 * What an answer of a provider proves (ERR-1, UNK-7): how far the request got decides, not the error's name.
 */
import type { ErrorCategory, ErrorScope } from './verdict.ts'

/** not_sent: proven that no byte left. rejected: a complete, authoritative refusal. unknown: may have been accepted. */
export type Certainty = 'not_sent' | 'rejected' | 'unknown'

/** How health reads it (HLT-9, HLT-14, HLT-15). `persistent`: does not heal by itself (key refused, balance, model not open, certificate). */
export type HealthImpact = 'none' | 'failure' | 'persistent_failure' | 'capacity'

/** An adapter's unified error (ERR-1), with what the submission proved. */
export interface Fault {
  readonly category: ErrorCategory
  readonly scope: ErrorScope
  readonly retryable: boolean
  readonly certainty: Certainty
  readonly impact: HealthImpact
  /** Stable, Yardmaster's own, e.g. `content_refused`, `rate_limited`, `upstream_timeout`. Never a provider's. */
  readonly code: string
  /** For operators: the provider's code and text as given, redacted, cut to 500 characters. */
  readonly message: string
  readonly providerCode: string | null
  readonly httpStatus: number | null
  /** Same cause, same text: category|scope|stage|normalized code; no IDs, addresses or free text. */
  readonly fingerprint: string
  /** From Retry-After, capped at one hour; null where none was given. */
  readonly retryAfterMs: number | null
  /** Set where the refusal is about a real person (ERR-4). */
  readonly realPerson: boolean
  /** Set where the connection itself failed (HLT-14: two of them open a channel; HLT-16). */
  readonly connection: boolean
}
