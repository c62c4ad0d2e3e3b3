/**
 * One submission of a task to one supply, by its states. Each transition has a name and says from where it is legal; a
 * write that does not find the attempt in such a state is late, and changes nothing.
 */
export type AttemptState =
  /** Its leases are held; nothing has been sent. */
  | 'reserved'
  /** Committed before a byte leaves (UNK-6): from here on it counts as an attempt. */
  | 'submitting'
  /** It cannot be known whether the provider took it (UNK-1). */
  | 'submission_uncertain'
  | 'accepted'
  | 'succeeded'
  | 'failed'
  /** Nothing was ever sent (UNK-6): not counted, shown nowhere. */
  | 'abandoned'
  | 'cancelled'

export type AttemptTransition =
  | 'begin_submitting'
  | 'accept'
  | 'doubt'
  | 'refuse'
  | 'resolve_accepted'
  | 'resolve_not_accepted'
  | 'leave_unresolved'
  | 'finish'
  | 'fail'
  | 'abandon'
  | 'cancel'

type Moves = Partial<Record<AttemptState, AttemptState>>

const LEGAL: Readonly<Record<AttemptTransition, Moves>> = {
  begin_submitting: { reserved: 'submitting' },
  accept: { submitting: 'accepted' },
  doubt: { submitting: 'submission_uncertain' },
  refuse: { submitting: 'failed' },
  // UNK-4: by the provider's own word, or by hand.
  resolve_accepted: { submission_uncertain: 'accepted' },
  resolve_not_accepted: { submission_uncertain: 'failed' },
  // UNK-5: the deadline passed. RTY-7: nobody could ask about the job until the provider's maximum life was over.
  leave_unresolved: { submission_uncertain: 'failed', accepted: 'failed' },
  // An image's answer is its result: there is no time between acceptance and end.
  finish: { submitting: 'succeeded', accepted: 'succeeded' },
  fail: { accepted: 'failed' },
  // `submitting` only where it is proven that no byte left (UNK-7).
  abandon: { reserved: 'abandoned', submitting: 'abandoned' },
  cancel: { accepted: 'cancelled' },
}

/** Where the transition leads from here; null where it is not legal. */
export function attemptAfter(state: AttemptState, transition: AttemptTransition): AttemptState | null {
  return LEGAL[transition][state] ?? null
}

/** An attempt that is alive holds its leases, and no other attempt of its task may be begun (UNK-2, STR-8). */
export function isAlive(state: AttemptState): boolean {
  switch (state) {
    case 'reserved':
    case 'submitting':
    case 'submission_uncertain':
    case 'accepted':
      return true
    case 'succeeded':
    case 'failed':
    case 'abandoned':
    case 'cancelled':
      return false
  }
}

/** UNK-6: whether it counts towards `max_attempts` and stands in `attempts[]` of a decision. */
export function isCounted(state: AttemptState): boolean {
  return state !== 'reserved' && state !== 'abandoned'
}
