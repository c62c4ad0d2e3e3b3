// A small MP4 that players and probes accept: H.264 of one colour, and silent AAC when sound was asked for.
//
// Written by hand (ISO/IEC 14496-12), so that the simulator needs no encoder. Width, height, duration and
// the tracks are what the request asked for, because those are what a gateway checks in an artefact.

import { BitWriter } from './bits.ts'
import {
  type Colour,
  type FrameSize,
  keyFrame,
  levelOf,
  pictureParameters,
  repeatedFrame,
  sequenceParameters,
} from './h264.ts'

export type VideoSpec = FrameSize & {
  /** Whole or fractional seconds. */
  seconds: number
  audio: boolean
  /** Picks the colours; the same seed makes the same bytes. */
  seed: number
}

const FRAMES_PER_SECOND = 24
const AUDIO_RATE = 44_100
const AUDIO_FRAME = 1024
const MOVIE_SCALE = 1000
// One channel element with no coefficients, then the end mark: 1,024 samples of silence.
const SILENT_FRAME = Buffer.from([0, 0, 0, 7])

type Track = {
  id: number
  timescale: number
  /** In the track's own timescale. */
  sampleDuration: number
  samples: Buffer[]
  /** One-based numbers of samples where decoding may begin; all of them when undefined. */
  keySamples?: number[]
  handler: 'vide' | 'soun'
  mediaHeader: Buffer
  sampleEntry: Buffer
  width: number
  height: number
}

/** The file's bytes. Odd sides are rounded up to even ones, which 4:2:0 sampling requires. */
export function makeMp4(spec: VideoSpec): Buffer {
  const even = { ...spec, width: roundUpToEven(spec.width), height: roundUpToEven(spec.height) }
  const tracks = [videoTrack(even), ...(spec.audio ? [audioTrack(spec.seconds)] : [])]
  const fileType = box('ftyp', ascii('isom'), u32(512), ascii('isomiso2avc1mp41'))
  const payload = Buffer.concat(tracks.flatMap((track) => track.samples))
  // The index holds absolute offsets into the file, so its own length must be known: lay it out twice.
  const length = movie(tracks, spec.seconds, 0).length
  const index = movie(tracks, spec.seconds, fileType.length + length + 8)
  return Buffer.concat([fileType, index, box('mdat', payload)])
}

/** A box that players skip; appended to a file it makes the file's bytes its own. */
export function noteBox(text: string): Buffer {
  return box('free', Buffer.from(text))
}

const roundUpToEven = (side: number) => side + (side % 2)

function videoTrack(spec: VideoSpec): Track {
  const count = Math.max(1, Math.round(spec.seconds * FRAMES_PER_SECOND))
  const samples: Buffer[] = []
  const keySamples: number[] = []
  for (let i = 0; i < count; i++) {
    const inGroup = i % FRAMES_PER_SECOND
    const second = (i - inGroup) / FRAMES_PER_SECOND
    if (inGroup === 0) keySamples.push(i + 1)
    samples.push(
      withLength(
        inGroup === 0
          ? keyFrame(spec, colourOf(spec.seed, second), second % 2)
          : repeatedFrame(spec, inGroup),
      ),
    )
  }
  return {
    id: 1,
    timescale: FRAMES_PER_SECOND * 512,
    sampleDuration: 512,
    samples,
    keySamples,
    handler: 'vide',
    mediaHeader: fullBox('vmhd', 1, Buffer.alloc(8)),
    sampleEntry: avcEntry(spec),
    width: spec.width,
    height: spec.height,
  }
}

function colourOf(seed: number, second: number): Colour {
  const spin = (seed * 7 + second * 29) >>> 0
  return { y: 60 + (spin % 140), cb: 40 + ((spin * 13) % 176), cr: 40 + ((spin * 31) % 176) }
}

function audioTrack(seconds: number): Track {
  const count = Math.max(1, Math.round((seconds * AUDIO_RATE) / AUDIO_FRAME))
  return {
    id: 2,
    timescale: AUDIO_RATE,
    sampleDuration: AUDIO_FRAME,
    samples: Array.from({ length: count }, () => SILENT_FRAME),
    handler: 'soun',
    mediaHeader: fullBox('smhd', 0, Buffer.alloc(4)),
    sampleEntry: aacEntry(),
    width: 0,
    height: 0,
  }
}

function movie(tracks: Track[], seconds: number, firstOffset: number): Buffer {
  let offset = firstOffset
  const boxes = tracks.map((track) => {
    const made = trackBox(track, offset)
    offset += track.samples.reduce((sum, sample) => sum + sample.length, 0)
    return made
  })
  const header = [u32(0), u32(0), u32(MOVIE_SCALE), u32(Math.round(seconds * MOVIE_SCALE))]
  const rest = [u32(0x10000), u16(0x100), Buffer.alloc(10), MATRIX, Buffer.alloc(24), u32(3)]
  return box('moov', fullBox('mvhd', 0, ...header, ...rest), ...boxes)
}

function trackBox(track: Track, offset: number): Buffer {
  const duration = track.samples.length * track.sampleDuration
  const movieDuration = Math.round((duration / track.timescale) * MOVIE_SCALE)
  const head = fullBox(
    'tkhd',
    3,
    u32(0),
    u32(0),
    u32(track.id),
    u32(0),
    u32(movieDuration),
    Buffer.alloc(8),
    u16(0),
    u16(0),
    u16(track.handler === 'soun' ? 0x100 : 0),
    u16(0),
    MATRIX,
    u32(track.width * 0x10000),
    u32(track.height * 0x10000),
  )
  const mediaHead = fullBox(
    'mdhd',
    0,
    u32(0),
    u32(0),
    u32(track.timescale),
    u32(duration),
    u16(0x55c4),
    u16(0),
  )
  const handler = fullBox('hdlr', 0, u32(0), ascii(track.handler), Buffer.alloc(12), ascii('Simulator\0'))
  const dataReference = box('dinf', fullBox('dref', 0, u32(1), fullBox('url ', 1)))
  const information = box('minf', track.mediaHeader, dataReference, sampleTable(track, offset))
  return box('trak', head, box('mdia', mediaHead, handler, information))
}

function sampleTable(track: Track, offset: number): Buffer {
  const count = track.samples.length
  const sizes = track.samples.map((sample) => u32(sample.length))
  const keys = track.keySamples
  return box(
    'stbl',
    fullBox('stsd', 0, u32(1), track.sampleEntry),
    fullBox('stts', 0, u32(1), u32(count), u32(track.sampleDuration)),
    ...(keys === undefined ? [] : [fullBox('stss', 0, u32(keys.length), ...keys.map(u32))]),
    fullBox('stsc', 0, u32(1), u32(1), u32(count), u32(1)),
    fullBox('stsz', 0, u32(0), u32(count), ...sizes),
    fullBox('stco', 0, u32(1), u32(offset)),
  )
}

function avcEntry(size: FrameSize): Buffer {
  const sps = sequenceParameters(size)
  const pps = pictureParameters()
  const configuration = box(
    'avcC',
    Buffer.from([1, 66, 0xc0, levelOf(size), 0xff, 0xe1]),
    u16(sps.length),
    sps,
    Buffer.from([1]),
    u16(pps.length),
    pps,
  )
  const name = Buffer.alloc(32)
  return box(
    'avc1',
    Buffer.alloc(6),
    u16(1),
    Buffer.alloc(16),
    u16(size.width),
    u16(size.height),
    u32(0x480000),
    u32(0x480000),
    u32(0),
    u16(1),
    name,
    u16(24),
    u16(0xffff),
    configuration,
  )
}

function aacEntry(): Buffer {
  const config = new BitWriter().bits(2, 5).bits(4, 4).bits(1, 4).bits(0, 3).toBuffer()
  const specific = descriptor(5, config)
  const decoder = descriptor(4, Buffer.from([0x40, 0x15, 0, 0, 0]), u32(2000), u32(2000), specific)
  const stream = descriptor(3, u16(2), Buffer.from([0]), decoder, descriptor(6, Buffer.from([2])))
  return box(
    'mp4a',
    Buffer.alloc(6),
    u16(1),
    Buffer.alloc(8),
    u16(1),
    u16(16),
    u32(0),
    u32(AUDIO_RATE * 0x10000),
    fullBox('esds', 0, stream),
  )
}

function descriptor(tag: number, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([tag, body.length]), body])
}

const MATRIX = Buffer.concat([0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000].map((n) => u32(n)))

function withLength(unit: Buffer): Buffer {
  return Buffer.concat([u32(unit.length), unit])
}

function fullBox(type: string, flags: number, ...parts: Buffer[]): Buffer {
  return box(type, u32(flags), ...parts)
}

function box(type: string, ...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts)
  return Buffer.concat([u32(body.length + 8), ascii(type), body])
}

function ascii(text: string): Buffer {
  return Buffer.from(text, 'latin1')
}

function u16(value: number): Buffer {
  const out = Buffer.alloc(2)
  out.writeUInt16BE(value)
  return out
}

function u32(value: number): Buffer {
  const out = Buffer.alloc(4)
  out.writeUInt32BE(value)
  return out
}
