// A real PNG of one colour with a note inside. One bit per pixel and a palette keep a 4096-pixel square
// at 2 kB; the note makes every job's picture different, so a mix-up of results shows.

import { crc32, deflateSync } from 'node:zlib'
import type { StillSpec } from './still-spec.ts'

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
const KEPT_SIZES = 64
const pixelsBySize = new Map<string, Buffer>()

/** The file's bytes. */
export function makePng({ width, height, rgb, note }: StillSpec): Buffer {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([1, 3, 0, 0, 0], 8)
  return Buffer.concat([
    SIGNATURE,
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from([...rgb, 255, 255, 255])),
    chunk('tEXt', Buffer.from(`Comment\0${note}`, 'latin1')),
    chunk('IDAT', pixels(width, height)),
    chunk('IEND', Buffer.alloc(0)),
  ])
}

// The pixels are all index 0, so they depend on the size alone.
function pixels(width: number, height: number): Buffer {
  const key = `${width}x${height}`
  const known = pixelsBySize.get(key)
  if (known !== undefined) return known
  const made = deflateSync(Buffer.alloc(height * (1 + Math.ceil(width / 8))))
  if (pixelsBySize.size >= KEPT_SIZES) pixelsBySize.clear()
  pixelsBySize.set(key, made)
  return made
}

function chunk(type: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const out = Buffer.alloc(body.length + 8)
  out.writeUInt32BE(data.length, 0)
  body.copy(out, 4)
  out.writeUInt32BE(crc32(body), body.length + 4)
  return out
}
