/** How many requests there were and how long they took, by route and status: routes are few, paths are not. */
import type { FastifyInstance } from 'fastify'
import { Histogram, type Registry } from 'prom-client'

/** An image takes as long as its provider. */
const BUCKETS = [0.005, 0.02, 0.1, 0.5, 2, 10, 30, 120]

export function measureRequests(app: FastifyInstance, metrics: Registry): void {
  const durations = new Histogram({
    name: 'yardmaster_http_request_duration_seconds',
    help: 'Time to answer a request, until the last byte was handed over.',
    labelNames: ['method', 'route', 'status'],
    buckets: BUCKETS,
    registers: [metrics],
  })
  app.addHook('onResponse', async (request, reply) => {
    const route = request.routeOptions.url ?? 'none'
    durations.observe({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1000)
  })
}
