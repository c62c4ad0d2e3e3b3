/**
 * `yardmaster decide`: the decision as a program (decision.md). One JSON document, or JSON lines; every one is validated
 * before anything is printed.
 */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { decide } from '../core/decide.ts'
import { MalformedInput, parseDecisionInput, printVerdict } from '../core/decision-json.ts'
import type { DecisionInput } from '../core/verdict.ts'
import type { CliContext } from './context.ts'

export interface DecideResult {
  readonly status: 0 | 2
  readonly stdout: string
  readonly stderr: string
}

export function register(program: Command, context: CliContext): void {
  program
    .command('decide')
    .description('decide frozen inputs (JSON, or JSON lines), one verdict a line; needs no database')
    .argument('<file>', 'a file, or - for standard input')
    .addHelpText(
      'after',
      '\nExamples:\n  yardmaster decide input.json\n  yardmaster decide - < inputs.jsonl\n\nThe first malformed line ends with nothing on standard output, "line N: PATH: what is wrong" on\nstandard error, and status 2. Blank lines are passed over.\n',
    )
    .action((file: string) => {
      const { status, stdout, stderr } = decideCommand(readText(context, file))
      context.stdout.write(stdout)
      context.stderr.write(stderr)
      process.exitCode = status
    })
}

function readText(context: CliContext, file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    return context.fail(
      2,
      `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
}

/** A document of several lines counts as line 1. */
export function decideCommand(text: string): DecideResult {
  const whole = parseJson(text)
  const lines = whole.ok ? [{ line: 1, parsed: whole }] : jsonLines(text)
  if (lines.length === 0) return malformed(1, 'the input is empty: expected a JSON document, or JSON lines')
  const inputs: DecisionInput[] = []
  for (const { line, parsed } of lines) {
    if (!parsed.ok) return malformed(line, `is not JSON: ${parsed.why}`)
    try {
      inputs.push(parseDecisionInput(parsed.value))
    } catch (error) {
      if (!(error instanceof MalformedInput)) throw error
      return malformed(line, error.message)
    }
  }
  const verdicts = inputs.map((input) => `${JSON.stringify(printVerdict(decide(input)))}\n`)
  return { status: 0, stdout: verdicts.join(''), stderr: '' }
}

type Parsed = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly why: string }

function parseJson(text: string): Parsed {
  try {
    return { ok: true, value: JSON.parse(text) }
  } catch (error) {
    return { ok: false, why: error instanceof Error ? error.message : String(error) }
  }
}

function jsonLines(text: string): { line: number; parsed: Parsed }[] {
  return text
    .split('\n')
    .map((content, at) => ({ line: at + 1, content }))
    .filter(({ content }) => content.trim() !== '')
    .map(({ line, content }) => ({ line, parsed: parseJson(content) }))
}

function malformed(line: number, what: string): DecideResult {
  return { status: 2, stdout: '', stderr: `line ${line}: ${what}\n` }
}
