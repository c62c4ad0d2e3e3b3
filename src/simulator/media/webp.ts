// A lossless WebP of one colour: with a single symbol in each Huffman code a pixel takes no bits at all,
// so any size is a few dozen bytes. WebP packs bits from the least significant end.

import type { StillSpec } from './still-spec.ts'

/** The file's bytes. Each side may be 1 to 16,384 pixels. */
export function makeWebp({ width, height, rgb: [r, g, b], note }: StillSpec): Buffer {
  const bits = [...lsb(0x2f, 8), ...lsb(width - 1, 14), ...lsb(height - 1, 14), ...lsb(0, 4)]
  bits.push(0, 0, 0) // no transform, no colour cache, one set of codes
  for (const symbol of [g, r, b, 255, 0]) bits.push(...singleSymbol(symbol))
  const picture = chunk('VP8L', pack(bits))
  const body = Buffer.concat([Buffer.from('WEBP'), picture, chunk('NOTE', Buffer.from(note, 'latin1'))])
  return chunk('RIFF', body)
}

function singleSymbol(symbol: number): number[] {
  return [1, 0, 1, ...lsb(symbol, 8)]
}

function lsb(value: number, width: number): number[] {
  return Array.from({ length: width }, (_, i) => (value >> i) & 1)
}

function pack(bits: number[]): Buffer {
  const out = Buffer.alloc(Math.ceil(bits.length / 8))
  bits.forEach((bit, i) => {
    out[i >> 3] = (out[i >> 3] ?? 0) | (bit << (i & 7))
  })
  return out
}

function chunk(type: string, data: Buffer): Buffer {
  const head = Buffer.alloc(8)
  head.write(type, 'latin1')
  head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data, Buffer.alloc(data.length % 2)])
}
