/** Degradation rules as a fixed set of declarative operations on a request (DEG-1, DEG-3, DEG-6). */
import { countOf } from './capability.ts'
import type { DegradationOperation, DegradationRule, Model } from './catalog.ts'
import type { DegradationMode, InputCounts, RequestFacts } from './request.ts'

/** A field that is another one upstream, so that what is delivered is told beside what was asked for. */
export interface Change {
  /** `resolution`, `generate_audio`, or a kind of inputs, of which the count is told. */
  readonly field: string
  readonly from: string | number | boolean
  readonly to: string | number | boolean
}

export interface Degraded {
  readonly request: RequestFacts
  /** Kinds of which something is left out, in the rule's order; only what the request really had. */
  readonly droppedInputs: readonly string[]
  /** What is lowered and not left out altogether, in the rule's order. */
  readonly changes: readonly Change[]
}

/** DEG-1: strict wins, whichever side says it; a request that says nothing takes the model's mode. */
export function degradationMode(request: RequestFacts, model: Model): DegradationMode {
  return request.degradation === 'strict' || model.degradation === 'strict' ? 'strict' : 'best_effort'
}

/** The request as the supply behind the rule will see it. The original is left as it was. */
export function degrade(request: RequestFacts, rule: Pick<DegradationRule, 'operations'>): Degraded {
  const state: Degraded = { request, droppedInputs: [], changes: [] }
  return rule.operations.reduce(apply, state)
}

function apply(state: Degraded, operation: DegradationOperation): Degraded {
  switch (operation.op) {
    case 'drop_inputs':
      return dropInputs(state, operation.inputs)
    case 'keep_first':
      return keepFirst(state, operation)
    case 'lower_resolution':
      return lowerResolution(state, operation.to)
    case 'drop_generated_audio':
      return dropGeneratedAudio(state)
  }
}

function dropInputs(state: Degraded, kinds: readonly string[]): Degraded {
  const { inputs } = state.request
  const had = kinds.filter((kind) => countOf(inputs, kind) > 0)
  const rest = Object.fromEntries(kinds.map((kind) => [kind, 0]))
  return {
    ...state,
    request: { ...state.request, inputs: withCounts(inputs, rest) },
    droppedInputs: [...new Set([...state.droppedInputs, ...had])],
    changes: state.changes.filter((change) => !had.includes(change.field)),
  }
}

/** The first so many, in the customer's order; fewer are left as they are. */
function keepFirst(state: Degraded, keep: { readonly inputs: string; readonly count: number }): Degraded {
  const from = countOf(state.request.inputs, keep.inputs)
  if (from <= keep.count) return state
  if (keep.count === 0) return dropInputs(state, [keep.inputs])
  return {
    request: {
      ...state.request,
      inputs: withCounts(state.request.inputs, { [keep.inputs]: keep.count }),
    },
    droppedInputs: [...new Set([...state.droppedInputs, keep.inputs])],
    changes: changed(state.changes, { field: keep.inputs, from, to: keep.count }),
  }
}

/** Only ever lower: what is at it already, or below, or has no height to compare, is left. */
function lowerResolution(state: Degraded, to: string): Degraded {
  const { request } = state
  if (request.media !== 'video' || !isLower(to, request.resolution)) return state
  const change = { field: 'resolution', from: request.resolution, to }
  return { ...state, request: { ...request, resolution: to }, changes: changed(state.changes, change) }
}

function dropGeneratedAudio(state: Degraded): Degraded {
  const { request } = state
  if (request.media !== 'video' || !request.generateAudio) return state
  const change = { field: 'generate_audio', from: true, to: false }
  return { ...state, request: { ...request, generateAudio: false }, changes: changed(state.changes, change) }
}

/** Two operations on one field are one change, from what the customer asked for. */
function changed(changes: readonly Change[], change: Change): readonly Change[] {
  const before = changes.find((one) => one.field === change.field)
  const from = before ? before.from : change.from
  return [...changes.filter((one) => one !== before), { ...change, from }]
}

/** Whether a resolution has fewer lines than another; false where one of them says no number of lines. */
export function isLower(resolution: string, than: string): boolean {
  const [lines, others] = [linesOf(resolution), linesOf(than)]
  return lines !== null && others !== null && lines < others
}

const NAMED_LINES: Readonly<Record<string, number>> = { '2k': 1440, '4k': 2160, '8k': 4320 }

/** The short side in lines: 720 of `720p`, 2160 of `4k`; null where the name says none. */
export function linesOf(resolution: string): number | null {
  const name = resolution.toLowerCase()
  const lines = /^(\d{2,5})p$/.exec(name)?.[1]
  return lines === undefined ? (NAMED_LINES[name] ?? null) : Number(lines)
}

/** A kind of which nothing is left is absent. */
function withCounts(inputs: InputCounts, counts: Readonly<Record<string, number>>): InputCounts {
  const rest: Record<string, number> = Object.create(null)
  for (const kind of Object.keys(inputs)) {
    const count = Object.hasOwn(counts, kind) ? (counts[kind] ?? 0) : countOf(inputs, kind)
    if (count > 0 || !Object.hasOwn(counts, kind)) rest[kind] = count
  }
  return rest
}
