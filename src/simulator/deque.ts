// A first-in first-out list whose head is taken in constant time, also with 200,000 entries.

const COMPACT_AT = 1024

export class Deque<T> {
  #items: T[] = []
  #head = 0

  get length(): number {
    return this.#items.length - this.#head
  }

  push(item: T): void {
    this.#items.push(item)
  }

  first(): T | undefined {
    return this.#items[this.#head]
  }

  shift(): T | undefined {
    const item = this.#items[this.#head]
    if (this.#head < this.#items.length) this.#head++
    if (this.#head >= COMPACT_AT && this.#head * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#head)
      this.#head = 0
    }
    return item
  }

  /** From the last one pushed to the first. */
  *newestFirst(): Generator<T> {
    for (let i = this.#items.length - 1; i >= this.#head; i--) yield this.#items[i] as T
  }
}
