/** What is wrong with a file, where, and what would be right: the one way in which the catalog reports faults. */
import type { z } from 'zod'
import type { Path } from './yaml-text.ts'

export interface Problem {
  readonly severity: 'error' | 'warning'
  readonly line: number
  readonly column: number
  /** As in models.seedance.limits[2].resolutions. */
  readonly path: string
  readonly problem: string
  /** What would be right. */
  readonly remedy: string
}

/** A problem before its place was looked up; `at`: whether the key or the value of that path is meant. */
export interface Finding {
  readonly severity: 'error' | 'warning'
  readonly path: Path
  readonly at: 'key' | 'value'
  readonly problem: string
  readonly remedy: string
}

export function printPath(path: Path): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`
    const plain = /^[A-Za-z_][\w-]*$/.test(part)
    if (!plain) return `${text}[${JSON.stringify(part)}]`
    return text === '' ? part : `${text}.${part}`
  }, '')
}

export function printProblem(file: string, problem: Problem): string {
  const place = problem.path === '' ? '' : ` ${problem.path}:`
  const remedy = problem.remedy === '' ? '' : `; ${problem.remedy}`
  return `${file}:${problem.line}:${problem.column}: ${problem.severity}:${place} ${problem.problem}${remedy}`
}

/** The nearest of the names that are known, if one is near. */
export function didYouMean(wrong: string, known: Iterable<string>): string | null {
  let best: string | null = null
  let least = Math.min(Math.max(1, Math.floor(wrong.length / 3)) + 1, wrong.length)
  for (const name of known) {
    const steps = distance(wrong.toLowerCase(), name.toLowerCase())
    if (steps < least) [best, least] = [name, steps]
  }
  return best
}

/** "did you mean x?", else the names that there are. */
export function suggest(wrong: string, known: Iterable<string>, what: string): string {
  const names = [...known].sort()
  const near = didYouMean(wrong, names)
  if (near !== null) return `did you mean "${near}"?`
  if (names.length === 0) return `the file has no ${what}`
  const shown = names.slice(0, 12)
  return `known ${what}: ${shown.join(', ')}${names.length > shown.length ? ' …' : ''}`
}

/** Levenshtein's, in one row. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, at) => at)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const changed = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(changed, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

type Issue = z.core.$ZodIssue

/** What zod found in an entry, in our words. `keysAt` lists the keys that are known at a path within the entry. */
export function findingsOf(
  issues: readonly Issue[],
  base: Path,
  keysAt: (path: Path) => string[],
): Finding[] {
  return issues.flatMap((issue) => findingOf(issue, base, keysAt))
}

function findingOf(issue: Issue, base: Path, keysAt: (path: Path) => string[]): Finding[] {
  const inner = issue.path.filter((part) => typeof part !== 'symbol')
  const path = [...base, ...inner]
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => unknownKey([...path, key], key, keysAt(inner)))
  if (issue.code === 'invalid_key')
    return [
      { ...error(path, 'is not a name that can stand here', issue.issues[0]?.message ?? ''), at: 'key' },
    ]
  if (issue.code === 'invalid_union' && issue.discriminator !== undefined) return [wrongChoice(issue, path)]
  if (issue.input === undefined) return [{ ...error(path, 'is missing', missingRemedy(issue)), at: 'key' }]
  return [error(path, `found ${shown(issue.input, path)}`, expectation(issue))]
}

/** Zod points at the key that tells the shapes apart, but hands over what is around it. */
function wrongChoice(issue: Issue & { code: 'invalid_union' }, path: Path): Finding {
  const key = issue.discriminator ?? ''
  const around: Record<string, unknown> = typeof issue.input === 'object' ? { ...issue.input } : {}
  const remedy = `expected ${[...issue.message.matchAll(/'([^']+)'/g)].map((match) => match[1]).join(' or ')}`
  if (around[key] === undefined) return { ...error(path, 'is missing', remedy), at: 'key' }
  return error(path, `found ${shown(around[key], path)}`, remedy)
}

function unknownKey(path: Path, key: string, known: readonly string[]): Finding {
  return { ...error(path, `unknown key "${key}"`, suggest(key, known, 'keys')), at: 'key' }
}

function error(path: Path, problem: string, remedy: string): Finding {
  return { severity: 'error', at: 'value', path, problem, remedy }
}

/** Zod's own words for a missing value speak of "undefined", which no YAML file holds. */
function missingRemedy(issue: Issue): string {
  return issue.message.startsWith('Invalid') ? expectation(issue) : issue.message
}

function expectation(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.message.startsWith('Invalid input')
        ? `expected ${NAMED_TYPES[issue.expected] ?? issue.expected}`
        : issue.message
    case 'invalid_value':
      return `expected ${issue.values.map(String).join(', ')}`
    case 'invalid_union':
      return issue.message === 'Invalid input' ? 'expected another value' : issue.message
    case 'too_small':
    case 'too_big':
      return issue.message
        .replace(/^Too (small|big): /, '')
        .replace(/>=/, 'at least ')
        .replace(/<=/, 'at most ')
    default:
      return issue.message
  }
}

const NAMED_TYPES: Readonly<Record<string, string>> = {
  object: 'a map of keys and values',
  record: 'a map of keys and values',
  array: 'a list',
  boolean: 'true or false',
  string: 'text',
  int: 'a whole number',
}

/** The value, unless it could be a secret that stands where a reference should. */
function shown(value: unknown, path: Path): string {
  if (path.some((part) => typeof part === 'string' && SECRET_NAME.test(part))) return 'something else'
  if (value === null) return 'nothing'
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list'
  if (typeof value === 'object') return 'a map'
  const text = String(value)
  return text.length > 60
    ? `${typeof value === 'string' ? 'text' : typeof value} of ${text.length} characters`
    : JSON.stringify(value)
}

/** Keys under which people put secrets. */
export const SECRET_NAME =
  /(credential|secret|password|passwd|token|api[_-]?key|access[_-]?key|authorization)/i
