/**
 * Strict reading of parsed JSON, with the path of the first fault. A reader takes a value and the path at which it
 * stands, and throws MalformedInput, the only thing that is ever thrown here. Fields that are not asked for are ignored.
 */

/** What was wrong, and where: `candidates[2].supply.health`. */
export class MalformedInput extends Error {
  readonly path: string
  readonly problem: string

  constructor(path: string, problem: string) {
    super(path === '' ? problem : `${path}: ${problem}`)
    this.name = 'MalformedInput'
    this.path = path
    this.problem = problem
  }
}

export type Reader<T> = (value: unknown, path: string) => T

/** An object, and where it stands. */
export interface Fields {
  readonly of: Readonly<Record<string, unknown>>
  readonly path: string
}

export function readFields(value: unknown, path: string): Fields {
  if (!isObject(value)) throw mistyped(value, path, 'an object')
  return { of: value, path }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The field by that name, which must be there. */
export function field<T>(fields: Fields, name: string, read: Reader<T>): T {
  return read(Object.hasOwn(fields.of, name) ? fields.of[name] : undefined, pathOf(fields.path, name))
}

/** An "or null" field: it may also be absent. */
export function orNull<T>(fields: Fields, name: string, read: Reader<T>): T | null {
  const value = Object.hasOwn(fields.of, name) ? fields.of[name] : undefined
  return value === undefined || value === null ? null : read(value, pathOf(fields.path, name))
}

/** A field that may be absent, but not null. */
export function optional<T>(fields: Fields, name: string, read: Reader<T>): T | undefined {
  const value = Object.hasOwn(fields.of, name) ? fields.of[name] : undefined
  return value === undefined ? undefined : read(value, pathOf(fields.path, name))
}

const PLAIN_NAME = /^[A-Za-z_$][\w$-]*$/

/** `a.b`, or `a["b c"]` where the name is not a plain one. */
export function pathOf(path: string, name: string): string {
  if (!PLAIN_NAME.test(name)) return `${path}[${JSON.stringify(name)}]`
  return path === '' ? name : `${path}.${name}`
}

export function readText(value: unknown, path: string): string {
  if (typeof value !== 'string') throw mistyped(value, path, 'a string')
  return value
}

export function readFlag(value: unknown, path: string): boolean {
  if (typeof value !== 'boolean') throw mistyped(value, path, 'true or false')
  return value
}

/** A whole number, 0 or more: a count, or a duration in seconds. */
export function readCount(value: unknown, path: string): number {
  return wholeNumber(value, path, { min: 0, max: Number.POSITIVE_INFINITY })
}

export function wholeNumber(
  value: unknown,
  path: string,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  if (typeof value !== 'number') throw mistyped(value, path, 'a number')
  if (!Number.isInteger(value)) throw new MalformedInput(path, `must be a whole number, got ${shown(value)}`)
  if (value < min) throw new MalformedInput(path, `must be ${min} or more, got ${shown(value)}`)
  if (value > max) throw new MalformedInput(path, `must be at most ${max}, got ${shown(value)}`)
  return value
}

/** One of a few words. */
export function oneOf<const T extends string>(...words: readonly T[]): Reader<T> {
  return (value, path) => {
    const found = words.find((word) => word === value)
    if (found === undefined) throw mistyped(value, path, `one of ${words.join(', ')}`)
    return found
  }
}

export function listOf<T>(read: Reader<T>): Reader<readonly T[]> {
  return (value, path) => {
    if (!Array.isArray(value)) throw mistyped(value, path, 'an array')
    return value.map((each: unknown, at) => read(each, `${path}[${at}]`))
  }
}

/** An object as a map of its own names. The result has no prototype, so that any name is just a name. */
export function mapOf<T>(read: Reader<T>): Reader<Readonly<Record<string, T>>> {
  return (value, path) => {
    const { of } = readFields(value, path)
    const found: Record<string, T> = Object.create(null)
    for (const name of Object.keys(of)) found[name] = read(of[name], pathOf(path, name))
    return found
  }
}

export function mistyped(value: unknown, path: string, expected: string): MalformedInput {
  return new MalformedInput(
    path,
    value === undefined ? `is missing: must be ${expected}` : `must be ${expected}, got ${shown(value)}`,
  )
}

const LONGEST_SHOWN = 60

/** A value as a message may show it: in one line, and not all of it if it is long. */
export function shown(value: unknown): string {
  if (Array.isArray(value)) return 'an array'
  if (isObject(value)) return 'an object'
  // JSON cannot write it: a number too large for a double.
  if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) return 'a number out of range'
  const text =
    JSON.stringify(typeof value === 'string' ? value.slice(0, LONGEST_SHOWN + 1) : value) ?? typeof value
  return text.length > LONGEST_SHOWN ? `${text.slice(0, LONGEST_SHOWN)}…` : text
}
