/** Coverage against brute force: a proof is worth what it says about every single request. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { inRange } from '../core/capability.ts'
import { parseRange } from '../core/decision-json.ts'
import { modesCover, pricesCover, transformedModes, unreachedPrices } from './coverage.ts'
import type { PriceConditionDocument, VideoModeDocument } from './definitions.ts'
import type { RangeJson } from './notation.ts'

const mode = (change: Partial<VideoModeDocument> = {}): VideoModeDocument => ({
  duration_seconds: { min: 4, max: 15 },
  resolutions: ['480p', '720p'],
  aspect_ratios: ['16:9'],
  generate_audio: false,
  inputs: {},
  ...change,
})

describe('coverage of limits', () => {
  it('STR-6: what is equal is covered, by one mode or by several together', () => {
    expect(modesCover([mode()], [mode()])).toEqual({ kind: 'covered' })
    const halves = [
      mode({ duration_seconds: { min: 4, max: 9 } }),
      mode({ duration_seconds: { min: 10, max: 15 } }),
    ]
    expect(modesCover([mode()], halves)).toEqual({ kind: 'covered' })
    const byResolution = [mode({ resolutions: ['480p'] }), mode({ resolutions: ['720p', '1080p'] })]
    expect(modesCover([mode()], byResolution)).toEqual({ kind: 'covered' })
  })

  it('STR-6: a gap is shown by a request that falls into it', () => {
    expect(modesCover([mode()], [mode({ duration_seconds: { values: [4, 5, 6] } })])).toEqual({
      kind: 'uncovered',
      example: { duration_seconds: 7, resolution: '480p', aspect_ratio: '16:9', generate_audio: 'false' },
    })
    expect(modesCover([mode({ generate_audio: true })], [mode()])).toMatchObject({
      example: { generate_audio: 'true' },
    })
  })

  it('STR-6: a list of durations covers a range exactly where it holds every whole number of it', () => {
    const limits = [mode({ duration_seconds: { min: 4, max: 6 } })]
    expect(modesCover(limits, [mode({ duration_seconds: { values: [6, 5, 4, 9] } })]).kind).toBe('covered')
    expect(modesCover(limits, [mode({ duration_seconds: { values: [4, 6] } })]).kind).toBe('uncovered')
  })

  it('STR-6: a kind of input that a mode does not name must be absent, and one that it needs must be there', () => {
    const images = mode({ inputs: { reference_images: { min: 0, max: 9 } } })
    expect(modesCover([images], [mode()])).toMatchObject({ example: { reference_images: 1 } })
    expect(
      modesCover([images], [mode(), mode({ inputs: { reference_images: { min: 1, max: 9 } } })]).kind,
    ).toBe('covered')
    expect(modesCover([mode()], [mode({ inputs: { first_frame: { min: 1, max: 1 } } })]).kind).toBe(
      'uncovered',
    )
  })

  it('STR-6: a request without a quality fits whatever the qualities are', () => {
    const image = (qualities: string[]) => ({
      sizes: ['1024x1024'],
      qualities,
      count: { min: 1, max: 4 },
      inputs: {},
    })
    expect(modesCover([image([])], [image(['high'])]).kind).toBe('covered')
    expect(modesCover([image(['low', 'high'])], [image(['high'])])).toMatchObject({
      example: { quality: 'low' },
    })
  })

  it('DEG-6: limits are judged as the degraded supply will see them', () => {
    const full = mode({
      inputs: { reference_images: { min: 1, max: 9 }, reference_videos: { min: 0, max: 3 } },
    })
    const images = mode({ inputs: { reference_images: { min: 1, max: 9 } } })
    expect(modesCover([full], [images]).kind).toBe('uncovered')
    const drop = { op: 'drop_inputs', inputs: ['reference_videos'] } as const
    expect(modesCover(transformedModes([full], [drop]), [images]).kind).toBe('covered')
    const few = mode({ inputs: { reference_images: { min: 1, max: 4 } } })
    const keep = (count: number) => ({ op: 'keep_first', inputs: 'reference_images', count }) as const
    expect(modesCover(transformedModes([full], [drop, keep(4)]), [few]).kind).toBe('covered')
    expect(modesCover(transformedModes([full], [drop, keep(5)]), [few]).kind).toBe('uncovered')
    expect(modesCover(transformedModes([full], [keep(4)]), [few]).kind).toBe('uncovered')
  })

  it('DEG-6: a lower resolution and no sound are judged likewise, and nothing is ever raised', () => {
    const loud = mode({ resolutions: ['480p', '1080p'], generate_audio: true })
    const silent = mode({ resolutions: ['480p', '720p'], generate_audio: false })
    const lower = { op: 'lower_resolution', to: '720p' } as const
    const quiet = { op: 'drop_generated_audio' } as const
    expect(modesCover(transformedModes([loud], [lower, quiet]), [silent]).kind).toBe('covered')
    expect(modesCover(transformedModes([loud], [lower]), [silent]).kind).toBe('uncovered')
    expect(modesCover(transformedModes([loud], [quiet]), [silent]).kind).toBe('uncovered')
    const low = mode({ resolutions: ['480p'], generate_audio: false })
    expect(transformedModes([low], [lower])).toEqual([low])
  })

  const range = fc.oneof(
    fc.tuple(fc.nat(3), fc.nat(3)).map(([min, more]): RangeJson => ({ min, max: min + more })),
    fc.nat(3).map((min): RangeJson => ({ min })),
    fc.uniqueArray(fc.nat(6), { minLength: 1, maxLength: 3 }).map((values): RangeJson => ({ values })),
  )
  const anyMode = fc.record({
    duration_seconds: range,
    resolutions: fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { minLength: 1 }),
    aspect_ratios: fc.constant(['r']),
    generate_audio: fc.boolean(),
    inputs: fc.dictionary(fc.constantFrom('x', 'y'), range, { maxKeys: 2 }),
  })
  const MOST = 8
  const holds = (at: number, written: RangeJson) => inRange(at, parseRange(written, 'range'))

  function* everyRequest() {
    for (let seconds = 0; seconds <= MOST; seconds++)
      for (const resolution of ['a', 'b', 'c'])
        for (const audio of [false, true])
          for (let x = 0; x <= MOST; x++)
            for (let y = 0; y <= MOST; y++) yield { seconds, resolution, audio, x, y }
  }
  type Request = ReturnType<typeof everyRequest> extends Generator<infer R> ? R : never
  const fits = (r: Request, m: VideoModeDocument) =>
    holds(r.seconds, m.duration_seconds) &&
    m.resolutions.includes(r.resolution) &&
    (!r.audio || m.generate_audio) &&
    holds(r.x, m.inputs.x ?? { min: 0, max: 0 }) &&
    holds(r.y, m.inputs.y ?? { min: 0, max: 0 })

  it('STR-6: agrees with asking every single request', () => {
    const requests = [...everyRequest()]
    const some = fc.array(anyMode, { minLength: 1, maxLength: 3 })
    fc.assert(
      fc.property(some, some, (limits, modes) => {
        const gap = requests.find((r) => limits.some((m) => fits(r, m)) && !modes.some((m) => fits(r, m)))
        expect(modesCover(limits, modes).kind).toBe(gap === undefined ? 'covered' : 'uncovered')
      }),
      { numRuns: 300 },
    )
  })

  it('COST-7: rows that are never reached are those that no request reaches', () => {
    const condition: fc.Arbitrary<PriceConditionDocument> = fc.record(
      {
        duration_seconds: range,
        resolution: fc.uniqueArray(fc.constantFrom('a', 'b', 'c'), { minLength: 1 }),
        generate_audio: fc.boolean(),
        inputs: fc.dictionary(fc.constantFrom('x', 'y'), range, { maxKeys: 2 }),
      },
      { requiredKeys: [] },
    )
    // A resolution that no row names stands for all the others in the world.
    const meets = (r: Request, when: PriceConditionDocument) =>
      (when.duration_seconds === undefined || holds(r.seconds, when.duration_seconds)) &&
      (when.resolution === undefined || when.resolution.includes(r.resolution)) &&
      (when.generate_audio === undefined || when.generate_audio === r.audio) &&
      Object.entries(when.inputs ?? {}).every(([kind, written]) => holds(kind === 'x' ? r.x : r.y, written))
    const requests = [...everyRequest(), ...[...everyRequest()].map((r) => ({ ...r, resolution: 'other' }))]
    fc.assert(
      fc.property(fc.array(condition, { minLength: 1, maxLength: 4 }), (whens) => {
        const reached = new Set(requests.map((r) => whens.findIndex((when) => meets(r, when))))
        const never = whens.flatMap((_, at) => (reached.has(at) ? [] : [at]))
        expect(unreachedPrices(whens.map((when) => ({ when })))).toEqual(never)
      }),
      { numRuns: 100 },
    )
  })

  it('COST-4: prices that leave a request out are found', () => {
    expect(pricesCover([mode()], [{ when: { resolution: ['480p'] } }, {}]).kind).toBe('covered')
    expect(pricesCover([mode()], [{ when: { resolution: ['480p'] } }])).toMatchObject({
      example: { resolution: '720p' },
    })
  })
})
