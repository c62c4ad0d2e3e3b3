import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  boxAt,
  isCutOff,
  type Measured,
  measureMovie,
  measurePicture,
  pictureShortfallsOf,
  shortfallsOf,
} from './artefact.ts'

const box = (type: string, ...content: Uint8Array[]): Uint8Array => {
  const body = Buffer.concat(content)
  const head = Buffer.alloc(8)
  head.writeUInt32BE(8 + body.length)
  head.write(type, 4, 'latin1')
  return Buffer.concat([head, body])
}
const mvhd = (scale: number, units: number) => {
  const body = Buffer.alloc(100)
  body.writeUInt32BE(scale, 12)
  body.writeUInt32BE(units, 16)
  return box('mvhd', body)
}
const longMvhd = (scale: number, units: bigint) => {
  const body = Buffer.alloc(112)
  body[0] = 1
  body.writeUInt32BE(scale, 20)
  body.writeBigUInt64BE(units, 24)
  return box('mvhd', body)
}
const tkhd = (width: number, height: number) => {
  const body = Buffer.alloc(84)
  body.writeUInt16BE(width, 76)
  body.writeUInt16BE(height, 80)
  return box('tkhd', body)
}
const hdlr = (handler: string) =>
  box('hdlr', Buffer.concat([Buffer.alloc(8), Buffer.from(handler), Buffer.alloc(12)]))
const trak = (handler: string, width = 0, height = 0) =>
  box('trak', tkhd(width, height), box('mdia', hdlr(handler)))
const moov = (...boxes: Uint8Array[]) => Buffer.concat(boxes)

describe('what a film says of itself', () => {
  it('DEG-7: its duration, its frame, and whether it has sound', () => {
    expect(measureMovie(moov(mvhd(1000, 5040), trak('vide', 1280, 720), trak('soun')))).toEqual({
      seconds: 5.04,
      width: 1280,
      height: 720,
      audio: true,
    })
    expect(measureMovie(moov(longMvhd(600, 3000n), trak('vide', 720, 1280)))).toEqual({
      seconds: 5,
      width: 720,
      height: 1280,
      audio: false,
    })
  })

  it('DEG-7: nothing is known of what it does not tell', () => {
    expect(measureMovie(moov())).toEqual({ seconds: null, width: null, height: null, audio: null })
    expect(measureMovie(moov(mvhd(0, 5), trak('vide')))).toEqual({
      seconds: null,
      width: null,
      height: null,
      audio: false,
    })
    // A fragmented film.
    expect(measureMovie(moov(mvhd(1000, 0), trak('vide', 4, 4))).seconds).toBeNull()
  })

  it('DEG-7: no bytes, however they lie, make it throw or read beyond them', () => {
    const sound = moov(mvhd(1000, 5000), trak('vide', 1280, 720), trak('soun'))
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), (bytes) => {
        measureMovie(bytes)
        measurePicture(bytes)
        boxAt(bytes, 0, bytes.length)
      }),
    )
    fc.assert(
      fc.property(fc.nat(sound.length - 1), fc.nat(255), fc.nat(sound.length), (at, value, end) => {
        const broken = Uint8Array.from(sound.subarray(0, end))
        if (at < broken.length) broken[at] = value
        measureMovie(broken)
      }),
    )
  })

  it.each([
    ['an ordinary one', box('moov', Buffer.alloc(4)), { type: 'moov', start: 8, end: 12 }],
    [
      'one to the end of the file',
      Buffer.from([0, 0, 0, 0, ...Buffer.from('mdat')]),
      { type: 'mdat', start: 8, end: 99 },
    ],
    [
      'a large one',
      Buffer.concat([
        Buffer.from([0, 0, 0, 1, ...Buffer.from('mdat')]),
        Buffer.from([0, 0, 0, 1, 0, 0, 0, 0]),
      ]),
      { type: 'mdat', start: 16, end: 2 ** 32 },
    ],
    ['one shorter than its head', Buffer.from([0, 0, 0, 7, ...Buffer.from('mdat')]), null],
    [
      'a large one shorter than its head',
      Buffer.concat([
        Buffer.from([0, 0, 0, 1, ...Buffer.from('mdat')]),
        Buffer.from([0, 0, 0, 0, 0, 0, 0, 15]),
      ]),
      null,
    ],
    ['a large one without its length', Buffer.from([0, 0, 0, 1, ...Buffer.from('mdat')]), null],
    ['one without a name', Buffer.from([0, 0, 0, 9, 1, 2, 3, 4]), null],
    ['fewer than eight bytes', Buffer.from([0, 0, 0, 8, 65]), null],
  ])('a box: %s', (_, bytes, expected) => {
    expect(boxAt(bytes, 0, 99)).toEqual(expected)
  })
})

describe('less than promised', () => {
  const PROMISED = { durationSeconds: 5, resolution: '720p', aspectRatio: '16:9', generateAudio: true }
  const GOOD: Measured = { seconds: 5.04, width: 1280, height: 720, audio: true }

  it.each([
    ['as promised', {}],
    ['half a second short', { seconds: 4.5 }],
    ['longer', { seconds: 9 }],
    ['larger', { width: 1920, height: 1080 }],
    ['704 lines', { width: 1280, height: 704 }],
    ['nothing known', { seconds: null, width: null, height: null, audio: null }],
  ])('DEG-7: %s is no shortfall', (_, more) => {
    expect(shortfallsOf({ ...GOOD, ...more }, PROMISED)).toEqual([])
  })

  it.each([
    ['shorter', { seconds: 4.49 }, ['duration']],
    ['smaller', { width: 853, height: 480 }, ['resolution']],
    ['another shape', { width: 720, height: 1280 }, ['aspect_ratio']],
    ['silent', { audio: false }, ['audio']],
    [
      'all of it',
      { seconds: 1, width: 320, height: 320, audio: false },
      ['duration', 'resolution', 'aspect_ratio', 'audio'],
    ],
  ])('DEG-7: %s is one', (_, more, expected) => {
    expect(shortfallsOf({ ...GOOD, ...more }, PROMISED)).toEqual(expected)
  })

  it('DEG-7: silence that was asked for, and a ratio or resolution without figures, are none', () => {
    expect(shortfallsOf({ ...GOOD, audio: false }, { ...PROMISED, generateAudio: false })).toEqual([])
    expect(
      shortfallsOf(
        { ...GOOD, width: 300, height: 900 },
        { ...PROMISED, resolution: 'best', aspectRatio: 'adaptive' },
      ),
    ).toEqual([])
    expect(shortfallsOf(GOOD, { ...PROMISED, aspectRatio: '0:9' })).toEqual([])
  })

  it.each([
    ['2048x2048', 2048, 2048, []],
    ['2048x2048', 1844, 1844, []],
    ['2048x2048', 1843, 2048, ['resolution']],
    ['2048x2048', 2048, 1024, ['resolution']],
    ['2K', 10, 10, []],
  ])('DEG-7: of a picture of %s, %d by %d: %j', (size, width, height, expected) => {
    expect(pictureShortfallsOf({ seconds: null, audio: null, width, height }, size)).toEqual(expected)
  })
})

describe('a picture that is cut off', () => {
  const END_OF_PNG = [0x49, 0x45, 0x4e, 0x44]
  const png = (...rest: number[]) => Buffer.from([0x89, 0x50, 0x4e, 0x47, ...new Array(20).fill(0), ...rest])
  const jpeg = (...rest: number[]) => Buffer.from([0xff, 0xd8, ...new Array(20).fill(0), ...rest])
  const webp = (told: number, length: number) => {
    const bytes = Buffer.alloc(length)
    bytes.write('RIFF', 0, 'latin1')
    bytes.writeUInt32LE(told, 4)
    bytes.write('WEBP', 8, 'latin1')
    return bytes
  }
  const behind = (count: number) => new Array<number>(count).fill(1)

  it.each([
    ['a PNG with its end', png(...END_OF_PNG), false],
    ['a PNG with something behind it', png(...END_OF_PNG, ...behind(64 * 1024 - 4)), false],
    ['a PNG with its end far from the end of the file', png(...END_OF_PNG, ...behind(64 * 1024 - 3)), true],
    ['a PNG with half of its end', png(...END_OF_PNG.slice(0, 3)), true],
    ['a JPEG with its end', jpeg(0xff, 0xd9), false],
    ['a JPEG with half of its end', jpeg(0xff), true],
    ['a WebP as long as it says', webp(12, 20), false],
    ['a WebP longer than it says', webp(12, 24), false],
    ['a WebP shorter than it says', webp(13, 20), true],
    ['another RIFF', Buffer.from('RIFF\xff\xff\xff\x7fWAVE............', 'latin1'), false],
    ['something else', Buffer.from('GIF89a and so on'), false],
    ['twelve bytes of something else', Buffer.from('GIF89a123456'), false],
    ['fewer than twelve bytes', Buffer.from('GIF89a12345'), true],
    ['nothing', Buffer.alloc(0), true],
  ])('DEG-7: %s', (_, bytes, expected) => {
    expect(isCutOff(bytes)).toBe(expected)
  })
})
