import { describe, expect, it } from 'vitest'
import { type FactsJson, factsFromJson, factsToJson, laneOf, type PastAttemptJson } from './frozen.ts'

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
    const turned = { ...FACTS, inputs: { last_frame: 1, first_frame: 1 } }
    expect(laneOf('m', turned, [])).toBe(
      laneOf('m', { ...FACTS, inputs: { first_frame: 1, last_frame: 1 } }, []),
    )
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
