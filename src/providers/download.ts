/**
 * Fetching a result: a GET, so it may follow a few redirects, and it streams. The credential goes only to the
 * provider's own origin: a result is often a signed link to somebody else's storage.
 */
import type { Evidence } from '../core/outcome.ts'
import { type Answer, type Caller, codeOf, messageOf } from './call.ts'
import { isWebLink } from './json.ts'

export interface Fetch {
  readonly channelId: string
  readonly url: string
  /** Sent to `trustedOrigin` alone. */
  readonly credentialHeaders: Readonly<Record<string, string>>
  readonly trustedOrigin: string
  /** Whole download, in ms from now. */
  readonly timeoutMs: number
  readonly maxBytes: number
  readonly secrets: readonly string[]
}

export type Opened =
  | {
      readonly kind: 'body'
      readonly contentType: string
      readonly contentLength: number | null
      /** Throws BrokenDownload where it breaks off, or grows beyond `maxBytes`. */
      readonly stream: AsyncIterable<Uint8Array>
    }
  /** A complete answer that is no result. */
  | { readonly kind: 'answered'; readonly answer: Answer; readonly receivedAtMs: number }
  | { readonly kind: 'broken'; readonly evidence: Exclude<Evidence, { stage: 'complete' }> }

/** A download that ended early. Its text names a code, no address. */
export class BrokenDownload extends Error {
  readonly code: string
  constructor(code: string, explanation: string) {
    super(`The download broke off (${code}): ${explanation}`)
    this.name = 'BrokenDownload'
    this.code = code
  }
}

const MAX_REDIRECTS = 3
/** Of an answer that is no result, enough to read an error. */
const ERROR_BYTES = 64 * 1024

/** Opens the result; never rejects. The stream must be read or returned, else its time limit ends it. */
export async function openDownload(caller: Caller, fetch: Fetch): Promise<Opened> {
  const clock = new AbortController()
  const timer = setTimeout(() => clock.abort(), fetch.timeoutMs)
  timer.unref()
  const opened = await follow(caller, fetch, clock.signal)
  if (opened.kind !== 'body') clearTimeout(timer)
  return opened.kind === 'body' ? { ...opened, stream: limited(opened.stream, fetch, timer) } : opened
}

async function follow(caller: Caller, fetch: Fetch, signal: AbortSignal): Promise<Opened> {
  let url = fetch.url
  for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
    const opened = await openOnce(caller, { ...fetch, url }, signal)
    const next = opened.kind === 'answered' ? redirectTarget(opened.answer, url) : null
    if (next === null) return opened
    url = next
  }
  return broken('TOO_MANY_REDIRECTS', `more than ${MAX_REDIRECTS} redirects`)
}

/** Where a redirect leads, if anywhere that may be fetched: http and https only. */
function redirectTarget(answer: Answer, from: string): string | null {
  const location = answer.headers.location
  if (![301, 302, 303, 307, 308].includes(answer.status) || location === undefined) return null
  const target = URL.canParse(location, from) ? new URL(location, from).href : null
  return target !== null && isWebLink(target) ? target : null
}

function broken(code: string, message: string): Opened {
  return { kind: 'broken', evidence: { stage: 'awaiting_head', end: { kind: 'error', code, message } } }
}

async function openOnce(caller: Caller, fetch: Fetch, signal: AbortSignal): Promise<Opened> {
  try {
    const url = new URL(fetch.url)
    const response = await caller.streamAgent(fetch.channelId).request({
      origin: url.origin,
      path: `${url.pathname}${url.search}`,
      method: 'GET',
      headers: {
        accept: '*/*',
        'accept-encoding': 'identity',
        'user-agent': 'yardmaster',
        ...credentialFor(fetch, url),
      },
      signal,
    })
    return await read(response)
  } catch (error) {
    return brokenOff(error, fetch, signal)
  }
}

function credentialFor(fetch: Fetch, url: URL): Readonly<Record<string, string>> {
  return url.origin === fetch.trustedOrigin ? fetch.credentialHeaders : {}
}

type Response = Awaited<ReturnType<ReturnType<Caller['streamAgent']>['request']>>

async function read(response: Response): Promise<Opened> {
  const headers = singleValued(response.headers)
  const contentType = headers['content-type'] ?? 'application/octet-stream'
  const length = headers['content-length']
  const contentLength = length !== undefined && /^\d{1,15}$/.test(length) ? Number(length) : null
  if (response.statusCode === 200 && contentLength !== 0 && !isPage(contentType)) {
    return { kind: 'body', contentType, contentLength, stream: response.body }
  }
  const answer = { status: response.statusCode, headers, body: await firstBytes(response.body) }
  return { kind: 'answered', answer, receivedAtMs: Date.now() }
}

/** A page or an error text under 200 is no picture and no film. */
function isPage(contentType: string): boolean {
  return /^(text\/|application\/(json|xml|problem))/i.test(contentType)
}

function singleValued(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const entries = Object.entries(headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value[0] : value,
  ])
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

async function firstBytes(body: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body) {
    pieces.push(piece)
    size += piece.length
    if (size >= ERROR_BYTES) break
  }
  return Buffer.concat(pieces).subarray(0, ERROR_BYTES)
}

function brokenOff(error: unknown, fetch: Fetch, signal: AbortSignal): Opened {
  if (signal.aborted)
    return { kind: 'broken', evidence: { stage: 'awaiting_head', end: { kind: 'deadline' } } }
  const end = { kind: 'error' as const, code: codeOf(error), message: messageOf(error, fetch.secrets) }
  return {
    kind: 'broken',
    evidence: { stage: CONNECT_CODES.has(end.code) ? 'connecting' : 'awaiting_head', end },
  }
}

/** A GET needs no proof of its stage; these codes arise only on the way to a connection. */
const CONNECT_CODES: ReadonlySet<string> = new Set([
  'ENOTFOUND',
  'EAI_AGAIN',
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'ERR_TLS_CERT_ALTNAME_INVALID',
  'CERT_HAS_EXPIRED',
])

async function* limited(
  body: AsyncIterable<Uint8Array>,
  fetch: Fetch,
  timer: NodeJS.Timeout,
): AsyncGenerator<Uint8Array, void, undefined> {
  let size = 0
  try {
    for await (const piece of body) {
      size += piece.length
      if (size > fetch.maxBytes) throw new BrokenDownload('TOO_LARGE', `more than ${fetch.maxBytes} bytes`)
      yield piece
    }
  } catch (error) {
    throw error instanceof BrokenDownload
      ? error
      : new BrokenDownload(codeOf(error), messageOf(error, fetch.secrets))
  } finally {
    clearTimeout(timer)
  }
}
