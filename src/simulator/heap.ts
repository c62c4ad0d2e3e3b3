// The jobs that run, the one that ends first on top: a binary heap.

export class Heap<T> {
  #items: T[] = []
  #key: (item: T) => number

  constructor(key: (item: T) => number) {
    this.#key = key
  }

  peek(): T | undefined {
    return this.#items[0]
  }

  push(item: T): void {
    this.#items.push(item)
    let at = this.#items.length - 1
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (this.#at(parent) <= this.#at(at)) return
      this.#swap(parent, at)
      at = parent
    }
  }

  pop(): T | undefined {
    const top = this.#items[0]
    const last = this.#items.pop()
    if (last === undefined || this.#items.length === 0) return top
    this.#items[0] = last
    this.#sink(0)
    return top
  }

  /** Takes one item out wherever it is; linear, for the rare job that is ended by hand. */
  remove(item: T): void {
    const rest = this.#items.filter((other) => other !== item)
    if (rest.length === this.#items.length) return
    this.#items = []
    for (const other of rest) this.push(other)
  }

  #sink(from: number): void {
    let at = from
    for (;;) {
      const left = 2 * at + 1
      const right = left + 1
      let least = at
      if (left < this.#items.length && this.#at(left) < this.#at(least)) least = left
      if (right < this.#items.length && this.#at(right) < this.#at(least)) least = right
      if (least === at) return
      this.#swap(least, at)
      at = least
    }
  }

  #at(index: number): number {
    return this.#key(this.#items[index] as T)
  }

  #swap(a: number, b: number): void {
    const item = this.#items[a] as T
    this.#items[a] = this.#items[b] as T
    this.#items[b] = item
  }
}
