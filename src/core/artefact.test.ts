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

  it('DEG-7: its frame also from a long head, from one with more behind it, and from none that is cut off', () => {
    const head = (version: number, at: number, length: number) => {
      const body = Buffer.alloc(length)
      body[0] = version
      body[1] = 1
      if (length >= at + 6) body.writeUInt16BE(1280, at)
      if (length >= at + 6) body.writeUInt16BE(720, at + 4)
      return box('tkhd', body)
    }
    const frame = (...heads: Uint8Array[]) => {
      const { width, height } = measureMovie(box('trak', ...heads, box('mdia', hdlr('vide'))))
      return [width, height]
    }
    expect(frame(head(1, 88, 96))).toEqual([1280, 720])
    expect(frame(head(1, 88, 120))).toEqual([1280, 720])
    expect(frame(head(0, 76, 84))).toEqual([1280, 720])
    expect(frame(head(2, 76, 120))).toEqual([1280, 720])
    expect(frame(head(0, 76, 83))).toEqual([null, null])
    expect(frame(head(1, 88, 95))).toEqual([null, null])
    expect(frame(head(0, 76, 60))).toEqual([null, null])
    expect(frame()).toEqual([null, null])
  })

  it('DEG-7: its sound from the shortest box that can name it, and nothing from a shorter one', () => {
    const named = (...name: Uint8Array[]) =>
      measureMovie(box('trak', tkhd(0, 0), box('mdia', box('hdlr', Buffer.alloc(8), ...name)))).audio
    expect(named(Buffer.from('soun'))).toBe(true)
    expect(named(Buffer.from('sou'))).toBe(false)
  })

  it.each([
    [20, 0, 5],
    [19, 0, null],
    [32, 1, 5],
    [31, 1, null],
  ])('DEG-7: its duration from a head of %d bytes, version %d: %s', (length, version, expected) => {
    const body = Buffer.alloc(40)
    body[0] = version
    body.writeUInt32BE(10, version === 1 ? 20 : 12)
    body.writeUInt32BE(50, version === 1 ? 28 : 16)
    expect(measureMovie(box('mvhd', body.subarray(0, length))).seconds).toBe(expected)
  })

  it('DEG-7: no more than a thousand boxes are read, and none behind one that is cut off', () => {
    const many = (count: number) => new Array<Uint8Array>(count).fill(box('free'))
    expect(measureMovie(moov(...many(999), trak('soun'))).audio).toBe(true)
    expect(measureMovie(moov(...many(1000), trak('soun'))).audio).toBeNull()
    const cut = Buffer.from([0, 0, 1, 0, ...Buffer.from('free')])
    expect(measureMovie(moov(cut, trak('soun'))).audio).toBeNull()
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
    ['an empty one', box('free'), { type: 'free', start: 8, end: 8 }],
    [
      'an empty large one',
      Buffer.from([0, 0, 0, 1, ...Buffer.from('free'), 0, 0, 0, 0, 0, 0, 0, 16]),
      { type: 'free', start: 16, end: 16 },
    ],
    [
      'the largest one',
      Buffer.from([0, 0, 0, 1, ...Buffer.from('mdat'), 0, 0x1f, 255, 255, 255, 255, 255, 255]),
      { type: 'mdat', start: 16, end: Number.MAX_SAFE_INTEGER },
    ],
    [
      'one larger than a number can tell',
      Buffer.from([0, 0, 0, 1, ...Buffer.from('mdat'), 0, 0x20, 0, 0, 0, 0, 0, 0]),
      null,
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
    ['90 % of the lines', { width: 1152, height: 648 }],
    ['a width without a height', { width: 100, height: null }],
    ['a height without a width', { width: null, height: 100 }],
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
    expect(shortfallsOf(GOOD, { ...PROMISED, aspectRatio: '9:0' })).toEqual([])
    expect(shortfallsOf(GOOD, { ...PROMISED, aspectRatio: '9:16' })).toEqual(['aspect_ratio'])
  })

  it.each([
    ['2048x2048', 2048, 2048, []],
    ['2048x2048', 1844, 1844, []],
    ['2048x2048', 1843, 2048, ['resolution']],
    ['2048x2048', 2048, 1024, ['resolution']],
    ['1000x1000', 900, 1000, []],
    ['1000x1000', 1000, 900, []],
    ['2048x1024', 2048, 1024, []],
    ['2048x2048', null, 10, []],
    ['2048x2048', 10, null, []],
    ['0x2048', 10, 10, []],
    ['2048x0', 10, 10, []],
    ['2K', 10, 10, []],
  ])('DEG-7: of a picture of %s, %s by %s: %j', (size, width, height, expected) => {
    expect(pictureShortfallsOf({ seconds: null, audio: null, width, height }, size)).toEqual(expected)
  })
})

describe('what a picture says of itself', () => {
  const png = (length: number, name = 'PNG', chunk = 'IHDR') => {
    const bytes = Buffer.alloc(32)
    bytes[0] = 0x89
    bytes.write(name, 1, 'latin1')
    bytes.write(chunk, 12, 'latin1')
    bytes.writeUInt32BE(640, 16)
    bytes.writeUInt32BE(480, 20)
    return bytes.subarray(0, length)
  }
  const webp = (chunk: string, write: (bytes: Buffer) => void, names = ['RIFF', 'WEBP']) => {
    const bytes = Buffer.alloc(30)
    bytes.write(names[0] ?? '', 0, 'latin1')
    bytes.write(names[1] ?? '', 8, 'latin1')
    bytes.write(chunk, 12, 'latin1')
    write(bytes)
    return bytes
  }
  const lossy = (bytes: Buffer) => {
    // The two upper bits of each are a scale.
    bytes.writeUInt16LE(0xc000 | 640, 26)
    bytes.writeUInt16LE(0x4000 | 480, 28)
  }
  const lossless = (bytes: Buffer) => bytes.writeUInt32LE((0x3 << 28) | (479 << 14) | 639, 21)
  const extended = (bytes: Buffer) => {
    bytes.writeUInt32LE(639 << 8, 23)
    bytes.writeUInt32LE(479 << 8, 26)
  }
  const frame = (marker: number) => [0xff, marker, 0, 11, 8, 480 >> 8, 480 & 255, 640 >> 8, 640 & 255]
  const segment = (marker: number, length = 4) => [
    0xff,
    marker,
    0,
    length,
    ...new Array<number>(Math.max(0, length - 2)).fill(0),
  ]
  const jpeg = (...parts: readonly number[][]) => Buffer.from([0xff, 0xd8, ...parts.flat()])
  const SIZE = { seconds: null, audio: null, width: 640, height: 480 }
  const repeated = (count: number, part: readonly number[]) => new Array<number[]>(count).fill([...part])

  it.each<[string, Buffer, typeof SIZE | null]>([
    ['a PNG', png(32), SIZE],
    ['the shortest PNG', png(24), SIZE],
    ['a PNG that is cut off', png(23), null],
    ['no PNG', png(32, 'PNX'), null],
    ['a PNG that begins with something else', png(32, 'PNG', 'IDAT'), null],
    ['a lossy WebP', webp('VP8 ', lossy), SIZE],
    ['a lossless WebP', webp('VP8L', lossless), SIZE],
    ['an extended WebP', webp('VP8X', extended), SIZE],
    ['a WebP of another kind', webp('VP8?', lossy), null],
    ['a WebP that is cut off', webp('VP8 ', lossy).subarray(0, 29), null],
    ['another RIFF', webp('VP8 ', lossy, ['RIFF', 'WAVE']), null],
    ['no RIFF', webp('VP8 ', lossy, ['RIFX', 'WEBP']), null],
    ['a JPEG', jpeg(frame(0xc0)), SIZE],
    ['the last kind of a JPEG', jpeg(frame(0xcf)), SIZE],
    ['a JPEG with segments before', jpeg(segment(0xe0, 16), segment(0xdb, 6), frame(0xc2)), SIZE],
    ['a JPEG with tables before', jpeg(segment(0xc4), segment(0xc8), segment(0xcc), frame(0xc2)), SIZE],
    ['a JPEG with neighbours of frames before', jpeg(segment(0xbf), frame(0xc1)), SIZE],
    ['a JPEG with what stands alone', jpeg([0xff, 0x01, 0xff, 0xd0, 0xff, 0xd8], frame(0xc3)), SIZE],
    ['a JPEG with a segment behind what stands alone', jpeg(segment(0xd9, 6), frame(0xc3)), SIZE],
    ['a JPEG with filling', jpeg([0xff, 0xff, 0xff], frame(0xc3)), SIZE],
    ['a JPEG with a segment without a length', jpeg([0xff, 0xe0, 0, 0], frame(0xc3)), SIZE],
    ['a JPEG with a segment of one byte', jpeg([0xff, 0xe0, 0, 1], frame(0xc3)), SIZE],
    ['a JPEG that is cut off', jpeg(frame(0xc0).slice(0, 8)), null],
    ['a JPEG that loses its way', jpeg([0, 0xc0, 0, 4], frame(0xc0)), null],
    ['a JPEG of two thousand segments', jpeg(...repeated(1999, segment(0xe0)), frame(0xc0)), SIZE],
    ['a JPEG of more', jpeg(...repeated(2000, segment(0xe0)), frame(0xc0)), null],
    ['a JPEG of two bytes', Buffer.from([0xff, 0xd8]), null],
    ['no JPEG', Buffer.from([0xff, 0xd9, ...frame(0xc0)]), null],
    ['nothing', Buffer.alloc(0), null],
  ])('DEG-7: %s', (_, bytes, expected) => {
    expect(measurePicture(bytes)).toEqual(expected)
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
    ['a PNG with one byte behind it', png(...END_OF_PNG, ...behind(1)), false],
    ['a PNG with something behind it', png(...END_OF_PNG, ...behind(64 * 1024 - 4)), false],
    ['a PNG with its end far from the end of the file', png(...END_OF_PNG, ...behind(64 * 1024 - 3)), true],
    ['a PNG with half of its end', png(...END_OF_PNG.slice(0, 3)), true],
    ['a JPEG with its end', jpeg(0xff, 0xd9), false],
    ['a JPEG with half of its end', jpeg(0xff), true],
    ['a JPEG with the other half', jpeg(0xd9), true],
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
