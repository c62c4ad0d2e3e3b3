// Callbacks to the address that a create request gave: one on every change of state, as Ark sends them.
//
// Only here are there timers: one per lane that has somebody to tell. A callback carries no signature, as
// the real ones do not.

import type { Clock } from './clock.ts'
import type { Effect } from './faults/effect.ts'
import type { Rules } from './faults/rules.ts'
import { isEnded, type Job } from './job.ts'
import type { Lane } from './lane.ts'

const ANSWER_WITHIN_MS = 5000
const RETRIES = 3
const RETRY_AFTER_MS = 200
const LONGEST_TIMER_MS = 2 ** 31 - 1
const KEPT = 10_000
const ANSWER_FIRST_MS = 20
const RETRIED_STATUSES = ['succeeded', 'failed']

/** What a callback says; the same as the answer to a query. */
export type CallbackBody = { id: string; status: string } & Record<string, unknown>

export type CallbackNote = { job: string; status: string; forged: boolean; answer: number | 'failed' }

export class Callbacks {
  readonly sent: CallbackNote[] = []
  /** Shows a job as a query would; set by the protocol that has callbacks. */
  show: (job: Job) => CallbackBody = (job) => ({ id: job.id, status: job.state })
  #clock: Clock
  #rules: Rules
  #timers = new Map<Lane, NodeJS.Timeout>()
  #waits = new Set<NodeJS.Timeout>()
  #stop = new AbortController()
  #firsts = new Map<string, Promise<void>>()
  #last = new Map<string, Promise<void>>()

  constructor(clock: Clock, rules: Rules) {
    this.#clock = clock
    this.#rules = rules
  }

  /** Called on every change of a job's state. */
  changed(job: Job, lane: Lane): void {
    if (job.callbackUrl !== null) this.#announce(job)
    if (lane.watched > 0) queueMicrotask(() => this.#arm(lane))
  }

  /** Waits until the job's first callback is delivered. */
  async first(job: Job): Promise<void> {
    await this.#firsts.get(job.id)
  }

  /** Lets the lanes with callbacks look at the clock again. */
  rearm(): void {
    for (const lane of [...this.#timers.keys()]) this.#arm(lane)
  }

  reset(): void {
    this.#stop.abort()
    this.#stop = new AbortController()
    for (const timer of [...this.#timers.values(), ...this.#waits]) clearTimeout(timer)
    this.#timers.clear()
    this.#waits.clear()
    this.#firsts.clear()
    this.#last.clear()
    this.sent.length = 0
  }

  #arm(lane: Lane): void {
    clearTimeout(this.#timers.get(lane))
    this.#timers.delete(lane)
    const due = lane.nextChange()
    if (lane.watched === 0 || due === Infinity) return
    const wait = Math.min(LONGEST_TIMER_MS, Math.max(0, Math.ceil(due - this.#clock.now())))
    const timer = setTimeout(() => {
      lane.advance(this.#clock.now())
      this.#arm(lane)
    }, wait)
    this.#timers.set(lane, timer)
  }

  #announce(job: Job): void {
    const { effect } = this.#rules.atBody({
      operation: 'callback',
      protocol: job.protocol,
      account: job.account,
      model: job.model,
      prompt: job.prompt,
      attempt: job.attempt,
      status: job.state,
    })
    const how = effect.callback ?? {}
    const body = this.show(job)
    const before = this.#last.get(job.id) ?? this.#pause(job)
    // A late one leaves the queue, so that the next overtakes it.
    const delivery = before.then(() => this.#deliver(job.callbackUrl, body, how))
    this.#last.set(job.id, how.delayMs === undefined ? delivery : before)
    if (job.state === 'queued') this.#firsts.set(job.id, delivery)
    if (isEnded(job)) void delivery.finally(() => this.#forget(job))
  }

  // The answer to the create request goes first, unless the script says otherwise.
  #pause(job: Job): Promise<void> {
    return job.plan.earlyCallback === true ? Promise.resolve() : this.#wait(ANSWER_FIRST_MS)
  }

  #forget(job: Job): void {
    this.#firsts.delete(job.id)
    this.#last.delete(job.id)
  }

  async #deliver(
    url: string | null,
    body: CallbackBody,
    how: NonNullable<Effect['callback']>,
  ): Promise<void> {
    if (url === null || how.lost === true) return
    const retries = RETRIED_STATUSES.includes(body.status) ? RETRIES : 0
    const stop = this.#stop.signal
    if (how.delayMs !== undefined) await this.#wait(how.delayMs)
    if (stop.aborted) return
    if (how.forged === true) await this.#post(url, forge(body), stop, true)
    for (let copy = 0; copy < (how.copies ?? 1); copy++) {
      for (let attempt = 0; attempt <= retries && !stop.aborted; attempt++) {
        if (attempt > 0) await this.#wait(RETRY_AFTER_MS * 2 ** attempt)
        if (await this.#post(url, body, stop, false)) break
      }
    }
  }

  async #post(url: string, body: CallbackBody, stop: AbortSignal, forged: boolean): Promise<boolean> {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      redirect: 'manual',
      signal: AbortSignal.any([stop, AbortSignal.timeout(ANSWER_WITHIN_MS)]),
    }).then(
      async (response) => {
        await response.body?.cancel()
        return response.status
      },
      () => 'failed' as const,
    )
    if (stop.aborted) return true
    if (this.sent.length < KEPT) this.sent.push({ job: body.id, status: body.status, forged, answer })
    return answer !== 'failed' && answer < 300
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#waits.delete(timer)
        resolve()
      }, ms)
      this.#waits.add(timer)
    })
  }
}

function forge(body: CallbackBody): CallbackBody {
  return {
    ...body,
    status: 'succeeded',
    content: { video_url: 'https://attacker.invalid/forged.mp4' },
  }
}
