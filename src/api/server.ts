/**
 * The HTTP server: public API, admin API, health, metrics and the API's own description. What goes wrong anywhere is
 * answered in one shape for each of the two APIs, and every answer carries the request's ID.
 */
import { randomUUID } from 'node:crypto'
import Fastify, { type FastifyInstance } from 'fastify'
import { serializerCompiler, validatorCompiler } from 'fastify-type-provider-zod'
import type { Journal } from '../runtime/journal.ts'
import { adminApi } from './admin/admin-api.ts'
import type { AdminDeps } from './admin/deps.ts'
import { KeyRing } from './auth.ts'
import { sweepSpool } from './body/spool.ts'
import { answerBrokenRequest } from './broken-request.ts'
import { callbackRoutes, type TakeCallback } from './callbacks.ts'
import { Connections } from './connections.ts'
import { ErrorAnswers, sendProblem } from './errors.ts'
import { measureRequests } from './http-metrics.ts'
import { describeApi } from './openapi.ts'
import { type OperationDeps, operationRoutes } from './operation.ts'
import type { PublicDeps } from './public/deps.ts'
import { imageRoutes, linkRoutes } from './public/images.ts'
import { modelRoutes } from './public/models.ts'
import { videoRoutes } from './public/videos.ts'
import { RouteTable } from './route-table.ts'

export interface ServerDeps {
  readonly public: PublicDeps
  readonly admin: AdminDeps
  readonly operation: OperationDeps
  readonly callback: TakeCallback
  readonly version: string
  readonly log: Journal
  /** false: a process without the role `api`, which only says how it is. */
  readonly servesApi?: boolean
}

/** Milliseconds that a whole request may take to arrive. */
const ARRIVAL_MS = 300_000

/** Not listening yet: `await app.listen({ host, port })`. */
export function buildServer(deps: ServerDeps): FastifyInstance {
  const errors = new ErrorAnswers(deps.log)
  const app = Fastify({
    logger: false,
    genReqId: () => `req_${randomUUID().replaceAll('-', '')}`,
    requestIdHeader: false,
    requestTimeout: ARRIVAL_MS,
    exposeHeadRoutes: false,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 512 },
    clientErrorHandler: answerBrokenRequest,
    frameworkErrors: (error, request, reply) => errors.answer(error, request, reply),
  })
  app.setValidatorCompiler(validatorCompiler)
  app.setSerializerCompiler(serializerCompiler)
  const connections = new Connections(app.server)
  app.addHook('preClose', async () => connections.close())
  const routes = new RouteTable(app)
  app.addHook('onRequest', async (request, reply) => {
    reply.header('x-request-id', request.id)
  })
  measureRequests(app, deps.operation.metrics)
  readBodiesAsStreams(app)
  app.addHook('onReady', async () => {
    await sweepSpool(deps.public.spoolDirectory, Date.now())
  })
  app.setErrorHandler((error, request, reply) => errors.answer(error, request, reply))
  app.setNotFoundHandler((request, reply) => sendProblem(routes.missing(request), request, reply))
  describeApi(app, deps.version)
  app.register(async (scope) => operationRoutes(scope, deps.operation))
  if (deps.servesApi === false) return app
  app.register(async (scope) => callbackRoutes(scope, deps.callback))
  app.register(async (scope) => publicApi(scope, deps.public), { prefix: '/v1' })
  app.register(async (scope) => adminApi(scope, deps.admin, { errors, routes }), { prefix: '/admin/api' })
  return app
}

/** Nothing is read before the key is known; the routes read what they understand, within their limits. */
function readBodiesAsStreams(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(['application/json', 'multipart/form-data'], (_request, payload, done) =>
    done(null, payload),
  )
}

async function publicApi(app: FastifyInstance, deps: PublicDeps): Promise<void> {
  const keys = new KeyRing(deps.sql)
  app.decorateRequest('caller')
  app.register(async (open) => linkRoutes(open, deps))
  app.register(async (guarded) => {
    guarded.addHook('onRequest', async (request) => {
      request.caller = await keys.identify(request.headers.authorization)
    })
    videoRoutes(guarded, deps)
    imageRoutes(guarded, deps)
    modelRoutes(guarded, deps)
  })
}
