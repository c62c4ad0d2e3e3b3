/** `yardmaster replay`: compute stored rounds again and compare, bit for bit (IN-2). */
import type { Command } from 'commander'
import { parseInstant, printInstant } from '../core/time.ts'
import { type Difference, type ReplayReport, replay } from '../runtime/replay.ts'
import { Releases } from '../store/releases.ts'
import { type CliContext, withDatabase } from './context.ts'
import { printJson } from './output.ts'

const SHOWN = 20

export function register(program: Command, context: CliContext): void {
  program
    .command('replay')
    .description('compute stored selection rounds again and compare; status 1 where one differs')
    .option(
      '--since <time>',
      'only tasks created then or later: 2026-12-01 or 2026-12-01T08:00:00Z',
      '1970-01-01',
    )
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  yardmaster replay\n  yardmaster replay --since 2026-12-01T08:00:00Z --json\n',
    )
    .action(async (options: { since: string; json?: boolean }) => {
      const since = readSince(context, options.since)
      const report = await withDatabase(context, (db) => replay(db, new Releases(), since))
      if (options.json) printJson(context.stdout, report)
      else context.stdout.write(inWords(report))
      if (report.differences.length > 0) context.fail(1, `${report.differences.length} rounds differ`)
    })
}

function readSince(context: CliContext, text: string): string {
  const instant = parseInstant(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text)
  return instant === null
    ? context.fail(2, `--since is "${text}", but must be like 2026-12-01 or 2026-12-01T08:00:00Z`)
    : printInstant(instant)
}

function inWords(report: ReplayReport): string {
  const kinds = Object.entries(report.byResult).map(([kind, count]) => `  ${kind}: ${count}\n`)
  const shown = report.differences.slice(0, SHOWN).map(differenceInWords)
  const more = report.differences.length > SHOWN ? `… and ${report.differences.length - SHOWN} more\n` : ''
  return `${report.rounds} rounds replayed, ${report.differences.length} differences\n${kinds.join('')}${shown.join('')}${more}`
}

function differenceInWords(one: Difference): string {
  return `task ${one.taskId}, round ${one.number}: ${one.why}\n  stored   ${JSON.stringify(one.stored)}\n  computed ${JSON.stringify(one.computed)}\n`
}
