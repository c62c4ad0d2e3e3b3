/** `catalog check`: every fault of a file at once, each with its place and what would be right. Needs no database. */
import type { Catalog } from './definitions.ts'
import { type Environment, resolveCatalog } from './environment.ts'
import { type Finding, type Problem, printPath } from './problems.ts'
import { type ReadFile, readCatalogText } from './read.ts'
import { findingsOfMeaning } from './references.ts'

/** `catalog` is there exactly where no problem is an error; its base URLs are resolved. */
export interface Checked {
  readonly problems: readonly Problem[]
  readonly catalog: Catalog | null
}

/** In the order of the file. */
export async function checkCatalog(text: string, environment: Environment): Promise<Checked> {
  const file = readCatalogText(text)
  if (file.yaml.faults.length > 0) return { problems: file.yaml.faults.map(syntaxProblem), catalog: null }
  const resolved = await resolveCatalog(file.catalog, environment)
  const findings = [...file.findings, ...findingsOfMeaning(file), ...resolved.findings]
  const problems = findings.map((finding) => place(file, finding)).sort(byPlace)
  const failed = problems.some((problem) => problem.severity === 'error')
  return { problems: distinct(problems), catalog: failed ? null : resolved.catalog }
}

function syntaxProblem(fault: { line: number; column: number; message: string }): Problem {
  return {
    severity: 'error',
    line: fault.line,
    column: fault.column,
    path: '',
    problem: fault.message,
    remedy: '',
  }
}

function place(file: ReadFile, { at, path, ...finding }: Finding): Problem {
  const position = at === 'key' ? file.yaml.keyAt(path) : file.yaml.valueAt(path)
  return { ...finding, ...position, path: printPath(path) }
}

function byPlace(a: Problem, b: Problem): number {
  return a.line - b.line || a.column - b.column || (a.path < b.path ? -1 : 1)
}

/** What an anchor brings in at many places is one fault, where the anchor stands. */
function distinct(problems: readonly Problem[]): Problem[] {
  const seen = new Set<string>()
  return problems.filter((problem) => {
    const key = JSON.stringify([problem.line, problem.column, problem.problem, problem.remedy])
    return !seen.has(key) && seen.add(key)
  })
}
