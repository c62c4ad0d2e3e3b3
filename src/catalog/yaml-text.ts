/**
 * YAML with its positions: plain values beside the line and column that each came from, so that every fault can point at
 * its place. Figures that a double cannot hold as they are written stay text: 0.1 is "0.1" here, never a binary fraction.
 */
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Scalar,
} from 'yaml'

export type Path = readonly (string | number)[]

export interface Position {
  readonly line: number
  readonly column: number
}

export interface SyntaxFault extends Position {
  readonly message: string
}

export interface LocatedYaml {
  readonly value: unknown
  readonly faults: readonly SyntaxFault[]
  /** Where a value stands, or the nearest thing around it that does stand somewhere. */
  valueAt(path: Path): Position
  /** Where the key of a member stands. */
  keyAt(path: Path): Position
}

/** Anchors that are used in anchors can blow up a small file into gigabytes. */
const MOST_VALUES = 100_000

export function readYaml(text: string): LocatedYaml {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, keepSourceTokens: false, prettyErrors: false })
  const reader = new Reader(document)
  const faults: SyntaxFault[] = document.errors.map((error) => ({
    ...positionAt(lines, error.pos[0]),
    message: error.message,
  }))
  let value: unknown
  if (faults.length === 0) {
    value = reader.read(document.contents, [])
    for (const offset of reader.unstorable)
      faults.push({
        ...positionAt(lines, offset),
        message: 'holds a NUL or half a character, which cannot be stored',
      })
    if (reader.tooMany)
      faults.push({
        line: 1,
        column: 1,
        message: `more than ${MOST_VALUES} values once anchors are expanded`,
      })
  }
  const nearest = (from: ReadonlyMap<string, number>, path: Path): Position => {
    for (let length = path.length; length >= 0; length--) {
      const offset = from.get(keyOf(path.slice(0, length))) ?? reader.values.get(keyOf(path.slice(0, length)))
      if (offset !== undefined) return positionAt(lines, offset)
    }
    return { line: 1, column: 1 }
  }
  return {
    value,
    faults,
    valueAt: (path) => nearest(reader.values, path),
    keyAt: (path) => nearest(reader.keys, path),
  }
}

function positionAt(lines: LineCounter, offset: number): Position {
  const { line, col } = lines.linePos(offset)
  return { line: Math.max(line, 1), column: Math.max(col, 1) }
}

const keyOf = (path: Path) => JSON.stringify(path)

class Reader {
  readonly values = new Map<string, number>()
  readonly keys = new Map<string, number>()
  /** Where text stands that no database takes. */
  readonly unstorable = new Set<number>()
  tooMany = false
  #count = 0
  readonly #resolved = new Map<Alias, Node | undefined>()
  readonly #document: Document.Parsed

  constructor(document: Document.Parsed) {
    this.#document = document
  }

  read(node: unknown, path: Path): unknown {
    if (++this.#count > MOST_VALUES) {
      this.tooMany = true
      return null
    }
    if (isAlias(node)) {
      this.#mark(this.values, path, node)
      // Its content is found where it is written, at the anchor.
      return this.read(this.#resolve(node), path)
    }
    this.#mark(this.values, path, node)
    if (isMap(node)) return this.#readMap(node.items, path)
    if (isSeq(node)) return node.items.map((item, at) => this.read(item, [...path, at]))
    this.#mustBeStorable(node)
    return isScalar(node) ? scalarValue(node) : null
  }

  #readMap(items: readonly { key: unknown; value: unknown }[], path: Path): Record<string, unknown> {
    const merged: Record<string, unknown> = Object.create(null)
    const own: Record<string, unknown> = Object.create(null)
    for (const { key, value } of items) {
      const name = keyText(key)
      this.#mustBeStorable(key)
      if (name === '<<') Object.assign(merged, this.#merge(value, path))
      else {
        this.#mark(this.keys, [...path, name], key)
        own[name] = this.read(value, [...path, name])
      }
    }
    return Object.assign(Object.create(null), merged, own)
  }

  /** `<<: *anchor` or `<<: [*one, *other]`, the earlier one counting. */
  #merge(value: unknown, path: Path): Record<string, unknown> {
    const node = isAlias(value) ? this.#resolve(value) : value
    if (isMap(node)) return this.#readMap(node.items, path)
    if (!isSeq(node)) return {}
    return Object.assign(
      Object.create(null),
      ...node.items.toReversed().map((item) => this.#merge(item, path)),
    )
  }

  /** The library walks the whole document for each alias. */
  #resolve(alias: Alias): Node | undefined {
    if (!this.#resolved.has(alias)) this.#resolved.set(alias, alias.resolve(this.#document))
    return this.#resolved.get(alias)
  }

  #mustBeStorable(node: unknown): void {
    const text = isScalar(node) && typeof node.value === 'string' ? node.value : ''
    if (text.includes('\u0000') || !text.isWellFormed()) this.unstorable.add(rangeStart(node) ?? 0)
  }

  #mark(into: Map<string, number>, path: Path, node: unknown): void {
    const offset = rangeStart(node)
    if (offset !== undefined) into.set(keyOf(path), offset)
  }
}

function rangeStart(node: unknown): number | undefined {
  return isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined
}

function keyText(key: unknown): string {
  return isScalar(key) ? (key.source ?? String(key.value)) : String(key)
}

/** A number stays one only if it is whole and written in the one plain way. */
function scalarValue(node: Scalar): unknown {
  if (typeof node.value === 'bigint') return node.source ?? String(node.value)
  if (typeof node.value !== 'number') return node.value
  const source = node.source ?? String(node.value)
  return Number.isSafeInteger(node.value) && String(node.value) === source ? node.value : source
}
