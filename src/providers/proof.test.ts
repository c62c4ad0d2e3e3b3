/** How a table is read, and what an adapter may declare, on a dialect made up for it. */
import { describe, expect, it } from 'vitest'
import { meaning } from '../core/outcome.ts'
import type { Exchange } from './call.ts'
import { objectAt, textAt } from './json.ts'
import { endedFault, meaningOf, type Reading, readFault, requestIdOf, submissionFault } from './proof.ts'

const A = meaning('content/request', 'content_refused')
const B = meaning('supply/supply', 'upstream_error', { retryable: true })
const C = meaning('capacity/channel', 'rate_limited', { retryable: true })
const table = [
  { code: 'Full', status: 403, meaning: C },
  { code: 'Full.Queue', meaning: C },
  { code: 'Full*', meaning: B },
  { code: 'Vague', not4xx: true as const, meaning: B },
  { text: /not allowed/i, meaning: A },
]
const reading: Reading = {
  dialect: {
    table,
    create5xx: ['Full.Documented'],
    envelope: (body) => {
      const error = objectAt(body, 'error')
      return error && { code: textAt(error, 'code'), message: textAt(error, 'message') ?? '' }
    },
  },
  secrets: ['sk-secret-1'],
  declared5xx: ['Full.Declared'],
}
const answer = (
  status: number,
  error: object,
  headers: Record<string, string> = {},
): Extract<Exchange, { kind: 'answered' }> => ({
  kind: 'answered',
  answer: { status, headers, body: Buffer.from(JSON.stringify({ error })) },
  receivedAtMs: 0,
})
const spoken = (code: string | null, message = '') => ({ code, message })

describe('ERR-1: a table', () => {
  it.each([
    ['the code itself', spoken('Full.Queue'), null, C],
    ['what begins so', spoken('Full.Other'), null, B],
    ['the code alone, by a star', spoken('Full'), 400, B],
    ['the code and the status', spoken('Full'), 403, C],
    ['the words', spoken(null, 'This is NOT allowed.'), 400, A],
    ['a code that the words follow', spoken('Unheard', 'not allowed'), 400, A],
    ['a general code, of a job', spoken('Vague'), null, B],
    ['a general code, under 5xx', spoken('Vague'), 500, B],
    ['a general code, under 4xx', spoken('Vague'), 400, null],
    ['nothing', spoken('Empty'), 400, null],
    ['nothing, without a code', spoken(null), 400, null],
  ])('is met by %s', (_, said, status, expected) => {
    expect(meaningOf(table, said, status)).toBe(expected)
  })
})

describe('UNK-7: a 5xx in the provider’s own envelope', () => {
  it.each([
    ['Full.Documented', 'rejected'],
    ['Full.Declared', 'rejected'],
    ['Full.Other', 'unknown'],
    ['Unheard', 'unknown'],
  ])('%s: %s', (code, certainty) => {
    expect(submissionFault(answer(503, { code, message: 'x' }), reading).certainty).toBe(certainty)
  })

  it('a declaration for 5xx is none for 2xx, and the other way round', () => {
    const declared = answer(200, { code: 'Full.Declared', message: 'x' })
    expect(submissionFault(declared, reading).certainty).toBe('unknown')
    expect(submissionFault(declared, { ...reading, refusesIn2xx: true }).certainty).toBe('rejected')
    const other = answer(503, { code: 'Full.Other', message: 'x' })
    expect(submissionFault(other, { ...reading, refusesIn2xx: true }).certainty).toBe('unknown')
  })
})

it('HLT-15: Retry-After counts from the moment of receipt', () => {
  const held = {
    ...answer(429, {}, { 'retry-after': 'Thu, 01 Jan 1970 00:01:00 GMT' }),
    receivedAtMs: 20_000,
  }
  expect(submissionFault(held, reading).retryAfterMs).toBe(40_000)
})

it('HLT-10: a read that runs out of time while connecting speaks against the channel, one that we stop does not', () => {
  const late = readFault({ kind: 'stopped_before_sending', why: 'deadline' }, reading)
  expect(late).toMatchObject({
    scope: 'channel',
    impact: 'failure',
    connection: true,
    code: 'connection_failed',
  })
  const ours = readFault({ kind: 'stopped_before_sending', why: 'closing' }, reading)
  expect(ours).toMatchObject({ scope: 'attempt', impact: 'none', connection: false, code: 'call_stopped' })
})

it('ERR-3: no secret stands in code, text or request number', () => {
  const fault = endedFault(spoken('E-sk-secret-1', 'key sk-secret-1 at https://a.test/x?sig=abc'), reading)
  expect(JSON.stringify(fault)).not.toMatch(/secret|sig=abc/)
  expect(requestIdOf(answer(200, {}, { 'x-request-id': 'Bearer abcdef123456' }))).toBe('Bearer [removed]')
})
