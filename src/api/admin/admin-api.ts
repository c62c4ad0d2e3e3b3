/**
 * The admin API, one file for each family of routes. Behind one token, answering errors as RFC 9457 problems; a new
 * family is a function here that takes the same two arguments.
 */
import type { FastifyInstance } from 'fastify'
import { parseJsonObject } from '../body/json.ts'
import type { ErrorAnswers } from '../errors.ts'
import type { RouteTable } from '../route-table.ts'
import { sendAdminProblem } from './admin-problem.ts'
import { AdminToken } from './admin-token.ts'
import { alertEndpointRoutes } from './alert-endpoints.ts'
import { alertRoutes } from './alerts.ts'
import type { AdminDeps } from './deps.ts'
import { levelRoutes } from './levels.ts'
import { taskRoutes } from './tasks.ts'
import { uncertainRoutes } from './uncertain.ts'

const FAMILIES = [taskRoutes, alertRoutes, alertEndpointRoutes, levelRoutes, uncertainRoutes]

/** Operators say little at once. */
const LARGEST_BODY = 64 * 1024

export interface Shared {
  readonly errors: ErrorAnswers
  readonly routes: RouteTable
}

export function adminApi(app: FastifyInstance, deps: AdminDeps, { errors, routes }: Shared): void {
  const token = new AdminToken(deps.token)
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    'application/json',
    { parseAs: 'buffer', bodyLimit: LARGEST_BODY },
    async (_request: unknown, body: Buffer) => parseJsonObject(body),
  )
  app.setErrorHandler((error, request, reply) =>
    sendAdminProblem(errors.problem(error, request), request, reply),
  )
  app.addHook('onRequest', async (request) => token.check(request.headers.authorization))
  app.setNotFoundHandler((request, reply) => sendAdminProblem(routes.missing(request), request, reply))
  for (const family of FAMILIES) family(app, deps)
}
