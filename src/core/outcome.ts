/**
 * What an answer of a provider proves (ERR-1, UNK-7): how far the request got decides, not the error's name. The same
 * ECONNRESET is "not sent" in the TLS handshake and "unknown" once a byte may have left. In doubt: unknown.
 */
import type { ErrorCategory, ErrorScope } from './verdict.ts'

/**
 * not_sent: proven that no byte left. rejected: a complete, authoritative answer; nothing is left running at the
 * provider. unknown: the submission may have been accepted.
 */
export type Certainty = 'not_sent' | 'rejected' | 'unknown'

/** How health reads it (HLT-9, HLT-14, HLT-15). `persistent`: does not heal by itself (key refused, balance, model not open, certificate). */
export type HealthImpact = 'none' | 'failure' | 'persistent_failure' | 'capacity'

/**
 * Every code that a fault may carry: Yardmaster's own, stable, and safe to show. What customers see of them is decided
 * elsewhere (CUS-3); what a provider called it stands in `providerCode`.
 */
export const FAULT_CODES = [
  // The provider looked at the content, or at the request.
  'content_refused',
  'real_person_refused',
  'invalid_request',
  'input_unreadable',
  'input_too_large',
  'order_unsupported',
  // The account or the model behind it.
  'key_refused',
  'access_refused',
  'balance_exhausted',
  'quota_exhausted',
  'model_missing',
  'model_not_open',
  // It is full, or asks for patience.
  'rate_limited',
  'concurrency_full',
  'overloaded',
  // It failed.
  'upstream_error',
  'upstream_timeout',
  'generation_failed',
  'job_expired',
  'result_missing',
  'result_unavailable',
  'moderation_unavailable',
  // The way to it.
  'connection_failed',
  'certificate_refused',
  'channel_misconfigured',
  'call_misbuilt',
  'call_stopped',
  // It cannot be known what came of the submission (UNK-1), or an answer says nothing.
  'submission_unknown',
  'answer_unreadable',
] as const
export type FaultCode = (typeof FAULT_CODES)[number]

/** An adapter's unified error (ERR-1), with what the submission proved. */
export interface Fault {
  readonly category: ErrorCategory
  readonly scope: ErrorScope
  readonly retryable: boolean
  readonly certainty: Certainty
  readonly impact: HealthImpact
  /** Stable, Yardmaster's own, e.g. `content_refused`, `rate_limited`, `upstream_timeout`. Never a provider's. */
  readonly code: FaultCode
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

/** What one kind of refusal means: a row of an adapter's table, or of the status table below. */
export interface Meaning {
  readonly category: ErrorCategory
  readonly scope: ErrorScope
  readonly retryable: boolean
  readonly impact: HealthImpact
  readonly code: FaultCode
  readonly realPerson: boolean
}

/**
 * What a provider says in its own envelope. `meaning` is null where its table does not know the code.
 * `provesRefusal`: the adapter declares that this answer means "not accepted" even under a 5xx, or inside a 2xx.
 */
export interface Statement {
  readonly meaning: Meaning | null
  readonly providerCode: string | null
  /** Redacted already. */
  readonly message: string
  readonly provesRefusal: boolean
}

/** Why an exchange ended without a complete answer. */
export type TransportEnd =
  /** `code`: the error's code or class, never its text. */
  | { readonly kind: 'error'; readonly code: string; readonly message: string }
  | { readonly kind: 'deadline' }
  /** We stopped it ourselves: cancelled, or shutting down. */
  | { readonly kind: 'stopped' }
  | { readonly kind: 'too_large' }

/** How far a request got. connecting: before its first byte. A 1xx does not count as a head. */
export type Evidence =
  | { readonly stage: 'connecting'; readonly end: TransportEnd }
  | { readonly stage: 'awaiting_head'; readonly end: TransportEnd }
  | { readonly stage: 'reading_body'; readonly status: number; readonly end: TransportEnd }
  | {
      readonly stage: 'complete'
      readonly status: number
      /** null: the body is no envelope of the provider's. */
      readonly statement: Statement | null
      readonly retryAfterMs: number | null
    }

/**
 * The fault of a create that was not accepted for certain. The adapter calls it for everything but a valid acceptance.
 * A submission that our own deadline stopped while connecting was no attempt (UNK-7) and is not brought here.
 */
export function classifySubmission(evidence: Evidence): Fault {
  switch (evidence.stage) {
    case 'connecting':
      return neverSent(evidence.end)
    case 'awaiting_head':
    case 'reading_body':
      return unknownAfter(evidence)
    case 'complete':
      return provesRefusal(evidence.status, evidence.statement) ? refused(evidence) : unknownAnswer(evidence)
  }
}

/**
 * The fault of a call that may be repeated freely (poll, ping, download, cancel): the same causes, always retryable. It
 * says nothing about the job, hence certainty `unknown`.
 */
export function classifyRead(evidence: Evidence): Fault {
  return { ...readFault(evidence), certainty: 'unknown', retryable: true }
}

/** The fault of a job, or of one image of a batch, that the provider says has ended badly. Nothing is left running. */
export function classifyEnded(statement: Statement): Fault {
  return fault(statement.meaning ?? ENDED_UNEXPLAINED, 'rejected', {
    stage: 'ended',
    cause: statement.providerCode ?? 'none',
    message: statement.message,
    providerCode: statement.providerCode,
  })
}

/** The fault of a call that was never made, because it could not be built. */
export function classifyUnbuilt(meaning: Meaning, message: string): Fault {
  return fault(meaning, 'not_sent', { stage: 'building', cause: meaning.code, message })
}

/** Shorthand for a row of a table; `realPerson` false. */
export function meaning(
  place: `${ErrorCategory}/${ErrorScope}`,
  code: FaultCode,
  rest: { readonly retryable?: boolean; readonly impact?: HealthImpact; readonly realPerson?: boolean } = {},
): Meaning {
  const [category, scope] = splitPlace(place)
  return {
    category,
    scope,
    code,
    retryable: rest.retryable ?? false,
    impact: rest.impact ?? 'none',
    realPerson: rest.realPerson ?? false,
  }
}

function splitPlace(place: `${ErrorCategory}/${ErrorScope}`): [ErrorCategory, ErrorScope] {
  const category = CATEGORIES.find((name) => place.startsWith(`${name}/`)) ?? 'unknown'
  return [category, SCOPES.find((name) => place.endsWith(`/${name}`)) ?? 'attempt']
}

const CATEGORIES: readonly ErrorCategory[] = ['content', 'request', 'supply', 'capacity', 'unknown']
const SCOPES: readonly ErrorScope[] = ['request', 'supply', 'channel', 'attempt']

const UNKNOWN = meaning('unknown/attempt', 'submission_unknown', { impact: 'failure' })
const UNKNOWN_BY_US = meaning('unknown/attempt', 'submission_unknown')
/** Not retried: what nobody explains may be a refusal of the content, and that is never submitted twice (GOAL-2). */
const ENDED_UNEXPLAINED = meaning('unknown/attempt', 'generation_failed', { impact: 'failure' })
const CONNECTION = meaning('supply/channel', 'connection_failed', { retryable: true, impact: 'failure' })
const CERTIFICATE = meaning('supply/channel', 'certificate_refused', {
  retryable: true,
  impact: 'persistent_failure',
})
const MISBUILT = meaning('request/attempt', 'call_misbuilt')
const STOPPED = meaning('supply/attempt', 'call_stopped', { retryable: true })

/** No byte of the request left. Whatever the error is called, it is the way to the provider that failed. */
function neverSent(end: TransportEnd): Fault {
  return fault(neverSentMeaning(end), 'not_sent', {
    stage: 'connecting',
    cause: causeOf(end),
    message: textOf(end),
    connection: end.kind === 'error' && !OUR_OWN_BUGS.has(end.code),
  })
}

function neverSentMeaning(end: TransportEnd): Meaning {
  if (end.kind !== 'error') return STOPPED
  if (OUR_OWN_BUGS.has(end.code)) return MISBUILT
  return isCertificateError(end.code) ? CERTIFICATE : CONNECTION
}

const OUR_OWN_BUGS: ReadonlySet<string> = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
  'UND_ERR_NOT_SUPPORTED',
])

function isCertificateError(code: string): boolean {
  return CERTIFICATE_CODES.has(code) || code.startsWith('CERT_') || code.startsWith('UNABLE_TO_')
}

const CERTIFICATE_CODES: ReadonlySet<string> = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'HOSTNAME_MISMATCH',
  'INVALID_CA',
  'INVALID_PURPOSE',
  'PATH_LENGTH_EXCEEDED',
])

/** Bytes may have left and no complete answer came: whatever head was seen, it is not authoritative. */
function unknownAfter(evidence: Extract<Evidence, { stage: 'awaiting_head' | 'reading_body' }>): Fault {
  return fault(evidence.end.kind === 'stopped' ? UNKNOWN_BY_US : UNKNOWN, 'unknown', {
    stage: evidence.stage,
    cause: causeOf(evidence.end),
    message: textOf(evidence.end),
    httpStatus: evidence.stage === 'reading_body' ? evidence.status : null,
  })
}

/** A complete 4xx is authoritative, save 408, which proxies make up; 5xx and 2xx only where the adapter says so. */
function provesRefusal(status: number, statement: Statement | null): boolean {
  if (status >= 400 && status < 500) return status !== 408
  if (status >= 300 && status < 400) return false
  return statement !== null && statement.meaning !== null && statement.provesRefusal
}

type Complete = Extract<Evidence, { stage: 'complete' }>

function refused(evidence: Complete): Fault {
  const known = evidence.statement?.meaning ?? meaningOfStatus(evidence.status)
  return fault(known, 'rejected', describe(evidence))
}

function unknownAnswer(evidence: Complete): Fault {
  return fault(UNKNOWN, 'unknown', describe(evidence))
}

/** By status alone, where the provider's code is not known. 2xx, 3xx and 408 only matter for reads. */
function meaningOfStatus(status: number): Meaning {
  if (status >= 500) return meaning('supply/supply', 'upstream_error', { retryable: true, impact: 'failure' })
  if (status < 400)
    return meaning('supply/supply', 'answer_unreadable', { retryable: true, impact: 'failure' })
  return REFUSING_STATUS.get(status) ?? meaning('request/request', 'invalid_request')
}

const REFUSING_STATUS: ReadonlyMap<number, Meaning> = new Map([
  [401, meaning('supply/channel', 'key_refused', { retryable: true, impact: 'persistent_failure' })],
  [402, meaning('supply/channel', 'balance_exhausted', { retryable: true, impact: 'persistent_failure' })],
  // Bare: two in a row open the channel (HLT-14), so it is no persistent failure by itself.
  [403, meaning('supply/channel', 'access_refused', { retryable: true, impact: 'failure' })],
  // A create's path names no resource of the customer's: what is missing is the model, or the endpoint.
  [404, meaning('supply/supply', 'model_missing', { retryable: true, impact: 'failure' })],
  [405, meaning('supply/supply', 'model_missing', { retryable: true, impact: 'failure' })],
  [408, meaning('supply/supply', 'upstream_timeout', { retryable: true, impact: 'failure' })],
  [421, meaning('supply/channel', 'upstream_error', { retryable: true, impact: 'failure' })],
  [425, meaning('supply/channel', 'upstream_error', { retryable: true, impact: 'failure' })],
  [429, meaning('capacity/supply', 'rate_limited', { retryable: true, impact: 'capacity' })],
])

function readFault(evidence: Evidence): Fault {
  switch (evidence.stage) {
    case 'connecting':
      return unconnectedRead(evidence.end)
    case 'awaiting_head':
    case 'reading_body':
      return fault(brokenRead(evidence.end), 'unknown', {
        stage: evidence.stage,
        cause: causeOf(evidence.end),
        message: textOf(evidence.end),
        httpStatus: evidence.stage === 'reading_body' ? evidence.status : null,
      })
    case 'complete':
      return refused(evidence)
  }
}

/** A create that runs out of time here was no attempt; a read has shown that nobody answers. */
function unconnectedRead(end: TransportEnd): Fault {
  const timedOut = { kind: 'error', code: 'CONNECT_DEADLINE', message: textOf(end) } as const
  return neverSent(end.kind === 'deadline' ? timedOut : end)
}

function brokenRead(end: TransportEnd): Meaning {
  switch (end.kind) {
    case 'deadline':
      return meaning('supply/supply', 'upstream_timeout', { impact: 'failure' })
    case 'stopped':
      return STOPPED
    case 'too_large':
      return meaning('supply/supply', 'answer_unreadable', { impact: 'failure' })
    case 'error':
      return meaning('supply/supply', 'upstream_error', { impact: 'failure' })
  }
}

interface Particulars {
  readonly stage: string
  readonly cause: string
  readonly message: string
  readonly providerCode?: string | null
  readonly httpStatus?: number | null
  readonly retryAfterMs?: number | null
  readonly connection?: boolean
}

function describe(evidence: Complete): Particulars {
  const said = evidence.statement
  return {
    stage: said?.providerCode ? 'provider' : 'http',
    cause: said?.providerCode ?? String(evidence.status),
    message: said?.message || `HTTP ${evidence.status}, without an answer that could be read`,
    providerCode: said?.providerCode ?? null,
    httpStatus: evidence.status,
    retryAfterMs: evidence.retryAfterMs,
  }
}

function fault(what: Meaning, certainty: Certainty, how: Particulars): Fault {
  return {
    category: what.category,
    scope: what.scope,
    retryable: what.retryable,
    certainty,
    impact: what.impact,
    code: what.code,
    message: how.message,
    providerCode: how.providerCode ?? null,
    httpStatus: how.httpStatus ?? null,
    fingerprint: [what.category, what.scope, how.stage, normalized(how.cause)].join('|'),
    retryAfterMs: how.retryAfterMs ?? null,
    realPerson: what.realPerson,
    connection: how.connection ?? false,
  }
}

/** A code as a name: no indices, no numbers long enough to be an ID, nothing that free text could bring in. */
function normalized(cause: string): string {
  return cause
    .replace(/\[[^\]]*\]/g, '')
    .replace(/\d{6,}/g, '#')
    .replace(/[^A-Za-z0-9_.#-]+/g, '_')
    .slice(0, 64)
}

function causeOf(end: TransportEnd): string {
  return end.kind === 'error' ? end.code : end.kind
}

function textOf(end: TransportEnd): string {
  switch (end.kind) {
    case 'error':
      return `${end.code}: ${end.message}`
    case 'deadline':
      return 'The time of the call was up.'
    case 'stopped':
      return 'Yardmaster stopped the call.'
    case 'too_large':
      return 'The answer was larger than allowed.'
  }
}
