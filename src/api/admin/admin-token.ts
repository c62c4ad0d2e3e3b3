/** The operator's bearer token. Compared by digests of one length, in constant time. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { Problem } from '../problem.ts'

export class AdminToken {
  readonly #digest: Buffer

  constructor(token: string) {
    if (token.length < 16) throw new RangeError('the admin token must have at least 16 characters')
    this.#digest = digestOf(token)
  }

  /** Throws Problem `invalid_api_key`. */
  check(authorization: string | undefined): void {
    const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
    if (!timingSafeEqual(digestOf(given), this.#digest))
      throw new Problem('invalid_api_key', {
        message: 'Send the admin token in the header "Authorization: Bearer …".',
        headers: { 'www-authenticate': 'Bearer realm="yardmaster-admin"' },
      })
  }
}

function digestOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
