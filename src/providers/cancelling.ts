/** What the state of a job, as just seen, says about its cancellation. */
import type { CancelReply, PollReply } from './adapter.ts'

/** The answer to a cancellation that was not sent, or whose effect has been looked up. */
export function cancellationBy(seen: PollReply): CancelReply {
  switch (seen.kind) {
    case 'cancelled':
      return { kind: 'cancelled' }
    case 'no_answer':
      return seen
    case 'running':
      return { kind: 'refused', why: `The provider did not cancel the job; it is ${seen.phase}.` }
    case 'not_found':
      return { kind: 'refused', why: 'The provider no longer knows the job.' }
    case 'succeeded':
    case 'failed':
      return { kind: 'refused', why: 'The job has already ended at the provider.' }
    case 'unknown_status':
      return { kind: 'refused', why: 'The provider gives the job a status that is not known.' }
  }
}
