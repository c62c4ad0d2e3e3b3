// A baseline JPEG of one colour with a note inside. Every block after the first adds nothing to the one
// before it, which the Huffman tables below write in six bits.

import { BitWriter } from './bits.ts'
import type { StillSpec } from './still-spec.ts'

/** The file's bytes. Each side may be 1 to 65,535 pixels. */
export function makeJpeg(spec: StillSpec): Buffer {
  const frame = Buffer.from([8, 0, 0, 0, 0, 3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0])
  frame.writeUInt16BE(spec.height, 1)
  frame.writeUInt16BE(spec.width, 3)
  return Buffer.concat([
    Buffer.from([0xff, 0xd8]),
    segment(0xe0, Buffer.from('JFIF\0\x01\x01\0\0\x01\0\x01\0\0', 'latin1')),
    segment(0xfe, Buffer.from(spec.note, 'latin1')),
    segment(0xdb, Buffer.concat([Buffer.from([0]), Buffer.alloc(64, 8)])),
    segment(0xc0, frame),
    // DC: '0' means no difference, '10' a difference of seven bits. AC: '0' means no more coefficients.
    segment(0xc4, Buffer.from([0x00, 1, 1, ...new Array(14).fill(0), 0, 7])),
    segment(0xc4, Buffer.from([0x10, 1, ...new Array(15).fill(0), 0])),
    segment(0xda, Buffer.from([3, 1, 0, 2, 0, 3, 0, 0, 63, 0])),
    scan(spec),
    Buffer.from([0xff, 0xd9]),
  ])
}

function scan({ width, height, rgb }: StillSpec): Buffer {
  const w = new BitWriter()
  for (const level of toYCbCr(rgb)) {
    const difference = nearestSevenBits(level - 128)
    w.bits(0b10, 2)
      .bits(difference > 0 ? difference : difference + 127, 7)
      .bits(0, 1)
  }
  // Zero bits fill the rest: each further block is '00' in every component.
  const blocks = Math.ceil(width / 8) * Math.ceil(height / 8) - 1
  w.bits(0, (blocks * 6) % 8).repeat(0, Math.floor((blocks * 6) / 8))
  return escapeMarkers(w.align().toBuffer())
}

function toYCbCr([r, g, b]: StillSpec['rgb']): number[] {
  const y = 0.299 * r + 0.587 * g + 0.114 * b
  return [y, 128 - 0.169 * r - 0.331 * g + 0.5 * b, 128 + 0.5 * r - 0.419 * g - 0.081 * b]
}

// One code length only: magnitudes of 64 to 127 fit it, which is colour enough.
function nearestSevenBits(level: number): number {
  const magnitude = Math.min(127, Math.max(64, Math.round(Math.abs(level))))
  return level < 0 ? -magnitude : magnitude
}

function escapeMarkers(bytes: Buffer): Buffer {
  if (!bytes.includes(0xff)) return bytes
  return Buffer.from([...bytes].flatMap((byte) => (byte === 0xff ? [0xff, 0] : [byte])))
}

function segment(marker: number, data: Buffer): Buffer {
  const head = Buffer.from([0xff, marker, 0, 0])
  head.writeUInt16BE(data.length + 2, 2)
  return Buffer.concat([head, data])
}
