/** Alerts, the gravest and newest first. */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { alertViews } from '../../store/alert-views.ts'
import type { AdminDeps } from './deps.ts'
import { jsonView } from './json-view.ts'

const query = z.object({
  all: z.enum(['true', 'false']).default('false'),
  limit: z.coerce.number().pipe(z.int().min(1).max(1000)).default(200),
})

export function alertRoutes(app: FastifyInstance, deps: AdminDeps): void {
  app.get('/alerts', { schema: { querystring: query } }, async (request) => {
    const { all, limit } = query.parse(request.query)
    return { data: (await alertViews(deps.sql, { all: all === 'true', limit })).map(jsonView) }
  })
}
