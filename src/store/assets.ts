/**
 * Files behind requests and results: on disk under their SHA-256, with a row that says how long one is kept. Content that
 * is stored twice is one file.
 *
 * A file changes place only while its row is locked: `put` writes the row and then moves the file in, `sweep` deletes the
 * row and then the file, each in one transaction. So a file put while it is being swept waits, and is written anew. A crash
 * in between leaves an expired row without a file, or a file without a row; `put` mends the one, `sweep` removes both.
 */
import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pipeline, type Readable, Transform } from 'node:stream'
import type { Instant } from '../core/time.ts'
import type { Database, Sql } from './database.ts'
import { fromInstant } from './instants.ts'

export interface Asset {
  /** SHA-256, 64 hexadecimal digits in lower case. */
  readonly digest: string
  readonly bytes: number
  readonly contentType: string
  readonly expiresAt: Instant
}

export interface PutOptions {
  readonly contentType: string
  readonly expiresAt: Instant
  readonly maxBytes: number
}

export interface SweepWork {
  readonly expired: number
  /** Files that no row knows, and parts of files that were never finished. */
  readonly leftovers: number
}

/** There is more to store than is allowed; nothing was stored. */
export class AssetTooLarge extends Error {
  readonly maxBytes: number

  constructor(maxBytes: number) {
    super(`the file is larger than ${maxBytes} bytes`)
    this.name = 'AssetTooLarge'
    this.maxBytes = maxBytes
  }
}

/** The file is gone, or is not what was stored. */
export class AssetDamaged extends Error {
  constructor(digest: string, why: string) {
    super(`asset ${digest} ${why}`)
    this.name = 'AssetDamaged'
  }
}

/** Longer than any upload or transaction takes: what is older and belongs to nobody was left by a crash. */
const LEFT_AFTER_MS = 3_600_000
const SWEPT_AT_ONCE = 500

const KEEP = {
  name: 'keep-asset',
  text: `insert into asset (digest, bytes, content_type, expires_at) values ($1, $2, $3, $4)
    on conflict (digest) do update set expires_at = greatest(asset.expires_at, excluded.expires_at)
    returning digest, bytes, content_type, expires_at`,
}
const FIND = {
  name: 'find-asset',
  text: `select digest, bytes, content_type, expires_at from asset where digest = $1 and expires_at > clock_timestamp()`,
}
const EXPIRED = {
  name: 'expired-assets',
  text: `select digest from asset where expires_at <= $1 order by expires_at limit $2`,
}
const FORGET = { name: 'forget-asset', text: `delete from asset where digest = $1 and expires_at <= $2` }
// Holds the name of a file that no row knows, as long as the transaction lasts.
const HOLD = {
  name: 'hold-asset',
  text: `insert into asset (digest, bytes, content_type, expires_at) values ($1, 0, '', '-infinity') on conflict do nothing`,
}
const KNOWN = { name: 'known-assets', text: `select digest from asset where digest = any($1::text[])` }

interface AssetRow {
  digest: string
  bytes: bigint
  content_type: string
  expires_at: Instant
}

export class AssetStore {
  readonly #db: Database
  readonly #dir: string

  /** `dir` is made when it is needed. */
  constructor(db: Database, dir: string) {
    this.#db = db
    this.#dir = dir
  }

  /**
   * Stores the content and answers its asset; kept until the later of this expiry and the one it had. Throws AssetTooLarge,
   * and what the source throws; then nothing is stored.
   */
  async put(source: Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions): Promise<Asset> {
    const part = join(this.#partsDir(), randomUUID())
    await mkdir(dirname(part), { recursive: true, mode: 0o700 })
    try {
      const { digest, bytes } = await writePart(part, source, options.maxBytes)
      const values = [digest, bytes, options.contentType, fromInstant(options.expiresAt)]
      return await this.#db.transaction(async (tx) => {
        const { rows } = await tx.query<AssetRow>(KEEP, values)
        // Even where the file should be there: after a crash it may not be.
        await moveInto(part, this.#path(digest))
        return assetOf(rows[0])
      })
    } finally {
      await rm(part, { force: true })
    }
  }

  /** null where it was never stored or has expired. */
  async stat(digest: string): Promise<Asset | null> {
    const { rows } = await this.#db.query<AssetRow>(FIND, [digest])
    return rows[0] ? assetOf(rows[0]) : null
  }

  /**
   * The content, or the part from `start` up to and including `end` (bytes from 0, as in an HTTP range). A whole file is
   * checked while it is read: its last bytes are withheld, and the stream fails with AssetDamaged, if it is not what was
   * stored. null as for `stat`; throws AssetDamaged when the file is missing or has another length.
   */
  async open(
    digest: string,
    range: { readonly start?: number; readonly end?: number } = {},
  ): Promise<{ readonly asset: Asset; readonly stream: Readable } | null> {
    const asset = await this.stat(digest)
    if (!asset) return null
    const file = await this.#openFile(asset)
    const { start = 0, end = asset.bytes - 1 } = range
    if (start > 0 || end < asset.bytes - 1) {
      return { asset, stream: createReadStream('', { fd: file, start, end }) }
    }
    const whole = createReadStream('', { fd: file })
    // Errors reach the reader through the last stream.
    return { asset, stream: pipeline(whole, verifying(asset), () => {}) }
  }

  /** Deletes what has expired by then, and what crashes left. Several processes may sweep at once. */
  async sweep(now: Instant): Promise<SweepWork> {
    let expired = 0
    for (;;) {
      const { rows } = await this.#db.query<{ digest: string }>(EXPIRED, [fromInstant(now), SWEPT_AT_ONCE])
      for (const { digest } of rows) expired += await this.#expire(digest, now)
      if (rows.length < SWEPT_AT_ONCE) break
    }
    return { expired, leftovers: (await this.#sweepParts()) + (await this.#sweepUnknown()) }
  }

  async #expire(digest: string, now: Instant): Promise<number> {
    return this.#db.transaction(async (tx) => {
      const { rowCount } = await tx.query(FORGET, [digest, fromInstant(now)])
      if (rowCount > 0) await rm(this.#path(digest), { force: true })
      return rowCount
    })
  }

  async #openFile(asset: Asset): Promise<FileHandle> {
    const file = await open(this.#path(asset.digest)).catch(() => null)
    if (!file) throw new AssetDamaged(asset.digest, 'is missing on disk')
    const { size } = await file.stat()
    if (size === asset.bytes) return file
    await file.close()
    throw new AssetDamaged(asset.digest, `has ${size} bytes on disk instead of ${asset.bytes}`)
  }

  async #sweepParts(): Promise<number> {
    let removed = 0
    for (const name of await list(this.#partsDir())) {
      const path = join(this.#partsDir(), name)
      if (!(await isOld(path))) continue
      await rm(path, { force: true })
      removed++
    }
    return removed
  }

  async #sweepUnknown(): Promise<number> {
    let removed = 0
    for (const prefix of (await list(this.#dir)).filter((name) => /^[0-9a-f]{2}$/.test(name))) {
      const digests = (await list(join(this.#dir, prefix))).filter((name) => /^[0-9a-f]{64}$/.test(name))
      if (digests.length === 0) continue
      const { rows } = await this.#db.query<{ digest: string }>(KNOWN, [digests])
      const known = new Set(rows.map((row) => row.digest))
      for (const digest of digests) if (!known.has(digest)) removed += await this.#removeUnknown(digest)
    }
    return removed
  }

  async #removeUnknown(digest: string): Promise<number> {
    if (!(await isOld(this.#path(digest)))) return 0
    return this.#db.transaction((tx) => this.#removeHeld(tx, digest))
  }

  async #removeHeld(tx: Sql, digest: string): Promise<number> {
    const { rowCount } = await tx.query(HOLD, [digest])
    if (rowCount === 0) return 0
    await rm(this.#path(digest), { force: true })
    return (await tx.query(FORGET, [digest, '-infinity'])).rowCount
  }

  #partsDir(): string {
    return join(this.#dir, 'parts')
  }

  #path(digest: string): string {
    return join(this.#dir, digest.slice(0, 2), digest)
  }
}

function assetOf(row: AssetRow | undefined): Asset {
  if (!row) throw new Error('the row of an asset was not answered')
  const { digest, bytes, content_type, expires_at } = row
  return { digest, bytes: Number(bytes), contentType: content_type, expiresAt: expires_at }
}

async function writePart(path: string, source: Uint8Array | AsyncIterable<Uint8Array>, maxBytes: number) {
  const hash = createHash('sha256')
  let bytes = 0
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const chunk of source instanceof Uint8Array ? [source] : source) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) throw new AssetTooLarge(maxBytes)
      hash.update(chunk)
      await file.writeFile(chunk)
    }
    await file.sync()
  } finally {
    await file.close()
  }
  return { digest: hash.digest('hex'), bytes }
}

/** Durable once the folder itself is flushed. */
async function moveInto(part: string, path: string): Promise<void> {
  const dir = dirname(path)
  const made = await mkdir(dir, { recursive: true, mode: 0o700 })
  await rename(part, path)
  await flushDir(dir)
  if (made) await flushDir(dirname(dir))
}

async function flushDir(path: string): Promise<void> {
  const dir = await open(path)
  try {
    await dir.sync()
  } finally {
    await dir.close()
  }
}

/** Passes content through one piece late, so that the last piece of a damaged file is never handed on. */
function verifying(asset: Asset): Transform {
  const hash = createHash('sha256')
  let held: Buffer | undefined
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk)
      const ready = held
      held = chunk
      done(null, ready)
    },
    flush(done) {
      if (hash.digest('hex') !== asset.digest) done(new AssetDamaged(asset.digest, 'is damaged on disk'))
      else done(null, held)
    },
  })
}

async function isOld(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => null)
  return found !== null && Date.now() - found.mtimeMs > LEFT_AFTER_MS
}

async function list(dir: string): Promise<string[]> {
  return readdir(dir).catch(() => [])
}
