/** Alert endpoints as operators keep them: what they may say, checked, and the secrets made for them. */
import { randomBytes } from 'node:crypto'
import type { Severity } from '../core/alert-rules.ts'
import { addEndpoint, type EndpointKind, readdressEndpoint } from '../store/alert-endpoints.ts'
import type { Sql } from '../store/database.ts'
import type { Keyring } from '../store/secrets.ts'

export interface WantedEndpoint {
  readonly id: string
  readonly kind: EndpointKind
  readonly url: string
  /** null: none, or, of a webhook, a new one. */
  readonly secret: string | null
  readonly minSeverity: Severity
}

export type Added =
  /** `secret`: made here, and shown this once. */
  | { readonly kind: 'added'; readonly secret: string | null }
  | { readonly kind: 'exists' }
  | { readonly kind: 'invalid'; readonly field: 'url' | 'secret'; readonly why: string }

export async function createEndpoint(sql: Sql, keyring: Keyring, wanted: WantedEndpoint): Promise<Added> {
  const problem = problemOf(wanted)
  if (problem) return { kind: 'invalid', ...problem }
  const made = wanted.kind === 'webhook' && wanted.secret === null ? newSecret() : null
  const added = await addEndpoint(sql, keyring, { ...wanted, secret: wanted.secret ?? made })
  return added ? { kind: 'added', secret: made } : { kind: 'exists' }
}

export type Readdressed = Added | { readonly kind: 'not_found' }

/** Another address and secret for an endpoint that there is. */
export async function moveEndpoint(
  sql: Sql,
  keyring: Keyring,
  wanted: Omit<WantedEndpoint, 'minSeverity'>,
): Promise<Readdressed> {
  const problem = problemOf(wanted)
  if (problem) return { kind: 'invalid', ...problem }
  const made = wanted.kind === 'webhook' && wanted.secret === null ? newSecret() : null
  const address = { id: wanted.id, url: wanted.url, secret: wanted.secret ?? made }
  return (await readdressEndpoint(sql, keyring, address))
    ? { kind: 'added', secret: made }
    : { kind: 'not_found' }
}

function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}

function problemOf({
  kind,
  url,
  secret,
}: Pick<WantedEndpoint, 'kind' | 'url' | 'secret'>): { field: 'url' | 'secret'; why: string } | null {
  if (!URL.canParse(url) || !['http:', 'https:'].includes(new URL(url).protocol))
    return { field: 'url', why: 'must be an absolute http or https address' }
  if (new URL(url).username !== '') return { field: 'url', why: 'must not carry a user name or password' }
  if (secret === null) return null
  if (kind === 'slack' || kind === 'wecom')
    return { field: 'secret', why: `is not used by ${kind}: its address is the secret` }
  if (kind === 'webhook' && !isWebhookSecret(secret))
    return { field: 'secret', why: 'must be whsec_ and 24 to 64 bytes in base64' }
  return secret.length <= 200 ? null : { field: 'secret', why: 'is longer than 200 characters' }
}

function isWebhookSecret(secret: string): boolean {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1]
  if (encoded === undefined) return false
  const bytes = Buffer.from(encoded, 'base64').length
  return bytes >= 24 && bytes <= 64
}
