/** Where alerts are told. An address or secret that was given is never shown again. */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { SLUG } from '../../catalog/format.ts'
import { SEVERITIES } from '../../core/alert-rules.ts'
import { createEndpoint, moveEndpoint } from '../../runtime/alert-desk.ts'
import {
  deliveryViews,
  ENDPOINT_KINDS,
  endpointViews,
  removeEndpoint,
  switchEndpoint,
} from '../../store/alert-endpoints.ts'
import { invalid, Problem } from '../problem.ts'
import type { AdminDeps } from './deps.ts'
import { jsonView } from './json-view.ts'

const params = z.object({ id: z.string().regex(SLUG, 'is no ID') })
const address = { url: z.string().max(2000), secret: z.string().min(1).max(200).optional() }
const wanted = z.strictObject({
  id: z.string().regex(SLUG, 'must have lower-case letters, digits, ".", "_" and "-", at most 63'),
  kind: z.enum(ENDPOINT_KINDS),
  min_severity: z.enum(SEVERITIES).default('warning'),
  ...address,
})
const moved = z.strictObject(address)
const page = z.object({ limit: z.coerce.number().pipe(z.int().min(1).max(500)).default(100) })
interface OfOne {
  Params: z.output<typeof params>
}

export function alertEndpointRoutes(app: FastifyInstance, deps: AdminDeps): void {
  const { sql, keyring } = deps
  app.get('/alert-endpoints', async () => ({ data: (await endpointViews(sql)).map(jsonView) }))
  app.post<{ Body: z.output<typeof wanted> }>(
    '/alert-endpoints',
    { schema: { body: wanted } },
    async (request, reply) => {
      const { id, kind, url, secret, min_severity } = request.body
      const given = { id, kind, url, secret: secret ?? null, minSeverity: min_severity }
      const added = await createEndpoint(sql, keyring, given)
      if (added.kind === 'invalid') throw invalid(added.field, `${added.field} ${added.why}.`)
      if (added.kind === 'exists')
        throw new Problem('conflict', { param: 'id', message: `There is an alert endpoint ${id} already.` })
      return reply.code(201).send({ id, secret: added.secret })
    },
  )
  app.put<OfOne & { Body: z.output<typeof moved> }>(
    '/alert-endpoints/:id/address',
    { schema: { params, body: moved } },
    async (request) => {
      const { id } = request.params
      const known = (await endpointViews(sql)).find((endpoint) => endpoint.id === id)
      if (!known) throw none()
      const { url, secret } = request.body
      const done = await moveEndpoint(sql, keyring, { id, kind: known.kind, url, secret: secret ?? null })
      if (done.kind === 'invalid') throw invalid(done.field, `${done.field} ${done.why}.`)
      if (done.kind === 'not_found') throw none()
      return { id, secret: done.kind === 'added' ? done.secret : null }
    },
  )
  app.post<OfOne>('/alert-endpoints/:id/test', { schema: { params } }, async (request) => {
    const answer = await deps.outbox.test(request.params.id)
    if (answer.kind === 'not_found') throw none()
    return answer.kind === 'delivered' ? { delivered: true } : { delivered: false, why: answer.why }
  })
  for (const enabled of [true, false])
    app.post<OfOne>(
      `/alert-endpoints/:id/${enabled ? 'enable' : 'disable'}`,
      { schema: { params } },
      async (request) => {
        const why = enabled ? null : 'by an operator'
        if (!(await switchEndpoint(sql, request.params.id, { enabled, why }))) throw none()
        return { enabled }
      },
    )
  app.delete<OfOne>('/alert-endpoints/:id', { schema: { params } }, async (request) => {
    if (!(await removeEndpoint(sql, request.params.id))) throw none()
    return { removed: true }
  })
  app.get<OfOne & { Querystring: z.output<typeof page> }>(
    '/alert-endpoints/:id/deliveries',
    { schema: { params, querystring: page } },
    async (request) => {
      const rows = await deliveryViews(sql, request.params.id, request.query.limit)
      return { data: rows.map(jsonView) }
    },
  )
}

function none(): Problem {
  return new Problem('not_found', { param: 'id', message: 'There is no alert endpoint with this ID.' })
}
