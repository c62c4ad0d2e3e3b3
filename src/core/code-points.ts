/**
 * The order of IDs (decision.md, Ranking): by code point. Neither JavaScript's `<`, which compares UTF-16 units and
 * puts U+1F600 before U+FFFD, nor a locale's order, which differs between machines, gives the same order everywhere.
 */
export function compareCodePoints(a: string, b: string): number {
  for (let at = 0; ; ) {
    const x = a.codePointAt(at) ?? -1
    const y = b.codePointAt(at) ?? -1
    if (x !== y) return x < y ? -1 : 1
    if (x === -1) return 0
    at += x > 0xffff ? 2 : 1
  }
}
