/** What befalls the yard: providers that break, operators who switch and reprice, processes that die or stand still. */
import type { Books, Level } from './books.ts'
import { SECOND } from './clock.ts'
import type { Health } from './health.ts'
import { Incarnation } from './incarnation.ts'
import type { Providers } from './provider.ts'

export class Misfortune {
  readonly processes: Incarnation[]
  calm = false
  readonly #books: Books
  readonly #providers: Providers
  readonly #health: Health
  readonly #sound: string | null

  constructor(parts: { books: Books; providers: Providers; health: Health }, sound: string | null) {
    this.#books = parts.books
    this.#providers = parts.providers
    this.#health = parts.health
    this.#sound = sound
    this.processes = ['one', 'two', 'three'].map((name) => new Incarnation(name, this.#books.clock))
  }

  anyone(): Incarnation {
    return this.#books.random.pick(this.processes.filter((one) => one.isUp))
  }

  /** Never more than one at a time, so that somebody is always there to take over. */
  processesFall(): void {
    const { random, leases, clock } = this.#books
    if (this.calm || random.next() > 0.3 || this.processes.some((one) => !one.isUp)) return
    const busy = [...leases].filter((one) => one.state === 'reserved' || one.state === 'submitting')
    const victim = busy.length > 0 ? random.pick(busy).owner : random.pick(this.processes)
    const slot = this.processes.indexOf(victim)
    if (slot < 0) return
    if (random.next() < 0.35) {
      this.#books.see('process stopped')
      return void victim.stop(5 + random.below(30))
    }
    this.#books.see('process died')
    victim.die()
    clock.after(2 + random.below(20), () => {
      this.processes[slot] = new Incarnation(victim.name, clock)
    })
  }

  providersBreak(): void {
    if (this.calm) return
    const { random, supplies, channels, now } = this.#books
    const roll = random.next()
    const breakIt = (id: string, seconds: number) =>
      this.#providers.brokenUntil.set(id, now + seconds * SECOND)
    const mayBreak = channels.filter((channel) => channel.id !== this.#sound)
    if (roll < 0.12)
      breakIt(random.pick(supplies.filter((one) => one.channel.id !== this.#sound)).id, random.below(1800))
    else if (roll < 0.18) breakIt(random.pick(mayBreak).id, random.below(2400))
    else if (roll < 0.19) for (const { id } of mayBreak) breakIt(id, 900)
  }

  operatorsAct(): void {
    if (this.calm) return
    const { random, rules } = this.#books
    const mine = this.#reachable()
    const level = random.pick(mine)
    const roll = random.next()
    if (level.row.state === 'disabled') return void this.switchOn(level, random.next() < 0.5)
    if (roll < 0.06) this.#health.change(level, rules.disable(level.row).row, 'disabled')
    else if (roll < 0.2) level.concurrency = 1 + random.below(6)
    else if (roll < 0.3) this.#reprice()
    else if (roll < 0.32) this.allOff(1200)
    else if (roll < 0.34) this.allDear(1200)
  }

  #reachable(): Level[] {
    const { supplies, channels } = this.#books
    return [
      ...channels.filter((channel) => channel.id !== this.#sound),
      ...supplies.filter((supply) => supply.channel.id !== this.#sound),
    ]
  }

  #reprice(): void {
    const { random, supplies } = this.#books
    random.pick(supplies.filter((one) => one.channel.id !== this.#sound)).price = BigInt(
      500_000 + random.below(3_500_000),
    )
  }

  /** Every switch that is not the sound channel's, for so many seconds. */
  allOff(seconds: number, but: string | null = null): void {
    const off = this.#reachable().filter(
      (level) => level.row.state !== 'disabled' && level.kind === 'channel' && level.id !== but,
    )
    for (const level of off) this.#health.change(level, this.#books.rules.disable(level.row).row, 'disabled')
    this.#books.clock.after(seconds, () => {
      for (const level of off) this.switchOn(level)
    })
  }

  allDear(seconds: number): void {
    const { supplies, clock } = this.#books
    const dear = supplies.filter((one) => one.channel.id !== this.#sound)
    const before = dear.map((one) => one.price)
    for (const one of dear) one.price = 4_100_000n
    clock.after(seconds, () => {
      for (const [place, one] of dear.entries()) one.price = before[place] ?? one.price
    })
  }

  switchOn(level: Level, probe = false): void {
    if (level.row.state === 'disabled')
      this.#health.change(level, this.#books.rules.enable(level.row, { probe }).row, 'enabled')
  }
}
