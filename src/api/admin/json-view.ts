/** Rows as JSON for people and their tools: instants as RFC 3339, big numbers as numbers. */
import { printInstant } from '../../core/time.ts'

/** Columns that hold an instant in µs, by their names' endings. */
const INSTANT = /(_at|_until|^not_before)$/

export function jsonView(row: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, valueView(name, value)]))
}

function valueView(name: string, value: unknown): unknown {
  if (typeof value === 'number' && INSTANT.test(name)) return printInstant(value)
  return typeof value === 'bigint' ? Number(value) : value
}
