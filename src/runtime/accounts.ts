/**
 * The account that an attempt calls: its channel's address now, and the credential that it was submitted with, opened
 * for the length of a call. Opened credentials are kept in memory by their version, which never changes.
 */
import type { Account } from '../providers/adapter.ts'
import type { Sql } from '../store/database.ts'
import { type Keyring, unseal } from '../store/secrets.ts'

const CREDENTIAL = {
  name: 'credential-by-id',
  text: 'select channel_id, key_id, nonce, ciphertext, digest from credential where id = $1',
}

interface CredentialRow {
  channel_id: string
  key_id: string
  nonce: Buffer
  ciphertext: Buffer
  digest: Buffer
}

export class Accounts {
  readonly #sql: Sql
  readonly #keyring: Keyring
  readonly #opened = new Map<string, string>()

  constructor(sql: Sql, keyring: Keyring) {
    this.#sql = sql
    this.#keyring = keyring
  }

  async open(attempt: {
    readonly channel_id: string
    readonly credential_id: bigint
    readonly base_url: string
    readonly options: Readonly<Record<string, unknown>>
  }): Promise<Account> {
    return {
      channelId: attempt.channel_id,
      baseUrl: attempt.base_url,
      credential: await this.#credential(attempt.credential_id),
      options: attempt.options,
    }
  }

  async #credential(id: bigint): Promise<string> {
    const key = String(id)
    const known = this.#opened.get(key)
    if (known !== undefined) return known
    const [row] = (await this.#sql.query<CredentialRow>(CREDENTIAL, [id])).rows
    if (!row) throw new Error(`credential ${id} is missing`)
    const secret = unseal(this.#keyring, { ...row, keyId: row.key_id }, row.channel_id)
    this.#opened.set(key, secret)
    return secret
  }
}
