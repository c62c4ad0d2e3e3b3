/** `yardmaster migrate`: bring the schema up to date, or say what is missing. */
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { openLog } from '../journal.ts'
import { openStore } from '../main.ts'
import { migrate, migrationStatus } from '../store/migrate.ts'
import type { CliContext } from './context.ts'
import { printJson } from './output.ts'

export function register(program: Command, context: CliContext, readSettings: () => Config): void {
  program
    .command('migrate')
    .description('bring the database schema up to date; safe while others do the same')
    .option('--status', 'only say what is applied and what is missing')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExamples:\n  yardmaster migrate\n  yardmaster migrate --status --json\n')
    .action(async (options: { status?: boolean; json?: boolean }) => {
      const store = await openStore(readSettings(), openLog('warn'), 'yardmaster-migrate')
      try {
        const applied = options.status ? [] : await migrate(store.db)
        const status = await migrationStatus(store.db)
        if (options.json) printJson(context.stdout, { applied_now: applied, ...status })
        else context.stdout.write(inWords(applied, status.applied.length, status.pending))
        if (status.faults.length > 0) context.fail(1, status.faults.join('; '))
      } finally {
        await store.close()
      }
    })
}

function inWords(applied: readonly string[], present: number, pending: readonly string[]): string {
  const now = applied.map((name) => `applied ${name}\n`).join('')
  const missing = pending.map((name) => `missing ${name}\n`).join('')
  return `${now}${missing}${present} migrations are applied, ${pending.length} are missing.\n`
}
