/** ORD-2 and ORD-5: does a request fit a set of modes, and if not, which parameter is to blame? */
import type { ImageMode, InputRanges, Modes, NumberRange, VideoMode } from './catalog.ts'
import type { ImageFacts, InputCounts, RequestFacts, VideoFacts } from './request.ts'

/** The parameter that a refusal names. */
export type Misfit =
  | 'media'
  | 'inputs'
  | 'duration_seconds'
  | 'resolution'
  | 'aspect_ratio'
  | 'generate_audio'
  | 'size'
  | 'quality'
  | 'count'

/** null if the request fits one of the modes in everything; else the parameter to name (decision.md, Fits). */
export function misfit(request: RequestFacts, capability: Modes): Misfit | null {
  if (capability.media === 'video') {
    return request.media === 'video' ? misfitOf(request, capability.modes, misfitOfVideo) : 'media'
  }
  return request.media === 'image' ? misfitOf(request, capability.modes, misfitOfImage) : 'media'
}

/** The blame goes to the first mode that takes the inputs: a customer reads it against the modes' order. */
function misfitOf<Facts extends RequestFacts, Mode extends VideoMode | ImageMode>(
  request: Facts,
  modes: readonly Mode[],
  misfitOfMode: (request: Facts, mode: Mode) => Misfit | null,
): Misfit | null {
  let named: Misfit | null = null
  for (const mode of modes) {
    if (!inputsFit(request.inputs, mode.inputs)) continue
    const found = misfitOfMode(request, mode)
    if (found === null) return null
    named ??= found
  }
  return named ?? 'inputs'
}

function misfitOfVideo(request: VideoFacts, mode: VideoMode): Misfit | null {
  if (!inRange(request.durationSeconds, mode.durationSeconds)) return 'duration_seconds'
  if (!mode.resolutions.includes(request.resolution)) return 'resolution'
  if (!mode.aspectRatios.includes(request.aspectRatio)) return 'aspect_ratio'
  if (request.generateAudio && !mode.generateAudio) return 'generate_audio'
  return null
}

function misfitOfImage(request: ImageFacts, mode: ImageMode): Misfit | null {
  if (!mode.sizes.includes(request.size)) return 'size'
  if (request.quality !== null && !mode.qualities.includes(request.quality)) return 'quality'
  if (!inRange(request.count, mode.count)) return 'count'
  return null
}

/** A kind that the mode does not name must be absent from the request. */
function inputsFit(counts: InputCounts, ranges: InputRanges): boolean {
  return (
    Object.keys(counts).every((kind) => countOf(counts, kind) === 0 || Object.hasOwn(ranges, kind)) &&
    inputsInRange(counts, ranges)
  )
}

/** Every kind that is named has a count within its range; other kinds do not matter. */
export function inputsInRange(counts: InputCounts, ranges: InputRanges): boolean {
  for (const kind of Object.keys(ranges)) {
    const range = ranges[kind]
    if (range !== undefined && !inRange(countOf(counts, kind), range)) return false
  }
  return true
}

/** A kind that is absent is 0, also one that is named like a property of every object. */
export function countOf(counts: InputCounts, kind: string): number {
  return Object.hasOwn(counts, kind) ? (counts[kind] ?? 0) : 0
}

export function inRange(value: number, range: NumberRange): boolean {
  if (range.kind === 'values') return range.values.includes(value)
  return (range.min === undefined || value >= range.min) && (range.max === undefined || value <= range.max)
}
