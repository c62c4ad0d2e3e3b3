/** Links to images for whoever holds them, until they expire: an HMAC over task, place and time stands for the key. */
import { createHmac, timingSafeEqual } from 'node:crypto'

export interface LinkTarget {
  readonly taskId: string
  readonly place: number
  /** Seconds since 1970. */
  readonly expires: number
}

export class LinkSigner {
  readonly #key: Uint8Array

  /** The key: at least 32 bytes, the same in every process. */
  constructor(key: Uint8Array) {
    if (key.length < 32) throw new RangeError('the key for signed links must have at least 32 bytes')
    this.#key = key
  }

  /** Path and query of the link. */
  path(target: LinkTarget): string {
    const id = target.taskId.replaceAll('-', '')
    return `/v1/assets/${id}/${target.place}?expires=${target.expires}&signature=${this.#sign(target)}`
  }

  isSignedFor(signature: string, target: LinkTarget): boolean {
    const right = Buffer.from(this.#sign(target))
    const given = Buffer.from(signature)
    return given.length === right.length && timingSafeEqual(given, right)
  }

  #sign(target: LinkTarget): string {
    const text = `${target.taskId}/${target.place}/${target.expires}`
    return createHmac('sha256', this.#key).update(text).digest('base64url')
  }
}
