// Every job that the simulator holds: bounded, oldest forgotten first.

import type { Clock } from './clock.ts'
import type { Configuration, Protocol } from './configuration.ts'
import { Deque } from './deque.ts'
import { type Ending, isEnded, type Job, type JobPlan } from './job.ts'
import { Lane, type LaneName, plannedEnding } from './lane.ts'

export type NewJob = LaneName & {
  attempt: string | null
  prompt: string
  request: Record<string, unknown>
  video: Job['video']
  plan: JobPlan
  origin: string
  callbackUrl: string | null
  tokens: number
  /** Pictures made; 0 for a video. */
  images: number
  /** How long it may live before it expires. */
  expiresAfterMs: number
}

type Dependencies = {
  clock: Clock
  configuration: Configuration
  random: () => number
  capacity: number
  onChange: (job: Job, lane: Lane) => void
}

export class Jobs {
  #byId = new Map<string, Job>()
  #byAccount = new Map<string, Deque<Job>>()
  #order = new Deque<Job>()
  #lanes = new Map<string, Lane>()
  #sequence = 0
  #with: Dependencies
  accepted = 0
  costMicros = 0

  constructor(dependencies: Dependencies) {
    this.#with = dependencies
  }

  reset(): void {
    this.#byId.clear()
    this.#byAccount.clear()
    this.#order = new Deque()
    this.#lanes.clear()
    this.accepted = 0
    this.costMicros = 0
  }

  lane(name: LaneName): Lane {
    const key = `${name.protocol}/${name.account}/${name.kind}/${name.model}`
    const known = this.#lanes.get(key)
    if (known !== undefined) return known
    const settings = this.#with.configuration.settings(name.protocol, name.account, name.model, name.kind)
    const lane: Lane = new Lane(name, settings, (job) => this.#with.onChange(job, lane))
    this.#lanes.set(key, lane)
    return lane
  }

  lanes(): Lane[] {
    return [...this.#lanes.values()]
  }

  /** Brings all lanes up to now and, after a change of configuration, gives them their new settings. */
  refresh(): void {
    const { configuration, clock } = this.#with
    for (const lane of this.#lanes.values()) {
      const { protocol, account, model, kind } = lane.name
      lane.advance(clock.now())
      lane.settings = configuration.settings(protocol, account, model, kind)
      lane.advance(clock.now())
    }
  }

  /** Accepts a job. */
  add(spec: NewJob): Job {
    const now = this.#with.clock.now()
    const lane = this.lane(spec)
    const { settings } = lane
    const vary = 1 + settings.spread * (this.#with.random() * 2 - 1)
    const tokens = settings.usage_tokens ?? spec.tokens
    const job: Job = {
      id: this.#newId(spec, now),
      protocol: spec.protocol,
      account: spec.account,
      model: spec.model,
      kind: spec.kind,
      attempt: spec.attempt,
      prompt: spec.prompt,
      request: spec.request,
      video: spec.video,
      settings,
      plan: spec.plan,
      origin: spec.origin,
      callbackUrl: spec.callbackUrl,
      tokens,
      costMicros: costOf(settings.price, spec.video.seconds, spec.images, tokens),
      createdAt: now,
      notBefore: now + settings.queue_ms,
      expiresAt: now + spec.expiresAfterMs,
      startedAt: null,
      endsAt: spec.plan.afterMs ?? settings.duration_ms * vary,
      endedAt: null,
      state: 'queued',
      failure: null,
      polls: 0,
      deleted: false,
    }
    this.#keep(job)
    lane.add(job, now)
    return job
  }

  /** The job in its state of now, or undefined when there is none, or its record was removed. */
  find(id: string, protocol?: Protocol, account?: string): Job | undefined {
    const job = this.#byId.get(id)
    if (job === undefined || job.deleted) return undefined
    if (protocol !== undefined && (job.protocol !== protocol || job.account !== account)) return undefined
    return this.#current(job)
  }

  /** Counts one look at the job; one that ends after so many looks ends here. */
  look(job: Job): void {
    job.polls++
    if (job.plan.afterPolls === undefined || job.polls < job.plan.afterPolls || isEnded(job)) return
    this.end(job, plannedEnding(job))
  }

  end(job: Job, ending: Ending): void {
    this.lane(job).end(job, ending, this.#with.clock.now())
  }

  /** The jobs of an account, the newest first. */
  *ofAccount(protocol: Protocol, account: string): Generator<Job> {
    const jobs = this.#byAccount.get(`${protocol}/${account}`)
    if (jobs === undefined) return
    for (const job of jobs.newestFirst()) if (!job.deleted) yield this.#current(job)
  }

  /** Every job that is held, the newest first. */
  *all(): Generator<Job> {
    for (const job of this.#order.newestFirst()) yield this.#current(job)
  }

  get held(): number {
    return this.#byId.size
  }

  #current(job: Job): Job {
    if (isEnded(job)) return job
    const now = this.#with.clock.now()
    const lane = this.lane(job)
    lane.advance(now)
    if (now >= job.expiresAt) lane.end(job, 'expired', now)
    return job
  }

  #keep(job: Job): void {
    this.accepted++
    this.costMicros += job.costMicros
    this.#byId.set(job.id, job)
    this.#order.push(job)
    const key = `${job.protocol}/${job.account}`
    const known = this.#byAccount.get(key)
    if (known === undefined) this.#byAccount.set(key, new Deque())
    this.#byAccount.get(key)?.push(job)
    if (this.#order.length > this.#with.capacity) this.#forgetOldest()
  }

  // The oldest of all is the oldest of its account, so both lists give up their head.
  #forgetOldest(): void {
    const oldest = this.#order.shift()
    if (oldest === undefined) return
    this.#byAccount.get(`${oldest.protocol}/${oldest.account}`)?.shift()
    this.#byId.delete(oldest.id)
  }

  #newId(spec: NewJob, now: number): string {
    const number = (++this.#sequence).toString(36).padStart(6, '0')
    if (spec.kind === 'image') return `img_${number}`
    if (spec.protocol === 'openai') return `video_${now.toString(16)}${number}`
    if (spec.protocol === 'kling') return `${now}${this.#sequence.toString().padStart(6, '0')}`
    return `cgt-${new Date(now).toISOString().replace(/\D/g, '').slice(0, 14)}-${number}`
  }
}

function costOf(price: Job['settings']['price'], seconds: number, images: number, tokens: number): number {
  const perSecond = images > 0 ? 0 : (price.per_second ?? 0) * seconds
  const perToken = ((price.per_million_tokens ?? 0) * tokens) / 1_000_000
  return Math.round((price.per_job ?? 0) + perSecond + (price.per_image ?? 0) * images + perToken)
}
