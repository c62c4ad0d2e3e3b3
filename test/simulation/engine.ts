/**
 * What each process of the yard does: decide on what it read, propose, and only in a later step be granted or refused;
 * begin, send, and write the answer down, each a step of its own, between which the process may die or be stopped.
 */
import { factsToJson, laneOf } from '../../src/core/frozen.ts'
import type { Attempt, Books, Task } from './books.ts'
import { checkGrant } from './check-step.ts'
import { SECOND } from './clock.ts'
import type { Health } from './health.ts'
import type { Incarnation } from './incarnation.ts'
import type { Answer, Providers } from './provider.ts'
import type { Outcome, Settle } from './settle.ts'
import { type Proposal, Situation } from './situation.ts'

export interface Parts {
  readonly books: Books
  readonly providers: Providers
  readonly settle: Settle
  readonly health: Health
  /** Those that are up. */
  readonly anyone: () => Incarnation
}

export class Engine {
  readonly #parts: Parts
  /** Attempts that somebody has a look under way for. */
  readonly #looking = new Map<Attempt, number>()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** All that wait, judged by one reading, those of a second attempt first (STR-12). */
  dispatch(by: Incarnation): void {
    const { books } = this.#parts
    const waiting = [...books.open]
      .filter(
        ({ state, facts, notBefore }) =>
          state === 'queued' && facts.media === 'video' && notBefore <= books.now,
      )
      .sort(
        (a, b) => Number(b.attempts.length > 0) - Number(a.attempts.length > 0) || a.createdAt - b.createdAt,
      )
    if (waiting.length === 0) return
    const situation = new Situation(books)
    const proposals: Proposal[] = []
    const waits = new Set<string>()
    for (const task of waiting) {
      const lane = laneOf('video', factsToJson(task.facts), books.past(task))
      // Where the oldest of a lane waits, the others would too.
      if (waits.has(lane)) continue
      const { verdict } = situation.decide(task, true)
      if (verdict.result === 'wait') waits.add(lane)
      if (verdict.result === 'selected') proposals.push(situation.propose(task, verdict))
      else if (verdict.result === 'rejected') books.endTask(task, verdict.code)
    }
    if (proposals.length > 0) by.later(this.#aMoment(), () => this.#grantAll(by, proposals))
  }

  #grantAll(by: Incarnation, proposals: readonly Proposal[]): void {
    let again = false
    for (const proposal of proposals) {
      const granted = this.grant(by, proposal)
      if (granted === 'reservation_failed') again = true
      else if (granted !== 'lost') by.later(this.#aMoment(), () => this.#begin(by, granted))
    }
    if (again) by.later(0.1, () => this.dispatch(by))
  }

  /** A transaction reads the levels again, under lock: there is room, or the round has failed and is decided anew. */
  grant(by: Incarnation, proposal: Proposal): Attempt | 'lost' | 'reservation_failed' {
    const { books } = this.#parts
    const { task, supply, verdict } = proposal
    if (task.state === 'ended' || !books.rules.isSameTurn(proposal.turn, task.turn)) {
      books.see('lost turn')
      return 'lost'
    }
    const levels = [supply.channel, supply]
    if (levels.some((level) => !this.#hasRoom(level))) {
      books.see('reservation failed')
      books.see(`${task.facts.media} reservation failed`)
      return 'reservation_failed'
    }
    checkGrant(books, task, levels)
    const attempt = this.#attempt(by, proposal)
    for (const level of levels) level.lastGrantedAt = books.now
    task.attempts.push(attempt)
    task.attempt = attempt
    task.state = 'running'
    task.turn = ++books.turns
    books.leases.add(attempt)
    books.see(`tier ${supply.tier}`)
    books.see(`pass ${verdict.pass}`)
    if (verdict.probeTurn) books.see('probe turn')
    return attempt
  }

  #hasRoom(level: Proposal['supply'] | Proposal['supply']['channel']): boolean {
    const { books } = this.#parts
    const now = books.levelNow(level)
    if (now.a !== 'enabled' || now.h === 'circuit_open' || now.h === 'disabled') return false
    if (now.n !== null && books.now < now.n) return false
    const seen = {
      id: level.id,
      adminState: now.a,
      health: now.h,
      recoverySuccesses: now.r,
      concurrency: now.c,
      inUse: now.u,
      inUseEpoch: now.e,
      lastGrantedAt: now.g,
      notBefore: now.n,
    }
    return books.rules.freeCapacity(seen) > 0
  }

  #attempt(by: Incarnation, { task, supply, verdict }: Proposal): Attempt {
    const { books } = this.#parts
    const isImage = task.facts.media === 'image'
    return {
      id: books.attempts++,
      task,
      supply,
      channelEpoch: supply.channel.row.epoch,
      supplyEpoch: supply.row.epoch,
      quote: verdict.quote,
      billsFailures: supply.billsFailures,
      owner: by,
      grantedAt: books.now,
      told: { channel: new Set(), supply: new Set() },
      // An image's attempt is stored as submitting at once.
      state: isImage ? 'submitting' : 'reserved',
      number: isImage ? this.#numberOf(task) : null,
      submittingAt: isImage ? books.now : null,
      acceptedAt: null,
      uncertainAt: null,
      heldUntil: null,
      fault: null,
      cost: verdict.quote,
      mayChangeSupply: false,
      signs: [],
    }
  }

  #numberOf(task: Task): number {
    return task.attempts.filter((one) => one.number !== null).length + 1
  }

  #begin(by: Incarnation, attempt: Attempt): void {
    const { books } = this.#parts
    const { task } = attempt
    if (attempt.state !== 'reserved' || task.attempt !== attempt) return void books.see('begun too late')
    attempt.state = 'submitting'
    attempt.number = this.#numberOf(task)
    attempt.submittingAt = books.now
    by.later(this.#aMoment(), () =>
      this.send(by, attempt, (outcome) => {
        this.#parts.settle.apply(attempt, outcome)
        this.#watch(attempt)
      }),
    )
  }

  /** The call, and the answer in memory until `write` has written it down. */
  send(by: Incarnation, attempt: Attempt, write: (outcome: Outcome) => void): void {
    const { books, providers } = this.#parts
    if (!books.rules.mayStillSend(by.silentSeconds)) {
      books.see('stopped before sending')
      return void write({ kind: 'not_started' })
    }
    const { answer, seconds } = providers.post(attempt)
    const left = books.rules.imageSeconds - (books.now - attempt.task.createdAt) / SECOND
    const patience = attempt.task.facts.media === 'image' ? Math.max(1, left) : seconds
    by.later(Math.min(seconds, patience), () =>
      by.later(this.#aMoment(), () => write(this.#outcome(seconds > patience ? CUT_OFF : answer))),
    )
  }

  #outcome(answer: Answer): Outcome {
    const { books } = this.#parts
    if (answer.kind !== 'evidence') return answer
    const { evidence } = answer
    const fault = books.rules.classifySubmission(evidence)
    books.see(`${fault.category} ${fault.certainty}`)
    books.insist(
      fault.certainty !== 'not_sent' || evidence.stage === 'connecting',
      'INV-19: what may have been sent is never called not sent',
    )
    return { kind: fault.certainty === 'unknown' ? 'unknown' : 'refused', fault }
  }

  /** Jobs are asked about, and doubts resolved, by anybody, from what is stored. */
  #watch(attempt: Attempt): void {
    const { books, providers, anyone } = this.#parts
    const job = providers.job(attempt)
    if (attempt.state === 'submission_uncertain') return void this.#resolve(attempt)
    if (attempt.state !== 'accepted' || !job || this.#looking.has(attempt)) return
    this.#looking.set(attempt, books.now)
    const look = () => {
      if (attempt.state !== 'accepted') return
      const outcome: Outcome = job.end === 'finished' ? { kind: 'finished' } : providers.failureOf(job)
      anyone().later(this.#aMoment(), () => this.#parts.settle.apply(attempt, outcome))
      // Who looked may have died: another looks when the poll's own claim is over.
      books.clock.after(20, look)
    }
    books.clock.at(job.endsAt, look)
  }

  /** By callback or lookup (UNK-9): at times found, at times found not to be there; else the deadline ends it. */
  #resolve(attempt: Attempt): void {
    const { books, providers, anyone } = this.#parts
    const roll = books.random.next()
    if (attempt.task.facts.media === 'image' || roll >= 0.7) return
    books.clock.after(books.random.below(600), () =>
      anyone().later(this.#aMoment(), () => {
        const isThere = providers.job(attempt) !== undefined
        this.#parts.settle.apply(attempt, { kind: isThere ? 'accepted' : 'not_accepted' })
        this.#watch(attempt)
      }),
    )
  }

  /** What nobody else will do. */
  reconcile(): void {
    const { books, health, providers } = this.#parts
    const { rules, now } = books
    for (const attempt of [...books.leases]) {
      const due = this.#dueOf(attempt)
      if (due === null) continue
      this.#parts.settle.apply(attempt, { kind: due })
      this.#watch(attempt)
    }
    health.coolDown((level) => level.kind === 'channel' && providers.isBroken(level.id))
    for (const task of [...books.open])
      if (
        task.facts.media === 'image' &&
        task.state === 'queued' &&
        now - task.createdAt > (rules.imageSeconds + 30) * SECOND
      )
        books.endTask(task, 'generation_timeout')
  }

  #dueOf(attempt: Attempt): 'not_started' | 'lost' | 'unresolved' | 'timed_out' | 'life_over' | null {
    const { rules, now } = this.#parts.books
    const isImage = attempt.task.facts.media === 'image'
    const isOver = (then: number | null, seconds: number) => then !== null && now - then >= seconds * SECOND
    switch (attempt.state) {
      case 'reserved':
      case 'submitting':
        return attempt.owner.isBelievedAlive ? null : rules.lostBy(attempt.state)
      case 'submission_uncertain':
        return isOver(attempt.uncertainAt, isImage ? rules.imageDoubtSeconds : rules.doubtSeconds)
          ? 'unresolved'
          : null
      case 'accepted':
        if (isOver(attempt.heldUntil, 0)) return 'life_over'
        return attempt.heldUntil === null && isOver(attempt.acceptedAt, rules.maxRunSeconds)
          ? 'timed_out'
          : null
      default:
        return null
    }
  }

  /** Between two steps: mostly nothing, at times long enough for others to be faster. */
  #aMoment(): number {
    const { random } = this.#parts.books
    return random.next() < 0.7 ? random.next() / 10 : random.next() * 3
  }
}

const CUT_OFF: Answer = {
  kind: 'evidence',
  evidence: { stage: 'awaiting_head', end: { kind: 'deadline' } },
}
