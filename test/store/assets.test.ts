/** The asset store: one file for one content, kept as long as was promised, whole or not at all. */
import { createHash } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { AssetDamaged, AssetStore, AssetTooLarge } from '../../src/store/assets.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { type TestDatabase, testDatabase } from './database.ts'

const HOUR = 3_600_000_000
const sha256 = (content: Uint8Array) => createHash('sha256').update(content).digest('hex')

let test: TestDatabase
let dir: string
let store: AssetStore
let now: number
beforeEach(async () => {
  test = await testDatabase()
  dir = await mkdtemp(join(tmpdir(), 'assets-'))
  store = new AssetStore(test.db, dir)
  now = (await test.db.query<{ now: number }>('select clock_timestamp() as now')).rows[0]?.now ?? 0
})
afterEach(async () => {
  await test.drop()
  await rm(dir, { recursive: true })
})

const put = (
  content: Uint8Array | AsyncIterable<Uint8Array>,
  expiresAt = now + HOUR,
  maxBytes = 10_000_000,
) => store.put(content, { contentType: 'image/png', expiresAt, maxBytes })
const pathOf = (digest: string) => join(dir, digest.slice(0, 2), digest)

async function read(digest: string, range?: { start?: number; end?: number }): Promise<Buffer | null> {
  const opened = await store.open(digest, range)
  return opened && buffer(opened.stream)
}

async function parts(): Promise<string[]> {
  return readdir(join(dir, 'parts'))
}

async function* inPieces(content: Buffer, size: number) {
  for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size)
}

describe('storing and reading', () => {
  const content = Buffer.alloc(300_000, 'content ')

  it('answers the SHA-256, length and type of what came as bytes or as a stream', async () => {
    const asset = await put(inPieces(content, 70_001))
    expect(asset).toEqual({
      digest: sha256(content),
      bytes: 300_000,
      contentType: 'image/png',
      expiresAt: now + HOUR,
    })
    expect(await put(content)).toEqual(asset)
    expect(await store.stat(asset.digest)).toEqual(asset)
    expect(await read(asset.digest)).toEqual(content)
    expect(await parts()).toEqual([])
  })

  it('stores an empty file too', async () => {
    const { digest } = await put(Buffer.alloc(0))
    expect(await read(digest)).toEqual(Buffer.alloc(0))
  })

  it('reads a part, both ends included, as an HTTP range does', async () => {
    const { digest } = await put(Buffer.from('0123456789'))
    expect(String(await read(digest, { start: 2, end: 4 }))).toBe('234')
    expect(String(await read(digest, { start: 7 }))).toBe('789')
    expect(String(await read(digest, { end: 0 }))).toBe('0')
  })

  it('refuses more than is allowed while it comes in, and leaves nothing', async () => {
    let taken = 0
    async function* endless() {
      for (;;) {
        taken++
        yield Buffer.alloc(1000)
      }
    }
    await expect(put(endless(), now + HOUR, 5000)).rejects.toThrow(AssetTooLarge)
    expect(taken).toBe(6)
    expect(await parts()).toEqual([])
    expect(await put(Buffer.alloc(5000), now + HOUR, 5000)).toMatchObject({ bytes: 5000 })
  })

  it('leaves nothing of a source that breaks off', async () => {
    async function* broken() {
      yield Buffer.from('half')
      throw new Error('the client hung up')
    }
    await expect(put(broken())).rejects.toThrow('the client hung up')
    expect(await parts()).toEqual([])
    expect((await test.db.query('select from asset')).rowCount).toBe(0)
  })

  it('has no path for what is not a digest', async () => {
    expect(await store.open('../../etc/passwd')).toBeNull()
    expect(await store.stat('')).toBeNull()
  })

  it('lets nobody else read', async () => {
    const { digest } = await put(content)
    expect((await stat(pathOf(digest))).mode & 0o077).toBe(0)
  })
})

describe('damage', () => {
  it('is told before the last byte of a whole file has been handed on', async () => {
    const content = Buffer.alloc(200_000, 7)
    const { digest } = await put(content)
    await chmod(pathOf(digest), 0o600)
    await writeFile(pathOf(digest), Buffer.concat([content.subarray(0, 199_999), Buffer.from([8])]))
    const opened = await store.open(digest)
    let got = 0
    const reading = (async () => {
      for await (const chunk of opened?.stream ?? []) got += chunk.length
    })()
    await expect(reading).rejects.toThrow(AssetDamaged)
    expect(got).toBeLessThan(200_000)
  })

  it('is told at once where the file is missing or has another length', async () => {
    const { digest } = await put(Buffer.from('something'))
    await writeFile(pathOf(digest), 'some')
    await expect(store.open(digest)).rejects.toThrow(/has 4 bytes on disk instead of 9/)
    await rm(pathOf(digest))
    await expect(store.open(digest)).rejects.toThrow(/is missing on disk/)
  })

  it('is mended by storing the same content again', async () => {
    const { digest } = await put(Buffer.from('something'))
    await rm(pathOf(digest))
    await put(Buffer.from('something'))
    expect(String(await read(digest))).toBe('something')
  })
})

describe('expiry', () => {
  it('is the later one of all that were asked for', async () => {
    const content = Buffer.from('shared')
    const { digest } = await put(content, now + 2 * HOUR)
    expect((await put(content, now + HOUR)).expiresAt).toBe(now + 2 * HOUR)
    expect((await put(content, now + 3 * HOUR)).expiresAt).toBe(now + 3 * HOUR)
    expect(await store.sweep(now + 2 * HOUR)).toEqual({ expired: 0, leftovers: 0 })
    expect(await store.sweep(now + 3 * HOUR)).toEqual({ expired: 1, leftovers: 0 })
    expect(await store.stat(digest)).toBeNull()
    await expect(readFile(pathOf(digest))).rejects.toThrow(/ENOENT/)
  })

  it('hides a file from its instant on, swept or not', async () => {
    const { digest } = await put(Buffer.from('old'), now - 1)
    expect(await store.stat(digest)).toBeNull()
    expect(await store.open(digest)).toBeNull()
  })

  it('does not take a file away from one who is reading it', async () => {
    const content = Buffer.alloc(1_000_000, 3)
    const { digest } = await put(content)
    const opened = await store.open(digest)
    await store.sweep(now + 2 * HOUR)
    expect(opened && (await buffer(opened.stream))).toEqual(content)
  })

  it('does not lose a file that is stored again while it is swept', async () => {
    const contents = Array.from({ length: 8 }, (_, at) => Buffer.from(`content ${at}`))
    const sweepers = await Promise.all([1, 2].map(() => openStore()))
    for (let round = 0; round < 12; round++) {
      for (const content of contents) await put(content, now - 1)
      await Promise.all([
        ...sweepers.map(({ assets }) => assets.sweep(now)),
        ...contents.map((content) => put(content, now + HOUR)),
      ])
      for (const content of contents) expect(await read(sha256(content))).toEqual(content)
      await test.db.query('update asset set expires_at = $1', ['-infinity'])
    }
    await Promise.all(sweepers.map(({ db }) => db.close()))
  })

  it('is carried out before the row is free for a put, which then writes the file anew', async () => {
    const content = Buffer.from('contended')
    const { digest } = await put(content, now - 1)
    const sweeper = new AssetStore(interposed({ after: () => put(content) }), dir)
    expect(await sweeper.sweep(now)).toEqual({ expired: 1, leftovers: 0 })
    expect(await read(digest)).toEqual(content)
  })

  it('a put waits for the sweep that has already deleted the row, and writes the file anew', async () => {
    const content = Buffer.from('contended')
    const { digest } = await put(content, now - 1)
    const { db, assets } = await openStore()
    let stored: Promise<unknown> | undefined
    await test.db.transaction(async (tx) => {
      await tx.query('delete from asset where digest = $1', [digest])
      stored = assets.put(content, { contentType: 'image/png', expiresAt: now + HOUR, maxBytes: 100 })
      await waiting()
      await rm(pathOf(digest))
    })
    await stored
    expect(await read(digest)).toEqual(content)
    await db.close()
  })
})

describe('what a crash leaves', () => {
  const long = new Date(Date.now() - 2 * 3_600_000)

  it('parts and files without a row are swept when they are old, and not before', async () => {
    const kept = await put(Buffer.from('kept'))
    const lost = sha256(Buffer.from('lost'))
    const fresh = sha256(Buffer.from('fresh'))
    for (const digest of [lost, fresh]) {
      await mkdir(join(dir, digest.slice(0, 2)), { recursive: true })
      await writeFile(pathOf(digest), 'x')
    }
    await writeFile(join(dir, 'parts', 'old'), 'x')
    await writeFile(join(dir, 'parts', 'new'), 'x')
    for (const path of [pathOf(lost), pathOf(kept.digest), join(dir, 'parts', 'old')])
      await utimes(path, long, long)
    expect(await store.sweep(now)).toEqual({ expired: 0, leftovers: 2 })
    expect(await parts()).toEqual(['new'])
    await expect(stat(pathOf(lost))).rejects.toThrow(/ENOENT/)
    await stat(pathOf(fresh))
    await stat(pathOf(kept.digest))
    expect((await test.db.query('select digest from asset')).rows).toEqual([{ digest: kept.digest }])
  })

  it('a file that gets its row while it is looked at is kept', async () => {
    const content = Buffer.from('late')
    const digest = sha256(content)
    await mkdir(join(dir, digest.slice(0, 2)), { recursive: true })
    await writeFile(pathOf(digest), content)
    await utimes(pathOf(digest), long, long)
    const sweeper = new AssetStore(interposed({ before: () => put(content) }), dir)
    expect(await sweeper.sweep(now)).toEqual({ expired: 0, leftovers: 0 })
    expect(await read(digest)).toEqual(content)
  })

  it('an expired row without a file goes with the next sweep', async () => {
    const { digest } = await put(Buffer.from('gone'), now - 1)
    await rm(pathOf(digest))
    expect(await store.sweep(now)).toEqual({ expired: 1, leftovers: 0 })
  })
})

async function openStore(): Promise<{ db: Database; assets: AssetStore }> {
  const db = await openDatabase({ url: test.url, poolSize: 4 })
  return { db, assets: new AssetStore(db, dir) }
}

/** The database, with something that happens just before or after each of its transactions. */
function interposed(others: { before?: () => Promise<unknown>; after?: () => Promise<unknown> }): Database {
  return {
    query: (statement, values) => test.db.query(statement, values),
    close: () => test.db.close(),
    transaction: async (body, options) => {
      await others.before?.()
      const value = await test.db.transaction(body, options)
      await others.after?.()
      return value
    },
  }
}

/** Until another connection of this database waits for a lock. */
async function waiting(): Promise<void> {
  for (;;) {
    const { rowCount } = await test.db.query(
      `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    if (rowCount > 0) return
  }
}
