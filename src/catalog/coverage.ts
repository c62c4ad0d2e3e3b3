/**
 * Exact coverage: is every request that fits one set of modes taken by another? A mode is a box: the product of a set for
 * each parameter. What is left of a box when another is cut out of it are boxes again, so that the proof is complete for
 * all that modes can say, and what is left over is a counterexample that can be shown.
 */
import type { DegradationOperation } from '../core/catalog.ts'
import { isLower } from '../core/degrade.ts'
import type { ModeDocument, PriceConditionDocument } from './definitions.ts'
import type { RangeJson } from './notation.ts'

/** Whole numbers as intervals that are apart and in order, or names: these, or all but these. */
export type Span =
  | { readonly kind: 'numbers'; readonly intervals: readonly (readonly [number, number])[] }
  | { readonly kind: 'names'; readonly negated: boolean; readonly names: ReadonlySet<string> }

/** A span for each parameter; all boxes of one question have the same parameters. */
export type Box = Readonly<Record<string, Span>>

export type Coverage =
  | { readonly kind: 'covered' }
  | { readonly kind: 'uncovered'; readonly example: Readonly<Record<string, string | number>> }
  /** So many pieces that we stopped: not proved. */
  | { readonly kind: 'too_many_pieces' }

const MOST_PIECES = 20_000
/** Stands for "the request names no quality". */
const NO_QUALITY = ' none'
const ANY_NUMBER: Span = { kind: 'numbers', intervals: [[0, Number.POSITIVE_INFINITY]] }
const ANY_NAME: Span = { kind: 'names', negated: true, names: new Set() }

/** Whether the boxes of `covers` together hold every point of `boxes`. */
export function coverage(boxes: readonly Box[], covers: readonly Box[]): Coverage {
  let budget = MOST_PIECES
  for (const box of boxes) {
    let left: readonly Box[] = isEmpty(box) ? [] : [box]
    for (const cover of covers) {
      left = left.flatMap((piece) => cut(piece, cover))
      budget -= left.length
      if (budget < 0) return { kind: 'too_many_pieces' }
    }
    if (left[0]) return { kind: 'uncovered', example: sampleOf(left[0]) }
  }
  return { kind: 'covered' }
}

/** What is left of a box without another: disjoint boxes. */
function cut(box: Box, cover: Box): Box[] {
  const pieces: Box[] = []
  let inside: Box = box
  for (const parameter of Object.keys(box)) {
    const own = inside[parameter] ?? ANY_NAME
    const other = cover[parameter] ?? own
    const outside = without(own, other)
    if (!emptySpan(outside)) pieces.push({ ...inside, [parameter]: outside })
    const both = without(own, outside)
    if (emptySpan(both)) return [box]
    inside = { ...inside, [parameter]: both }
  }
  return pieces
}

function isEmpty(box: Box): boolean {
  return Object.values(box).some(emptySpan)
}

function emptySpan(span: Span): boolean {
  return span.kind === 'numbers' ? span.intervals.length === 0 : !span.negated && span.names.size === 0
}

function without(a: Span, b: Span): Span {
  if (a.kind === 'numbers' && b.kind === 'numbers')
    return { kind: 'numbers', intervals: gaps(a.intervals, b.intervals) }
  if (a.kind === 'names' && b.kind === 'names') return namesWithout(a, b)
  throw new Error('a parameter is a number in one box and a name in another')
}

function gaps(from: readonly (readonly [number, number])[], taken: readonly (readonly [number, number])[]) {
  return taken.reduce<readonly (readonly [number, number])[]>(
    (left, [lo, hi]) =>
      left.flatMap(([start, end]) => {
        if (hi < start || lo > end) return [[start, end] as const]
        const rest: (readonly [number, number])[] = []
        if (start < lo) rest.push([start, lo - 1])
        if (end > hi) rest.push([hi + 1, end])
        return rest
      }),
    from,
  )
}

type Names = Span & { kind: 'names' }

function namesWithout(a: Names, b: Names): Names {
  if (a.negated && b.negated) return { kind: 'names', negated: false, names: minus(b.names, a.names) }
  if (a.negated) return { kind: 'names', negated: true, names: new Set([...a.names, ...b.names]) }
  return {
    kind: 'names',
    negated: false,
    names: b.negated ? minus(a.names, minus(a.names, b.names)) : minus(a.names, b.names),
  }
}

function minus(a: ReadonlySet<string>, b: ReadonlySet<string>): Set<string> {
  return new Set([...a].filter((name) => !b.has(name)))
}

/** The smallest request in a box that is not empty; what needs no mention is left out. */
function sampleOf(box: Box): Record<string, string | number> {
  const sample: Record<string, string | number> = {}
  for (const [parameter, span] of Object.entries(box)) {
    const value = span.kind === 'numbers' ? (span.intervals[0]?.[0] ?? 0) : nameIn(span)
    if (value === null || (value === 0 && parameter.startsWith('inputs.')) || value === NO_QUALITY) continue
    sample[parameter.replace(/^inputs\./, '')] = value
  }
  return sample
}

function nameIn(span: Names): string | null {
  if (!span.negated) return [...span.names].sort()[0] ?? null
  return span.names.size === 0 ? null : `other than ${[...span.names].sort().join(', ')}`
}

function numbers(range: RangeJson): Span {
  if ('values' in range)
    return { kind: 'numbers', intervals: range.values.toSorted((a, b) => a - b).map((n) => [n, n]) }
  const { min = 0, max = Number.POSITIVE_INFINITY } = range
  return { kind: 'numbers', intervals: min <= max ? [[min, max]] : [] }
}

const named = (names: Iterable<string>): Span => ({ kind: 'names', negated: false, names: new Set(names) })

/** Every kind of input that is named in any of them. */
export function inputKinds(
  all: readonly { readonly inputs?: Readonly<Record<string, RangeJson>> }[],
): Set<string> {
  return new Set(all.flatMap((one) => Object.keys(one.inputs ?? {})))
}

/** Requests that fit a mode. A kind of input that the mode does not name must be absent. */
export function boxOfMode(mode: ModeDocument, kinds: Iterable<string>): Box {
  const inputs = inputSpans(kinds, (kind) => numbers(mode.inputs[kind] ?? { min: 0, max: 0 }))
  if ('resolutions' in mode)
    return {
      duration_seconds: numbers(mode.duration_seconds),
      resolution: named(mode.resolutions),
      aspect_ratio: named(mode.aspect_ratios),
      generate_audio: named(mode.generate_audio ? ['false', 'true'] : ['false']),
      ...inputs,
    }
  return {
    size: named(mode.sizes),
    quality: named([NO_QUALITY, ...mode.qualities]),
    count: numbers(mode.count),
    ...inputs,
  }
}

/** Requests for which a price holds. A null quality is in no list. */
export function boxOfPrice(when: PriceConditionDocument, kinds: Iterable<string>): Box {
  const name = (names: readonly string[] | undefined) => (names ? named(names) : ANY_NAME)
  return {
    duration_seconds: when.duration_seconds ? numbers(when.duration_seconds) : ANY_NUMBER,
    resolution: name(when.resolution),
    // Only two answers: a row for each of them leaves nothing for a third.
    generate_audio: named(
      when.generate_audio === undefined ? ['false', 'true'] : [String(when.generate_audio)],
    ),
    size: name(when.size),
    quality: name(when.quality),
    ...inputSpans(kinds, (kind) => {
      const range = when.inputs?.[kind]
      return range ? numbers(range) : ANY_NUMBER
    }),
  }
}

function inputSpans(kinds: Iterable<string>, spanOf: (kind: string) => Span): Box {
  return Object.fromEntries([...kinds].map((kind) => [`inputs.${kind}`, spanOf(kind)]))
}

/** Does a set of modes take every request that fits the limits? */
export function modesCover(limits: readonly ModeDocument[], modes: readonly ModeDocument[]): Coverage {
  const kinds = inputKinds([...limits, ...modes])
  return coverage(
    limits.map((mode) => boxOfMode(mode, kinds)),
    modes.map((mode) => boxOfMode(mode, kinds)),
  )
}

/** Does some price hold for every request that fits the modes? */
export function pricesCover(
  modes: readonly ModeDocument[],
  prices: readonly { when?: PriceConditionDocument }[],
): Coverage {
  const conditions = prices.map((price) => price.when ?? {})
  const kinds = inputKinds([...modes, ...conditions])
  return coverage(
    modes.map((mode) => boxOfMode(mode, kinds)),
    conditions.map((when) => boxOfPrice(when, kinds)),
  )
}

/** Places of the price rows that are never reached, since those before them hold for all that they hold for. */
export function unreachedPrices(prices: readonly { when?: PriceConditionDocument }[]): number[] {
  const conditions = prices.map((price) => price.when ?? {})
  const kinds = inputKinds(conditions)
  const boxes = conditions.map((when) => boxOfPrice(when, kinds))
  return boxes.flatMap((box, at) => (coverage([box], boxes.slice(0, at)).kind === 'covered' ? [at] : []))
}

/** The limits as a degraded supply will see them: every mode after the rule’s operations. */
export function transformedModes(
  modes: readonly ModeDocument[],
  operations: readonly DegradationOperation[],
): ModeDocument[] {
  return modes.map((mode) => operations.reduce(transformed, mode))
}

function transformed(mode: ModeDocument, operation: DegradationOperation): ModeDocument {
  switch (operation.op) {
    case 'drop_inputs':
      return withInputs(mode, (kind, range) => (operation.inputs.includes(kind) ? null : range))
    case 'keep_first':
      return withInputs(mode, (kind, range) =>
        kind === operation.inputs ? capped(range, operation.count) : range,
      )
    case 'lower_resolution':
      if (!('resolutions' in mode)) return mode
      return { ...mode, resolutions: [...new Set(mode.resolutions.map((one) => lowered(one, operation.to)))] }
    case 'drop_generated_audio':
      return 'generate_audio' in mode ? { ...mode, generate_audio: false } : mode
  }
}

function withInputs(
  mode: ModeDocument,
  change: (kind: string, range: RangeJson) => RangeJson | null,
): ModeDocument {
  const inputs = Object.entries(mode.inputs).flatMap(([kind, range]) => {
    const after = change(kind, range)
    return after === null ? [] : [[kind, after] as const]
  })
  return { ...mode, inputs: Object.fromEntries(inputs) }
}

/** So many at most; who must give more gives so many. */
function capped(range: RangeJson, count: number): RangeJson {
  if ('values' in range) return { values: [...new Set(range.values.map((value) => Math.min(value, count)))] }
  const { min = 0, max = count } = range
  return { min: Math.min(min, count), max: Math.min(max, count) }
}

function lowered(resolution: string, to: string): string {
  return isLower(to, resolution) ? to : resolution
}
