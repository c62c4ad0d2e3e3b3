/**
 * A provider without a network: it accepts at once, has made the film by the first look, and gives a small valid one, of
 * the length that was asked for, so that nothing in it falls short. Of two jobs, no film is the same. Jobs of an upstream
 * model that is named so never end. The ID of a job tells when its submission was heard (Unix ms).
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { PollReply, ProviderAdapter } from '../../../src/providers/adapter.ts'
import { makeMp4, noteBox } from '../../../src/simulator/media/mp4.ts'
import { type Asset, AssetStore, type PutOptions } from '../../../src/store/assets.ts'
import type { Database } from '../../../src/store/database.ts'
import { ENDLESS } from '../yard.ts'

const films = new Map<number, Buffer>()

function film(seconds: number): Buffer {
  const made = films.get(seconds) ?? makeMp4({ width: 1280, height: 720, seconds, audio: false, seed: 1 })
  films.set(seconds, made)
  return made
}

export interface NullOptions {
  /** The same film for all jobs of a length. */
  readonly alike: boolean
  /** How long an answer to a look takes. */
  readonly pollMs?: number
}

/** What was asked of it since `forget`. */
export class Looks {
  count = 0
  mostAtOnce = 0
  readonly #seconds = new Map<number, number>()
  readonly #open = new Map<string, number>()

  get busiestSecond(): number {
    return Math.max(0, ...this.#seconds.values())
  }

  forget(): void {
    this.count = 0
    this.mostAtOnce = 0
    this.#seconds.clear()
  }

  async during<T>(channel: string, look: () => Promise<T>): Promise<T> {
    const second = Math.floor(Date.now() / 1000)
    const open = (this.#open.get(channel) ?? 0) + 1
    this.count += 1
    this.#seconds.set(second, (this.#seconds.get(second) ?? 0) + 1)
    this.#open.set(channel, open)
    this.mostAtOnce = Math.max(this.mostAtOnce, open)
    try {
      return await look()
    } finally {
      this.#open.set(channel, (this.#open.get(channel) ?? 1) - 1)
    }
  }
}

export function nullProvider({ alike, pollMs = 0 }: NullOptions, looks = new Looks()): ProviderAdapter {
  const answer = (id: string): PollReply =>
    id.includes(`/${ENDLESS}-`)
      ? { kind: 'running', phase: 'running', progress: null }
      : { kind: 'succeeded', video: { location: id, reported: null } }
  return {
    name: 'ark',
    submitVideo: async (_account, { attemptId, order, upstreamModel }) => ({
      kind: 'accepted',
      providerTaskId: `${order.durationSeconds}/${attemptId}/${Date.now()}/${upstreamModel}`,
      requestId: null,
    }),
    poll: (account, id) =>
      looks.during(account.channelId, async () => {
        if (pollMs > 0) await sleep(pollMs)
        return answer(id)
      }),
    download: async (_account, location) => {
      const whole = film(Number(location.split('/')[0]))
      const bytes = alike ? whole : Buffer.concat([whole, noteBox(location)])
      return {
        kind: 'body',
        contentType: 'video/mp4',
        contentLength: bytes.length,
        stream: Readable.from([bytes]),
      }
    },
  }
}

/** Keeps what is put in memory: for figures of the lifecycle in the database, without a disk full of films. */
export class AssetsInMemory extends AssetStore {
  readonly #kept = new Map<string, { asset: Asset; content: Buffer }>()

  constructor(db: Database) {
    super(db, '/nowhere')
  }

  override async put(source: Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions): Promise<Asset> {
    const chunks: Uint8Array[] = []
    if (source instanceof Uint8Array) chunks.push(source)
    else for await (const chunk of source) chunks.push(chunk)
    const content = Buffer.concat(chunks)
    const digest = createHash('sha256').update(content).digest('hex')
    const asset = {
      digest,
      bytes: content.length,
      contentType: options.contentType,
      expiresAt: options.expiresAt,
    }
    this.#kept.set(digest, { asset, content })
    return asset
  }

  override async stat(digest: string): Promise<Asset | null> {
    return this.#kept.get(digest)?.asset ?? null
  }

  override async open(digest: string, range: { readonly start?: number; readonly end?: number } = {}) {
    const found = this.#kept.get(digest)
    if (!found) return null
    const { asset, content } = found
    const part = content.subarray(range.start ?? 0, (range.end ?? asset.bytes - 1) + 1)
    return { asset, stream: Readable.from([part]) }
  }
}
