/**
 * Who is calling (CUS-1). A key is looked up by its SHA-256; what was found is believed for a moment, so that a revoked
 * key is refused that moment later at the latest.
 */
import { createHash } from 'node:crypto'
import type { Caller } from '../runtime/service.ts'
import { findKey, type KeyOwner, markKeyUsed } from '../store/api-reads.ts'
import type { Sql } from '../store/database.ts'
import { Problem } from './problem.ts'

const BELIEVED_MS = 2_000
const MOST_CACHED = 10_000
const KEY = /^ym_[A-Za-z0-9_-]{20,200}$/

interface Cached {
  readonly owner: KeyOwner
  readonly until: number
}

export class KeyRing {
  readonly #sql: Sql
  readonly #cached = new Map<string, Cached>()

  constructor(sql: Sql) {
    this.#sql = sql
  }

  /** Throws Problem: 401 without a valid key, 403 for a suspended customer. */
  async identify(authorization: string | undefined): Promise<Caller> {
    const owner = await this.#find(bearerToken(authorization))
    if (!owner || owner.over)
      throw new Problem('invalid_api_key', { message: 'The API key is unknown, revoked or expired.' })
    if (!owner.customerActive) throw new Problem('access_denied', { message: 'This customer is suspended.' })
    return { customerId: owner.customerId, keyId: owner.keyId, groups: owner.groups }
  }

  async #find(token: string): Promise<KeyOwner | undefined> {
    const digest = createHash('sha256').update(token).digest()
    const name = digest.toString('base64')
    const known = this.#cached.get(name)
    if (known && known.until > performance.now()) return known.owner
    const owner = await findKey(this.#sql, digest)
    this.#cached.delete(name)
    if (!owner) return undefined
    if (this.#cached.size >= MOST_CACHED) this.#cached.clear()
    this.#cached.set(name, { owner, until: performance.now() + BELIEVED_MS })
    if (owner.usedLongAgo && !owner.over) await markKeyUsed(this.#sql, owner.keyId)
    return owner
  }
}

function bearerToken(authorization: string | undefined): string {
  const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1]
  if (given === undefined)
    throw new Problem('invalid_api_key', {
      message: 'Send your API key in the header "Authorization: Bearer ym_…".',
    })
  if (!KEY.test(given))
    throw new Problem('invalid_api_key', {
      message: 'That is no API key of this service; its keys begin with "ym_".',
    })
  return given
}
