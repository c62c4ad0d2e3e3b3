/**
 * Uploaded files before they are believed: each in a file of its own under one directory, hashed on the way. They
 * become assets only when the whole request is valid; whatever is left is removed with the request, and what a killed
 * process left, at the next start.
 */
import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

export interface SpooledFile {
  readonly path: string
  /** SHA-256, hexadecimal. */
  readonly digest: string
  readonly bytes: number
  /** The first bytes, to tell what it is. */
  readonly head: Uint8Array
}

export interface SpoolWriter {
  write(chunk: Uint8Array): Promise<void>
  finish(): Promise<SpooledFile>
}

const HEAD_BYTES = 64
/** No upload takes that long: older files have no process any more. */
const ABANDONED_AFTER_MS = 6 * 3600 * 1000

/** Work with uploads, all of which are gone when it has ended, well or badly. */
export async function withSpool<T>(directory: string, work: (spool: Spool) => Promise<T>): Promise<T> {
  const spool = new Spool(directory)
  try {
    return await work(spool)
  } finally {
    await spool.remove()
  }
}

/** The files of one request. */
export class Spool {
  readonly #directory: string
  readonly #paths: string[] = []
  readonly #open = new Set<FileHandle>()

  constructor(directory: string) {
    this.#directory = directory
  }

  async create(): Promise<SpoolWriter> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 })
    const path = join(this.#directory, randomUUID())
    this.#paths.push(path)
    const handle = await open(path, 'wx', 0o600)
    this.#open.add(handle)
    return this.#writer(path, handle)
  }

  #writer(path: string, handle: FileHandle): SpoolWriter {
    const hash = createHash('sha256')
    const head: number[] = []
    let bytes = 0
    return {
      write: async (chunk) => {
        hash.update(chunk)
        if (head.length < HEAD_BYTES) head.push(...chunk.subarray(0, HEAD_BYTES - head.length))
        bytes += chunk.length
        await handle.writeFile(chunk)
      },
      finish: async () => {
        this.#open.delete(handle)
        await handle.close()
        return { path, digest: hash.digest('hex'), bytes, head: Uint8Array.from(head) }
      },
    }
  }

  async remove(): Promise<void> {
    await Promise.all([...this.#open].map((handle) => handle.close()))
    await Promise.all(this.#paths.map((path) => rm(path, { force: true })))
  }
}

/** Remove what killed processes left. Answers how many files. */
export async function sweepSpool(directory: string, now: number): Promise<number> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  let removed = 0
  for (const name of await readdir(directory)) {
    const path = join(directory, name)
    const age = await stat(path).then(
      (found) => now - found.mtimeMs,
      () => 0,
    )
    if (age < ABANDONED_AFTER_MS) continue
    await rm(path, { force: true })
    removed += 1
  }
  return removed
}
