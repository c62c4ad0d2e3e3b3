/**
 * A yard in memory with a clock of its own: several processes that decide, are granted, submit and settle, each step by
 * itself, around the very functions that the product decides with. Days pass in seconds, and after every step the rules
 * are looked at, from the yard's own books and the providers', never by the functions under test.
 */
import { Random } from '../../bench/safety/random.ts'
import { applyNews } from '../../src/core/health.ts'
import type { VideoFacts } from '../../src/core/request.ts'
import { Books, isSteady, type Supply } from './books.ts'
import { type Catalog, IMAGE, SHELTERED, STORM, VIDEO } from './catalog.ts'
import { checkStep } from './check-step.ts'
import { Clock, DAY } from './clock.ts'
import { Engine } from './engine.ts'
import { Health } from './health.ts'
import { Misfortune } from './misfortune.ts'
import { PictureDesk } from './picture.ts'
import { Providers } from './provider.ts'
import { RULES, type Rules } from './rules.ts'
import { Settle } from './settle.ts'
import { Situation } from './situation.ts'

export { Broken } from './books.ts'

export interface Figures {
  readonly tasks: number
  readonly ended: number
  readonly steps: number
  /** How often each place was visited. */
  readonly seen: ReadonlyMap<string, number>
  readonly succeeded: number
  /** Of those that were not ended by what the customer asked for. */
  readonly share: number
}

export interface YardOptions {
  readonly seed: number
  /** How long providers misbehave, in days. */
  readonly days: number
  readonly rules?: Partial<Rules>
  /** `sheltered`: one channel is always well, and has room. */
  readonly world: 'storm' | 'sheltered' | Catalog
}

export class Yard {
  readonly books: Books
  readonly clock = new Clock()
  readonly providers: Providers
  readonly misfortune: Misfortune
  readonly health: Health
  readonly #engine: Engine
  readonly #pictures: PictureDesk
  readonly #random: Random
  readonly #days: number

  constructor(options: YardOptions) {
    this.#random = new Random(options.seed)
    this.#days = options.days
    const catalog =
      options.world === 'storm' ? STORM : options.world === 'sheltered' ? SHELTERED : options.world
    const rules = { ...RULES, ...options.rules }
    this.books = new Books(catalog, { clock: this.clock, random: this.#random, rules })
    this.health = new Health(this.books)
    this.providers = new Providers(this.books, catalog.sound)
    const { books, health, providers } = this
    const settle = new Settle(books, health)
    this.misfortune = new Misfortune({ books, health, providers }, catalog.sound)
    this.#engine = new Engine({ books, health, providers, settle, anyone: () => this.misfortune.anyone() })
    this.#pictures = new PictureDesk(books, this.#engine, settle)
    this.#work()
  }

  /** Through the bad days, then through calm ones until everybody has recovered. Throws Broken. */
  run(): Figures {
    const until = this.clock.now + this.#days * DAY
    this.#arrivals()
    this.clock.every(60, () => this.misfortune.processesFall())
    this.clock.every(600, () => this.misfortune.providersBreak())
    this.clock.every(900, () => this.misfortune.operatorsAct())
    this.#plan()
    this.#runUntil(until)
    this.#calmDown()
    this.#runUntil(until + DAY / 3)
    this.#checkEnd()
    return this.figures()
  }

  /** What every bad time has, whatever its luck: all switched off, or too dear, for longer than a task may wait. */
  #plan(): void {
    const seconds = this.#days * 86_400
    const waitThrough = (evil: () => void) => () => {
      for (let n = 0; n < 3; n += 1) this.books.admit(VIDEO)
      evil()
    }
    this.clock.after(
      0.15 * seconds,
      waitThrough(() => this.misfortune.allOff(1500)),
    )
    this.clock.after(
      0.5 * seconds,
      waitThrough(() => this.misfortune.allDear(1500)),
    )
    this.clock.after(
      0.8 * seconds,
      waitThrough(() => this.misfortune.allOff(900, 'east')),
    )
  }

  /** Without chance: only what the caller asked for happens meanwhile. */
  pass(seconds: number): void {
    this.#runUntil(this.clock.now + seconds * 1_000_000)
  }

  /** A video at the door; answers whether it was let in. */
  ask(facts: VideoFacts): boolean {
    const asked = { id: -1, createdAt: this.clock.now, facts, attempts: [] }
    const { verdict } = new Situation(this.books).decide(asked, false)
    if (verdict.result === 'rejected') return false
    this.books.admit(facts)
    if (this.#random.next() < 0.7) this.#engine.dispatch(this.misfortune.anyone())
    return true
  }

  askForPicture(): void {
    this.#pictures.ask(this.misfortune.anyone(), IMAGE)
  }

  figures(): Figures {
    const { tasks, seen, succeeded } = this.books
    const asked = tasks.filter(({ code }) => code !== 'content_refused' && code !== 'invalid_request')
    return {
      tasks: tasks.length,
      ended: tasks.filter((task) => task.state === 'ended').length,
      steps: this.clock.steps,
      seen,
      succeeded,
      share: succeeded / Math.max(1, asked.length),
    }
  }

  #work(): void {
    for (const [slot] of this.misfortune.processes.entries())
      this.clock.after(3 * slot, () => {
        this.clock.every(9, () => this.#turn(slot, (by) => this.#engine.dispatch(by)))
        this.clock.every(15, () => this.#turn(slot, () => this.#engine.reconcile()))
      })
  }

  #turn(slot: number, work: (by: Misfortune['processes'][number]) => void): void {
    const by = this.misfortune.processes[slot]
    if (by?.isUp) work(by)
  }

  #runUntil(end: number): void {
    this.clock.runUntil(end, () => checkStep(this.books, this.providers))
  }

  #arrivals(): void {
    const arrive = () => {
      const { calm } = this.misfortune
      // Now and then many at once.
      for (let n = !calm && this.#random.next() < 0.04 ? 10 : 1; n > 0; n -= 1) this.#arrive()
      this.clock.after(this.#random.below(calm ? 240 : 180), arrive)
    }
    this.clock.after(0, arrive)
  }

  #arrive(): void {
    if (this.#random.next() < 0.25) return void this.askForPicture()
    const roll = this.#random.next()
    this.ask({
      ...VIDEO,
      realPerson: roll < 0.15,
      degradation: roll > 0.9 ? 'strict' : null,
      inputs: roll > 0.5 ? { reference_images: 2, reference_videos: roll > 0.7 ? 1 : 0 } : {},
    })
  }

  #calmDown(): void {
    const { supplies, levels } = this.books
    this.misfortune.calm = true
    this.providers.calm = true
    this.providers.brokenUntil.clear()
    for (const level of levels) this.misfortune.switchOn(level)
    // A price far from normal keeps a supply out, whatever its health (STR-4, STR-11).
    for (const supply of supplies) supply.price = 1_000_000n
    const [, ...others] = this.#needed()
    for (const supply of others) this.#break(supply)
  }

  #needed(): Supply[] {
    return this.books.supplies.filter(({ tier, media }) => tier === 'exact' && media === 'video')
  }

  /** So that there is something to recover from: with one healthy supply, who would ask the others? */
  #break(supply: Supply): void {
    const of = {
      epoch: supply.row.epoch,
      calledAt: this.clock.now,
      code: 'model_not_open',
      fingerprint: 'calm',
    }
    const news = { ...of, kind: 'failed', cause: 'persistent' } as const
    supply.row = applyNews('supply', supply.row, news, this.clock.now).row
  }

  #checkEnd(): void {
    // A fallback or degraded supply is asked for nothing while the exact ones serve: nothing can bring it back, or need it.
    const needed = this.#needed()
    const away = [...needed, ...needed.map((supply) => supply.channel)].filter(
      (level) => !isSteady(level.row),
    )
    this.books.insist(
      away.length === 0,
      'INV-14, STR-11: within a third of a calm day with work every level that is needed is back',
    )
  }
}
