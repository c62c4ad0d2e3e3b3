/**
 * Hears what other processes tell (WAKE-3), on a connection of its own that no pool shares. Such a connection dies without
 * a word, or hears nothing behind a pooler in transaction mode: so it tells itself something now and then, and one that does not
 * hear itself is replaced. While it hears nothing, the scan carries everything.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { parseTold, type Told, toldText, WAKE_CHANNEL } from './wake.ts'

export interface ListenerOptions {
  /** Straight to PostgreSQL, with its password: never to be printed. */
  readonly url: string
  /** The ID of the process that listens. */
  readonly process: string
  /** From others; never what this process told itself. */
  readonly heard: (told: Told) => void
  /** It hears, from now on: whatever was told before is lost, so look at everything. */
  readonly listening: () => void
  /** It hears nothing until `listening` is called again; it tries by itself. */
  readonly lost: (error: unknown) => void
  /** ms between two words to itself; 30 s where absent. */
  readonly checkMs?: number
}

const CHECK_MS = 30_000
/** How long its own word may take to come back. */
const ECHO_MS = 5000
const FIRST_PAUSE_MS = 100
const LONGEST_PAUSE_MS = 30_000

export class Listener {
  readonly #options: ListenerOptions
  readonly #ownWord: string
  #echoed: () => void = ignore
  #hears = false
  #stopping = false
  #over = new AbortController()
  #running: Promise<void> | null = null

  constructor(options: ListenerOptions) {
    this.#options = options
    this.#ownWord = toldText({ kind: 'here', from: options.process })
  }

  get hears(): boolean {
    return this.#hears
  }

  start(): void {
    this.#running ??= this.#run()
  }

  /** Resolves once its connection is closed. Never throws. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#over.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS
    while (!this.#stopping) {
      this.#over = new AbortController()
      const heard = await this.#listen(this.#over)
      if (this.#stopping) return
      pauseMs = heard ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS)
      this.#over = new AbortController()
      await sleep(pauseMs, undefined, { signal: this.#over.signal }).catch(ignore)
    }
  }

  /** Until the connection is of no use any more; answers whether it ever was. */
  async #listen(over: AbortController): Promise<boolean> {
    const client = this.#client(over)
    const broken = brokenBy(over.signal)
    let heard = false
    try {
      await Promise.race([client.connect(), broken])
      await Promise.race([client.query(`listen ${WAKE_CHANNEL}`), broken])
      for (;;) {
        await Promise.race([this.#hearItself(client, over.signal), broken])
        if (!heard) this.#nowHears()
        heard = true
        await sleep(this.#options.checkMs ?? CHECK_MS, undefined, { signal: over.signal })
      }
    } catch (error) {
      this.#hears = false
      if (!this.#stopping) this.#options.lost(over.signal.aborted ? over.signal.reason : error)
    } finally {
      over.abort()
      await close(client)
    }
    return heard
  }

  #client(over: AbortController): pg.Client {
    const client = new pg.Client({
      connectionString: this.#options.url,
      application_name: 'yardmaster listener',
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
    })
    client.on('error', (error) => over.abort(error))
    client.on('end', () => over.abort(new Error('the connection that listens was closed')))
    client.on('notification', ({ channel, payload }) => {
      if (channel === WAKE_CHANNEL && !over.signal.aborted) this.#hear(payload ?? '')
    })
    return client
  }

  #hear(text: string): void {
    if (text === this.#ownWord) this.#echoed()
    const told = parseTold(text)
    if (told && told.from !== this.#options.process) this.#options.heard(told)
  }

  async #hearItself(client: pg.Client, signal: AbortSignal): Promise<void> {
    const { promise: echo, resolve } = Promise.withResolvers<void>()
    const { promise: silence, reject } = Promise.withResolvers<void>()
    this.#echoed = resolve
    const timer = setTimeout(() => reject(new Error(DEAF)), ECHO_MS)
    signal.addEventListener('abort', () => clearTimeout(timer), { once: true })
    try {
      await Promise.race([client.query('select pg_notify($1, $2)', [WAKE_CHANNEL, this.#ownWord]), silence])
      await Promise.race([echo, silence])
    } finally {
      clearTimeout(timer)
    }
  }

  #nowHears(): void {
    this.#hears = true
    this.#options.listening()
  }
}

const DEAF =
  'what is told on the connection that listens does not come back: a pooler in transaction mode may stand between'

/** Rejects once the signal is aborted. */
function brokenBy(signal: AbortSignal): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>()
  signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  promise.catch(ignore)
  return promise
}

/** Politely where the server still answers; nobody waits long for one that does not. */
async function close(client: pg.Client): Promise<void> {
  const closing = client.end().catch(ignore)
  await Promise.race([closing, sleep(1000, undefined, { ref: false })])
}

function ignore(): void {}
