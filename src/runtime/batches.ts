/**
 * Gathers what is to be stored into shared transactions: while one is under way, what arrives waits for the next, so that
 * a busy gateway pays one commit for many requests, and an idle one waits for nobody.
 */

export interface BatchesOptions<Item, Result> {
  /** Items of one transaction at most; what arrives together stays together. */
  readonly largest: number
  /** One transaction. Throws only where nothing of it was stored, or nobody knows. Answers in the order given. */
  readonly store: (items: readonly Item[]) => Promise<readonly Result[]>
}

interface Waiting<Item, Result> {
  readonly items: readonly Item[]
  readonly resolve: (results: Result[]) => void
  readonly reject: (error: unknown) => void
}

export class Batches<Item, Result> {
  readonly #options: BatchesOptions<Item, Result>
  #waiting: Waiting<Item, Result>[] = []
  #running = false

  constructor(options: BatchesOptions<Item, Result>) {
    this.#options = options
  }

  /** Store in the order given, with whatever else waits. Throws what `store` threw of these items alone. */
  add(items: readonly Item[]): Promise<Result[]> {
    if (items.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      this.#waiting.push({ items, resolve, reject })
      void this.#drain()
    })
  }

  async #drain(): Promise<void> {
    if (this.#running) return
    this.#running = true
    try {
      while (this.#waiting.length > 0) await this.#one(this.#take())
    } finally {
      this.#running = false
    }
  }

  #take(): Waiting<Item, Result>[] {
    let size = 0
    let count = 0
    for (const { items } of this.#waiting) {
      if (count > 0 && size + items.length > this.#options.largest) break
      size += items.length
      count += 1
    }
    const taken = this.#waiting.slice(0, count)
    this.#waiting = this.#waiting.slice(count)
    return taken
  }

  async #one(batch: readonly Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.store(batch.flatMap((waiting) => waiting.items))
      let from = 0
      for (const waiting of batch) {
        waiting.resolve(results.slice(from, from + waiting.items.length))
        from += waiting.items.length
      }
    } catch (error) {
      // One request's fault must not be its neighbours': each of them is tried once more by itself.
      if (batch.length > 1) for (const waiting of batch) await this.#one([waiting])
      else for (const waiting of batch) waiting.reject(error)
    }
  }
}
