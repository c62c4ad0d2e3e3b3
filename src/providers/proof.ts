/**
 * From an exchange to a fault, by an adapter's own table. The adapter says how its envelope looks and what its codes
 * mean; what an answer proves is decided in core/outcome.
 */
import {
  classifyEnded,
  classifyRead,
  classifySubmission,
  type Fault,
  type Meaning,
  type Statement,
} from '../core/outcome.ts'
import type { Answer, Exchange } from './call.ts'
import { type JsonObject, parseObject } from './json.ts'
import { redact } from './redaction.ts'
import { retryAfterMs } from './retry-after.ts'

/** What an envelope says, as it stands there. */
export interface Spoken {
  readonly code: string | null
  readonly message: string
}

/** One row: every condition that is given must hold. The first row that matches counts, so the special stand first. */
export interface FaultRow {
  /** The code itself, or with `*` at the end everything that begins so; absent: whatever the code. */
  readonly code?: string
  readonly status?: number
  /**
   * Not believed under a 4xx: there the status says more than a code so general, and a gateway's "upstream error" may
   * hide a submission that was accepted behind it.
   */
  readonly not4xx?: true
  /** Last resort, where a provider puts the cause into words only. */
  readonly text?: RegExp
  readonly meaning: Meaning
}

export interface Dialect {
  readonly table: readonly FaultRow[]
  /** Codes whose 5xx in the provider's own envelope prove "not accepted" (UNK-7). Empty unless documented. */
  readonly create5xx: readonly string[]
  /** The error in a body; null where there is none. */
  readonly envelope: (body: JsonObject) => Spoken | null
}

/** What the particular call adds to the dialect. */
export interface Reading {
  readonly dialect: Dialect
  readonly secrets: readonly string[]
  /** The channel's own declaration, beside the dialect's `create5xx`. */
  readonly declared5xx: readonly string[]
  /** Whether this call's documentation puts refusals into a 2xx. */
  readonly refusesIn2xx?: boolean
}

type Unaccepted = Exclude<Exchange, { kind: 'stopped_before_sending' }>

/** The fault of a create. `exchange` is anything but an acceptance. */
export function submissionFault(exchange: Unaccepted, reading: Reading): Fault {
  return classifySubmission(evidenceOf(exchange, reading))
}

/** The fault of a call that may be repeated. Out of time while connecting means that nobody answers there. */
export function readFault(exchange: Exchange, reading: Reading): Fault {
  if (exchange.kind === 'stopped_before_sending') {
    const end = { kind: exchange.why === 'deadline' ? ('deadline' as const) : ('stopped' as const) }
    return classifyRead({ stage: 'connecting', end })
  }
  return classifyRead(evidenceOf(exchange, reading))
}

/** The fault of a job, or of one image, that ended badly by the provider's own words. */
export function endedFault(spoken: Spoken, reading: Reading): Fault {
  return classifyEnded(statementOf(spoken, null, reading))
}

function evidenceOf(exchange: Unaccepted, reading: Reading) {
  if (exchange.kind === 'broken') return exchange.evidence
  const { answer, receivedAtMs } = exchange
  const body = parseObject(answer.body)
  const spoken = body && reading.dialect.envelope(body)
  return {
    stage: 'complete' as const,
    status: answer.status,
    statement: spoken ? statementOf(spoken, answer.status, reading) : null,
    retryAfterMs: retryAfterMs(answer.headers, receivedAtMs),
  }
}

/** `status` null: said of a job or an image, not by an HTTP status. */
function statementOf(spoken: Spoken, status: number | null, reading: Reading): Statement {
  const code = spoken.code === null ? null : redact(spoken.code, reading.secrets).slice(0, 120)
  return {
    meaning: meaningOf(reading.dialect.table, spoken, status),
    providerCode: code,
    message: redact([code, spoken.message].filter(Boolean).join(': '), reading.secrets),
    provesRefusal:
      status !== null && status < 300 ? (reading.refusesIn2xx ?? false) : declares(reading, spoken.code),
  }
}

function declares(reading: Reading, code: string | null): boolean {
  return code !== null && [...reading.dialect.create5xx, ...reading.declared5xx].includes(code)
}

/** The first row of the table that matches. */
export function meaningOf(table: readonly FaultRow[], spoken: Spoken, status: number | null): Meaning | null {
  return table.find((row) => matches(row, spoken, status))?.meaning ?? null
}

function matches(row: FaultRow, spoken: Spoken, status: number | null): boolean {
  return (
    (row.code === undefined || codeMatches(row.code, spoken.code)) &&
    (row.status === undefined || row.status === status) &&
    !(row.not4xx && status !== null && status >= 400 && status < 500) &&
    (row.text === undefined || row.text.test(`${spoken.code ?? ''} ${spoken.message.slice(0, 4_000)}`))
  )
}

function codeMatches(pattern: string, code: string | null): boolean {
  if (code === null) return false
  return pattern.endsWith('*') ? code.startsWith(pattern.slice(0, -1)) : code === pattern
}

/** The provider's number for this exchange, for its support desk. */
export function requestIdOf(exchange: Exchange): string | null {
  const id = exchange.kind === 'answered' ? exchange.answer.headers['x-request-id'] : undefined
  return id === undefined ? null : redact(id).slice(0, 200)
}

export function isSuccess(answer: Answer): boolean {
  return answer.status >= 200 && answer.status < 300
}
