/**
 * A loop of background work: look, decide, act, sleep. It takes no input but a nudge, which only makes the next turn come
 * sooner; a turn that fails is reported and the next one comes as usual.
 */
import type { Journal } from './journal.ts'

export interface LoopOptions {
  readonly name: string
  readonly intervalMs: number
  readonly journal: Journal
  /** One turn; answers whether the next should come at once. */
  readonly turn: () => Promise<boolean>
}

export class Loop {
  readonly #options: LoopOptions
  #wake: (() => void) | null = null
  #nudged = false
  #stopping = false
  #running: Promise<void> | null = null

  constructor(options: LoopOptions) {
    this.#options = options
  }

  start(): void {
    this.#running ??= this.#run()
  }

  nudge(): void {
    this.#nudged = true
    this.#wake?.()
  }

  /** No further turn; resolves when the present one is over. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.nudge()
    await this.#running
  }

  async #run(): Promise<void> {
    while (!this.#stopping) {
      this.#nudged = false
      const again = await this.#turn()
      if (!again) await this.#sleep()
    }
  }

  async #turn(): Promise<boolean> {
    try {
      return await this.#options.turn()
    } catch (error) {
      this.#options.journal.fault(`${this.#options.name}.turn`, error)
      return false
    }
  }

  async #sleep(): Promise<void> {
    if (this.#nudged || this.#stopping) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, this.#options.intervalMs)
      this.#wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = null
  }
}
