import { describe, expect, it } from 'vitest'
import type { PriceList } from './catalog.ts'
import {
  afterGrant,
  type Dynamic,
  type FactsJson,
  factsFromJson,
  factsToJson,
  freeze,
  type LevelJson,
  laneOf,
  type PastAttemptJson,
  type Release,
  type SupplyLevelJson,
} from './frozen.ts'

const FACTS: FactsJson = {
  media: 'video',
  billing_mode: null,
  degradation: null,
  real_person: false,
  duration_seconds: 5,
  resolution: '720p',
  aspect_ratio: '16:9',
  generate_audio: false,
  inputs: { reference_images: 2, first_frame: 0 },
}
const PAST: PastAttemptJson = {
  supply_id: 's',
  channel_id: 'c',
  outcome: 'failed',
  category: 'supply',
  scope: 'supply',
  may_change_supply: true,
  cost: '0',
}

describe('the lane of a waiting task', () => {
  const lane = laneOf('m', FACTS, [PAST])

  it('STR-12: is the same where a later decision could not tell two tasks apart', () => {
    expect(laneOf('m', { ...FACTS, inputs: { reference_images: 2 } }, [{ ...PAST }])).toBe(lane)
    const one = { ...FACTS, inputs: { reference_images: 1 } }
    expect(laneOf('m', one, [])).not.toBe(laneOf('m', { ...FACTS, inputs: {} }, []))
    const turned = { ...FACTS, inputs: { last_frame: 1, first_frame: 1 } }
    expect(laneOf('m', turned, [])).toBe(
      laneOf('m', { ...FACTS, inputs: { first_frame: 1, last_frame: 1 } }, []),
    )
    const many = { reference_videos: 2, last_frame: 1, reference_images: 3, first_frame: 1 }
    const sorted = { first_frame: 1, last_frame: 1, reference_images: 3, reference_videos: 2 }
    expect(laneOf('m', { ...FACTS, inputs: many }, [])).toBe(laneOf('m', { ...FACTS, inputs: sorted }, []))
  })

  it.each([
    ['another model', () => laneOf('n', FACTS, [PAST])],
    ['no attempt', () => laneOf('m', FACTS, [])],
    ['another supply tried', () => laneOf('m', FACTS, [{ ...PAST, supply_id: 't' }])],
    ['another channel failed', () => laneOf('m', FACTS, [{ ...PAST, scope: 'channel' }])],
    ['refused content', () => laneOf('m', FACTS, [{ ...PAST, category: 'content' }])],
    ['another cost so far', () => laneOf('m', FACTS, [{ ...PAST, cost: '1' }])],
    ['another duration', () => laneOf('m', { ...FACTS, duration_seconds: 6 }, [PAST])],
    ['another resolution', () => laneOf('m', { ...FACTS, resolution: '480p' }, [PAST])],
    ['another ratio', () => laneOf('m', { ...FACTS, aspect_ratio: '9:16' }, [PAST])],
    ['with sound', () => laneOf('m', { ...FACTS, generate_audio: true }, [PAST])],
    ['a real person', () => laneOf('m', { ...FACTS, real_person: true }, [PAST])],
    ['strict', () => laneOf('m', { ...FACTS, degradation: 'strict' }, [PAST])],
    ['another billing mode', () => laneOf('m', { ...FACTS, billing_mode: 'per_request' }, [PAST])],
    ['other inputs', () => laneOf('m', { ...FACTS, inputs: { reference_images: 3 } }, [PAST])],
  ])('STR-12: is another for %s', (_, other) => {
    expect(other()).not.toBe(lane)
  })
})

it('IN-2: facts come back from their JSON as they were', () => {
  expect(factsToJson(factsFromJson(FACTS))).toEqual(FACTS)
  const image: FactsJson = {
    media: 'image',
    billing_mode: null,
    degradation: 'strict',
    size: '1x1',
    quality: 'high',
    count: 3,
    inputs: {},
  }
  expect(factsToJson(factsFromJson(image))).toEqual(image)
})

it('IN-2: facts that were stored without a field are read as the least', () => {
  const { real_person, duration_seconds, generate_audio, resolution, aspect_ratio, ...bare } = FACTS
  expect(factsFromJson(bare)).toMatchObject({
    realPerson: false,
    durationSeconds: 0,
    generateAudio: false,
    resolution: '',
    aspectRatio: '',
  })
  expect(factsFromJson({ ...FACTS, real_person: true, generate_audio: true })).toMatchObject({
    realPerson: true,
    generateAudio: true,
  })
  const image = factsFromJson({ media: 'image', billing_mode: null, degradation: null, inputs: {} })
  expect(image).toMatchObject({ size: '', quality: null, count: 0 })
})

describe('the frozen input', () => {
  const LEVEL: LevelJson = { a: 'enabled', h: 'healthy', r: 0, c: 4, u: 1, e: 1, ep: 7, g: null, n: null }
  const SUPPLY: SupplyLevelJson = {
    ...LEVEL,
    h: 'degraded',
    c: 2,
    u: 0,
    e: 0,
    p: 'denied',
    s: [8, 3],
    l: '5',
  }
  const PRICE: PriceList = {
    currency: 'USD',
    mode: 'per_request',
    rules: [],
  } as unknown as PriceList
  const binding = (id: string) =>
    ({
      id,
      supplyId: 's',
      channelId: 'c',
      tier: 'exact',
      priority: 3,
      capability: {},
      degradationRuleId: null,
      degradationRuleVersionId: null,
    }) as unknown as Release['bindings'][number]
  const release = {
    modelId: 'm',
    media: 'video',
    bindings: [binding('b'), binding('switched-off')],
    rules: [
      { id: 'on', fromProfile: 'x', toProfile: 'y', operations: [] },
      { id: 'off', fromProfile: 'x', toProfile: 'y', operations: [] },
    ],
  } as unknown as Release
  const dynamic: Dynamic = {
    now: 1_000,
    task: { id: 't', created_at: 900, admitted: true, attempts: [{ ...PAST, cost: '12' }] },
    caller: { key_active: true, user_active: false, groups: ['g'] },
    request: FACTS,
    model: { enabled: true, published: false },
    rules: ['on'],
    off: ['switched-off'],
    channels: { c: LEVEL },
    supplies: { s: SUPPLY },
  }
  const prices = new Map([['5', PRICE]])

  it('IN-1: joins a release with what was dynamic, each where it belongs', () => {
    const input = freeze(release, dynamic, prices)
    expect(input).toMatchObject({
      now: 1_000,
      task: {
        id: 't',
        createdAt: 900,
        admitted: true,
        attempts: [{ supplyId: 's', channelId: 'c', cost: 12n }],
      },
      caller: { keyActive: true, userActive: false, groups: ['g'] },
      model: { id: 'm', enabled: true, published: false },
      degradationRules: [
        { id: 'on', published: true },
        { id: 'off', published: false },
      ],
      candidates: [
        { bindingId: 'b', enabled: true },
        { bindingId: 'switched-off', enabled: false },
      ],
    })
    expect(input.candidates[0]).toMatchObject({
      priority: 3,
      supply: {
        id: 's',
        health: 'degraded',
        concurrency: 2,
        realPerson: 'denied',
        samples: { successes: 8, failures: 3 },
      },
      channel: { id: 'c', health: 'healthy', concurrency: 4, inUse: 1 },
    })
    expect(input.candidates[0]?.costRule).toBe(PRICE)
  })

  it('IN-1: a supply without a price list has no price, and one whose list was not given is a fault', () => {
    const priceless = { ...dynamic, supplies: { s: { ...SUPPLY, l: null } } }
    expect(freeze(release, priceless, new Map()).candidates[0]?.costRule).toBeNull()
    expect(() => freeze(release, dynamic, new Map())).toThrow(
      /refers to price list version 5, which was not given/,
    )
  })

  it.each([
    ['supply', { ...dynamic, supplies: {} }],
    ['channel', { ...dynamic, channels: {} }],
  ])('IN-1: a %s that was not read is a fault, not an absence', (_, lacking) => {
    expect(() => freeze(release, lacking, prices)).toThrow(/lacks the levels of binding b/)
  })

  it('STR-12: the next decision of a batch sees the grant before it, at both levels', () => {
    expect(afterGrant(LEVEL, 1_234)).toEqual({ ...LEVEL, u: 2, e: 2, g: 1_234 })
  })
})
