/** Row by row what an answer proves: requirements.md UNK-7 and the table of section 7. */
import { describe, expect, it } from 'vitest'
import {
  classifyEnded,
  classifyRead,
  classifySubmission,
  classifyUnbuilt,
  type Evidence,
  FAULT_CODES,
  type Fault,
  meaning,
  type Statement,
  type TransportEnd,
} from './outcome.ts'

const error = (code: string): TransportEnd => ({ kind: 'error', code, message: 'as it was said' })
const connecting = (end: TransportEnd): Evidence => ({ stage: 'connecting', end })
const awaiting = (end: TransportEnd): Evidence => ({ stage: 'awaiting_head', end })
const reading = (status: number, end: TransportEnd): Evidence => ({ stage: 'reading_body', status, end })
const complete = (
  status: number,
  statement: Statement | null = null,
  retryAfterMs: number | null = null,
): Evidence => ({
  stage: 'complete',
  status,
  statement,
  retryAfterMs,
})

const REFUSED = meaning('content/request', 'content_refused')
const said = (given: Partial<Statement> = {}): Statement => ({
  meaning: REFUSED,
  providerCode: 'Sensitive',
  message: 'Sensitive: no',
  provesRefusal: false,
  ...given,
})

const UNKNOWN = {
  category: 'unknown',
  scope: 'attempt',
  retryable: false,
  certainty: 'unknown',
  impact: 'failure',
}
const verdict = ({ category, scope, retryable, certainty, impact, code }: Fault) =>
  `${category}/${scope} ${retryable ? 'retryable' : 'final'} ${certainty} ${impact} ${code}`

describe('a submission that never left', () => {
  it.each([
    ['DNS', 'ENOTFOUND', 'supply/channel retryable not_sent failure connection_failed'],
    ['DNS, for now', 'EAI_AGAIN', 'supply/channel retryable not_sent failure connection_failed'],
    ['refused', 'ECONNREFUSED', 'supply/channel retryable not_sent failure connection_failed'],
    ['unreachable', 'EHOSTUNREACH', 'supply/channel retryable not_sent failure connection_failed'],
    [
      'TCP or TLS too slow',
      'UND_ERR_CONNECT_TIMEOUT',
      'supply/channel retryable not_sent failure connection_failed',
    ],
    ['reset in the handshake', 'ECONNRESET', 'supply/channel retryable not_sent failure connection_failed'],
    [
      'no TLS there',
      'ERR_SSL_WRONG_VERSION_NUMBER',
      'supply/channel retryable not_sent failure connection_failed',
    ],
    [
      'a proxy that refuses',
      'UND_ERR_ABORTED',
      'supply/channel retryable not_sent failure connection_failed',
    ],
    [
      'self-signed',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'supply/channel retryable not_sent persistent_failure certificate_refused',
    ],
    [
      'unknown authority',
      'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      'supply/channel retryable not_sent persistent_failure certificate_refused',
    ],
    [
      'expired',
      'CERT_HAS_EXPIRED',
      'supply/channel retryable not_sent persistent_failure certificate_refused',
    ],
    [
      'another host',
      'ERR_TLS_CERT_ALTNAME_INVALID',
      'supply/channel retryable not_sent persistent_failure certificate_refused',
    ],
    ...[
      'SELF_SIGNED_CERT_IN_CHAIN',
      'HOSTNAME_MISMATCH',
      'INVALID_CA',
      'INVALID_PURPOSE',
      'PATH_LENGTH_EXCEEDED',
    ].map((code) => [
      'a certificate that is refused',
      code,
      'supply/channel retryable not_sent persistent_failure certificate_refused',
    ]),
    ['our own protocol', 'UND_ERR_NOT_SUPPORTED', 'request/attempt final not_sent none call_misbuilt'],
    ['our own mistake', 'UND_ERR_INVALID_ARG', 'request/attempt final not_sent none call_misbuilt'],
    [
      'our own length',
      'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
      'request/attempt final not_sent none call_misbuilt',
    ],
  ])('UNK-7, HLT-2: %s (%s)', (_, code, expected) => {
    const fault = classifySubmission(connecting(error(code)))
    expect(verdict(fault)).toBe(expected)
    expect(fault.connection).toBe(!expected.includes('call_misbuilt'))
    expect(fault.fingerprint.endsWith(`|connecting|${code}`)).toBe(true)
  })

  it.each(['deadline', 'stopped'] as const)('UNK-7: our own %s says nothing against the channel', (kind) => {
    expect(classifySubmission(connecting({ kind }))).toMatchObject({
      certainty: 'not_sent',
      retryable: true,
      impact: 'none',
      connection: false,
    })
  })
})

describe('a submission that may have arrived', () => {
  const codes = [
    'UND_ERR_HEADERS_TIMEOUT',
    'ECONNRESET',
    'EPIPE',
    'UND_ERR_SOCKET',
    'HTTPParserError',
    'ENOTFOUND',
    'CERT_HAS_EXPIRED',
  ]
  it.each(codes)('UNK-7, UNK-8: %s after the first byte: unknown, whatever it is called', (code) => {
    for (const evidence of [
      awaiting(error(code)),
      reading(200, error(code)),
      reading(400, error(code)),
      reading(503, error(code)),
    ]) {
      expect(classifySubmission(evidence)).toMatchObject({
        ...UNKNOWN,
        connection: false,
        code: 'submission_unknown',
      })
    }
  })

  it('UNK-7, UNK-8: our deadline after the first byte: unknown, a failure of the supply', () => {
    expect(classifySubmission(awaiting({ kind: 'deadline' }))).toMatchObject(UNKNOWN)
    expect(classifySubmission(reading(200, { kind: 'deadline' }))).toMatchObject(UNKNOWN)
    expect(classifySubmission(reading(200, { kind: 'too_large' }))).toMatchObject(UNKNOWN)
  })

  it('UNK-7: our own stop after the first byte: unknown, and no failure of anybody', () => {
    expect(classifySubmission(awaiting({ kind: 'stopped' }))).toMatchObject({
      ...UNKNOWN,
      impact: 'none',
      code: 'submission_unknown',
    })
  })
})

describe('a complete answer to a submission', () => {
  const byStatus: [number, string][] = [
    [400, 'request/request final rejected none invalid_request'],
    [401, 'supply/channel retryable rejected persistent_failure key_refused'],
    [402, 'supply/channel retryable rejected persistent_failure balance_exhausted'],
    [403, 'supply/channel retryable rejected failure access_refused'],
    [404, 'supply/supply retryable rejected failure model_missing'],
    [405, 'supply/supply retryable rejected failure model_missing'],
    [409, 'request/request final rejected none invalid_request'],
    [413, 'request/request final rejected none invalid_request'],
    [415, 'request/request final rejected none invalid_request'],
    [421, 'supply/channel retryable rejected failure upstream_error'],
    [422, 'request/request final rejected none invalid_request'],
    [425, 'supply/channel retryable rejected failure upstream_error'],
    [429, 'capacity/supply retryable rejected capacity rate_limited'],
    [499, 'request/request final rejected none invalid_request'],
  ]
  it.each(byStatus)('ERR-1, UNK-7: a complete %d is a refusal by its status', (status, expected) => {
    expect(verdict(classifySubmission(complete(status)))).toBe(expected)
    const unmapped = said({ meaning: null })
    expect(verdict(classifySubmission(complete(status, unmapped)))).toBe(expected)
  })

  it('ERR-1: the provider’s code comes before the status', () => {
    for (const status of [400, 403, 404, 429]) {
      const fault = classifySubmission(complete(status, said()))
      expect(verdict(fault)).toBe('content/request final rejected none content_refused')
      expect(fault.providerCode).toBe('Sensitive')
    }
  })

  it.each([200, 201, 202, 204, 301, 302, 303, 307, 308, 408, 500, 501, 502, 503, 504, 529])(
    'UNK-7: a bare or unmapped %d: unknown',
    (status) => {
      expect(classifySubmission(complete(status))).toMatchObject(UNKNOWN)
      expect(
        classifySubmission(complete(status, said({ meaning: null, provesRefusal: true }))),
      ).toMatchObject(UNKNOWN)
      expect(classifySubmission(complete(status, said()))).toMatchObject(UNKNOWN)
    },
  )

  it('UNK-7: a 5xx or a 2xx with a code that the adapter declares a refusal goes by its code', () => {
    for (const status of [200, 500, 503]) {
      expect(classifySubmission(complete(status, said({ provesRefusal: true })))).toMatchObject({
        category: 'content',
        certainty: 'rejected',
      })
    }
  })

  it('UNK-7: no declaration makes a redirect or a 408 a refusal', () => {
    for (const status of [300, 301, 302, 303, 307, 308, 399, 408]) {
      expect(classifySubmission(complete(status, said({ provesRefusal: true })))).toMatchObject(UNKNOWN)
    }
  })

  it('HLT-15: a 429 keeps how long to wait', () => {
    expect(classifySubmission(complete(429, null, 7_000)).retryAfterMs).toBe(7_000)
    expect(classifySubmission(complete(429)).retryAfterMs).toBeNull()
  })

  it('UNK-7: whatever the answer, unknown is never retryable, and only a refusal or nothing sent is (RTY-2, STR-8)', () => {
    for (let status = 200; status < 600; status++) {
      for (const statement of [null, said({ meaning: null }), said(), said({ provesRefusal: true })]) {
        const fault = classifySubmission(complete(status, statement))
        expect(fault.certainty === 'unknown' && fault.retryable, `${status}`).toBe(false)
        expect(fault.certainty === 'unknown', `${status}`).toBe(fault.category === 'unknown')
        expect(FAULT_CODES).toContain(fault.code)
      }
    }
  })
})

describe('the same cause has the same fingerprint', () => {
  it('HLT-16: no ID, index, address or free text stands in it', () => {
    const fault = classifySubmission(
      complete(400, said({ providerCode: 'InvalidParameter.content[3].url 0217787654321 x' })),
    )
    expect(fault.fingerprint).toBe('content|request|provider|InvalidParameter.content.url_#_x')
    expect(classifySubmission(complete(502)).fingerprint).toBe('unknown|attempt|http|502')
    expect(classifySubmission(awaiting(error('UND_ERR_SOCKET'))).fingerprint).toBe(
      'unknown|attempt|awaiting_head|UND_ERR_SOCKET',
    )
  })

  it('HLT-16: it names the stage, and where nobody gave a code, that', () => {
    expect(classifyEnded(said()).fingerprint).toBe('content|request|ended|Sensitive')
    expect(classifyEnded(said({ providerCode: null })).fingerprint).toBe('content|request|ended|none')
    expect(classifySubmission(complete(400, said({ providerCode: null }))).fingerprint).toBe(
      'content|request|http|400',
    )
    const order = meaning('supply/supply', 'order_unsupported')
    expect(classifyUnbuilt(order, 'no such size').fingerprint).toBe(
      'supply|supply|building|order_unsupported',
    )
    for (const kind of ['deadline', 'stopped', 'too_large'] as const)
      expect(classifySubmission(reading(200, { kind })).fingerprint).toBe(
        `unknown|attempt|reading_body|${kind}`,
      )
  })

  it('HLT-16: a number of five digits is a code, one of six an ID; a name is cut at 64', () => {
    const last = (providerCode: string) => classifyEnded(said({ providerCode })).fingerprint.split('|').at(-1)
    expect(last('12345')).toBe('12345')
    expect(last('123456')).toBe('#')
    expect(last('a'.repeat(70))).toBe('a'.repeat(64))
    expect(last('a[0].b-c#d  e')).toBe('a.b-c#d_e')
  })
})

describe('what a fault says to operators', () => {
  const end = (given: TransportEnd) => classifySubmission(awaiting(given)).message

  it('ERR-1: how the exchange ended', () => {
    expect(end(error('EPIPE'))).toBe('EPIPE: as it was said')
    expect(end({ kind: 'deadline' })).toBe('The time of the call was up.')
    expect(new Set((['deadline', 'stopped', 'too_large'] as const).map((kind) => end({ kind }))).size).toBe(3)
    expect(end({ kind: 'stopped' })).not.toBe('')
    expect(end({ kind: 'too_large' })).not.toBe('')
  })

  it('ERR-1: the provider’s own words, or that there were none', () => {
    expect(classifySubmission(complete(400, said())).message).toBe('Sensitive: no')
    for (const statement of [null, said({ message: '' })])
      expect(classifySubmission(complete(502, statement)).message).toBe(
        'HTTP 502, without an answer that could be read',
      )
  })

  it('ERR-1: the status, where a head came', () => {
    for (const classify of [classifySubmission, classifyRead]) {
      expect(classify(awaiting(error('EPIPE'))).httpStatus).toBeNull()
      expect(classify(reading(503, error('EPIPE'))).httpStatus).toBe(503)
      expect(classify(complete(429)).httpStatus).toBe(429)
      expect(classify(connecting(error('EPIPE'))).httpStatus).toBeNull()
    }
    expect(classifyEnded(said())).toMatchObject({
      httpStatus: null,
      retryAfterMs: null,
      providerCode: 'Sensitive',
    })
  })

  it('ERR-4: whether it is about a real person', () => {
    expect(meaning('content/request', 'content_refused').realPerson).toBe(false)
    const person = meaning('content/request', 'real_person_refused', { realPerson: true })
    expect(person.realPerson).toBe(true)
    expect(classifyEnded(said({ meaning: person })).realPerson).toBe(true)
    expect(classifyEnded(said()).realPerson).toBe(false)
  })

  it('ERR-1: a meaning is what its place says, for every place', () => {
    for (const category of ['content', 'request', 'supply', 'capacity', 'unknown'] as const)
      for (const scope of ['request', 'supply', 'channel', 'attempt'] as const)
        expect(meaning(`${category}/${scope}`, 'upstream_error')).toEqual({
          category,
          scope,
          code: 'upstream_error',
          retryable: false,
          impact: 'none',
          realPerson: false,
        })
  })
})

describe('a call that may be repeated', () => {
  it.each([
    [
      'no connection',
      connecting(error('ECONNREFUSED')),
      'supply/channel retryable unknown failure connection_failed',
    ],
    [
      'a bad certificate',
      connecting(error('CERT_HAS_EXPIRED')),
      'supply/channel retryable unknown persistent_failure certificate_refused',
    ],
    [
      'a deadline',
      awaiting({ kind: 'deadline' }),
      'supply/supply retryable unknown failure upstream_timeout',
    ],
    ['a reset', awaiting(error('ECONNRESET')), 'supply/supply retryable unknown failure upstream_error'],
    ['our own stop', awaiting({ kind: 'stopped' }), 'supply/attempt retryable unknown none call_stopped'],
    [
      'too large',
      reading(200, { kind: 'too_large' }),
      'supply/supply retryable unknown failure answer_unreadable',
    ],
    ['nonsense', complete(200), 'supply/supply retryable unknown failure answer_unreadable'],
    ['a bare 500', complete(500), 'supply/supply retryable unknown failure upstream_error'],
    ['399', complete(399), 'supply/supply retryable unknown failure answer_unreadable'],
    ['a redirect', complete(302), 'supply/supply retryable unknown failure answer_unreadable'],
    ['a refused key', complete(401), 'supply/channel retryable unknown persistent_failure key_refused'],
    ['408', complete(408), 'supply/supply retryable unknown failure upstream_timeout'],
    ['429', complete(429), 'capacity/supply retryable unknown capacity rate_limited'],
    ['503', complete(503), 'supply/supply retryable unknown failure upstream_error'],
    ['a coded 500', complete(500, said()), 'content/request retryable unknown none content_refused'],
  ])('HLT-10: a poll that meets %s', (_, evidence, expected) => {
    expect(verdict(classifyRead(evidence))).toBe(expected)
  })

  it('HLT-10: one that runs out of time while connecting shows that nobody answers; one that we stop does not', () => {
    expect(classifyRead(connecting({ kind: 'deadline' }))).toMatchObject({
      code: 'connection_failed',
      connection: true,
      fingerprint: 'supply|channel|connecting|CONNECT_DEADLINE',
      message: 'CONNECT_DEADLINE: The time of the call was up.',
    })
    expect(classifyRead(connecting({ kind: 'stopped' }))).toMatchObject({
      code: 'call_stopped',
      connection: false,
      impact: 'none',
    })
  })
})

describe('a job that ended badly', () => {
  it('ERR-2: a refused content by its code, and nothing is left running', () => {
    expect(verdict(classifyEnded(said()))).toBe('content/request final rejected none content_refused')
  })

  it('GOAL-2: what nobody explains is not tried again, for it may have been the content', () => {
    expect(verdict(classifyEnded(said({ meaning: null })))).toBe(
      'unknown/attempt final rejected failure generation_failed',
    )
  })
})

it('a call that could not be built was not sent', () => {
  const order = meaning('supply/supply', 'order_unsupported', { retryable: true })
  expect(verdict(classifyUnbuilt(order, 'no such size'))).toBe(
    'supply/supply retryable not_sent none order_unsupported',
  )
})
