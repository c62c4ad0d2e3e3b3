/** `yardmaster binding`: the switch of one supply within one model. No save: the model stays published (STR-6). */
import type { Command } from 'commander'
import { NoSuchEntry, switchBinding } from '../store/switches.ts'
import { slugArgument } from './arguments.ts'
import { type CliContext, orFail, withDatabase } from './context.ts'
import { printJson } from './output.ts'

export function register(program: Command, context: CliContext): void {
  const binding = program
    .command('binding')
    .description('supplies within models')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster model show seedance-2.0-933\n  $ yardmaster binding disable seedance-933-north',
    )
  for (const [verb, enabled] of [
    ['enable', true],
    ['disable', false],
  ] as const)
    binding
      .command(verb)
      .description(`switch a binding ${enabled ? 'on' : 'off'}; its model stays published`)
      .argument('<id>', 'the binding', slugArgument)
      .option('--json', 'print the result as JSON')
      .addHelpText('after', `\nExample:\n  $ yardmaster binding ${verb} seedance-933-north`)
      .action(async (id: string, options: { json?: boolean }) => {
        await orFail(context, () => withDatabase(context, (db) => switchBinding(db, id, enabled)), [
          NoSuchEntry,
        ])
        if (options.json) printJson(context.stdout, { id, enabled })
        else context.stdout.write(`binding ${id} is ${verb}d\n`)
      })
}
