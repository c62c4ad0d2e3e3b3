/**
 * Hints between processes (WAKE-3): what this one frees or queues, others learn of within tens of milliseconds. A hint only
 * makes a scan come sooner. Where no other process dispatches, none is written; where one is lost, the next scan finds the
 * work (WAKE-2).
 *
 * A hint makes the whole queue be scanned, not the lanes that it aims at: a scan costs one probe of the index for each
 * lane, whatever waits behind (WAKE-4), and a part of the queue could not be judged in the order of STR-12. What a hint
 * aims at spares the scan altogether where nothing waits for it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Sql } from '../store/database.ts'
import { Listener } from '../store/listener.ts'
import { dispatchersBeside, flushHints, MOST_HINTS, sweepHints, type Told } from '../store/wake.ts'
import type { Journal } from './journal.ts'

export interface WakePorts {
  /** Each statement a transaction of its own, never one that is under way. */
  readonly db: Sql
  /** Of this process. */
  readonly id: string
  readonly journal: Journal
  /** False: no hint is written, told or heard. What others left behind is cleared away all the same. */
  readonly hints: boolean
  /** Where to listen: straight to PostgreSQL. null where this process has nothing to be woken for. */
  readonly listenUrl: string | null
  /** Something may have become possible. */
  readonly scan: () => void
}

export interface WakeFigures {
  readonly hears: boolean
  /** How often this process woke the others. */
  readonly told: number
  /** How often it was woken by another. */
  readonly heard: number
  /** Hints that it cleared away for others. */
  readonly swept: number
}

/** Between two flushes of one process: what is freed meanwhile goes with the next. */
const GATHER_MS = 15
/** A hint that is older than this was left behind by its writer. */
const LEFT_BEHIND_SECONDS = 1

export class Wake {
  readonly #ports: WakePorts
  readonly #listener: Listener | null
  readonly #figures = { told: 0, heard: 0, swept: 0 }
  #beside = false
  #due = false
  #flushing: Promise<void> | null = null

  constructor(ports: WakePorts) {
    this.#ports = ports
    const { id, listenUrl, journal } = ports
    this.#listener =
      ports.hints && listenUrl !== null
        ? new Listener({
            url: listenUrl,
            process: id,
            heard: (told) => this.#hear(told),
            listening: () => ports.scan(),
            lost: (error) => journal.note('wake.not_listening', { process: id, why: textOf(error) }),
          })
        : null
  }

  get figures(): WakeFigures {
    return { ...this.#figures, hears: this.#listener?.hears ?? false }
  }

  /** Who writes hints into the present transaction: this process, or null where nobody is there to be woken. */
  get writer(): string | null {
    return this.#ports.hints && this.#beside ? this.#ports.id : null
  }

  async start(): Promise<void> {
    await this.#lookBeside()
    this.#listener?.start()
  }

  /** What was written goes out, and nothing after it; what comes in is not heard any more. Never throws. */
  async stop(): Promise<void> {
    await this.#listener?.stop()
    this.#beside = false
    await this.#flushing
  }

  /** A transaction that may have written a hint has committed. */
  written(): void {
    if (this.writer === null) return
    this.#due = true
    this.#flushing ??= this.#flush()
  }

  /** At every heartbeat: who is there, and what was left behind. */
  async beat(): Promise<void> {
    await this.#guarded('wake.beat', async () => {
      await this.#lookBeside()
      while ((await this.#sweep()) === MOST_HINTS);
    })
  }

  async #sweep(): Promise<number> {
    const { taken, told } = await sweepHints(this.#ports.db, this.#ports.id, LEFT_BEHIND_SECONDS)
    this.#figures.swept += taken
    this.#count(told)
    if (told && this.#ports.hints) this.#ports.scan()
    return taken
  }

  /** The first at once, since most often nobody else has anything to tell; then at most one each GATHER_MS. */
  async #flush(): Promise<void> {
    while (this.#due) {
      this.#due = false
      await this.#guarded('wake.flush', async () => {
        const { taken, told } = await flushHints(this.#ports.db, this.#ports.id)
        this.#count(told)
        if (taken === MOST_HINTS) this.#due = true
      })
      await sleep(GATHER_MS)
    }
    this.#flushing = null
  }

  #hear(told: Told): void {
    this.#figures.heard += told.kind === 'work' ? 1 : 0
    if (told.kind === 'work') this.#ports.scan()
    // A process that has just come does not wait for our heartbeat to be told of.
    else if (!this.#beside) void this.#guarded('wake.beside', () => this.#lookBeside())
  }

  #count(told: boolean): void {
    if (told) this.#figures.told += 1
  }

  async #lookBeside(): Promise<void> {
    this.#beside = await dispatchersBeside(this.#ports.db, this.#ports.id)
  }

  /** A hint that fails costs time and nothing else. */
  async #guarded(name: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#ports.journal.fault(name, error, { process: this.#ports.id })
    }
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
