/**
 * One life of a process. What it is about to do is in its memory alone: it dies with it, and waits while the process is
 * stopped. That it lives is known to others by its heartbeat, and believed for as long as a claim is good.
 */
import type { Clock } from './clock.ts'
import { SECOND } from './clock.ts'

export const CLAIM_SECONDS = 15

export class Incarnation {
  readonly name: string
  readonly #clock: Clock
  #diedAt: number | null = null
  #stoppedAt: number | null = null
  #goesOnAt = 0

  constructor(name: string, clock: Clock) {
    this.name = name
    this.#clock = clock
  }

  get isUp(): boolean {
    return this.#diedAt === null && this.#goesOnAt <= this.#clock.now
  }

  /** Since its last heartbeat. A process that goes on has not yet given one. */
  get silentSeconds(): number {
    const now = this.#clock.now
    const since = this.#diedAt ?? (this.#stoppedAt !== null && now <= this.#goesOnAt ? this.#stoppedAt : now)
    return (now - since) / SECOND
  }

  get isBelievedAlive(): boolean {
    return this.silentSeconds <= CLAIM_SECONDS
  }

  die(): void {
    this.#diedAt = Math.min(
      this.#clock.now,
      this.#stoppedAt !== null && this.#clock.now < this.#goesOnAt ? this.#stoppedAt : this.#clock.now,
    )
  }

  stop(seconds: number): void {
    this.#stoppedAt = this.#clock.now
    this.#goesOnAt = this.#clock.now + seconds * SECOND
  }

  /** In so many seconds, if it then still lives, and when it goes on. */
  later(seconds: number, run: () => void): void {
    const turn = () => {
      if (this.#diedAt !== null) return
      if (this.#clock.now < this.#goesOnAt) this.#clock.at(this.#goesOnAt, turn)
      else run()
    }
    this.#clock.after(seconds, turn)
  }
}
