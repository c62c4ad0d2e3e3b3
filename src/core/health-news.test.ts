import { describe, expect, it } from 'vitest'
import { applyNews } from './health.ts'
import { escalated, type Happening, mayGive, type NewsKind, newsFor } from './health-news.ts'
import { NEW_ROW } from './health-row.ts'
import type { Fault } from './outcome.ts'

const FAULT: Fault = {
  category: 'supply',
  scope: 'supply',
  retryable: true,
  certainty: 'rejected',
  impact: 'failure',
  code: 'upstream_error',
  message: '',
  providerCode: null,
  httpStatus: 500,
  fingerprint: 'supply|supply|http|500',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}
const OF = { epoch: 7, calledAt: 1000 }

const channel = (happening: Happening) => newsFor('channel', happening, OF)
const supply = (happening: Happening) => newsFor('supply', happening, OF)
const fault = (parts: Partial<Fault>): Happening => ({ kind: 'fault', fault: { ...FAULT, ...parts } })
const noAnswer = (parts: Partial<Fault>, inARow: number): Happening => {
  return { kind: 'no_answer', fault: { ...FAULT, ...parts }, inARow }
}

describe('news of a fault', () => {
  it('HLT-2: what has the scope of the channel is news to the channel alone', () => {
    for (const code of ['key_refused', 'balance_exhausted'] as const) {
      const happening = fault({ scope: 'channel', code, impact: 'persistent_failure' })
      expect(channel(happening)).toMatchObject({
        kind: 'failed',
        cause: 'persistent',
        epoch: 7,
        calledAt: 1000,
        code,
      })
      expect(supply(happening)).toBeNull()
    }
    expect(channel(fault({ scope: 'channel', connection: true, code: 'connection_failed' }))).toMatchObject({
      cause: 'connection',
    })
    expect(channel(fault({ scope: 'channel', code: 'access_refused', httpStatus: 403 }))).toMatchObject({
      cause: 'bare_403',
    })
    const certificate = { scope: 'channel', connection: true, impact: 'persistent_failure' } as const
    expect(channel(fault(certificate))).toMatchObject({ cause: 'persistent' })
  })

  it('HLT-3: what has the scope of the supply is news to the supply alone', () => {
    for (const code of ['model_missing', 'upstream_error', 'answer_unreadable'] as const) {
      expect(supply(fault({ code }))).toMatchObject({
        kind: 'failed',
        cause: 'ordinary',
        code,
        fingerprint: FAULT.fingerprint,
      })
      expect(channel(fault({ code }))).toBeNull()
    }
  })

  it('HLT-9, ERR-2: content and request are news to nobody, whatever else is said of them', () => {
    for (const category of ['content', 'request'] as const) {
      for (const scope of ['request', 'supply', 'channel', 'attempt'] as const) {
        for (const impact of ['none', 'failure', 'persistent_failure', 'capacity'] as const) {
          expect(channel(fault({ category, scope, impact }))).toBeNull()
          expect(supply(fault({ category, scope, impact }))).toBeNull()
        }
      }
    }
  })

  it('HLT-9: a fault without impact is news to nobody', () => {
    expect([channel(fault({ impact: 'none', scope: 'channel' })), supply(fault({ impact: 'none' }))]).toEqual(
      [null, null],
    )
  })

  it('HLT-15: a 429 is news to the level in its scope', () => {
    const full = { category: 'capacity', impact: 'capacity', retryAfterMs: 3000 } as const
    expect(supply(fault(full))).toMatchObject({ kind: 'capacity', retryAfterMs: 3000, epoch: 7 })
    expect(channel(fault(full))).toBeNull()
    expect(channel(fault({ ...full, scope: 'channel' }))).toMatchObject({ kind: 'capacity' })
    expect(supply(fault({ ...full, scope: 'channel' }))).toBeNull()
  })

  it('UNK-8: an uncertain submission is news to the supply, when it is observed', () => {
    const unknown = fault({
      category: 'unknown',
      scope: 'attempt',
      certainty: 'unknown',
      code: 'submission_unknown',
    })
    expect(supply(unknown)).toMatchObject({ kind: 'uncertain', epoch: 7 })
    expect(channel(unknown)).toBeNull()
    expect(supply({ kind: 'lost' })).toMatchObject({
      kind: 'uncertain',
      epoch: 7,
      code: 'submission_unknown',
      fingerprint: 'unknown|attempt|process|lost',
    })
    expect(channel({ kind: 'lost' })).toBeNull()
  })

  it('HLT-3: a job that ended without a reason is a failure of its supply, and no doubt', () => {
    const ended = fault({
      category: 'unknown',
      scope: 'attempt',
      certainty: 'rejected',
      code: 'generation_failed',
    })
    expect(supply(ended)).toMatchObject({ kind: 'failed', cause: 'ordinary' })
    expect(channel(ended)).toBeNull()
  })
})

describe('news of success', () => {
  it('HLT-15: an acceptance is the channel’s success, a result the supply’s', () => {
    expect(channel({ kind: 'accepted' })).toEqual({ kind: 'accepted', ...OF })
    expect(channel({ kind: 'finished', durationMs: 5 })).toBeNull()
    expect(supply({ kind: 'finished', durationMs: 5 })).toEqual({ kind: 'finished', durationMs: 5, ...OF })
  })

  it('HLT-15: a supply learns of an acceptance only that its hold is over', () => {
    const accepted = newsFor('supply', { kind: 'accepted' }, { epoch: 0, calledAt: 1000 })
    expect(accepted?.kind).toBe('accepted')
    if (accepted)
      expect(applyNews('supply', NEW_ROW, accepted, 5000)).toMatchObject({ row: NEW_ROW, event: null })
  })
})

describe('news of polls', () => {
  it('HLT-10: a poll refused for authentication is of now, for the channel alone', () => {
    const refused = noAnswer({ scope: 'channel', code: 'key_refused', impact: 'persistent_failure' }, 1)
    expect(channel(refused)).toMatchObject({ kind: 'refused_poll', epoch: null, cause: 'persistent' })
    expect(supply(refused)).toBeNull()
    expect(channel(noAnswer({ scope: 'channel', code: 'access_refused' }, 1))).toMatchObject({
      cause: 'bare_403',
    })
  })

  it('HLT-10: so are three polls in a row without an answer, not two', () => {
    expect(channel(noAnswer({}, 2))).toBeNull()
    expect(channel(noAnswer({}, 3))).toMatchObject({ kind: 'unanswered_polls', epoch: null })
    expect(supply(noAnswer({}, 3))).toBeNull()
  })

  it('HLT-9: a 429 is an answer, and a poll that we stopped ourselves says nothing', () => {
    expect(channel(noAnswer({ category: 'capacity', impact: 'capacity' }, 3))).toBeNull()
    expect(channel(noAnswer({ impact: 'none' }, 3))).toBeNull()
  })
})

describe('the channel’s share', () => {
  it('HLT-16: a failure by the cause of its supplies, in the epoch of the channel', () => {
    expect(escalated(FAULT, OF)).toEqual({
      ...OF,
      kind: 'failed',
      cause: 'escalated',
      code: 'upstream_error',
      fingerprint: FAULT.fingerprint,
    })
  })
})

describe('what one attempt may give', () => {
  const all: NewsKind[] = [
    'accepted',
    'finished',
    'failed',
    'uncertain',
    'capacity',
    'refused_poll',
    'unanswered_polls',
  ]
  const given = (...kinds: NewsKind[]) => new Set(kinds)

  it('HLT-19: each kind once, however often it is reported', () => {
    for (const kind of all) {
      expect(mayGive(kind, given())).toBe(true)
      expect(mayGive(kind, given(kind))).toBe(false)
    }
  })

  it('HLT-19: no success after it counted as an uncertain failure, but a failure may still follow', () => {
    expect(mayGive('accepted', given('uncertain'))).toBe(false)
    expect(mayGive('finished', given('uncertain'))).toBe(false)
    expect(mayGive('failed', given('uncertain'))).toBe(true)
    expect(mayGive('finished', given('accepted'))).toBe(true)
  })
})
