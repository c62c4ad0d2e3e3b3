/**
 * The only HTTP client. It records how far each request got, because that alone proves what a failure means (UNK-7):
 * undici calls `onRequestStart` right before the first byte is written, and aborting there writes none. It never
 * retries, follows no redirect, and speaks HTTP/1.1 only, so that one create is at most one POST (UNK-10).
 *
 * Creates travel on a fresh connection: a kept one that the server closes in the same moment would be an unknown
 * submission, which costs an hour of waiting; a handshake costs milliseconds.
 */
import { Agent, type Dispatcher, errors } from 'undici'
import type { Evidence, TransportEnd } from '../core/outcome.ts'
import { redact } from './redaction.ts'
import type { AnswerHeaders } from './retry-after.ts'

export interface Call {
  /** Connections are pooled per channel, so that one account's trouble is not another's. */
  readonly channelId: string
  readonly method: 'GET' | 'POST' | 'DELETE'
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer | null
  /** A create takes a fresh connection; a read may use a kept one. */
  readonly purpose: 'create' | 'read'
  /** Whole call, in ms from now, connecting included. */
  readonly timeoutMs: number
  /** Asked at the last moment before the first byte; absent means yes. */
  readonly mayStillSend?: () => boolean
  /** Never to appear in an error's text. */
  readonly secrets: readonly string[]
}

export interface Answer {
  readonly status: number
  readonly headers: AnswerHeaders
  readonly body: Buffer
}

export type Exchange =
  | { readonly kind: 'answered'; readonly answer: Answer; readonly receivedAtMs: number }
  | { readonly kind: 'broken'; readonly evidence: Exclude<Evidence, { stage: 'complete' }> }
  /** Proven: no byte left, and it was our own doing. */
  | { readonly kind: 'stopped_before_sending'; readonly why: 'deadline' | 'not_wanted' | 'closing' }

export interface CallerSettings {
  /** DNS, TCP and TLS together. */
  readonly connectTimeoutMs: number
  /** Between two pieces of an answer's body. */
  readonly bodyTimeoutMs: number
  /** Largest answer that is held in memory: a batch of images in base64. */
  readonly maxAnswerBytes: number
}

export const DEFAULT_CALLER_SETTINGS: CallerSettings = {
  connectTimeoutMs: 10_000,
  bodyTimeoutMs: 60_000,
  maxAnswerBytes: 256 * 1024 * 1024,
}

/** Extra trust for TLS, as Node's `ca`; for a provider behind a private certificate authority. */
export interface CallerOptions extends Partial<CallerSettings> {
  readonly ca?: string
}

export interface Caller {
  readonly settings: CallerSettings
  /** One HTTP exchange, at most one request on the wire. Never rejects. */
  exchange(call: Call): Promise<Exchange>
  /** Where streams are read from (download.ts); pooled per channel like the rest. Throws once the caller is closed. */
  streamAgent(channelId: string): Agent
  /** Ends every connection. Calls in flight end as stopped: before their first byte for certain, else unknown. */
  close(): Promise<void>
}

export function createCaller(options: CallerOptions = {}): Caller {
  const { ca, ...given } = options
  const settings: CallerSettings = { ...DEFAULT_CALLER_SETTINGS, ...given }
  const agents = new Map<string, Agent>()
  let closed = false

  const agentFor = (channelId: string, use: 'create' | 'read' | 'stream'): Agent => {
    const key = `${use} ${channelId}`
    const agent = agents.get(key) ?? newAgent(settings, use, ca)
    agents.set(key, agent)
    return agent
  }

  return {
    settings,
    exchange: async (call) => {
      if (closed) return { kind: 'stopped_before_sending', why: 'closing' }
      return dispatch(agentFor(call.channelId, call.purpose), call, new RecordingHandler(call))
    },
    streamAgent: (channelId) => {
      if (closed) throw new errors.ClientClosedError()
      return agentFor(channelId, 'stream')
    },
    close: async () => {
      closed = true
      await Promise.all([...agents.values()].map((agent) => agent.destroy()))
      agents.clear()
    },
  }
}

function newAgent(
  settings: CallerSettings,
  use: 'create' | 'read' | 'stream',
  ca: string | undefined,
): Agent {
  return new Agent({
    allowH2: false,
    pipelining: 1,
    connect: { timeout: settings.connectTimeoutMs, allowH2: false, ...(ca === undefined ? {} : { ca }) },
    bodyTimeout: settings.bodyTimeoutMs,
    headersTimeout: 60_000,
    // A stream counts its own bytes against the limit of its caller.
    maxResponseSize: use === 'stream' ? -1 : settings.maxAnswerBytes,
  })
}

function dispatch(agent: Agent, call: Call, handler: RecordingHandler): Promise<Exchange> {
  const deadline = setTimeout(() => handler.stop('deadline'), call.timeoutMs)
  try {
    agent.dispatch(dispatchOptions(call), handler)
  } catch (error) {
    // undici refuses what it cannot build before anything is sent; otherwise it reports to the handler.
    handler.onResponseError(null, error)
  }
  return handler.exchange.finally(() => clearTimeout(deadline))
}

function dispatchOptions(call: Call): Dispatcher.DispatchOptions {
  const url = new URL(call.url)
  return {
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    method: call.method,
    headers: {
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'yardmaster',
      ...call.headers,
    },
    body: call.body,
    reset: call.purpose === 'create',
    // The deadline of the whole call ends it; this one only keeps undici from ending it earlier.
    headersTimeout: call.timeoutMs + 1_000,
  }
}

/** One request's recorder: the stage it reached, and the answer as far as it came. */
class RecordingHandler implements Dispatcher.DispatchHandler {
  readonly exchange: Promise<Exchange>
  readonly #call: Call
  #settle: (exchange: Exchange) => void = () => {}
  #settled = false
  #began = false
  #controller: Dispatcher.DispatchController | null = null
  #head: { readonly status: number; readonly headers: AnswerHeaders } | null = null
  readonly #pieces: Buffer[] = []

  constructor(call: Call) {
    this.#call = call
    this.exchange = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  /** The last moment before the first byte: what is stopped here was never sent. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#settled || this.#began) {
      controller.abort(new Error('not to be sent'))
      return
    }
    if (!this.#isStillWanted()) {
      this.#finish({ kind: 'stopped_before_sending', why: 'not_wanted' })
      controller.abort(new Error('no longer wanted'))
      return
    }
    this.#began = true
    this.#controller = controller
  }

  /** A question that fails is a no: what nobody may vouch for is not sent. */
  #isStillWanted(): boolean {
    try {
      return this.#call.mayStillSend?.() ?? true
    } catch {
      return false
    }
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status >= 200) this.#head = { status, headers: singleValued(headers) }
  }

  onResponseData(_controller: Dispatcher.DispatchController, piece: Buffer): void {
    this.#pieces.push(piece)
  }

  onResponseEnd(): void {
    if (!this.#head) {
      this.#break({
        kind: 'error',
        code: 'NO_FINAL_HEAD',
        message: 'the answer ended without a final status',
      })
      return
    }
    const answer = { ...this.#head, body: Buffer.concat(this.#pieces) }
    this.#finish({ kind: 'answered', answer, receivedAtMs: Date.now() })
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: unknown): void {
    if (codeOf(error) === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') this.#break({ kind: 'too_large' })
    else if (SHUTTING_DOWN.has(codeOf(error))) this.stop('stopped')
    else this.#break({ kind: 'error', code: codeOf(error), message: messageOf(error, this.#call.secrets) })
  }

  /** Ends it from our side. Before the first byte that is no attempt at all; `onRequestStart` sees to it. */
  stop(why: 'deadline' | 'stopped'): void {
    if (this.#settled) return
    if (!this.#began) {
      this.#finish({ kind: 'stopped_before_sending', why: why === 'deadline' ? 'deadline' : 'closing' })
      return
    }
    this.#break({ kind: why })
    this.#controller?.abort(new Error(why))
  }

  #break(end: TransportEnd): void {
    this.#finish({ kind: 'broken', evidence: this.#evidence(end) })
  }

  #evidence(end: TransportEnd): Exclude<Evidence, { stage: 'complete' }> {
    if (!this.#began) return { stage: 'connecting', end }
    if (!this.#head) return { stage: 'awaiting_head', end }
    return { stage: 'reading_body', status: this.#head.status, end }
  }

  #finish(exchange: Exchange): void {
    if (this.#settled) return
    this.#settled = true
    this.#settle(exchange)
  }
}

const SHUTTING_DOWN: ReadonlySet<string> = new Set(['UND_ERR_DESTROYED', 'UND_ERR_CLOSED'])

function singleValued(headers: Record<string, string | string[] | undefined>): AnswerHeaders {
  const single: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    const first = Array.isArray(value) ? value[0] : value
    if (first !== undefined) single[name.toLowerCase()] = first
  }
  return single
}

/** The error's code, or its class where it has none (undici's parser): never its text. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'NOT_AN_ERROR'
  if ('code' in error && typeof error.code === 'string') return error.code
  const first = error instanceof AggregateError ? error.errors[0] : undefined
  return first === undefined ? error.name : codeOf(first)
}

export function messageOf(error: unknown, secrets: readonly string[]): string {
  return redact(error instanceof Error ? error.message : 'something that is no error was thrown', secrets)
}
