/** The providers: what they make of a create, and what they know that the yard can only ask for. */
import type { Evidence, Fault } from '../../src/core/outcome.ts'
import { classifyEnded, meaning } from '../../src/core/outcome.ts'
import type { Attempt, Books, Supply } from './books.ts'
import { SECOND } from './clock.ts'

export type Answer =
  | { readonly kind: 'accepted' }
  /** An image's acceptance and end in one. */
  | { readonly kind: 'finished' }
  | { readonly kind: 'job_failed'; readonly fault: Fault }
  | { readonly kind: 'evidence'; readonly evidence: Evidence }

export interface Job {
  readonly end: 'finished' | 'failed' | 'refused'
  readonly endsAt: number
}

export class Providers {
  /** By supply or channel: broken, until then. */
  readonly brokenUntil = new Map<string, number>()
  calm = false
  readonly #books: Books
  readonly #sound: string | null
  readonly #posts = new Set<Attempt>()
  readonly #jobs = new Map<Attempt, Job>()

  constructor(books: Books, sound: string | null) {
    this.#books = books
    this.#sound = sound
  }

  isBroken(id: string): boolean {
    return this.#books.now < (this.brokenUntil.get(id) ?? 0)
  }

  /** What there truly is; the yard may only ask for it as it could ask a provider. */
  job(attempt: Attempt): Job | undefined {
    return this.#jobs.get(attempt)
  }

  /** One create. After so many seconds the caller has the answer. */
  post(attempt: Attempt): { answer: Answer; seconds: number } {
    this.#mayBePosted(attempt)
    this.#posts.add(attempt)
    const outcome = this.#outcome(attempt.supply)
    const { random } = this.#books
    if (outcome === 'accepted') {
      const job = this.#begin(attempt)
      if (attempt.task.facts.media === 'video')
        return { answer: { kind: 'accepted' }, seconds: 1 + random.below(20) }
      const answer = job.end === 'finished' ? { kind: 'finished' as const } : this.failureOf(job)
      return { answer, seconds: (job.endsAt - this.#books.now) / SECOND }
    }
    const isLong = outcome.stage === 'awaiting_head'
    // What was cut off may have been taken, whatever it looks like from here.
    const mayHave = outcome.stage !== 'connecting' && (outcome.stage !== 'complete' || outcome.status === 502)
    if (mayHave && random.next() < 0.5) this.#begin(attempt)
    return { answer: { kind: 'evidence', evidence: outcome }, seconds: isLong ? 30 : 1 + random.below(10) }
  }

  /** By the providers' own books, never the yard's. */
  #mayBePosted(attempt: Attempt): void {
    const { insist, now } = { insist: this.#books.insist, now: this.#books.now }
    insist(!this.#posts.has(attempt), 'UNK-6, UNK-10: one create for each attempt')
    const earlier = attempt.task.attempts.filter((one) => this.#posts.has(one))
    insist(earlier.length < 2, 'RTY-1: at most two creates for a task')
    for (const one of earlier) {
      const job = this.#jobs.get(one)
      insist(
        !job || (job.end !== 'finished' && job.endsAt <= now),
        'UNK-3, STR-8: no job is begun beside one of the same task that runs or delivered',
      )
    }
  }

  #begin(attempt: Attempt): Job {
    const { random, now } = this.#books
    const { supply } = attempt
    const roll = random.next()
    const isBad = !this.calm && supply.channel.id !== this.#sound
    const isImage = attempt.task.facts.media === 'image'
    const isStuck = isBad && !isImage && random.next() < 0.004
    const seconds = isStuck
      ? random.pick([4500, 20_000])
      : isImage
        ? 3 + random.below(12)
        : 20 + random.below(180)
    const fails = isBad && (roll < 0.02 || (this.isBroken(supply.id) && roll < 0.6))
    const end = fails ? 'failed' : !this.calm && roll > 0.985 ? 'refused' : 'finished'
    const job: Job = { end, endsAt: now + seconds * SECOND }
    this.#jobs.set(attempt, job)
    return job
  }

  failureOf(job: Job): { kind: 'job_failed'; fault: Fault } {
    const isContent = job.end === 'refused'
    const cause = isContent
      ? meaning('content/request', 'content_refused')
      : meaning('supply/supply', 'upstream_error', { retryable: true, impact: 'failure' })
    const fault = classifyEnded({
      meaning: cause,
      providerCode: isContent ? 'Sensitive' : 'Internal',
      message: 'x',
      provesRefusal: true,
    })
    return { kind: 'job_failed', fault }
  }

  #outcome(supply: Supply): Evidence | 'accepted' {
    const roll = this.#books.random.next()
    if (this.isBroken(supply.channel.id)) {
      if (roll < 0.25)
        return { stage: 'connecting', end: { kind: 'error', code: 'ECONNREFUSED', message: 'x' } }
      return answered(roll < 0.3 ? 401 : 502)
    }
    if (this.isBroken(supply.id)) {
      if (roll < 0.3) return answered(500)
      if (roll < 0.5) return { stage: 'awaiting_head', end: { kind: 'deadline' } }
      if (roll < 0.8) return answered(404)
      return { ...answered(429), retryAfterMs: this.#books.random.below(60_000) }
    }
    if (this.calm) return 'accepted'
    if (roll < 0.02) return refusal(400, 'content/request', 'content_refused')
    if (roll < 0.03) return refusal(400, 'request/request', 'invalid_request')
    if (supply.channel.id === this.#sound) return 'accepted'
    if (roll < 0.04)
      return {
        stage: 'reading_body',
        status: 200,
        end: { kind: 'error', code: 'UND_ERR_SOCKET', message: 'x' },
      }
    if (roll < 0.05) return answered(429)
    return 'accepted'
  }
}

type Complete = Extract<Evidence, { stage: 'complete' }>

function answered(status: number): Complete {
  return { stage: 'complete', status, statement: null, retryAfterMs: null }
}

function refusal(
  status: number,
  place: 'content/request' | 'request/request',
  code: 'content_refused' | 'invalid_request',
): Complete {
  const statement = { meaning: meaning(place, code), providerCode: code, message: 'x', provesRefusal: true }
  return { ...answered(status), statement }
}
