/** A stored film, looked into: only its heads and its `moov` box are read, wherever in the file they stand. */
import { type Box, boxAt, type Measured, measureMovie } from '../core/artefact.ts'
import type { AssetStore } from '../store/assets.ts'

export type Film =
  | { readonly kind: 'measured'; readonly measured: Measured }
  /** Some container that is not understood: nothing can be said against it. */
  | { readonly kind: 'unknown' }
  /** No film, or not the whole of it: it is to be fetched again. */
  | { readonly kind: 'broken'; readonly why: string }

const HEAD_BYTES = 16
const LARGEST_MOOV = 64 * 1024 * 1024
const MOST_BOXES = 10_000
/** Boxes that a film of this family may begin with. */
const FIRST_BOXES = new Set(['ftyp', 'moov', 'mdat', 'free', 'skip', 'wide', 'pnot'])

export async function lookInto(
  assets: AssetStore,
  file: { readonly digest: string; readonly bytes: number },
): Promise<Film> {
  const read = (start: number, length: number) => readRange(assets, file, { start, length })
  const head = await read(0, HEAD_BYTES)
  const first = boxAt(head, 0, file.bytes)
  if (!first || !FIRST_BOXES.has(first.type)) return otherwise(head)
  const moov = await findMovie(file.bytes, read)
  if (typeof moov === 'string') return { kind: 'broken', why: moov }
  if (moov.end - moov.start > LARGEST_MOOV) return { kind: 'unknown' }
  const measured = measureMovie(await read(moov.start, moov.end - moov.start))
  // A head without a track is of no use to anybody.
  return measured.audio === null ? { kind: 'broken', why: 'it has no track' } : { kind: 'measured', measured }
}

/** A page or a message in its place is recognised; what else it may be is left alone. */
function otherwise(head: Uint8Array): Film {
  if (head.length === 0) return { kind: 'broken', why: 'it is empty' }
  const isText = /^[\s\x20-\x7e]+$/.test(Buffer.from(head).toString('latin1'))
  return isText ? { kind: 'broken', why: 'it is text, and no film' } : { kind: 'unknown' }
}

/** The `moov` box, or what is wrong. Every box must end within the file. */
async function findMovie(
  size: number,
  read: (start: number, length: number) => Promise<Uint8Array>,
): Promise<Box | string> {
  let found: Box | null = null
  let at = 0
  for (let n = 0; n < MOST_BOXES && at < size; n += 1) {
    const box = boxAt(await read(at, HEAD_BYTES), at, size)
    if (!box) return 'a box of it cannot be read'
    if (box.end > size) return 'it was cut off'
    if (box.type === 'moov') found ??= box
    at = box.end
  }
  return found ?? 'it has no head'
}

async function readRange(
  assets: AssetStore,
  file: { readonly digest: string; readonly bytes: number },
  range: { readonly start: number; readonly length: number },
): Promise<Uint8Array> {
  const end = Math.min(range.start + range.length, file.bytes) - 1
  if (end < range.start) return new Uint8Array()
  const opened = await assets.open(file.digest, { start: range.start, end })
  if (!opened) throw new Error(`the asset ${file.digest} is gone`)
  const chunks: Buffer[] = []
  for await (const chunk of opened.stream) chunks.push(chunk)
  return Buffer.concat(chunks)
}
