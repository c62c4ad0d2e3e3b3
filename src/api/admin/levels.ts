/** What serves: channels, supplies and models, with their health and how full they are. */
import type { FastifyInstance } from 'fastify'
import { modelLines } from '../../store/admin-reads.ts'
import { channelViews, supplyViews } from '../../store/level-views.ts'
import type { AdminDeps } from './deps.ts'
import { jsonView } from './json-view.ts'

export function levelRoutes(app: FastifyInstance, { sql }: AdminDeps): void {
  app.get('/channels', async () => ({ data: (await channelViews(sql)).map(jsonView) }))
  app.get('/supplies', async () => ({ data: (await supplyViews(sql)).map(jsonView) }))
  app.get('/models', async () => ({ data: (await modelLines(sql)).map(jsonView) }))
}
