// Everything that one simulator holds, put together.

import { createHmac, randomBytes } from 'node:crypto'
import { Callbacks } from './callbacks.ts'
import { Clock, seededRandom } from './clock.ts'
import { Configuration } from './configuration.ts'
import { Rules } from './faults/rules.ts'
import { Jobs } from './jobs.ts'
import { Ledger } from './ledger.ts'

export type WorldOptions = { seed: number; capacity: number }

export class World {
  readonly clock = new Clock()
  readonly configuration = new Configuration()
  readonly ledger: Ledger
  readonly rules: Rules
  readonly callbacks: Callbacks
  readonly jobs: Jobs
  readonly seed: number
  #random: () => number
  #secret = randomBytes(32)
  #requests = 0

  constructor({ seed, capacity }: WorldOptions) {
    this.seed = seed
    this.#random = seededRandom(seed)
    const random = () => this.#random()
    this.ledger = new Ledger(capacity)
    this.rules = new Rules(random)
    this.callbacks = new Callbacks(this.clock, this.rules)
    this.jobs = new Jobs({
      clock: this.clock,
      configuration: this.configuration,
      random,
      capacity,
      onChange: (job, lane) => this.callbacks.changed(job, lane),
    })
  }

  /** Back to the state of a new simulator, except that IDs go on. */
  reset(): void {
    this.callbacks.reset()
    this.jobs.reset()
    this.ledger.reset()
    this.rules.clear()
    this.configuration.reset()
    this.clock.reset()
    this.#random = seededRandom(this.seed)
  }

  newRequestId(): string {
    return `${Date.now().toString().padStart(14, '0')}${(++this.#requests).toString(16).padStart(12, '0')}`
  }

  /** Signs a result's address: method, path and the time at which it stops working. */
  sign(path: string, expires: number): string {
    return createHmac('sha256', this.#secret).update(`GET\n${path}\n${expires}`).digest('hex')
  }
}
