/** ORD-1, ORD-2 and RTY: why a request is rejected before any candidate is looked at, in the order of decision.md. */
import { misfit } from './capability.ts'
import { microsOfSeconds } from './time.ts'
import type { DecisionInput, Rejected, RejectionCode } from './verdict.ts'

/** null: let in, to be decided among the candidates. */
export function rejectionAtTheDoor(input: DecisionInput): Rejected | null {
  if (!input.caller.userActive) return rejected('access_denied')
  // ORD-19: what the key, the publication and the limits allow is judged once, before a task is admitted.
  return (input.task.admitted ? null : rejectionOfNewRequest(input)) ?? rejectionByAttempts(input)
}

function rejectionOfNewRequest({ caller, model, request }: DecisionInput): Rejected | null {
  const { allowedGroups } = model
  const inGroup = allowedGroups === null || caller.groups.some((group) => allowedGroups.includes(group))
  if (!caller.keyActive || !inGroup) return rejected('access_denied')
  if (!model.enabled || !model.published) return rejected('model_not_available')
  const param = request.media === model.media ? misfit(request, model.limits) : 'media'
  return param === null ? null : { ...rejected('invalid_request'), param }
}

function rejectionByAttempts({ now, task, request, model }: DecisionInput): Rejected | null {
  const { maxAttempts, retryWindowSeconds } = model.policy
  if (task.attempts.some((attempt) => attempt.outcome !== 'failed')) return rejected('attempt_open')
  if (task.attempts.some((attempt) => !attempt.mayChangeSupply)) return rejected('not_retryable')
  if (task.attempts.length >= maxAttempts) return rejected('attempts_exhausted')
  const age = Math.max(0, now - task.createdAt)
  const late = request.media === 'video' && age > microsOfSeconds(retryWindowSeconds)
  return late ? rejected('retry_window_expired') : null
}

function rejected(code: RejectionCode): Rejected {
  return { result: 'rejected', code }
}
