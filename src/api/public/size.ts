/**
 * `size` of the dialect is width × height; ours is a resolution and a ratio. The short side gives the resolution, the
 * sides reduced give the ratio; ratios that pixels cannot hit exactly (854x480 is 16:9) are matched within 1 %.
 */
import { invalid } from '../problem.ts'

/** Short side in pixels → resolution. */
export const RESOLUTIONS: ReadonlyMap<number, string> = new Map([
  [480, '480p'],
  [720, '720p'],
  [1080, '1080p'],
  [2160, '4k'],
])

/** Ratios with a name of their own; 21:9 is what everybody calls 7:3. */
export const RATIOS: readonly string[] = ['16:9', '9:16', '4:3', '3:4', '1:1', '21:9', '9:21', '3:2', '2:3']

const TOLERANCE = 0.01

export interface Frame {
  readonly resolution: string
  readonly aspectRatio: string
}

/** "1280x720" → 720p, 16:9. Throws Problem `invalid_request` with param `size`. */
export function frameOfSize(size: string): Frame {
  const sides = /^([1-9]\d{0,4})x([1-9]\d{0,4})$/.exec(size)
  if (!sides) throw invalid('size', 'size must be like "1280x720": width and height in pixels.')
  const width = Number(sides[1])
  const height = Number(sides[2])
  const short = Math.min(width, height)
  const resolution = RESOLUTIONS.get(short)
  if (resolution === undefined)
    throw invalid(
      'size',
      `size ${size} has a short side of ${short}; known are ${[...RESOLUTIONS.keys()].join(', ')}. Or give resolution and aspect_ratio instead.`,
    )
  return { resolution, aspectRatio: ratioOf(width, height) }
}

function ratioOf(width: number, height: number): string {
  const wanted = width / height
  const named = RATIOS.find((ratio) => Math.abs(quotient(ratio) / wanted - 1) <= TOLERANCE)
  if (named !== undefined) return named
  const divisor = greatestCommonDivisor(width, height)
  return `${width / divisor}:${height / divisor}`
}

function quotient(ratio: string): number {
  const [width, height] = ratio.split(':')
  return Number(width) / Number(height)
}

function greatestCommonDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestCommonDivisor(b, a % b)
}

/** 720p, 16:9 → "1280x720", in even pixels; the resolution alone where the ratio has no figures (`adaptive`). */
export function sizeOfFrame(frame: Frame): string {
  const short = [...RESOLUTIONS].find(([, name]) => name === frame.resolution)?.[0]
  const ratio = /^(\d+):(\d+)$/.exec(frame.aspectRatio)
  if (short === undefined || !ratio) return frame.resolution
  const wide = Number(ratio[1]) / Number(ratio[2])
  return wide >= 1 ? `${even(short * wide)}x${short}` : `${short}x${even(short / wide)}`
}

function even(pixels: number): number {
  return Math.round(pixels / 2) * 2
}
