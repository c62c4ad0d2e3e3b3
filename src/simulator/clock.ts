// Real time plus what a test has added, and chance from a seed.

export class Clock {
  #ahead = 0

  /** Milliseconds since 1970. */
  now(): number {
    return Date.now() + this.#ahead
  }

  /** Moves the simulator's time forward, so that a test need not wait. */
  advance(ms: number): void {
    this.#ahead += ms
  }

  reset(): void {
    this.#ahead = 0
  }
}

/** Numbers in [0, 1) that a seed determines (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), state | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A whole number that depends on the text alone. */
export function hashOf(text: string): number {
  let hash = 2166136261
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619)
  return hash >>> 0
}
