// Reads JSON of unknown shape for the control API, and says where it is wrong and what would be right.

export type Json = Record<string, unknown>

/** A request to the control API that cannot be carried out; answered as 400. */
export class ControlError extends Error {}

export function isRecord(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The value as an object with no other keys than these. */
export function record(value: unknown, path: string, keys: readonly string[]): Json {
  if (!isRecord(value)) throw new ControlError(`${path}: expected an object, got ${kindOf(value)}`)
  for (const key of Object.keys(value)) {
    if (!keys.includes(key))
      throw new ControlError(`${path}.${key}: unknown; known here are ${keys.join(', ')}`)
  }
  return value
}

export function optional<T>(
  value: unknown,
  path: string,
  read: (value: unknown, path: string) => T,
): T | undefined {
  return value === undefined ? undefined : read(value, path)
}

export function text(value: unknown, path: string): string {
  if (typeof value === 'string') return value
  throw new ControlError(`${path}: expected a string, got ${kindOf(value)}`)
}

export function flag(value: unknown, path: string): boolean {
  if (typeof value === 'boolean') return value
  throw new ControlError(`${path}: expected true or false, got ${kindOf(value)}`)
}

export function amount(value: unknown, path: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  throw new ControlError(`${path}: expected a number of at least 0, got ${kindOf(value)}`)
}

export function whole(value: unknown, path: string): number {
  const number = amount(value, path)
  if (Number.isSafeInteger(number)) return number
  throw new ControlError(`${path}: expected a whole number, got ${number}`)
}

export function oneOf<const T extends string>(...allowed: T[]): (value: unknown, path: string) => T {
  return (value, path) => {
    const found = allowed.find((one) => one === value)
    if (found !== undefined) return found
    throw new ControlError(`${path}: expected one of ${allowed.join(', ')}, got ${JSON.stringify(value)}`)
  }
}

export function list<T>(read: (value: unknown, path: string) => T): (value: unknown, path: string) => T[] {
  return (value, path) => {
    if (!Array.isArray(value)) throw new ControlError(`${path}: expected an array, got ${kindOf(value)}`)
    return value.map((item, i) => read(item, `${path}[${i}]`))
  }
}

export function anything(value: unknown): unknown {
  return value
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'an array' : typeof value
}
