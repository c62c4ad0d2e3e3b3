// Kling's new standard under /kling/<account>: video tasks, looked up by either ID and listed by time.

import { type Answer, json } from '../answer.ts'
import { bearer, type Exchange, type ProtocolServer, type Route } from '../exchange.ts'
import { invalid, klingError, klingNamed } from './errors.ts'
import { createVideo, listVideos, queryVideos } from './videos.ts'

const CREATE = /^\/(text-to-video|image-to-video|omni-video)\/([^/]+)$/

export const kling: ProtocolServer = {
  protocol: 'kling',
  requestIdHeader: 'x-request-id',
  route,
  named: klingNamed,
  noRoute: (method, path, requestId) =>
    klingError({ status: 404, code: 1202, message: `There is no ${method} ${path}` }, requestId),
  tooLarge: (requestId) => klingError({ ...invalid('the body is too large'), status: 413 }, requestId),
  act,
}

function route(method: string, path: string, query: URLSearchParams): Route | undefined {
  const [, product, model] = CREATE.exec(path) ?? []
  if (product !== undefined && model !== undefined && method === 'POST')
    return { operation: 'create', variant: product, model: decodeURIComponent(model) }
  if (path !== '/tasks') return undefined
  if (method === 'POST') return { operation: 'list' }
  if (method !== 'GET') return undefined
  const ids = query.get('task_ids')
  // A look for what is lost is a list in the eyes of a script: it names no job.
  return ids === null ? { operation: 'list' } : { operation: 'query', jobId: ids.split(',')[0] ?? '' }
}

function act(exchange: Exchange): Answer | Promise<Answer> {
  const key = bearer(exchange.headers)
  if (key === undefined || !exchange.world.configuration.accepts('kling', exchange.account, key))
    return klingNamed('unauthorized', exchange.requestId)
  if (exchange.operation === 'create') return createVideo(exchange, exchange.variant ?? '')
  if (exchange.operation === 'query') return queryVideos(exchange)
  if (exchange.operation === 'list')
    return exchange.method === 'POST' ? listVideos(exchange) : queryVideos(exchange)
  return json(404, {})
}
