// One picture, in the format that was asked for.

import { makeJpeg } from './jpeg.ts'
import { makePng } from './png.ts'
import type { StillSpec } from './still-spec.ts'
import { makeWebp } from './webp.ts'

export type StillFormat = 'png' | 'jpeg' | 'webp'

/** Encodes one picture. */
export function makeStill(format: StillFormat, spec: StillSpec): Buffer {
  switch (format) {
    case 'png':
      return makePng(spec)
    case 'jpeg':
      return makeJpeg(spec)
    case 'webp':
      return makeWebp(spec)
  }
}

/** A colour from a seed; the same seed gives the same colour. */
export function rgbOf(seed: number): [number, number, number] {
  return [(seed * 37) % 256, (seed * 101 + 50) % 256, (seed * 197 + 100) % 256]
}
