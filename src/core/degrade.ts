/** Degradation rules as a fixed set of declarative operations on a request (DEG-1, DEG-3, DEG-6). */
import { countOf } from './capability.ts'
import type { DegradationOperation, DegradationRule, Model } from './catalog.ts'
import type { DegradationMode, InputCounts, RequestFacts } from './request.ts'

export interface Degraded {
  readonly request: RequestFacts
  /** In the rule's order, only what the request really had. */
  readonly droppedInputs: readonly string[]
}

/** DEG-1: strict wins, whichever side says it; a request that says nothing takes the model's mode. */
export function degradationMode(request: RequestFacts, model: Model): DegradationMode {
  return request.degradation === 'strict' || model.degradation === 'strict' ? 'strict' : 'best_effort'
}

/** The request as the supply behind the rule will see it. The original is left as it was. */
export function degrade(request: RequestFacts, rule: DegradationRule): Degraded {
  const state: Degraded = { request, droppedInputs: [] }
  return rule.operations.reduce(apply, state)
}

function apply(state: Degraded, operation: DegradationOperation): Degraded {
  switch (operation.op) {
    case 'drop_inputs':
      return dropInputs(state, operation.inputs)
  }
}

function dropInputs(state: Degraded, kinds: readonly string[]): Degraded {
  const { inputs } = state.request
  const had = new Set(kinds.filter((kind) => countOf(inputs, kind) > 0))
  return {
    request: { ...state.request, inputs: without(inputs, new Set(kinds)) },
    droppedInputs: [...state.droppedInputs, ...had],
  }
}

function without(inputs: InputCounts, kinds: ReadonlySet<string>): InputCounts {
  const rest: Record<string, number> = Object.create(null)
  for (const kind of Object.keys(inputs)) {
    if (!kinds.has(kind)) rest[kind] = countOf(inputs, kind)
  }
  return rest
}
