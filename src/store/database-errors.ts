/** What an error says of a transaction: surely rolled back, or unknown. In doubt, unknown. */
import pg from 'pg'

/** The transaction is known to have left nothing behind, so it may be run again. */
export class NotCommitted extends Error {
  constructor(cause: unknown) {
    super(`the transaction was not committed: ${messageOf(cause)}`, { cause })
    this.name = 'NotCommitted'
  }
}

/** COMMIT was sent and what became of it could not be learnt. It must not be repeated blindly. */
export class CommitUnknown extends Error {
  readonly transactionId: string

  constructor(transactionId: string, cause: unknown) {
    super(`it is not known whether transaction ${transactionId} was committed: ${messageOf(cause)}`, {
      cause,
    })
    this.name = 'CommitUnknown'
    this.transactionId = transactionId
  }
}

/** The five characters by which PostgreSQL names an error; undefined for any other error. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof pg.DatabaseError ? error.code : undefined
}

/**
 * Whether an answer to COMMIT proves that nothing was committed. Only an ordinary error of a living server does: FATAL
 * and PANIC end the connection, and classes 08, 57P, 58 and XX tell of trouble in the server or in a pooler, at a moment
 * when the commit may already have been written.
 */
export function finallyRolledBack(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError) || error.severity !== 'ERROR' || error.code === undefined)
    return false
  return !/^(08|57P|58|XX)/.test(error.code)
}

/** Whether it is the database that is out of reach or out of order, which passes; not what was asked of it. */
export function isDatabaseGone(error: unknown): boolean {
  if (error instanceof NotCommitted || error instanceof CommitUnknown) return true
  const state = sqlState(error)
  if (state !== undefined) return /^(08|53|57|58|XX)/.test(state)
  if (!(error instanceof Error)) return false
  if ('syscall' in error) return isSocketGone(error.syscall, 'code' in error ? error.code : null)
  return /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error)/.test(
    error.message,
  )
}

/** A write fails on files too, but only a socket's other end can be gone. */
function isSocketGone(syscall: unknown, code: unknown): boolean {
  if (syscall === 'write') return code === 'EPIPE' || code === 'ECONNRESET'
  return syscall === 'connect' || syscall === 'read'
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
