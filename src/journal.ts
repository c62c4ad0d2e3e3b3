/** Runtime's journal as structured log lines. Whatever looks like a secret is cut out before it is written. */
import pino from 'pino'
import type { Journal } from './runtime/journal.ts'

export interface Log extends Journal {
  info(message: string): void
  warn(message: string): void
  error(message: string): void
}

const SECRET_PATHS = [
  'authorization',
  'credential',
  'password',
  'token',
  'key',
  'secret',
  'url',
  'prompt',
].flatMap((name) => [name, `*.${name}`])

export function openLog(level: string, destination: NodeJS.WritableStream = process.stderr): Log {
  const logger = pino(
    { level, base: null, redact: { paths: SECRET_PATHS, censor: '[redacted]' } },
    destination,
  )
  return {
    info: (message) => logger.info(message),
    warn: (message) => logger.warn(message),
    error: (message) => logger.error(message),
    note: (event, details) => logger.info({ event, ...details }),
    fault: (event, error, details) => logger.error({ event, ...details, error: describe(error) }),
  }
}

/** Name, code and text of an error; not its properties, which may hold a statement's values or a request. */
function describe(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { text: String(error).slice(0, 300) }
  const code = 'code' in error && typeof error.code === 'string' ? { code: error.code } : {}
  return {
    name: error.name,
    ...code,
    text: error.message.slice(0, 500),
    stack: error.stack?.split('\n').slice(1, 6),
  }
}
