/** What is published in the yard: one model for videos with three tiers, one for pictures, on the same channels. */
import type { RealPersonPolicy, Tier } from '../../src/core/catalog.ts'
import type { Release, ReleasedBinding } from '../../src/core/frozen.ts'
import type { ImageFacts, Media, VideoFacts } from '../../src/core/request.ts'

export interface SupplySpec {
  readonly id: string
  readonly channel: string
  readonly media: Media
  readonly tier: Tier
  readonly realPerson: RealPersonPolicy
  /** Micro-units: of a second, or of a picture. */
  readonly price: bigint
  readonly concurrency: number
  readonly billsFailures?: boolean
}

export interface Catalog {
  readonly channels: Readonly<Record<string, number>>
  readonly supplies: readonly SupplySpec[]
  /** The channel that nothing happens to. */
  readonly sound: string | null
  readonly taskCostLimit?: bigint
}

/** What a request normally costs a second, or a picture: the baseline of every limit. */
export const NORMAL = 1_000_000n
export const STABLE_TIMES = 3n
export const FALLBACK_TIMES = 4n
export const TASK_COST_LIMIT = 21_000_000n
export const WINDOW_SECONDS = 1200
export const SPILL_SECONDS = 120

const one = (id: string, channel: string, more: Partial<Omit<SupplySpec, 'id' | 'channel'>>): SupplySpec => ({
  id,
  channel,
  media: 'video',
  tier: 'exact',
  realPerson: 'allowed',
  price: NORMAL,
  concurrency: 3,
  ...more,
})

const STORMY: readonly SupplySpec[] = [
  one('north-a', 'north', { concurrency: 4 }),
  one('north-b', 'north', { realPerson: 'restricted', price: 1_100_000n }),
  one('south-a', 'south', { price: 1_300_000n, concurrency: 1, billsFailures: true }),
  one('south-b', 'south', { tier: 'fallback', price: 2_000_000n }),
  one('east-a', 'east', { tier: 'degraded', realPerson: 'denied', price: 500_000n, concurrency: 2 }),
  one('north-i', 'north', { media: 'image', concurrency: 2 }),
  one('south-i', 'south', { media: 'image', price: 1_200_000n, concurrency: 2 }),
]

/** Everything may fail, at times all at once. */
export const STORM: Catalog = {
  channels: { north: 6, south: 5, east: 4 },
  supplies: STORMY,
  sound: null,
}

/** The same, beside a channel that is always well and has room: nobody needs to fail for want of a supply. */
export const SHELTERED: Catalog = {
  channels: { ...STORM.channels, west: 40 },
  supplies: [
    ...STORMY,
    one('west-a', 'west', { price: 1_400_000n, concurrency: 40 }),
    one('west-i', 'west', { media: 'image', price: 1_400_000n, concurrency: 40 }),
  ],
  sound: 'west',
}

export const VIDEO: VideoFacts = {
  media: 'video',
  billingMode: null,
  degradation: null,
  realPerson: false,
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: false,
  inputs: {},
}

export const IMAGE: ImageFacts = {
  media: 'image',
  billingMode: null,
  degradation: null,
  size: '1024x1024',
  quality: null,
  count: 2,
  inputs: {},
}

const VIDEO_MODE = {
  durationSeconds: { kind: 'bounds', min: 4, max: 15 },
  resolutions: ['720p'],
  aspectRatios: ['16:9'],
  generateAudio: true,
  inputs: {
    reference_images: { kind: 'bounds', min: 0, max: 9 },
    reference_videos: { kind: 'bounds', min: 0, max: 3 },
  },
} as const
const IMAGES_ONLY = {
  ...VIDEO_MODE,
  inputs: { reference_images: VIDEO_MODE.inputs.reference_images },
} as const
const IMAGE_MODE = {
  sizes: ['1024x1024'],
  qualities: ['standard'],
  count: { kind: 'bounds', min: 1, max: 4 },
  inputs: {},
} as const
const RULE_ID = 'less'

/** The release of the model for this kind. */
export function releaseOf(catalog: Catalog, media: Media): Release {
  const isVideo = media === 'video'
  return {
    id: isVideo ? '1' : '2',
    modelId: media,
    media,
    profile: 'full',
    allowedGroups: null,
    limits: isVideo ? { media: 'video', modes: [VIDEO_MODE] } : { media: 'image', modes: [IMAGE_MODE] },
    degradation: 'best_effort',
    normalCost: {
      mode: isVideo ? 'per_second' : 'per_image',
      billsFailures: false,
      prices: [{ when: {}, price: NORMAL }],
    },
    emergencyCostOverride: false,
    policy: {
      strategy: 'stable_first',
      maxAttempts: 2,
      retryWindowSeconds: WINDOW_SECONDS,
      successMinSamples: 20,
      assumedSuccessRate: 950_000n,
      stableCostMultiplierLimit: STABLE_TIMES * 1_000_000n,
      fallbackCostMultiplier: FALLBACK_TIMES * 1_000_000n,
      absoluteCostLimit: null,
      taskCostLimit: catalog.taskCostLimit ?? TASK_COST_LIMIT,
      spillAfterSeconds: isVideo ? SPILL_SECONDS : null,
      degradeAfterSeconds: 0,
      probeIntervalSeconds: 300,
    },
    realPersonRefusal: 'stop',
    maxRunSeconds: 3600,
    imageTimeoutSeconds: 120,
    defaults: {},
    description: '',
    bindings: catalog.supplies.filter((supply) => supply.media === media).map(bindingOf),
    rules: isVideo
      ? [
          {
            id: RULE_ID,
            fromProfile: 'full',
            toProfile: 'images',
            operations: [{ op: 'drop_inputs', inputs: ['reference_videos'] }],
          },
        ]
      : [],
  }
}

function bindingOf(supply: SupplySpec): ReleasedBinding {
  const isDegraded = supply.tier === 'degraded'
  return {
    id: supply.id,
    supplyId: supply.id,
    channelId: supply.channel,
    tier: supply.tier,
    priority: 0,
    capability:
      supply.media === 'video'
        ? {
            billingMode: 'per_second',
            modes: { media: 'video', modes: [isDegraded ? IMAGES_ONLY : VIDEO_MODE] },
          }
        : { billingMode: 'per_image', modes: { media: 'image', modes: [IMAGE_MODE] } },
    degradationRuleId: isDegraded ? RULE_ID : null,
    degradationRuleVersionId: isDegraded ? '1' : null,
  }
}
