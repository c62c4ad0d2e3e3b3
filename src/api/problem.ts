/**
 * What goes wrong in a customer's sight: one table from Yardmaster's code to status, type and whether a repeat helps
 * (CUS-3, ERR-3). Nothing else in the API picks a status. Messages are ours; a provider's text never gets here.
 */

/** `no`: says x-should-retry: false. `may`: left to the client, which is what the SDK's own rules are for. */
type Repeat = 'no' | 'may'

interface Row {
  readonly status: number
  readonly type: string
  readonly repeat: Repeat
  readonly message: string
  /** Retry-After in seconds where the thrower knows no better. */
  readonly retryAfter?: number
}

const BAD = 'invalid_request_error'

const TABLE = {
  invalid_request: {
    status: 400,
    type: BAD,
    repeat: 'no',
    message: 'The request, or one of its inputs, is not valid.',
  },
  invalid_api_key: {
    status: 401,
    type: 'authentication_error',
    repeat: 'no',
    message: 'No valid API key was given.',
  },
  access_denied: {
    status: 403,
    type: 'permission_error',
    repeat: 'no',
    message: 'This API key may not do that.',
  },
  not_found: { status: 404, type: BAD, repeat: 'no', message: 'There is nothing here.' },
  model_not_available: {
    status: 404,
    type: BAD,
    repeat: 'no',
    message: 'The model does not exist or is not available.',
  },
  result_expired: {
    status: 404,
    type: BAD,
    repeat: 'no',
    message: 'The result has expired and is no longer kept.',
  },
  link_refused: {
    status: 403,
    type: 'permission_error',
    repeat: 'no',
    message: 'The link is not valid or has expired.',
  },
  method_not_allowed: { status: 405, type: BAD, repeat: 'no', message: 'This method is not allowed here.' },
  not_ready: { status: 409, type: BAD, repeat: 'no', message: 'The video is not finished.' },
  cannot_cancel: { status: 409, type: BAD, repeat: 'no', message: 'The video cannot be cancelled now.' },
  conflict: { status: 409, type: BAD, repeat: 'no', message: 'There is something with this ID already.' },
  cannot_resolve: { status: 409, type: BAD, repeat: 'no', message: 'The attempt cannot be resolved so.' },
  attempt_open: { status: 409, type: BAD, repeat: 'no', message: 'The request is being worked on.' },
  idempotency_key_in_use: {
    status: 409,
    type: 'idempotency_error',
    repeat: 'may',
    retryAfter: 2,
    message: 'The first request with this Idempotency-Key is still running. Repeat later for its answer.',
  },
  request_too_large: { status: 413, type: BAD, repeat: 'no', message: 'The request is too large.' },
  range_not_satisfiable: {
    status: 416,
    type: BAD,
    repeat: 'no',
    message: 'The range lies outside of the file.',
  },
  unsupported_media_type: {
    status: 415,
    type: BAD,
    repeat: 'no',
    message: 'This content type is not understood.',
  },
  idempotency_key_reused: {
    status: 422,
    type: 'idempotency_error',
    repeat: 'no',
    message: 'This Idempotency-Key was used with another payload. Use a new key for a new request.',
  },
  request_header_too_large: {
    status: 431,
    type: BAD,
    repeat: 'no',
    message: 'The request headers are too large.',
  },
  request_timeout: { status: 408, type: BAD, repeat: 'may', message: 'The request did not arrive in time.' },
  capacity: {
    status: 429,
    type: 'rate_limit_error',
    repeat: 'may',
    retryAfter: 5,
    message:
      'All capacity for this model is in use. Nothing was submitted; try again after the time in Retry-After.',
  },
  temporarily_unavailable: {
    status: 503,
    type: 'server_error',
    repeat: 'may',
    retryAfter: 30,
    message:
      'This model cannot be served at the moment. Nothing was submitted; try again after the time in Retry-After.',
  },
  no_capable_supply: {
    status: 503,
    type: 'server_error',
    repeat: 'no',
    retryAfter: 60,
    message: 'Nothing that serves this model can carry out this request as it is.',
  },
  cost_limit_exceeded: {
    status: 503,
    type: 'server_error',
    repeat: 'no',
    retryAfter: 60,
    message: 'The request would cost more than this model’s limits allow.',
  },
  service_unavailable: {
    status: 503,
    type: 'server_error',
    repeat: 'may',
    retryAfter: 5,
    message: 'Yardmaster cannot reach its database at the moment.',
  },
  content_refused: {
    status: 400,
    type: 'content_policy_error',
    repeat: 'no',
    message: 'The content of the request, or its result, was refused by content review.',
  },
  real_person_refused: {
    status: 400,
    type: 'content_policy_error',
    repeat: 'no',
    message: 'The request was refused because it shows, or may show, a real person.',
  },
  input_unreadable: {
    status: 400,
    type: BAD,
    repeat: 'no',
    message: 'An input file could not be fetched or read.',
  },
  submission_unresolved: {
    status: 504,
    type: 'server_error',
    repeat: 'no',
    message:
      'It could not be found out whether the request was carried out. It may have been: do not send it again unless you accept that.',
  },
  generation_timeout: {
    status: 504,
    type: 'server_error',
    repeat: 'no',
    message: 'The generation did not finish within its time.',
  },
  retry_window_expired: {
    status: 503,
    type: 'server_error',
    repeat: 'no',
    retryAfter: 60,
    message: 'The request waited for capacity until its time was up. It was not carried out.',
  },
  attempts_exhausted: {
    status: 502,
    type: 'server_error',
    repeat: 'no',
    message: 'The generation failed, also after a change of supply.',
  },
  not_retryable: { status: 502, type: 'server_error', repeat: 'no', message: 'The generation failed.' },
  generation_failed: { status: 502, type: 'server_error', repeat: 'no', message: 'The generation failed.' },
  cancelled: { status: 409, type: BAD, repeat: 'no', message: 'The request was cancelled.' },
  internal_error: {
    status: 500,
    type: 'server_error',
    repeat: 'no',
    message: 'Something went wrong inside Yardmaster. Quote the x-request-id when you report it.',
  },
} as const satisfies Record<string, Row>

export type ProblemCode = keyof typeof TABLE

export interface ProblemDetail {
  readonly message?: string
  readonly param?: string | null
  readonly retryAfterSeconds?: number | null
  /** True: say x-should-retry: false whatever the table says, since something may have been submitted. */
  readonly submitted?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

/** Thrown anywhere below a route; the error handler turns it into the answer. */
export class Problem extends Error {
  readonly code: ProblemCode
  readonly detail: ProblemDetail

  constructor(code: ProblemCode, detail: ProblemDetail = {}) {
    super(detail.message ?? TABLE[code].message)
    this.name = 'Problem'
    this.code = code
    this.detail = detail
  }

  get status(): number {
    return TABLE[this.code].status
  }
}

/** A field of the request is wrong: what was wrong, where, what would be right. */
export function invalid(param: string | null, message: string): Problem {
  return new Problem('invalid_request', { param, message })
}

export interface ErrorBody {
  readonly error: {
    readonly message: string
    readonly type: string
    readonly param: string | null
    readonly code: string
  }
}

export function errorBody(problem: Problem): ErrorBody {
  const { type } = TABLE[problem.code]
  const code = problem.code === 'invalid_api_key' ? 'access_denied' : problem.code
  return { error: { message: problem.message, type, param: problem.detail.param ?? null, code } }
}

/** Retry-After and x-should-retry, and what the thrower added. */
export function problemHeaders(problem: Problem): Record<string, string> {
  const row: Row = TABLE[problem.code]
  const { submitted, retryAfterSeconds, headers } = problem.detail
  const answer: Record<string, string> = { ...headers }
  if (row.repeat === 'no' || submitted === true) answer['x-should-retry'] = 'false'
  const wait = retryAfterSeconds ?? row.retryAfter
  if (wait !== undefined && submitted !== true) answer['retry-after'] = String(Math.max(1, Math.ceil(wait)))
  return answer
}

/** A code as stored with a task, as one that customers may see: what is not in the table is a failure like any other. */
export function publicCode(stored: string): ProblemCode {
  return isProblemCode(stored) ? stored : (PUBLIC_NAMES.get(stored) ?? 'generation_failed')
}

/** What a task's stored code means to its customer, in words. */
export function explainCode(stored: string): { readonly code: ProblemCode; readonly message: string } {
  const code = publicCode(stored)
  return { code, message: TABLE[code].message }
}

function isProblemCode(code: string): code is ProblemCode {
  return Object.hasOwn(TABLE, code)
}

/** Faults that say whose doing it was, by a name that customers know. */
const PUBLIC_NAMES: ReadonlyMap<string, ProblemCode> = new Map<string, ProblemCode>([
  ['input_too_large', 'input_unreadable'],
  ['order_unsupported', 'invalid_request'],
  ['submission_unknown', 'submission_unresolved'],
  ['health', 'temporarily_unavailable'],
  ['disabled', 'temporarily_unavailable'],
  ['cost', 'temporarily_unavailable'],
])

/** For docs/api.md and its test: every code with its row. */
export function problemTable(): readonly (Row & { readonly code: ProblemCode })[] {
  return Object.keys(TABLE)
    .filter(isProblemCode)
    .map((code) => ({ ...TABLE[code], code }))
}
