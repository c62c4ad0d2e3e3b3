/** Alerts, the gravest and newest first. */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { acknowledgeAlerts, alertViews } from '../../store/alert-views.ts'
import { Problem } from '../problem.ts'
import type { AdminDeps } from './deps.ts'
import { jsonView } from './json-view.ts'

const query = z.object({
  all: z.enum(['true', 'false']).default('false'),
  limit: z.coerce.number().pipe(z.int().min(1).max(1000)).default(200),
})

const params = z.object({ id: z.uuid() })
const seen = z.strictObject({ by: z.string().min(1).max(100) })

export function alertRoutes(app: FastifyInstance, deps: AdminDeps): void {
  app.get('/alerts', { schema: { querystring: query } }, async (request) => {
    const { all, limit } = query.parse(request.query)
    return { data: (await alertViews(deps.sql, { all: all === 'true', limit })).map(jsonView) }
  })
  app.post<{ Params: z.output<typeof params>; Body: z.output<typeof seen> }>(
    '/alerts/:id/acknowledge',
    { schema: { params, body: seen } },
    async (request) => {
      if ((await acknowledgeAlerts(deps.sql, request.params.id, request.body.by)) === 0)
        throw new Problem('not_found', { param: 'id', message: 'There is no open alert with this ID.' })
      return { acknowledged: true }
    },
  )
}
