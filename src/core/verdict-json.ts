/** The verdict in the contract's shape and order of keys, ready for JSON.stringify. */
import { compareCodePoints } from './code-points.ts'
import { printMicros } from './money.ts'
import type { DegradedDelivery, Exclusions, Rejected, Selected, Verdict, Waiting } from './verdict.ts'

export function printVerdict(verdict: Verdict): object {
  switch (verdict.result) {
    case 'selected':
      return printSelected(verdict)
    case 'wait':
      return printWaiting(verdict)
    case 'rejected':
      return printRejected(verdict)
  }
}

function printSelected(verdict: Selected): object {
  return {
    result: verdict.result,
    binding_id: verdict.bindingId,
    supply_id: verdict.supplyId,
    tier: verdict.tier,
    pass: verdict.pass,
    decided_by: verdict.decidedBy,
    probe_turn: verdict.probeTurn,
    quote: printMicros(verdict.quote),
    baseline: verdict.baseline === null ? null : printMicros(verdict.baseline),
    ranking: verdict.ranking,
    excluded: printExclusions(verdict.excluded),
    degraded: verdict.degraded === null ? null : printDelivery(verdict.degraded),
    alerts: verdict.alerts,
  }
}

function printDelivery(delivery: DegradedDelivery): object {
  return {
    requested_profile: delivery.requestedProfile,
    actual_profile: delivery.actualProfile,
    dropped_inputs: delivery.droppedInputs,
    ...(delivery.changes.length === 0 ? {} : { changes: delivery.changes }),
  }
}

function printWaiting({ result, reason, excluded, alerts }: Waiting): object {
  return { result, reason, excluded: printExclusions(excluded), alerts }
}

function printRejected({ result, code, param, excluded, alerts }: Rejected): object {
  return {
    result,
    code,
    ...(param !== undefined && { param }),
    ...(excluded !== undefined && { excluded: printExclusions(excluded) }),
    ...(alerts !== undefined && { alerts }),
  }
}

/** Sorted, so that a verdict has one text, whatever the order of the candidates was. */
function printExclusions(excluded: Exclusions): object {
  const sorted: Record<string, string> = Object.create(null)
  for (const id of Object.keys(excluded).sort(compareCodePoints)) sorted[id] = excluded[id] ?? ''
  return sorted
}
