/** Whatever was thrown, as a Problem: ours, the framework's, the database's; anything else is a fault of our own. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Journal } from '../runtime/journal.ts'
import { CommitUnknown, isDatabaseGone } from '../store/database-errors.ts'
import { errorBody, invalid, Problem, type ProblemCode, problemHeaders } from './problem.ts'

/** Answers errors in the public API's shape, and writes down those that are our own fault. */
export class ErrorAnswers {
  readonly #log: Journal

  constructor(log: Journal) {
    this.#log = log
  }

  answer(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    return sendProblem(this.problem(error, request), request, reply)
  }

  problem(error: unknown, request: FastifyRequest): Problem {
    const problem = problemOfError(error, request)
    if (!(error instanceof Problem) && problem.status >= 500)
      this.#log.fault('api.request_failed', error, {
        request_id: request.id,
        method: request.method,
        route: request.routeOptions.url ?? '',
      })
    return problem
  }
}

export function sendProblem(problem: Problem, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  return reply
    .code(problem.status)
    .headers({ 'x-request-id': request.id, ...problemHeaders(problem) })
    .type('application/json; charset=utf-8')
    .serializer((body: unknown) => JSON.stringify(body))
    .send(errorBody(problem))
}

interface Thrown {
  readonly code?: unknown
  readonly statusCode?: unknown
  readonly validation?: unknown
  readonly message?: unknown
}

export function problemOfError(error: unknown, request: FastifyRequest): Problem {
  if (error instanceof Problem) return error
  const thrown: Thrown = typeof error === 'object' && error !== null ? error : {}
  if (Array.isArray(thrown.validation)) return ofValidation(thrown.validation)
  const known = typeof thrown.code === 'string' ? FRAMEWORK.get(thrown.code) : undefined
  if (known) return new Problem(known.code, { message: known.message })
  if (isUnreachable(thrown) || isDatabaseGone(error)) {
    // Whether its row was written cannot be known: a plain repeat could have it made twice.
    const inDoubt = request.method === 'POST' && error instanceof CommitUnknown
    return new Problem('service_unavailable', { submitted: inDoubt || mayHaveSubmitted(request) })
  }
  return new Problem('internal_error', { submitted: request.method === 'POST' })
}

const running = new WeakSet<FastifyRequest>()

/** An image is made within its own request: once that runs, nothing tells whether it was submitted. */
export function markRunning(request: FastifyRequest): void {
  running.add(request)
}

function mayHaveSubmitted(request: FastifyRequest): boolean {
  return running.has(request)
}

interface Known {
  readonly code: ProblemCode
  readonly message: string
}

const FRAMEWORK: ReadonlyMap<string, Known> = new Map<string, Known>([
  [
    'FST_ERR_CTP_INVALID_MEDIA_TYPE',
    {
      code: 'unsupported_media_type',
      message: 'Send the body as application/json or multipart/form-data, and say so in Content-Type.',
    },
  ],
  ['FST_ERR_CTP_BODY_TOO_LARGE', { code: 'request_too_large', message: 'The body is too large.' }],
  [
    'FST_ERR_CTP_INVALID_CONTENT_LENGTH',
    { code: 'invalid_request', message: 'The body is not as long as Content-Length says.' },
  ],
  [
    'FST_ERR_BAD_URL',
    { code: 'invalid_request', message: 'The path cannot be read; percent-escapes must be valid.' },
  ],
  ['FST_ERR_MAX_PARAM_LENGTH', { code: 'not_found', message: 'There is no such path.' }],
])

/** Of a query or a path: the framework has checked it against the route's schema. */
function ofValidation(issues: readonly unknown[]): Problem {
  const [issue] = issues
  const at =
    typeof issue === 'object' && issue !== null && 'instancePath' in issue ? String(issue.instancePath) : ''
  const text =
    typeof issue === 'object' && issue !== null && 'message' in issue ? String(issue.message) : 'is not valid'
  const param = at.replace(/^\//, '').replaceAll('/', '.')
  return invalid(param || null, `${param || 'The query'}: ${text}.`)
}

/** The connection's own errors, also those whose database was not asked by us; what else the store knows, it tells. */
function isUnreachable({ code, message }: Thrown): boolean {
  if (typeof code === 'string')
    return /^(ECONNREFUSED|ECONNRESET|ENOTFOUND|ETIMEDOUT|EPIPE|08...|53...|57P..)$/.test(code)
  return (
    typeof message === 'string' &&
    /^(timeout exceeded when trying to connect|Connection terminated)/.test(message)
  )
}
