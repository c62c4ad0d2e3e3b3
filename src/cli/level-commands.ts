/** The verbs that channels and supplies share: enable, disable, limit. */
import type { Command } from 'commander'
import type { LevelKind } from '../core/health-row.ts'
import { limitLevel, NoSuchEntry, switchLevel } from '../store/switches.ts'
import { concurrencyArgument, slugArgument } from './arguments.ts'
import { type CliContext, orFail, withDatabase } from './context.ts'
import { printJson } from './output.ts'

export function registerLevelVerbs(command: Command, context: CliContext, kind: LevelKind): void {
  command
    .command('enable')
    .description(`switch a ${kind} on; it is as it was before, or starts with a probe`)
    .argument('<id>', `the ${kind}`, slugArgument)
    .option('--probe', 'start with one request at a time instead')
    .option('--json', 'print the result as JSON')
    .addHelpText(
      'after',
      `\nExamples:\n  $ yardmaster ${kind} enable north\n  $ yardmaster ${kind} enable north --probe`,
    )
    .action((id: string, options: { probe?: boolean; json?: boolean }) =>
      doSwitch(context, { kind, id, state: 'enabled', probe: options.probe ?? false }, options),
    )
  command
    .command('disable')
    .description(`switch a ${kind} off: nothing new is sent there; what runs is followed to its end`)
    .argument('<id>', `the ${kind}`, slugArgument)
    .option('--json', 'print the result as JSON')
    .addHelpText('after', `\nExample:\n  $ yardmaster ${kind} disable north`)
    .action((id: string, options: { json?: boolean }) =>
      doSwitch(context, { kind, id, state: 'disabled', probe: false }, options),
    )
  command
    .command('limit')
    .description('set how many jobs may run at once; the catalog file sets it again when it is applied')
    .argument('<id>', `the ${kind}`, slugArgument)
    .argument('<concurrency>', 'from 1 to 1000000', concurrencyArgument)
    .option('--json', 'print the result as JSON')
    .addHelpText('after', `\nExample:\n  $ yardmaster ${kind} limit north 8`)
    .action((id: string, concurrency: number, options: { json?: boolean }) =>
      doLimit(context, { kind, id, concurrency }, options),
    )
}

async function doSwitch(
  context: CliContext,
  wanted: Parameters<typeof switchLevel>[1],
  options: { json?: boolean },
): Promise<void> {
  const switched = await orFail(context, () => withDatabase(context, (db) => switchLevel(db, wanted)), [
    NoSuchEntry,
  ])
  if (options.json) return printJson(context.stdout, switched)
  const already = switched.changed ? '' : ' already'
  context.stdout.write(
    `${wanted.kind} ${wanted.id} is ${switched.state}${already}; health: ${switched.health}\n`,
  )
}

async function doLimit(
  context: CliContext,
  wanted: Parameters<typeof limitLevel>[1],
  options: { json?: boolean },
): Promise<void> {
  await orFail(context, () => withDatabase(context, (db) => limitLevel(db, wanted)), [NoSuchEntry])
  if (options.json) return printJson(context.stdout, { id: wanted.id, concurrency: wanted.concurrency })
  context.stdout.write(`${wanted.kind} ${wanted.id} may run ${wanted.concurrency} at once\n`)
}
