/** Errors of the admin API: RFC 9457 problem details, with the same codes and messages as the public API. */
import { STATUS_CODES } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Problem, problemHeaders } from '../problem.ts'

export interface ProblemDocument {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly detail: string
  readonly instance: string
  readonly code: string
  readonly param: string | null
  readonly request_id: string
}

export function sendAdminProblem(
  problem: Problem,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const document: ProblemDocument = {
    type: `urn:yardmaster:problem:${problem.code}`,
    title: STATUS_CODES[problem.status] ?? 'Error',
    status: problem.status,
    detail: problem.message,
    instance: request.url.split('?', 1)[0] ?? '',
    code: problem.code,
    param: problem.detail.param ?? null,
    request_id: request.id,
  }
  return reply
    .code(problem.status)
    .headers({ 'x-request-id': request.id, ...problemHeaders(problem) })
    .type('application/problem+json; charset=utf-8')
    .serializer((body: unknown) => JSON.stringify(body))
    .send(document)
}
