/** For those who run it: alive, ready, metrics. None asks for a key, and none tells more than it must. */
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import { z } from 'zod'
import { pingDatabase } from '../store/api-reads.ts'
import type { Sql } from '../store/database.ts'

export interface OperationDeps {
  readonly sql: Sql
  readonly metrics: Registry
  /** Whether the schema is this program's. */
  readonly migrated: () => Promise<boolean>
  /** Whether this process takes no more work. */
  readonly draining: () => boolean
}

const CHECK_MS = 2_000
const alive = z.object({ status: z.literal('ok') })
const check = z.enum(['ok', 'failed'])
const readiness = z.object({
  status: z.enum(['ready', 'not_ready']),
  checks: z.object({ database: check, migrations: check, draining: check }),
})

export function operationRoutes(app: FastifyInstance, deps: OperationDeps): void {
  app.get(
    '/livez',
    { schema: { summary: 'Alive', tags: ['Operation'], security: [], response: { 200: alive } } },
    async () => ({
      status: 'ok' as const,
    }),
  )
  app.get(
    '/readyz',
    {
      schema: {
        summary: 'Ready for requests',
        tags: ['Operation'],
        security: [],
        response: { 200: readiness, 503: readiness },
      },
    },
    async (_request, reply) => {
      const checks = await runChecks(deps)
      const ready = Object.values(checks).every((result) => result === 'ok')
      return reply.code(ready ? 200 : 503).send({ status: ready ? 'ready' : 'not_ready', checks })
    },
  )
  app.get(
    '/metrics',
    { schema: { summary: 'Metrics for Prometheus', tags: ['Operation'], security: [] } },
    async (_request, reply) => reply.type(deps.metrics.contentType).send(await deps.metrics.metrics()),
  )
}

async function runChecks(deps: OperationDeps): Promise<z.output<typeof readiness>['checks']> {
  const database = await inTime(pingDatabase(deps.sql).then(() => true))
  return {
    database,
    // Without a database there is nothing to ask.
    migrations: database === 'ok' ? await inTime(deps.migrated()) : 'failed',
    draining: deps.draining() ? 'failed' : 'ok',
  }
}

async function inTime(work: Promise<boolean>): Promise<'ok' | 'failed'> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(() => resolve(false), CHECK_MS)
  const good = await Promise.race([work.catch(() => false), late])
  clearTimeout(timer)
  return good ? 'ok' : 'failed'
}
