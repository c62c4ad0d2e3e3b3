/** Tasks of all customers: listed, explained, cancelled. */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { taskLines } from '../../store/admin-reads.ts'
import { invalid, Problem } from '../problem.ts'
import { uuidOfHex } from '../public/task-id.ts'
import type { AdminDeps } from './deps.ts'
import { jsonView } from './json-view.ts'

const query = z.object({
  state: z.enum(['queued', 'running', 'succeeded', 'failed', 'cancelled', 'rejected']).optional(),
  model: z.string().max(128).optional(),
  customer: z.string().max(64).optional(),
  before: z.string().optional(),
  limit: z.coerce.number().pipe(z.int().min(1).max(500)).default(50),
})
const params = z.object({ id: z.string() })

export function taskRoutes(app: FastifyInstance, deps: AdminDeps): void {
  app.get('/tasks', { schema: { querystring: query } }, async (request) => {
    const { state, model, customer, before, limit } = query.parse(request.query)
    const rows = await taskLines(deps.sql, {
      state: state ?? null,
      model: model ?? null,
      customer: customer ?? null,
      before: before === undefined ? null : taskId(before, 'before'),
      limit: limit + 1,
    })
    const data = rows.slice(0, limit)
    return { data: data.map(jsonView), next_before: rows.length > limit ? (data.at(-1)?.id ?? null) : null }
  })
  app.get<{ Params: z.output<typeof params> }>('/tasks/:id', { schema: { params } }, async (request) => {
    const explained = await deps.explainTask(taskId(request.params.id, 'id'))
    if (explained === undefined || explained === null) throw noTask()
    return explained
  })
  app.post<{ Params: z.output<typeof params> }>(
    '/tasks/:id/cancel',
    { schema: { params } },
    async (request) => {
      const answer = await deps.dispatching.cancelTask(taskId(request.params.id, 'id'))
      switch (answer.kind) {
        case 'not_found':
          throw noTask()
        case 'refused':
          throw new Problem('cannot_cancel', { message: `The task cannot be cancelled: ${answer.why}.` })
        case 'already_ended':
          throw new Problem('cannot_cancel', { message: `The task has already ended: ${answer.state}.` })
        case 'cancelled':
          return { cancelled: true }
      }
    },
  )
}

/** A UUID, or an ID as customers see it. */
function taskId(id: string, param: string): string {
  const hex = /^(?:video_|image_)?([0-9a-f]{32})$/.exec(id.toLowerCase().replaceAll('-', ''))?.[1]
  if (hex === undefined) throw invalid(param, `${param} must be a task’s UUID, or an ID like video_….`)
  return uuidOfHex(hex)
}

function noTask(): Problem {
  return new Problem('not_found', { param: 'id', message: 'There is no task with this ID.' })
}
