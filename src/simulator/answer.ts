// What goes back to the client, before faults are played on it.

export type Answer = { status: number; headers: Record<string, string>; body: Buffer }

/** Errors that every provider has, each in its own words. */
export const NAMED_ERRORS = [
  'bad_parameter',
  'asset_download_failed',
  'content_refused',
  'real_person',
  'copyright',
  'unauthorized',
  'no_money',
  'forbidden',
  'model_missing',
  'rate_limited',
  'quota_exhausted',
  'concurrency',
  'overloaded',
  'internal',
] as const

export type NamedError = (typeof NAMED_ERRORS)[number]

export function json(status: number, value: unknown, headers: Record<string, string> = {}): Answer {
  return {
    status,
    headers: { 'content-type': 'application/json; charset=utf-8', ...headers },
    body: Buffer.from(JSON.stringify(value)),
  }
}

export function binary(contentType: string, body: Buffer): Answer {
  return { status: 200, headers: { 'content-type': contentType }, body }
}
