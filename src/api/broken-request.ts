/** What is no HTTP request never reaches a route: it is answered on the bare socket, in the same shape. */
import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { errorBody, Problem, problemHeaders } from './problem.ts'

export function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const problem = problemOf(error.code)
  const body = JSON.stringify(errorBody(problem))
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': `req_${randomUUID().replaceAll('-', '')}`,
    ...problemHeaders(problem),
    connection: 'close',
  }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  socket.end(`HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}\r\n${lines.join('')}\r\n${body}`)
}

function problemOf(code: string | undefined): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Problem('request_header_too_large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Problem('request_timeout')
    default:
      return new Problem('invalid_request', { message: 'This is no valid HTTP/1.1 request.' })
  }
}
