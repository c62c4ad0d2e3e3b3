/**
 * What a finished film or picture really is, against what was promised (DEG-7): a provider that silently delivers less
 * must not pass for exact. Lengths found in a file are never trusted: everything is read within the bytes at hand.
 */
import { linesOf } from './degrade.ts'

/** What a file says of itself; null where it does not. */
export interface Measured {
  readonly seconds: number | null
  readonly width: number | null
  readonly height: number | null
  readonly audio: boolean | null
}

export type Shortfall = 'duration' | 'resolution' | 'aspect_ratio' | 'audio'

export interface PromisedVideo {
  readonly durationSeconds: number
  readonly resolution: string
  readonly aspectRatio: string
  readonly generateAudio: boolean
}

/** A frame or two, and what encoders round. */
const SECONDS_SHORT = 0.5
/** 704 of 720 lines is what some encoders make of it. */
const LINES_SHARE = 0.9
const RATIO_SHARE = 0.1

/** In what the film is less than promised; more is no shortfall, and what is not known is none either. */
export function shortfallsOf(measured: Measured, promised: PromisedVideo): Shortfall[] {
  const { seconds, width, height, audio } = measured
  const shortfalls: Shortfall[] = []
  if (seconds !== null && seconds < promised.durationSeconds - SECONDS_SHORT) shortfalls.push('duration')
  if (width !== null && height !== null) {
    const lines = linesOf(promised.resolution)
    if (lines !== null && Math.min(width, height) < lines * LINES_SHARE) shortfalls.push('resolution')
    if (isOtherRatio(width / height, promised.aspectRatio)) shortfalls.push('aspect_ratio')
  }
  if (promised.generateAudio && audio === false) shortfalls.push('audio')
  return shortfalls
}

function isOtherRatio(measured: number, promised: string): boolean {
  const [wide, high] = /^(\d+):(\d+)$/.exec(promised)?.slice(1).map(Number) ?? []
  if (!wide || !high) return false
  return Math.abs(measured / (wide / high) - 1) > RATIO_SHARE
}

/** In what a picture is less than `2048x2048`; nothing is said of sizes that are names. */
export function pictureShortfallsOf(measured: Measured, size: string): Shortfall[] {
  const [width, height] = /^(\d+)x(\d+)$/.exec(size)?.slice(1).map(Number) ?? []
  if (!width || !height || measured.width === null || measured.height === null) return []
  const isSmaller = measured.width < width * LINES_SHARE || measured.height < height * LINES_SHARE
  return isSmaller ? ['resolution'] : []
}

/** One box of an MP4 file. */
export interface Box {
  readonly type: string
  /** Of its first byte behind the head. */
  readonly start: number
  /** Behind its last byte; beyond the file where the file was cut off. */
  readonly end: number
}

const HEAD_BYTES = 8
const LARGE_HEAD_BYTES = 16

/** The head of a box at the start of `bytes`, which lies at `at` of `size` bytes in all. null: no head of a box. */
export function boxAt(bytes: Uint8Array, at: number, size: number): Box | null {
  const view = viewOf(bytes)
  const type = textOf(bytes.subarray(4, HEAD_BYTES))
  if (!/^[\x20-\x7e]{4}$/.test(type)) return null
  const short = view.getUint32(0)
  // 0: to the end of the file; 1: the length stands behind the type.
  if (short === 0) return { type, start: at + HEAD_BYTES, end: size }
  if (short !== 1) return short < HEAD_BYTES ? null : { type, start: at + HEAD_BYTES, end: at + short }
  if (view.byteLength < LARGE_HEAD_BYTES) return null
  const long = view.getBigUint64(8)
  if (long < BigInt(LARGE_HEAD_BYTES) || long > BigInt(Number.MAX_SAFE_INTEGER)) return null
  return { type, start: at + LARGE_HEAD_BYTES, end: at + Number(long) }
}

/** What the content of the `moov` box says. */
export function measureMovie(moov: Uint8Array): Measured {
  const tracks = boxesIn(moov, 'trak').map(trackOf)
  const video = tracks.find((track) => track.handler === 'vide') ?? null
  const [header] = boxesIn(moov, 'mvhd')
  const seconds = header ? durationOf(header) : null
  return {
    // A fragmented film tells no duration here.
    seconds: seconds === 0 ? null : seconds,
    width: video?.width || null,
    height: video?.height || null,
    audio: tracks.length === 0 ? null : tracks.some((track) => track.handler === 'soun'),
  }
}

function trackOf(trak: Uint8Array): { handler: string | null; width: number; height: number } {
  const [header] = boxesIn(trak, 'tkhd')
  const [media] = boxesIn(trak, 'mdia')
  const [handler] = media ? boxesIn(media, 'hdlr') : []
  return {
    handler: handler && handler.length >= 12 ? textOf(handler.subarray(8, 12)) : null,
    ...frameOf(header),
  }
}

/** 16.16 fixed-point numbers at the end of the track's head. */
function frameOf(header: Uint8Array | undefined): { width: number; height: number } {
  const at = header?.[0] === 1 ? 88 : 76
  if (!header || header.length < at + 8) return { width: 0, height: 0 }
  const view = viewOf(header)
  return { width: view.getUint16(at), height: view.getUint16(at + 4) }
}

function durationOf(header: Uint8Array): number | null {
  const view = viewOf(header)
  const isLong = header[0] === 1
  if (header.length < (isLong ? 32 : 20)) return null
  const scale = view.getUint32(isLong ? 20 : 12)
  const units = isLong ? Number(view.getBigUint64(24)) : view.getUint32(16)
  return scale === 0 ? null : units / scale
}

const MOST_BOXES = 1000

/** The contents of the boxes of that type, one level deep. A box that is cut off ends the reading. */
function boxesIn(bytes: Uint8Array, type: string): Uint8Array[] {
  const found: Uint8Array[] = []
  let at = 0
  for (let n = 0; n < MOST_BOXES && at < bytes.length; n += 1) {
    const box = boxAt(bytes.subarray(at, at + LARGE_HEAD_BYTES), at, bytes.length)
    if (!box || box.end > bytes.length) break
    if (box.type === type) found.push(bytes.subarray(box.start, box.end))
    at = box.end
  }
  return found
}

/** Width and height of a PNG, JPEG or WebP; null where it is none of these, or cut off before they are told. */
export function measurePicture(bytes: Uint8Array): Measured | null {
  const size = pngSize(bytes) ?? webpSize(bytes) ?? jpegSize(bytes)
  return size && { seconds: null, audio: null, ...size }
}

interface Size {
  readonly width: number
  readonly height: number
}

function pngSize(bytes: Uint8Array): Size | null {
  if (
    bytes.length < 24 ||
    textOf(bytes.subarray(1, 4)) !== 'PNG' ||
    textOf(bytes.subarray(12, 16)) !== 'IHDR'
  )
    return null
  const view = viewOf(bytes)
  return { width: view.getUint32(16), height: view.getUint32(20) }
}

function webpSize(bytes: Uint8Array): Size | null {
  if (
    bytes.length < 30 ||
    textOf(bytes.subarray(0, 4)) !== 'RIFF' ||
    textOf(bytes.subarray(8, 12)) !== 'WEBP'
  )
    return null
  const view = viewOf(bytes)
  switch (textOf(bytes.subarray(12, 16))) {
    case 'VP8 ':
      return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff }
    case 'VP8L': {
      const bits = view.getUint32(21, true)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8X':
      return { width: (view.getUint32(23, true) >>> 8) + 1, height: (view.getUint32(26, true) >>> 8) + 1 }
    default:
      return null
  }
}

/** Whether a PNG, JPEG or WebP lacks its end. What it is otherwise is not looked into; other kinds of files are let pass. */
export function isCutOff(bytes: Uint8Array): boolean {
  if (bytes.length < 12) return true
  const view = viewOf(bytes)
  if (view.getUint32(0) === 0x89504e47) return !hasNear(bytes, [0x49, 0x45, 0x4e, 0x44])
  if (view.getUint16(0) === 0xffd8) return !hasNear(bytes, [0xff, 0xd9])
  const isWebp = textOf(bytes.subarray(0, 4)) === 'RIFF' && textOf(bytes.subarray(8, 12)) === 'WEBP'
  return isWebp && view.getUint32(4, true) + 8 > bytes.length
}

/** Some encoders, and what signs pictures, write behind the end: so it need not be the very last thing. */
const END_WITHIN = 64 * 1024

function hasNear(bytes: Uint8Array, mark: readonly number[]): boolean {
  const tail = bytes.subarray(Math.max(0, bytes.length - END_WITHIN))
  for (let at = tail.length - mark.length; at >= 0; at -= 1)
    if (mark.every((byte, n) => tail[at + n] === byte)) return true
  return false
}

const MOST_SEGMENTS = 2000

/** The start-of-frame segment. */
function jpegSize(bytes: Uint8Array): Size | null {
  const view = viewOf(bytes)
  if (bytes.length < 4 || view.getUint16(0) !== 0xffd8) return null
  let at = 2
  for (let n = 0; n < MOST_SEGMENTS && at + 9 <= bytes.length; n += 1) {
    if (bytes[at] !== 0xff) return null
    const marker = bytes[at + 1] ?? 0
    if (isFrame(marker)) return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) }
    const isAlone = marker === 0xff || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)
    at += marker === 0xff ? 1 : isAlone ? 2 : 2 + Math.max(2, view.getUint16(at + 2))
  }
  return null
}

/** SOF0 to SOF15, without the three of that range that are tables. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

function textOf(bytes: Uint8Array): string {
  return String.fromCharCode(...bytes)
}
