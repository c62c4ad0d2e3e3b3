/**
 * OpenAI's videos have a `size`, ours a resolution and an aspect ratio. The resolution is the short side, as in "720p";
 * the long side follows from the ratio, rounded to an even number, which video codecs need.
 */

const SHORT_SIDES: ReadonlyMap<string, number> = new Map([
  ['480p', 480],
  ['540p', 540],
  ['720p', 720],
  ['1080p', 1080],
  ['1440p', 1440],
  ['2160p', 2160],
  ['4k', 2160],
])

export interface Frame {
  readonly resolution: string
  readonly aspectRatio: string
}

/**
 * `{ resolution: '720p', aspectRatio: '16:9' }` → `1280x720`. null: the provider shall choose (`adaptive`, `auto`).
 * undefined: there is no such size. A channel's own table, keyed `720p 16:9`, comes first.
 */
export function sizeOf(frame: Frame, own: Readonly<Record<string, string>>): string | null | undefined {
  const named = own[`${frame.resolution} ${frame.aspectRatio}`]
  if (named !== undefined) return named
  if (frame.aspectRatio === 'adaptive' || frame.aspectRatio === 'auto') return null
  const short = SHORT_SIDES.get(frame.resolution.toLowerCase())
  const ratio = /^(\d{1,3}):(\d{1,3})$/.exec(frame.aspectRatio)
  const [wide, high] = [Number(ratio?.[1]), Number(ratio?.[2])]
  if (short === undefined || !(wide > 0) || !(high > 0)) return undefined
  const long = 2 * Math.round((short * Math.max(wide, high)) / Math.min(wide, high) / 2)
  return wide >= high ? `${long}x${short}` : `${short}x${long}`
}

const RATIOS = ['16:9', '9:16', '4:3', '3:4', '1:1', '21:9', '9:21']

/** `1280x720` → 720p and 16:9; null where no frame of ours has that size, or more than one. */
export function frameOf(size: string): Frame | null {
  const frames = [...SHORT_SIDES.keys()].flatMap((resolution) =>
    RATIOS.map((aspectRatio) => ({ resolution, aspectRatio })),
  )
  const fitting = frames.filter((frame) => sizeOf(frame, {}) === size)
  return fitting.length === 1 ? (fitting[0] ?? null) : null
}
