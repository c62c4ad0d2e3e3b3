import { describe, expect, it } from 'vitest'
import type { DegradationOperation } from './catalog.ts'
import { degrade, isLower, linesOf } from './degrade.ts'
import type { ImageFacts, VideoFacts } from './request.ts'

const VIDEO: VideoFacts = {
  media: 'video',
  billingMode: null,
  degradation: null,
  realPerson: false,
  durationSeconds: 5,
  resolution: '1080p',
  aspectRatio: '16:9',
  generateAudio: true,
  inputs: { reference_images: 9, reference_videos: 2, reference_audios: 1 },
}
const IMAGE: ImageFacts = {
  media: 'image',
  billingMode: null,
  degradation: null,
  size: '1024x1024',
  quality: null,
  count: 1,
  inputs: { reference_images: 3 },
}
const by = (...operations: DegradationOperation[]) => degrade(VIDEO, { operations })
const keep = (inputs: string, count: number) => ({ op: 'keep_first', inputs, count }) as const
const lower = (to: string) => ({ op: 'lower_resolution', to }) as const
const QUIET = { op: 'drop_generated_audio' } as const
const DROP = { op: 'drop_inputs', inputs: ['reference_videos', 'reference_audios'] } as const

describe('operations of a degradation rule', () => {
  it('DEG-2, DEG-3: kinds are dropped, and only what was there is named', () => {
    expect(by({ op: 'drop_inputs', inputs: ['first_frame', 'reference_videos'] })).toEqual({
      request: { ...VIDEO, inputs: { reference_images: 9, reference_audios: 1 } },
      droppedInputs: ['reference_videos'],
      changes: [],
    })
  })

  it('DEG-6: the first so many of a kind are kept, and both counts are told', () => {
    expect(by(keep('reference_images', 4))).toEqual({
      request: { ...VIDEO, inputs: { ...VIDEO.inputs, reference_images: 4 } },
      droppedInputs: ['reference_images'],
      changes: [{ field: 'reference_images', from: 9, to: 4 }],
    })
  })

  it.each([
    ['as many', keep('reference_images', 9)],
    ['fewer', keep('reference_videos', 3)],
    ['none', keep('first_frame', 1)],
    ['a resolution that is lower already', lower('2160p')],
    ['the same resolution', lower('1080p')],
    ['a resolution without lines', lower('best')],
  ])('DEG-3: what has %s is left as it is, and nothing is reported', (_, operation) => {
    expect(by(operation)).toEqual({ request: VIDEO, droppedInputs: [], changes: [] })
  })

  it('DEG-6: none of a kind is dropping it', () => {
    expect(by(keep('reference_videos', 0))).toEqual(by({ op: 'drop_inputs', inputs: ['reference_videos'] }))
  })

  it('DEG-6: the resolution is lowered and generated sound left out, each told', () => {
    expect(by(lower('720p'), QUIET)).toEqual({
      request: { ...VIDEO, resolution: '720p', generateAudio: false },
      droppedInputs: [],
      changes: [
        { field: 'resolution', from: '1080p', to: '720p' },
        { field: 'generate_audio', from: true, to: false },
      ],
    })
    expect(degrade({ ...VIDEO, generateAudio: false }, { operations: [QUIET] }).changes).toEqual([])
  })

  it('DEG-3: two operations on one field are one change, from what was asked for', () => {
    expect(by(lower('720p'), lower('480p')).changes).toEqual([
      { field: 'resolution', from: '1080p', to: '480p' },
    ])
    expect(by(keep('reference_images', 6), keep('reference_images', 2))).toMatchObject({
      droppedInputs: ['reference_images'],
      changes: [{ field: 'reference_images', from: 9, to: 2 }],
    })
    expect(by(keep('reference_videos', 1), DROP)).toMatchObject({
      droppedInputs: ['reference_videos', 'reference_audios'],
      changes: [],
    })
  })

  it('DEG-6: the original is left as it was, and images have neither resolution nor sound', () => {
    const before = structuredClone(VIDEO)
    by(DROP, keep('reference_images', 1), lower('480p'), QUIET)
    expect(VIDEO).toEqual(before)
    expect(degrade(IMAGE, { operations: [lower('480p'), QUIET] })).toEqual({
      request: IMAGE,
      droppedInputs: [],
      changes: [],
    })
  })
})

describe('lines of a resolution', () => {
  it.each([
    ['480p', 480],
    ['1080P', 1080],
    ['2K', 1440],
    ['4k', 2160],
    ['adaptive', null],
    ['p', null],
    ['1p', null],
  ])('%s: %s', (name, lines) => {
    expect(linesOf(name)).toBe(lines)
  })

  it('one without lines is neither lower nor higher', () => {
    expect(isLower('720p', '4k')).toBe(true)
    expect(isLower('4k', '720p')).toBe(false)
    expect(isLower('720p', '720p')).toBe(false)
    expect(isLower('adaptive', '720p')).toBe(false)
    expect(isLower('480p', 'adaptive')).toBe(false)
  })
})
