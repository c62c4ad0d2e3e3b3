/**
 * A provider without a network: it accepts at once, has made the film by the first look, and gives a small valid one, of
 * the length that was asked for, so that nothing in it falls short. Of two jobs, no film is the same.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { ProviderAdapter } from '../../../src/providers/adapter.ts'
import { makeMp4, noteBox } from '../../../src/simulator/media/mp4.ts'
import { type Asset, AssetStore, type PutOptions } from '../../../src/store/assets.ts'
import type { Database } from '../../../src/store/database.ts'

const films = new Map<number, Buffer>()

function film(seconds: number): Buffer {
  const made = films.get(seconds) ?? makeMp4({ width: 1280, height: 720, seconds, audio: false, seed: 1 })
  films.set(seconds, made)
  return made
}

export interface NullOptions {
  /** The same film for all jobs of a length. */
  readonly alike: boolean
}

export function nullProvider({ alike }: NullOptions): ProviderAdapter {
  return {
    name: 'ark',
    submitVideo: async (_account, { attemptId, order }) => ({
      kind: 'accepted',
      providerTaskId: `${order.durationSeconds}/${attemptId}`,
      requestId: null,
    }),
    poll: async (_account, id) => ({ kind: 'succeeded', video: { location: id, reported: null } }),
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
