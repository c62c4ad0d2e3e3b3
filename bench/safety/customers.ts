/**
 * Customers of the mix: they ask over HTTP, repeat what got no answer under the same Idempotency-Key, and write down how
 * each request ended for them.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from './random.ts'

export interface CustomersOptions {
  readonly url: string
  readonly key: string
  readonly random: Random
  readonly requests: number
  /** False while as much is under way as should be. */
  readonly mayAsk: () => boolean
}

/** How a request ended for whoever asked. */
export type Answered =
  | { readonly kind: 'acknowledged'; readonly taskId: string | null }
  /** An error that is final, or that was repeated until patience ended. */
  | { readonly kind: 'refused'; readonly status: number; readonly code: string }
  /** An error that says not to repeat, without saying what became of the request. */
  | { readonly kind: 'in_doubt'; readonly status: number; readonly code: string }
  | { readonly kind: 'no_answer' }

export interface Asked {
  /** Also what its task's prompt is. */
  readonly prompt: string
  readonly kind: 'video' | 'image'
  readonly answered: Answered
  /** UUIDs that any answer named; two would be two tasks. */
  readonly taskIds: readonly string[]
}

/** What a customer sees of a video in the end. */
export interface Seen {
  readonly taskId: string
  readonly status: string
  readonly code: string | null
}

const AT_ONCE = 24
const PATIENCE_MS = 90_000
const IMAGE_SHARE = 0.12
/** Of the videos: their model allows little time, and some of their jobs never end (faults.ts). */
const SHORT_SHARE = 0.04
/** Codes that say nothing of what became of the request. */
const DOUBTFUL: ReadonlySet<string> = new Set(['service_unavailable', 'internal_error'])

interface Reply {
  readonly status: number
  readonly text: string
  readonly shouldRetry: boolean
}

export class Customers {
  readonly #options: CustomersOptions
  readonly #asked: Asked[] = []
  readonly #tally: Record<string, number> = {}
  /** Texts of errors, to be searched for what no customer may see. */
  readonly errors: string[] = []
  #next = 0
  done = false

  constructor(options: CustomersOptions) {
    this.#options = options
  }

  /** Answers by path and status, as they came, repeats included. */
  get tally(): Readonly<Record<string, number>> {
    return this.#tally
  }

  async run(): Promise<readonly Asked[]> {
    await this.#together(async () => {
      for (let n = this.#next++; n < this.#options.requests; n = this.#next++) {
        while (!this.#options.mayAsk()) await sleep(20)
        this.#asked.push(await this.#ask(n))
      }
    })
    this.done = true
    return this.#asked
  }

  /** Looks at videos by their IDs, as their customer. */
  async look(taskIds: readonly string[]): Promise<readonly Seen[]> {
    const waiting = [...taskIds]
    const seen: Seen[] = []
    await this.#together(async () => {
      for (let taskId = waiting.pop(); taskId !== undefined; taskId = waiting.pop()) {
        const reply = await this.#call('GET', `/v1/videos/video_${taskId.replaceAll('-', '')}`)
        seen.push(reply === null ? { taskId, status: 'no answer', code: null } : seenIn(taskId, reply))
      }
    })
    return seen
  }

  async #together(work: () => Promise<void>): Promise<void> {
    await Promise.all(Array.from({ length: AT_ONCE }, work))
  }

  async #ask(n: number): Promise<Asked> {
    const { random } = this.#options
    const kind = random.next() < IMAGE_SHARE ? 'image' : 'video'
    const body = kind === 'image' ? this.#image(n) : this.#video(n)
    const path = kind === 'image' ? '/v1/images/generations' : '/v1/videos'
    const taskIds = new Set<string>()
    const end = performance.now() + PATIENCE_MS
    for (;;) {
      const reply = await this.#call('POST', path, { body, idempotencyKey: `bench-${n}` })
      const answered = answeredBy(reply)
      if (answered.kind === 'acknowledged' && answered.taskId !== null) taskIds.add(answered.taskId)
      if (!isToRepeat(reply) || performance.now() > end)
        return { prompt: body.prompt, kind, answered, taskIds: [...taskIds] }
      await sleep(100 + random.below(400))
    }
  }

  #image(n: number) {
    const { random } = this.#options
    return { model: 'mix-image', prompt: `picture ${n}.`, size: '1024x1024', n: 1 + random.below(3) }
  }

  #video(n: number) {
    const { random } = this.#options
    const isShort = random.next() < SHORT_SHARE
    return {
      model: isShort ? 'mix-short' : 'mix-video',
      prompt: `${isShort ? 'short' : 'long'} video ${n}.`,
      seconds: String(4 + random.below(6)),
      size: random.pick(['1280x720', '720x1280']),
    }
  }

  /** null: no answer. */
  async #call(
    method: string,
    path: string,
    post?: { readonly body: object; readonly idempotencyKey: string },
  ): Promise<Reply | null> {
    const { url, key } = this.#options
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const sent = post && {
      headers: { ...headers, 'idempotency-key': post.idempotencyKey },
      body: JSON.stringify(post.body),
    }
    const reply = await fetch(`${url}${path}`, {
      method,
      headers,
      ...sent,
      signal: AbortSignal.timeout(60_000),
    })
      .then(async (answer) => ({
        status: answer.status,
        text: await answer.text(),
        shouldRetry: answer.headers.get('x-should-retry') !== 'false',
      }))
      .catch(() => null)
    if (post) this.#count(`${path} ${reply?.status ?? 'no answer'}`)
    if (reply && reply.status >= 400) this.errors.push(reply.text)
    return reply
  }

  #count(note: string): void {
    this.#tally[note] = (this.#tally[note] ?? 0) + 1
  }
}

/** What may have been submitted is not to be asked for again, and is not. */
function isToRepeat(reply: Reply | null): boolean {
  if (reply === null) return true
  const { status, shouldRetry } = reply
  return shouldRetry && (status === 409 || status === 429 || status >= 500)
}

function answeredBy(reply: Reply | null): Answered {
  if (reply === null) return { kind: 'no_answer' }
  const { status } = reply
  if (status < 400) return { kind: 'acknowledged', taskId: uuidIn(reply.text) }
  const code = codeIn(reply.text)
  // The address before the gateways answers without a code, where none of them does.
  if (code === null) return { kind: 'no_answer' }
  return { kind: !reply.shouldRetry && DOUBTFUL.has(code) ? 'in_doubt' : 'refused', status, code }
}

function seenIn(taskId: string, { status, text }: Reply): Seen {
  if (status >= 400) return { taskId, status: String(status), code: codeIn(text) }
  const video = JSON.parse(text) as { status: string; error: { code: string } | null }
  return { taskId, status: video.status, code: video.error?.code ?? null }
}

function codeIn(text: string): string | null {
  return /"code":"([a-z_]+)"/.exec(text)?.[1] ?? null
}

function uuidIn(text: string): string | null {
  const hex = /"id":"(?:video|image)_([0-9a-f]{32})"/.exec(text)?.[1]
  return hex === undefined ? null : hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
