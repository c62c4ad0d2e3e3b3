// OpenAI's dialect under /openai/<account>/v1: videos, pictures, models.

import { type Answer, json } from '../answer.ts'
import { bearer, type Exchange, type ProtocolServer, type Route } from '../exchange.ts'
import { openAiError, openAiNamed } from './errors.ts'
import { createImages } from './images.ts'
import { createVideo, deleteVideo, listVideos, queryVideo, videoContent } from './videos.ts'

export const openai: ProtocolServer = {
  protocol: 'openai',
  requestIdHeader: 'x-request-id',
  route,
  named: openAiNamed,
  noRoute: (method, path) =>
    openAiError({
      status: 404,
      type: 'invalid_request_error',
      code: 'unknown_url',
      message: `Unknown request URL: ${method} ${path}.`,
    }),
  tooLarge: () =>
    openAiError({
      status: 413,
      type: 'invalid_request_error',
      code: 'request_too_large',
      message: 'The request body is too large.',
    }),
  act,
}

function route(method: string, path: string): Route | undefined {
  if (path === '/videos' && method === 'POST') return { operation: 'create' }
  if (path === '/videos' && method === 'GET') return { operation: 'list' }
  if (path === '/images/generations' && method === 'POST') return { operation: 'image' }
  if (path === '/models' && method === 'GET') return { operation: 'models' }
  const [, jobId, content] = /^\/videos\/([^/]+)(\/content)?$/.exec(path) ?? []
  if (jobId === undefined) return undefined
  if (content !== undefined) return method === 'GET' ? { operation: 'download', jobId } : undefined
  if (method === 'GET') return { operation: 'query', jobId }
  return method === 'DELETE' ? { operation: 'cancel', jobId } : undefined
}

function act(exchange: Exchange): Answer | Promise<Answer> {
  const key = bearer(exchange.headers)
  if (key === undefined || !exchange.world.configuration.accepts('openai', exchange.account, key))
    return openAiNamed('unauthorized')
  switch (exchange.operation) {
    case 'create':
      return createVideo(exchange)
    case 'query':
      return queryVideo(exchange)
    case 'list':
      return listVideos(exchange)
    case 'cancel':
      return deleteVideo(exchange)
    case 'download':
      return videoContent(exchange)
    case 'image':
      return createImages(exchange)
    case 'models':
      return listModels(exchange)
    case 'callback':
      return openAiNamed('internal')
  }
}

function listModels({ world, account }: Exchange): Answer {
  const data = world.configuration
    .models('openai', account)
    .map((id) => ({ id, object: 'model', created: 0, owned_by: 'simulator' }))
  return json(200, { object: 'list', data })
}
