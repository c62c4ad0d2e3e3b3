import type { FastifyRequest } from 'fastify'
import { describe, expect, it } from 'vitest'
import { CommitUnknown, NotCommitted } from '../store/database-errors.ts'
import { markRunning, problemOfError } from './errors.ts'
import { problemHeaders } from './problem.ts'

const request = (method: string, url: string) => ({ method, url }) as FastifyRequest
const video = request('POST', '/v1/videos')
const connect = (code: string) =>
  Object.assign(new Error(`connect ${code} /run/.s.PGSQL.5432`), { code, syscall: 'connect' })

describe('a database that is gone, as customers hear of it', () => {
  it.each<[string, Error]>([
    ['the socket is not there while it starts', connect('ENOENT')],
    ['nobody listens', connect('ECONNREFUSED')],
    ['the connection ended under a statement', new Error('Connection terminated unexpectedly')],
    [
      'the connection is known to be broken',
      new Error('Client has encountered a connection error and is not queryable'),
    ],
    ['the transaction is known not to have happened', new NotCommitted(new Error('gone'))],
  ])('CUS-3: a request is to be repeated later where %s', (_, error) => {
    const problem = problemOfError(error, video)
    expect([problem.status, problem.code]).toEqual([503, 'service_unavailable'])
    expect(problemHeaders(problem)).not.toHaveProperty('x-should-retry')
    expect(problemHeaders(problem)).toHaveProperty('retry-after')
  })

  it('CUS-3: nobody is told to repeat what may have been written', () => {
    const problem = problemOfError(new CommitUnknown('7', new Error('gone')), video)
    expect(problem.code).toBe('service_unavailable')
    expect(problemHeaders(problem)).toMatchObject({ 'x-should-retry': 'false' })
  })

  it('CUS-3, UNK-7: an image is not to be repeated once it runs, and is before that', () => {
    const image = request('POST', '/v1/images/generations')
    expect(problemHeaders(problemOfError(connect('ENOENT'), image))).not.toHaveProperty('x-should-retry')
    markRunning(image)
    expect(problemHeaders(problemOfError(connect('ENOENT'), image))).toMatchObject({
      'x-should-retry': 'false',
    })
  })

  it('CUS-3: a missing file is a fault of our own, and no database that is gone', () => {
    const error = Object.assign(new Error('ENOENT'), { code: 'ENOENT', syscall: 'open' })
    expect(problemOfError(error, video).code).toBe('internal_error')
  })
})
