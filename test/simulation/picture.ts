/** An image inside its own request, by the book of runtime/image.ts: no queue, at most one change of supply, unknown is final. */
import type { ImageFacts } from '../../src/core/request.ts'
import { type Attempt, type Books, isCounted, type Task } from './books.ts'
import { SECOND } from './clock.ts'
import type { Engine } from './engine.ts'
import type { Incarnation } from './incarnation.ts'
import type { Settle } from './settle.ts'
import { Situation } from './situation.ts'

const MOST_ROUNDS = 6

export class PictureDesk {
  readonly #books: Books
  readonly #engine: Engine
  readonly #settle: Settle

  constructor(books: Books, engine: Engine, settle: Settle) {
    this.#books = books
    this.#engine = engine
    this.#settle = settle
  }

  /** What cannot be served at once is answered at once (RTY-5), and leaves no task behind. */
  ask(by: Incarnation, facts: ImageFacts): void {
    const books = this.#books
    const asked = { id: -1, createdAt: books.now, facts, attempts: [] }
    const { verdict } = new Situation(books).decide(asked, false)
    if (verdict.result !== 'selected') return void books.see(`image told ${verdict.result}`)
    // The first admitted round sees what the door saw.
    const task = books.admit(facts)
    this.#round(by, task, 0)
  }

  #round(by: Incarnation, task: Task, failed: number): void {
    const books = this.#books
    if (task.state !== 'queued') return
    const situation = new Situation(books)
    const { verdict } = situation.decide(task, true)
    const left = books.rules.imageSeconds - (books.now - task.createdAt) / SECOND
    if (verdict.result !== 'selected' || left < 1 || failed > MOST_ROUNDS)
      return void books.endTask(task, this.#codeOf(task, left))
    const proposal = situation.propose(task, verdict)
    by.later(books.random.next() * 0.4, () => {
      const granted = this.#engine.grant(by, proposal)
      if (granted === 'lost') return
      if (granted === 'reservation_failed') return this.#round(by, task, failed + 1)
      this.#attempt(by, granted, failed)
    })
  }

  #codeOf(task: Task, left: number): string {
    if (!task.attempts.some(isCounted)) return 'capacity'
    return left < 1 ? 'generation_timeout' : 'attempts_exhausted'
  }

  #attempt(by: Incarnation, attempt: Attempt, failed: number): void {
    this.#engine.send(by, attempt, (outcome) => {
      const settled = this.#settle.apply(attempt, outcome)
      if (settled === 'retry')
        by.later(this.#books.random.next() * 0.2, () => this.#round(by, attempt.task, failed + 1))
    })
  }
}
