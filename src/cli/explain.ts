/** `yardmaster explain TASK`: the task, its rounds with every candidate, its attempts and its cost, in words (ORD-16). */
import type { Command } from 'commander'
import { taskIdOf } from '../core/ids.ts'
import { explainTask, inWords } from '../runtime/explain.ts'
import { Releases } from '../store/releases.ts'
import { type CliContext, withDatabase } from './context.ts'
import { printJson } from './output.ts'

export function register(program: Command, context: CliContext): void {
  program
    .command('explain')
    .description('why a task was served by this supply, and why not by the others')
    .argument('<task>', 'video_…, image_…, or the UUID')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  yardmaster explain video_0198c1f2a3b47d2e8f10a2b3c4d5e6f7\n  yardmaster explain video_0198… --json\n',
    )
    .action(async (text: string, options: { json?: boolean }) => {
      const id =
        taskIdOf(text) ??
        context.fail(
          2,
          `"${text}" is no task: expected video_ or image_ and 32 hexadecimal digits, or a UUID`,
        )
      const explained = await withDatabase(context, (db) => explainTask(db, new Releases(), id))
      if (!explained) return context.fail(1, `there is no task ${text}`)
      if (options.json) printJson(context.stdout, explained)
      else context.stdout.write(inWords(explained))
    })
}
