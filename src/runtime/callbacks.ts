/**
 * Callbacks of providers (UNK-9). The address that a submission carries names its attempt and proves by an HMAC that it
 * came from us; nothing in the body is trusted. A callback makes the poller, or the resolver, look now: it ends nothing.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { ProviderAdapter } from '../providers/adapter.ts'
import type { Sql } from '../store/database.ts'
import { nudge, providerOf } from '../store/resolution.ts'
import type { Keyring } from '../store/secrets.ts'

export class Callbacks {
  readonly #keys: readonly Buffer[]
  readonly #providers: ReadonlyMap<string, ProviderAdapter>

  /** Addresses made with an older key of the ring stay good. */
  constructor(keyring: Keyring, providers: ReadonlyMap<string, ProviderAdapter>) {
    const keys = [keyring.current, ...[...keyring.byId.values()].filter((key) => key !== keyring.current)]
    this.#keys = keys.map((key) => createHmac('sha256', key.digest).update('callbacks').digest())
    this.#providers = providers
  }

  /** Path of the address that a submission carries. */
  path(attemptId: string): string {
    return `/callbacks/${attemptId}/${signature(this.#keys[0], attemptId)}`
  }

  /** Let a callback count. False where its address was not made by us: such a callback changes nothing. */
  async take(sql: Sql, called: { attemptId: string; mac: string; body: Uint8Array }): Promise<boolean> {
    if (!this.#isOurs(called.attemptId, called.mac)) return false
    const provider = await providerOf(sql, called.attemptId)
    if (provider === null) return true
    await nudge(sql, called.attemptId, this.#hint(provider, called.body))
    return true
  }

  #isOurs(attemptId: string, mac: string): boolean {
    if (!UUID.test(attemptId)) return false
    const given = Buffer.from(mac)
    return this.#keys.some((key) => {
      const right = Buffer.from(signature(key, attemptId))
      return given.length === right.length && timingSafeEqual(given, right)
    })
  }

  /** An ID that could not be one, or a body that cannot be read, is no hint. */
  #hint(provider: string, body: Uint8Array): string | null {
    const named = this.#providers.get(provider)?.taskIdInCallback?.(body) ?? null
    return named !== null && /^[\x21-\x7e]{1,200}$/.test(named) ? named : null
  }
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function signature(key: Buffer | undefined, attemptId: string): string {
  if (!key) throw new Error('a keyring has at least one key')
  return createHmac('sha256', key).update(attemptId).digest('base64url')
}
