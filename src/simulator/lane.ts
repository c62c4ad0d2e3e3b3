// The jobs of one model of one account: so many run at once, the others wait their turn.
//
// Nothing ticks. Whoever looks brings the lane up to now, event by event in their order, so that ten
// thousand jobs cost nothing while nobody looks. Only a lane with callbacks to send keeps one timer.

import type { ModelSettings, Protocol } from './configuration.ts'
import { Deque } from './deque.ts'
import { Heap } from './heap.ts'
import type { Ending, Job } from './job.ts'

export type LaneName = { protocol: Protocol; account: string; model: string; kind: 'video' | 'image' }

export class Lane {
  readonly name: LaneName
  settings: ModelSettings
  running = 0
  maxRunning = 0
  accepted = 0
  /** Jobs that are not ended and want callbacks. */
  watched = 0
  #waiting = new Deque<Job>()
  #ends = new Heap<Job>((job) => job.endsAt)
  #time = 0
  #onChange: (job: Job) => void

  constructor(name: LaneName, settings: ModelSettings, onChange: (job: Job) => void) {
    this.name = name
    this.settings = settings
    this.#onChange = onChange
  }

  get waiting(): number {
    return this.#waiting.length
  }

  isFull(now: number): boolean {
    this.advance(now)
    return this.running >= this.#limit() && this.settings.when_full === 'reject'
  }

  /** Takes a new job in. `duration` is how long it runs. */
  add(job: Job, now: number): void {
    this.advance(now)
    this.accepted++
    if (job.callbackUrl !== null) this.watched++
    this.#onChange(job)
    if (job.plan.stuck !== 'queued') this.#waiting.push(job)
    this.advance(now)
  }

  /** Brings every job of the lane up to `now`. */
  advance(now: number): void {
    for (let at = this.#nextEvent(); at <= now; at = this.#nextEvent()) {
      this.#time = Math.max(this.#time, at)
      if ((this.#ends.peek()?.endsAt ?? Infinity) <= at) this.#endFirst()
      else this.#startFirst(at)
    }
    this.#time = Math.max(this.#time, now)
  }

  /** When the next change is due; infinite when nothing is. */
  nextChange(): number {
    return this.#nextEvent()
  }

  /** Ends a job now, whatever was planned. */
  end(job: Job, ending: Ending, now: number): void {
    this.advance(now)
    if (job.endedAt !== null) return
    if (job.state === 'running') {
      this.running--
      this.#ends.remove(job)
    }
    this.#conclude(job, ending, now)
    this.advance(now)
  }

  #limit(): number {
    return this.settings.concurrency ?? Infinity
  }

  #nextEvent(): number {
    const end = this.#ends.peek()?.endsAt ?? Infinity
    const first = this.#firstWaiting()
    if (first === undefined || this.running >= this.#limit()) return end
    return Math.min(end, Math.max(first.notBefore, this.#time))
  }

  // A cancelled job stays in the list until its turn comes.
  #firstWaiting(): Job | undefined {
    let first = this.#waiting.first()
    while (first !== undefined && first.endedAt !== null) {
      this.#waiting.shift()
      first = this.#waiting.first()
    }
    return first
  }

  #startFirst(now: number): void {
    const job = this.#waiting.shift()
    if (job === undefined) return
    job.state = 'running'
    job.startedAt = now
    this.running++
    this.maxRunning = Math.max(this.maxRunning, this.running)
    const open = job.plan.stuck === 'running' || job.plan.afterPolls !== undefined
    job.endsAt = open ? Infinity : now + job.endsAt
    if (!open) this.#ends.push(job)
    this.#onChange(job)
  }

  #endFirst(): void {
    const job = this.#ends.pop()
    if (job === undefined) return
    this.running--
    this.#conclude(job, plannedEnding(job), job.endsAt)
  }

  #conclude(job: Job, ending: Ending, now: number): void {
    job.state = ending
    job.endedAt = now
    if (ending === 'failed')
      job.failure = job.plan.fails ?? { code: 'InternalServiceError', message: 'ended by hand' }
    if (job.callbackUrl !== null) this.watched--
    this.#onChange(job)
  }
}

/** How a job ends when nobody interferes. */
export function plannedEnding(job: Job): Ending {
  if (job.plan.fails !== undefined) return 'failed'
  return job.plan.expires === true ? 'expired' : 'succeeded'
}
