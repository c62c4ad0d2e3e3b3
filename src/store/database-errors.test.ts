import { describe, expect, it } from 'vitest'
import { CommitUnknown, isDatabaseGone, NotCommitted } from './database-errors.ts'

const failed = (syscall: string, code: string) => Object.assign(new Error(code), { syscall, code })

describe('a database that is gone', () => {
  it.each<[string, Error]>([
    ['its socket is not there', failed('connect', 'ENOENT')],
    ['nobody listens', failed('connect', 'ECONNREFUSED')],
    ['it ended as it answered', failed('read', 'ECONNRESET')],
    ['it ended before it was asked', failed('write', 'EPIPE')],
    ['the driver found the connection broken', new Error('Connection terminated unexpectedly')],
    ['a transaction was lost with it', new NotCommitted(new Error('gone'))],
    ['a commit was', new CommitUnknown('7', new Error('gone'))],
  ])('UNK-6: is told where %s', (_, error) => {
    expect(isDatabaseGone(error)).toBe(true)
  })

  it.each<[string, unknown]>([
    ['a full disk', failed('write', 'ENOSPC')],
    ['a missing file', failed('open', 'ENOENT')],
    ['a fault of our own', new TypeError('x is not a function')],
    ['what is no error', 'gone'],
  ])('UNK-6: is not told by %s', (_, error) => {
    expect(isDatabaseGone(error)).toBe(false)
  })
})
