import { describe, expect, it } from 'vitest'
import { type AttemptState, type AttemptTransition, attemptAfter, isAlive, isCounted } from './attempt.ts'

const STATES: AttemptState[] = [
  'reserved',
  'submitting',
  'submission_uncertain',
  'accepted',
  'succeeded',
  'failed',
  'abandoned',
  'cancelled',
]
const TRANSITIONS: AttemptTransition[] = [
  'begin_submitting',
  'accept',
  'doubt',
  'refuse',
  'resolve_accepted',
  'resolve_not_accepted',
  'leave_unresolved',
  'finish',
  'fail',
  'abandon',
  'cancel',
]

const from = (state: AttemptState) => {
  return Object.fromEntries(
    TRANSITIONS.flatMap((name) => {
      const to = attemptAfter(state, name)
      return to === null ? [] : [[name, to]]
    }),
  )
}

describe('attempt', () => {
  it('UNK-6: nothing is sent before `submitting`, and only what sent nothing is abandoned', () => {
    expect(from('reserved')).toEqual({ begin_submitting: 'submitting', abandon: 'abandoned' })
    expect(from('submitting')).toEqual({
      accept: 'accepted',
      doubt: 'submission_uncertain',
      refuse: 'failed',
      finish: 'succeeded',
      abandon: 'abandoned',
    })
  })

  it('UNK-1, UNK-4, UNK-5: an uncertain one is resolved either way, or left unresolved; it is never abandoned', () => {
    expect(from('submission_uncertain')).toEqual({
      resolve_accepted: 'accepted',
      resolve_not_accepted: 'failed',
      leave_unresolved: 'failed',
    })
  })

  it('ends once: no transition leads out of an end, or back to before the submission', () => {
    expect(from('accepted')).toEqual({
      finish: 'succeeded',
      fail: 'failed',
      cancel: 'cancelled',
      leave_unresolved: 'failed',
    })
    for (const state of STATES.filter((each) => !isAlive(each))) expect(from(state)).toEqual({})
    for (const state of STATES) {
      expect(Object.values(from(state))).not.toContain('reserved')
      if (state !== 'reserved') expect(Object.values(from(state))).not.toContain('submitting')
    }
  })

  it('UNK-2: holds its leases while it is reserved, submitting, uncertain or accepted', () => {
    expect(STATES.filter(isAlive)).toEqual(['reserved', 'submitting', 'submission_uncertain', 'accepted'])
  })

  it('UNK-6: counts once it reached `submitting`', () => {
    expect(STATES.filter((state) => !isCounted(state))).toEqual(['reserved', 'abandoned'])
  })
})
