/** What makes two requests the same: Idempotency-Key, the SDK's repeats (CUS-4), and the digest that both compare. */
import { createHash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { IncomingRequest } from '../../runtime/service.ts'
import { LIMITS } from '../limits.ts'
import { invalid } from '../problem.ts'

export interface Payload {
  readonly endpoint: string
  /** As parsed, without what the model's defaults added: those may change between a request and its repeat. */
  readonly fields: unknown
  readonly metadata: unknown
  /** URLs, and the SHA-256 of files. */
  readonly inputs: unknown
}

/** SHA-256 of the payload's canonical JSON: keys sorted, so that neither their order nor the body's format matters. */
export function digestOf(payload: Payload): Buffer {
  return createHash('sha256').update(canonical(payload)).digest()
}

function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).filter(([, inner]) => inner !== undefined)
  entries.sort(([a], [b]) => (a < b ? -1 : 1))
  return `{${entries.map(([key, inner]) => `${JSON.stringify(key)}:${canonical(inner)}`).join(',')}}`
}

export function identify(
  headers: IncomingHttpHeaders,
  payload: Payload,
): Pick<IncomingRequest, 'idempotency' | 'repeat'> {
  const digest = digestOf(payload)
  const key = idempotencyKey(headers['idempotency-key'])
  return {
    idempotency: key === null ? null : { endpoint: payload.endpoint, key, payloadDigest: digest },
    repeat: { count: retryCount(headers['x-stainless-retry-count']), fingerprint: digest },
  }
}

/** `"abc"` as the draft has it, or bare `abc`. Throws Problem `invalid_request`. */
export function idempotencyKey(header: string | string[] | undefined): string | null {
  if (header === undefined) return null
  const text = Array.isArray(header) ? header.join(', ') : header.trim()
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)
  const key = quoted?.[1] !== undefined ? quoted[1].replace(/\\(["\\])/g, '$1') : text
  if (!/^[\x20-\x7e]+$/.test(key) || (!quoted && text.startsWith('"')))
    throw invalid('Idempotency-Key', 'Idempotency-Key must be printable ASCII, bare or as one quoted string.')
  if (key.length > LIMITS.idempotencyKeyCharacters)
    throw invalid(
      'Idempotency-Key',
      `Idempotency-Key is longer than ${LIMITS.idempotencyKeyCharacters} characters.`,
    )
  return key
}

/** How often the SDK has tried before; what is no small number is no repeat. */
function retryCount(header: string | string[] | undefined): number {
  return typeof header === 'string' && /^\d{1,3}$/.test(header) ? Number(header) : 0
}
