// Volcengine Ark under /ark/<account>/api/v3: Seedance tasks and Seedream pictures.

import { type Answer, json } from '../answer.ts'
import { bearer, type Exchange, type ProtocolServer, type Route } from '../exchange.ts'
import { arkError, arkNamed, invalid } from './errors.ts'
import { createImages } from './images.ts'
import { cancelVideo, createVideo, listVideos, queryVideo } from './videos.ts'

const TASKS = '/contents/generations/tasks'

export const ark: ProtocolServer = {
  protocol: 'ark',
  requestIdHeader: 'x-request-id',
  route,
  named: arkNamed,
  noRoute: (method, path, requestId) =>
    arkError({ status: 404, code: 'NotFound.Path', message: `There is no ${method} ${path}.` }, requestId),
  tooLarge: (requestId) => arkError({ ...invalid('body', 'at most 64 MB'), status: 413 }, requestId),
  act,
}

function route(method: string, path: string): Route | undefined {
  if (path === TASKS && method === 'POST') return { operation: 'create' }
  if (path === TASKS && method === 'GET') return { operation: 'list' }
  if (path === '/images/generations' && method === 'POST') return { operation: 'image' }
  const jobId = path.startsWith(`${TASKS}/`) ? path.slice(TASKS.length + 1) : ''
  if (jobId === '' || jobId.includes('/')) return undefined
  if (method === 'GET') return { operation: 'query', jobId }
  return method === 'DELETE' ? { operation: 'cancel', jobId } : undefined
}

function act(exchange: Exchange): Answer | Promise<Answer> {
  const key = bearer(exchange.headers)
  if (key === undefined || !exchange.world.configuration.accepts('ark', exchange.account, key))
    return arkNamed('unauthorized', exchange.requestId)
  switch (exchange.operation) {
    case 'create':
      return createVideo(exchange)
    case 'query':
      return queryVideo(exchange)
    case 'list':
      return listVideos(exchange)
    case 'cancel':
      return cancelVideo(exchange)
    case 'image':
      return createImages(exchange)
    case 'download':
    case 'callback':
    case 'models':
      return json(404, {})
  }
}
