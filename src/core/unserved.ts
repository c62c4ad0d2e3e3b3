/** LAY-5: nothing was chosen. Would waiting help, and what is it that one waits for? */
import type { Assessment } from './eligibility.ts'
import type { RejectionCode, WaitReason } from './verdict.ts'

export type Unserved =
  | { readonly result: 'wait'; readonly reason: WaitReason }
  | { readonly result: 'rejected'; readonly code: RejectionCode }

/** The first that holds, in the order of decision.md, Nothing chosen. */
export function unserved(assessments: readonly Assessment[], admitted: boolean): Unserved {
  if (assessments.some(waitsForCapacity)) return wait('capacity')
  if (assessments.some(waitsForHealth)) return wait('health')
  // A request at the door is not kept for what only an operator can change.
  if (admitted && assessments.some(waitsForOperator)) return wait('disabled')
  if (admitted && assessments.some(waitsForPrices)) return wait('cost')
  return {
    result: 'rejected',
    code: assessments.some(isTooDear) ? 'cost_limit_exceeded' : 'no_capable_supply',
  }
}

function wait(reason: WaitReason): Unserved {
  return { result: 'wait', reason }
}

function waitsForCapacity({ standing, payable }: Assessment): boolean {
  return standing.capable && payable && standing.stoppedByCapacity && !standing.stoppedByHealth
}

/** A circuit that cools down, or, for a degraded candidate with no other obstacle, the time that must pass first. */
function waitsForHealth({ standing, payable, tooEarly }: Assessment): boolean {
  if (!standing.capable || !payable) return false
  if (standing.stoppedByHealth) return !standing.healthDisabled
  return tooEarly && !standing.stoppedByCapacity
}

function waitsForOperator({ standing, payable }: Assessment): boolean {
  return couldServe(standing) && payable && (!standing.switchedOn || standing.healthDisabled)
}

/** The task's own limit does not change while it waits; prices and the other limits may. */
function waitsForPrices({ standing, costObstacle }: Assessment): boolean {
  return couldServe(standing) && costObstacle !== null && costObstacle !== 'over_task_limit'
}

function isTooDear({ standing, costObstacle }: Assessment): boolean {
  return couldServe(standing) && costObstacle !== null && costObstacle !== 'no_quote'
}

function couldServe(standing: Assessment['standing']): boolean {
  return standing.fits && !standing.refused
}
