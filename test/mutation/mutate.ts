/**
 * Mutation of the decision, and of health: each mutant is the source with one rule changed, and some test must fail. Not
 * part of the test command, since it takes minutes:
 *
 *     node test/mutation/mutate.ts [file…]       files of src/core; all of the decision's where none are named
 *
 * Works on a copy. A mutant is first held against what is quick: for the decision the worked examples, in a process of
 * their own (examples.ts), for health the tests beside the code. What survives that runs against all of test/decision, or
 * against the search through every state. Prints what survives, with file and line, and ends with status 1 where a
 * survivor is not among the equivalent ones that README.md lists.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FILES = [
  'capability',
  'concurrency',
  'decide',
  'decision-alerts',
  'degrade',
  'door',
  'eligibility',
  'exclusions',
  'free-capacity',
  'judgement',
  'quote',
  'ranking',
  'search',
  'success-rate',
  'unserved',
]

const HEALTH_FILES = [
  'escalation',
  'health',
  'health-columns',
  'health-event',
  'health-news',
  'health-row',
  'health-settings',
  'health-window',
]

/** Judged by the tests beside them alone. */
const OWN_FILES = ['artefact', 'attempt', 'frozen', 'lease', 'money', 'resolution', 'task', 'time'] as const

interface Suite {
  readonly quick: readonly string[]
  /** null: what is quick is all that there is. */
  readonly thorough: readonly string[] | null
}

const DECISION: Suite = { quick: ['test/mutation/examples.ts'], thorough: vitest('decision') }
const HEALTH: Suite = { quick: vitest('health-quick'), thorough: vitest('health') }
const OUTCOME: Suite = { quick: vitest('outcome'), thorough: null }

/** What each configuration of the copy runs. The broken machines are no judges: they need the source's very words. */
const INCLUDED = {
  decision: ['test/decision/*.test.ts', 'src/core/concurrency.test.ts'],
  'health-quick': [
    'src/core/{escalation,health,health-columns,health-news,health-settings,health-window}.test.ts',
  ],
  health: ['src/core/health-properties.test.ts', 'test/health/every-state.test.ts'],
  outcome: ['src/core/{outcome,retry}.test.ts'],
  artefact: ['src/core/artefact.test.ts'],
  attempt: ['src/core/attempt.test.ts'],
  frozen: ['src/core/frozen.test.ts'],
  lease: ['src/core/lease.test.ts'],
  money: ['src/core/money.test.ts'],
  resolution: ['src/core/resolution.test.ts'],
  task: ['src/core/task.test.ts'],
  time: ['src/core/time.test.ts'],
}

function vitest(name: keyof typeof INCLUDED): string[] {
  return ['node_modules/vitest/vitest.mjs', 'run', '--config', `${name}.config.mjs`]
}

function suiteOf(file: string): Suite {
  if (file === 'outcome' || file === 'retry') return OUTCOME
  const own = OWN_FILES.find((name) => name === file)
  if (own) return { quick: vitest(own), thorough: null }
  return HEALTH_FILES.includes(file) ? HEALTH : DECISION
}

interface Mutant {
  readonly file: string
  readonly line: number
  readonly from: string
  readonly to: string
  readonly text: string
}

type Change = readonly [pattern: RegExp, to: (found: string) => readonly string[]]

const SWAPS: Readonly<Record<string, readonly string[]>> = {
  ' < ': [' <= ', ' > '],
  ' <= ': [' < '],
  ' > ': [' >= ', ' < '],
  ' >= ': [' > '],
  ' === ': [' !== '],
  ' !== ': [' === '],
  ' && ': [' || '],
  ' || ': [' && '],
  ' ?? ': [' && '],
  ' + ': [' - '],
  ' - ': [' + '],
  ' * ': [' / '],
  ' / ': [' * '],
  'Math.min': ['Math.max'],
  'Math.max': ['Math.min'],
  '.some(': ['.every('],
  '.every(': ['.some('],
}

const CHANGES: readonly Change[] = [
  [
    / (?:<=|>=|===|!==|&&|\|\||\?\?|<|>|\+|-|\*|\/) |Math\.(?:min|max)|\.(?:some|every)\(/g,
    (found) => SWAPS[found] ?? [],
  ],
  [/\b(?:true|false)\b/g, (found) => [found === 'true' ? 'false' : 'true']],
  [
    /(?<![\w.'])\d[\d_]*(?:\.\d+)?n?\b(?!')/g,
    (found) => [
      found.endsWith('n')
        ? `${BigInt(found.slice(0, -1).replaceAll('_', '')) + 1n}n`
        : String(Number(found.replaceAll('_', '')) + 1),
    ],
  ],
  [/(?<=[(\s])!(?=[a-zA-Z(])/g, () => ['']],
  [/'[a-z_]+'(?=[,)\]}\s]|$)/g, () => ["'mutant'"]],
  [/^\s*if \(.*\) (?:return|continue|break|obstacles\.push).*$/g, () => ['']],
  [/^\s*(?:obstacles|alerts)\.push\(.*\)$/g, () => ['']],
]

function mutantsOf(file: string): Mutant[] {
  const source = readFileSync(join(ROOT, 'src/core', `${file}.ts`), 'utf8')
  const lines = source.split('\n')
  const mutants: Mutant[] = []
  const spelled = listsOfTypes(lines)
  let comment = false
  for (const [at, line] of lines.entries()) {
    if (/^\s*\/\*/.test(line)) comment = true
    const skip =
      comment ||
      spelled.has(at) ||
      /^\s*(?:\/\/|import |export \{|\}? ?from |type |readonly |export (?:type|interface) )/.test(line) ||
      /^\s*\|/.test(line)
    if (/\*\/\s*$/.test(line)) comment = false
    if (skip) continue
    for (const [pattern, to] of CHANGES) {
      for (const match of line.matchAll(pattern)) {
        for (const instead of to(match[0])) {
          const changed = line.slice(0, match.index) + instead + line.slice(match.index + match[0].length)
          const text = [...lines.slice(0, at), changed, ...lines.slice(at + 1)].join('\n')
          mutants.push({ file, line: at + 1, from: line.trim(), to: changed.trim(), text })
        }
      }
    }
  }
  return mutants.concat(swappedEntries(file, lines), inlineLists(file, lines), droppedEntries(file, lines))
}

/** Lines of lists that only spell a type (`as const`): the compiler is their judge. */
function listsOfTypes(lines: readonly string[]): ReadonlySet<number> {
  const spelled = new Set<number>()
  for (const [end, line] of lines.entries()) {
    if (!/^\] as const$/.test(line)) continue
    for (let at = end - 1; at >= 0 && !/= \[$/.test(lines[at] ?? ''); at -= 1) spelled.add(at)
  }
  return spelled
}

/** Lists of names on one line, the strategies' keys among them: each neighbour swapped, each entry left out. */
function inlineLists(file: string, lines: readonly string[]): Mutant[] {
  return lines.flatMap((line, at): Mutant[] => {
    const [, before = '', list = '', after = ''] =
      /^(.*\[)((?:(?:\.\.\.)?[\w.[\]]+, )+(?:\.\.\.)?[\w.[\]]+)(\].*)$/.exec(line) ?? []
    const entries = list === '' || /^\s*(?:\/|\*|import|for)/.test(line) ? [] : list.split(', ')
    const changed = entries.flatMap((_, n) => {
      const without = entries.filter((_, other) => other !== n)
      const [a, b] = [entries[n], entries[n + 1]]
      const swapped =
        a !== undefined && b !== undefined ? [[...entries.slice(0, n), b, a, ...entries.slice(n + 2)]] : []
      return [without, ...swapped]
    })
    return changed.map((each) => {
      const to = `${before}${each.join(', ')}${after}`
      return {
        file,
        line: at + 1,
        from: line.trim(),
        to: to.trim(),
        text: [...lines.slice(0, at), to, ...lines.slice(at + 1)].join('\n'),
      }
    })
  })
}

/** Whole tables' entries left out. */
function droppedEntries(file: string, lines: readonly string[]): Mutant[] {
  return lines.flatMap((line, at): Mutant[] => {
    if (!/^\s*\{ name: '.*\},$/.test(line)) return []
    return [
      {
        file,
        line: at + 1,
        from: line.trim(),
        to: 'left out',
        text: [...lines.slice(0, at), ...lines.slice(at + 1)].join('\n'),
      },
    ]
  })
}

/** Neighbouring lines of the tables whose order is a rule. */
function swappedEntries(file: string, lines: readonly string[]): Mutant[] {
  const isEntry = (line: string | undefined) =>
    line !== undefined &&
    /^\s*(?:\{ name: '.*\},|if \(.*\) (?:obstacles|alerts)\.push\(.*\)|.*obstacles\.push\('.*'\))$/.test(line)
  return lines.flatMap((line, at): Mutant[] => {
    const next = lines[at + 1]
    if (!isEntry(line) || !isEntry(next) || next === undefined) return []
    const text = [...lines.slice(0, at), next, line, ...lines.slice(at + 2)].join('\n')
    return [{ file, line: at + 1, from: `${line.trim()} ↔ ${next.trim()}`, to: 'swapped', text }]
  })
}

function equivalents(): Set<string> {
  const text = readFileSync(join(ROOT, 'test/mutation/README.md'), 'utf8')
  return new Set(
    [...text.matchAll(/^- (\S+): `(.+)` → `(.*)`: /gm)].map(
      ([, file, from, to]) => `${file}: ${from} → ${to}`,
    ),
  )
}

function main(names: readonly string[]): number {
  const copy = mkdtempSync(join(tmpdir(), 'yardmaster-mutation-'))
  const parts = [
    'src',
    'test/decision',
    'test/health',
    'test/cases',
    'test/mutation',
    'tsconfig.json',
    'package.json',
  ]
  for (const part of parts) cpSync(join(ROOT, part), join(copy, part), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  for (const [name, include] of Object.entries(INCLUDED)) {
    // A slow machine must not look like a failed test.
    const test = { include, maxWorkers: 1, isolate: false, bail: 1, testTimeout: 120_000 }
    writeFileSync(join(copy, `${name}.config.mjs`), `export default ${JSON.stringify({ test })}`)
  }
  const known = equivalents()
  for (const { quick, thorough } of new Set(names.map(suiteOf)))
    if (fails(copy, quick) || (thorough && fails(copy, thorough)))
      throw new Error('the tests fail without any mutation')
  const counts = { mutants: 0, quickly: 0, thoroughly: 0, equivalent: 0, survived: 0 }
  for (const file of names) {
    const path = join(copy, 'src/core', `${file}.ts`)
    const original = readFileSync(path, 'utf8')
    const { quick, thorough } = suiteOf(file)
    for (const mutant of mutantsOf(file)) {
      writeFileSync(path, mutant.text)
      counts.mutants += 1
      if (fails(copy, quick)) counts.quickly += 1
      else if (thorough && fails(copy, thorough)) counts.thoroughly += 1
      else if (known.has(`${mutant.file}: ${mutant.from} → ${mutant.to}`)) counts.equivalent += 1
      else {
        counts.survived += 1
        console.log(`${mutant.file}.ts:${mutant.line}\n  ${mutant.from}\n  ${mutant.to}`)
      }
    }
    writeFileSync(path, original)
    console.log(`${file}: ${JSON.stringify(counts)}`)
  }
  rmSync(copy, { recursive: true, force: true })
  console.log(counts)
  return counts.survived === 0 ? 0 : 1
}

function fails(cwd: string, args: readonly string[]): boolean {
  return spawnSync(process.execPath, args, { cwd, stdio: 'ignore', timeout: 180_000 }).status !== 0
}

const given = process.argv.slice(2)
process.exitCode = main(given.length > 0 ? given : FILES)
