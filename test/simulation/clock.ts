/** A clock that jumps from event to event. What is due at the same instant happens in the order in which it was asked for. */

interface Event {
  readonly at: number
  readonly order: number
  readonly run: () => void
}

export const SECOND = 1_000_000
export const DAY = 86_400 * SECOND

export class Clock {
  now = 1_800_000_000 * SECOND
  steps = 0
  /** A binary heap. */
  readonly #events: Event[] = []
  #order = 0

  at(at: number, run: () => void): void {
    const event = { at: Math.max(at, this.now), order: this.#order++, run }
    this.#events.push(event)
    let place = this.#events.length - 1
    while (place > 0) {
      const parent = (place - 1) >> 1
      if (!isBefore(event, this.#events[parent])) break
      this.#swap(place, parent)
      place = parent
    }
  }

  after(seconds: number, run: () => void): void {
    this.at(this.now + Math.round(seconds * SECOND), run)
  }

  /** Now, and again and again. */
  every(seconds: number, run: () => void): void {
    const turn = () => {
      run()
      this.after(seconds, turn)
    }
    this.after(0, turn)
  }

  /** `afterEach` sees the world after every single step. */
  runUntil(end: number, afterEach: () => void): void {
    for (let event = this.#events[0]; event && event.at <= end; event = this.#events[0]) {
      this.#take()
      this.now = Math.max(this.now, event.at)
      this.steps += 1
      event.run()
      afterEach()
    }
    this.now = end
  }

  #take(): void {
    const last = this.#events.pop()
    if (!last || this.#events.length === 0) return
    this.#events[0] = last
    for (let place = 0; ; ) {
      const [left, right] = [2 * place + 1, 2 * place + 2]
      let least = place
      if (isBefore(this.#events[left], this.#events[least])) least = left
      if (isBefore(this.#events[right], this.#events[least])) least = right
      if (least === place) return
      this.#swap(place, least)
      place = least
    }
  }

  #swap(a: number, b: number): void {
    const [x, y] = [this.#events[a], this.#events[b]]
    if (x && y) {
      this.#events[a] = y
      this.#events[b] = x
    }
  }
}

function isBefore(a: Event | undefined, b: Event | undefined): boolean {
  if (!a) return false
  if (!b) return true
  return a.at < b.at || (a.at === b.at && a.order < b.order)
}
