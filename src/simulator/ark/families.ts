// What the generations of Seedance accept, by the model's name. A name that is none of theirs gets the
// limits of Seedance 2.0 with any duration; a configuration may set other limits for any model.

import type { Limits } from '../configuration.ts'

export type Family = Required<Limits> & {
  name: string
  /** Reference images, videos and audios in all. */
  total: number
  /** Accepts -1: the model chooses the duration. */
  ownDuration: boolean
  /** Audio may be the only reference. */
  audioAlone: boolean
  /** Body parameters that it refuses. */
  refuses: string[]
}

const ALL = ['480p', '720p', '1080p', '4k']
const NO_TOTAL = Infinity

const SEEDANCE_2: Family = {
  name: 'seedance-2.0',
  images: 9,
  videos: 3,
  audios: 3,
  total: NO_TOTAL,
  seconds: [4, 15],
  resolutions: ALL,
  ownDuration: true,
  audioAlone: false,
  refuses: ['seed', 'frames', 'camera_fixed', 'service_tier'],
}

const FAMILIES: { pattern: RegExp; family: Family }[] = [
  {
    pattern: /seedance-2-5/,
    family: {
      ...SEEDANCE_2,
      name: 'seedance-2.5',
      images: 30,
      videos: 10,
      audios: 10,
      total: 50,
      seconds: [4, 30],
      resolutions: ['480p', '720p', '1080p'],
      audioAlone: true,
    },
  },
  {
    pattern: /seedance-2-0-(fast|mini)/,
    family: { ...SEEDANCE_2, name: 'seedance-2.0-fast', resolutions: ['480p', '720p'] },
  },
  { pattern: /seedance-2-0/, family: SEEDANCE_2 },
  {
    pattern: /seedance-1-5/,
    family: {
      ...SEEDANCE_2,
      name: 'seedance-1.5',
      images: 0,
      videos: 0,
      audios: 0,
      seconds: [4, 12],
      resolutions: ['480p', '720p', '1080p'],
      refuses: [],
    },
  },
  {
    pattern: /seedance-1-0/,
    family: {
      ...SEEDANCE_2,
      name: 'seedance-1.0',
      images: 4,
      videos: 0,
      audios: 0,
      seconds: [2, 12],
      resolutions: ['480p', '720p', '1080p'],
      ownDuration: false,
      refuses: ['generate_audio'],
    },
  },
]

const UNKNOWN: Family = { ...SEEDANCE_2, name: 'unknown', seconds: [1, 60], refuses: [] }

/** The rules for a model, with what the configuration says instead. */
export function familyOf(model: string, limits: Limits): Family {
  const family = FAMILIES.find(({ pattern }) => pattern.test(model))?.family ?? UNKNOWN
  return { ...family, ...limits }
}

const SIZES: Record<string, Record<string, [number, number]>> = {
  '480p': {
    '16:9': [864, 496],
    '4:3': [752, 560],
    '1:1': [640, 640],
    '3:4': [560, 752],
    '9:16': [496, 864],
    '21:9': [992, 432],
  },
  '720p': {
    '16:9': [1280, 720],
    '4:3': [1112, 834],
    '1:1': [960, 960],
    '3:4': [834, 1112],
    '9:16': [720, 1280],
    '21:9': [1470, 630],
  },
  '1080p': {
    '16:9': [1920, 1080],
    '4:3': [1664, 1248],
    '1:1': [1440, 1440],
    '3:4': [1248, 1664],
    '9:16': [1080, 1920],
    '21:9': [2206, 946],
  },
  '4k': {
    '16:9': [3840, 2160],
    '4:3': [3326, 2494],
    '1:1': [2880, 2880],
    '3:4': [2494, 3326],
    '9:16': [2160, 3840],
    '21:9': [4398, 1886],
  },
}

export const RATIOS = ['16:9', '4:3', '1:1', '3:4', '9:16', '21:9', 'adaptive']

/** Pixels of a video; `adaptive` has nothing to adapt to here and becomes 16:9. */
export function frameSize(resolution: string, ratio: string): { width: number; height: number } {
  const [width, height] = SIZES[resolution]?.[ratio] ?? SIZES[resolution]?.['16:9'] ?? [1280, 720]
  return { width, height }
}
