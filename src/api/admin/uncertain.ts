/** The operator's desk: submissions of which nobody knows whether they were accepted (UNK-4, UNK-9). */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { Decision, DeskAnswer } from '../../runtime/desk.ts'
import { Problem } from '../problem.ts'
import type { AdminDeps } from './deps.ts'
import { jsonView } from './json-view.ts'

const query = z.object({ limit: z.coerce.number().pipe(z.int().min(1).max(1000)).default(200) })
const params = z.object({ id: z.uuid() })
const operator = {
  unconfirmed: z.boolean().default(false),
  by: z.string().min(1).max(100),
  note: z.string().max(300).optional(),
}
const decision = z.discriminatedUnion('outcome', [
  z.strictObject({
    outcome: z.literal('accepted'),
    provider_task_id: z.string().regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 visible characters'),
    ...operator,
  }),
  z.strictObject({ outcome: z.literal('not_accepted'), ...operator }),
])

export function uncertainRoutes(app: FastifyInstance, { desk }: AdminDeps): void {
  app.get('/uncertain', { schema: { querystring: query } }, async (request) => {
    const { limit } = query.parse(request.query)
    return { data: (await desk.list(limit)).map(jsonView) }
  })
  app.post<{ Params: z.output<typeof params> }>(
    '/uncertain/:id/look',
    { schema: { params } },
    async (request) => answer(await desk.look(request.params.id)),
  )
  app.post<{ Params: z.output<typeof params>; Body: z.output<typeof decision> }>(
    '/uncertain/:id/resolve',
    { schema: { params, body: decision } },
    async (request) => {
      const { by, note, ...said } = request.body
      return answer(await desk.decide(request.params.id, decisionOf(said), { name: by, note: note ?? null }))
    },
  )
}

function decisionOf(
  said: { unconfirmed: boolean } & (
    | { outcome: 'accepted'; provider_task_id: string }
    | { outcome: 'not_accepted' }
  ),
): Decision {
  const { unconfirmed } = said
  if (said.outcome === 'not_accepted') return { outcome: 'not_accepted', unconfirmed }
  return { outcome: 'accepted', providerTaskId: said.provider_task_id, unconfirmed }
}

function answer(said: DeskAnswer): object {
  switch (said.kind) {
    case 'resolved':
      return { resolved: true, outcome: said.outcome, by: said.by }
    case 'open':
      return { resolved: false, why: said.why, jobs: said.jobs.map(jobView) }
    case 'refused':
      throw new Problem('cannot_resolve', { message: `The attempt was not resolved: ${said.why}.` })
    case 'not_uncertain':
      throw new Problem('cannot_resolve', { message: `The attempt is not uncertain: it is ${said.state}.` })
    case 'not_found':
      throw new Problem('not_found', { param: 'id', message: 'There is no attempt with this ID.' })
  }
}

/** What the account shows, without prompts: those belong to customers, perhaps to somebody else’s. */
function jobView(job: (DeskAnswer & { kind: 'open' })['jobs'][number]): object {
  return {
    provider_task_id: job.providerTaskId,
    created_at: job.createdAtMs === null ? null : new Date(job.createdAtMs).toISOString(),
    client_id: job.clientId,
    upstream_model: job.upstreamModel,
    duration_seconds: job.durationSeconds,
    resolution: job.resolution,
    aspect_ratio: job.aspectRatio,
  }
}
