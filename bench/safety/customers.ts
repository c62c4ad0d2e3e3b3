/** Customers of the mix: they ask over HTTP, and repeat what got no answer under the same Idempotency-Key. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from './random.ts'

export interface CustomersOptions {
  readonly url: string
  readonly key: string
  readonly random: Random
  readonly tasks: number
}

export interface Asked {
  /** UUIDs of the tasks that were acknowledged. */
  readonly taskIds: readonly string[]
  readonly answers: Readonly<Record<string, number>>
}

const AT_ONCE = 24
const MOST_TRIES = 60
const IMAGE_SHARE = 0.12

export class Customers {
  readonly #options: CustomersOptions
  readonly #taskIds: string[] = []
  readonly #answers: Record<string, number> = {}
  #asked = 0
  done = false

  constructor(options: CustomersOptions) {
    this.#options = options
  }

  async run(): Promise<Asked> {
    await Promise.all(Array.from({ length: AT_ONCE }, () => this.#customer()))
    this.done = true
    return { taskIds: this.#taskIds, answers: this.#answers }
  }

  async #customer(): Promise<void> {
    for (let n = this.#asked++; n < this.#options.tasks; n = this.#asked++) await this.#ask(n)
  }

  async #ask(n: number): Promise<void> {
    const { random } = this.#options
    const isImage = random.next() < IMAGE_SHARE
    const body = isImage
      ? { model: 'mix-image', prompt: `picture ${n}`, size: '1024x1024', n: 1 + random.below(3) }
      : {
          model: 'mix-video',
          prompt: `video ${n}`,
          seconds: String(4 + random.below(6)),
          size: random.pick(['1280x720', '720x1280']),
        }
    const path = isImage ? '/v1/images/generations' : '/v1/videos'
    for (let tries = 0; tries < MOST_TRIES; tries += 1) {
      const said = await this.#post(path, body, `bench-${n}`)
      this.#answers[said.note] = (this.#answers[said.note] ?? 0) + 1
      if (said.taskId !== null) this.#taskIds.push(said.taskId)
      if (!said.again) return
      await sleep(100 + random.below(300))
    }
  }

  async #post(
    path: string,
    body: object,
    idempotencyKey: string,
  ): Promise<{ note: string; again: boolean; taskId: string | null }> {
    const { url, key } = this.#options
    try {
      const answer = await fetch(`${url}${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          'idempotency-key': idempotencyKey,
        },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(60_000),
      })
      const text = await answer.text()
      const again =
        answer.status === 409 || answer.status === 429 || (answer.status >= 500 && !isFinal(answer))
      const taskId = answer.ok && path === '/v1/videos' ? uuidOf(text) : null
      return { note: `${path} ${answer.status}`, again, taskId }
    } catch (error) {
      return { note: `${path} ${error instanceof Error ? error.name : 'error'}`, again: true, taskId: null }
    }
  }
}

/** What may have been submitted is not to be asked for again, and is not. */
function isFinal(answer: Response): boolean {
  return answer.headers.get('x-should-retry') === 'false'
}

function uuidOf(text: string): string | null {
  const hex = /"id":"video_([0-9a-f]{32})"/.exec(text)?.[1]
  return hex === undefined ? null : hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
