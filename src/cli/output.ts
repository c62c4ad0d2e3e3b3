/** How commands print: aligned tables for people, JSON with exact figures for scripts. */
import { printInstant } from '../core/time.ts'
import type { Writer } from './context.ts'

export type Cell = string | number | bigint | boolean | null | undefined

/** Columns as wide as their widest cell; the last one is not padded. */
export function printTable(out: Writer, head: readonly string[], rows: readonly (readonly Cell[])[]): void {
  const lines = [head, ...rows.map((row) => row.map(cellText))]
  const widths = head.map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  for (const line of lines)
    out.write(
      `${line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}\n`,
    )
}

/** Name and value, one a line. */
export function printFields(out: Writer, fields: Readonly<Record<string, Cell>>): void {
  const width = Math.max(...Object.keys(fields).map((name) => name.length))
  for (const [name, value] of Object.entries(fields)) out.write(`${name.padEnd(width)}  ${cellText(value)}\n`)
}

function cellText(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no'
  return String(cell)
}

export function printJson(out: Writer, value: unknown): void {
  out.write(`${JSON.stringify(value, replaceBigInt, 2)}\n`)
}

/** One value a line, for output of any length. */
export function jsonLine(value: unknown): string {
  return `${JSON.stringify(value, replaceBigInt)}\n`
}

/** Small ones are numbers, as they would be in any other program; others keep their digits as text. */
function replaceBigInt(_: string, value: unknown): unknown {
  if (typeof value !== 'bigint') return value
  return value >= BigInt(Number.MIN_SAFE_INTEGER) && value <= BigInt(Number.MAX_SAFE_INTEGER)
    ? Number(value)
    : String(value)
}

/** µs since 1970 as RFC 3339 to the second; null stays. */
export function at(instant: number | null): string | null {
  return instant === null
    ? null
    : printInstant(Math.floor(instant / 1_000_000) * 1_000_000).replace('.000Z', 'Z')
}

/** A row with its instants as text: columns that end in _at, and the two ends of a wait. */
export function withInstants(row: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) =>
      typeof value === 'number' && /(_at|open_until|not_before)$/.test(name)
        ? [name, printInstant(value)]
        : [name, value],
    ),
  )
}

/** RFC 4180: quoted where it must be. */
export function csvLine(cells: readonly Cell[]): string {
  return `${cells.map((cell) => csvCell(cell === null || cell === undefined ? '' : String(cell))).join(',')}\r\n`
}

function csvCell(text: string): string {
  // A leading = + - @ would be run as a formula by a spreadsheet.
  const safe = /^[=+\-@\t]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
