/** `yardmaster task`: look at tasks, and cancel one. */
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { publicTaskId, taskIdOf } from '../core/ids.ts'
import { openLog } from '../journal.ts'
import { openEngine, openKeyring, openStore } from '../main.ts'
import type { CancelAnswer } from '../runtime/service.ts'
import { countTasks, listTasks, type TaskLine, type TaskWish } from '../store/task-views.ts'
import { type CliContext, withDatabase } from './context.ts'
import { at, printJson, printTable } from './output.ts'

const STATES = ['queued', 'running', 'succeeded', 'failed', 'cancelled', 'rejected']

interface ListOptions {
  readonly state?: string
  readonly model?: string
  readonly customer?: string
  readonly limit: string
  readonly json?: boolean
}

export function register(program: Command, context: CliContext, readSettings: () => Config): void {
  const task = program.command('task').description('requests of customers')
  task
    .command('list')
    .description('the newest tasks, and how many there are in each state')
    .option('--state <state>', STATES.join(', '))
    .option('--model <model>', 'only of this public model')
    .option('--customer <customer>', 'only of this customer')
    .option('--limit <number>', 'at most so many', '50')
    .option('--json', 'print JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  yardmaster task list --state queued\n  yardmaster task list --customer acme --json\n',
    )
    .action(async (options: ListOptions) => {
      const wish = wishOf(context, options)
      const found = await withDatabase(context, async (db) => ({
        tasks: await listTasks(db, wish),
        counts: await countTasks(db),
      }))
      if (options.json) return printJson(context.stdout, found)
      printTable(
        context.stdout,
        ['TASK', 'STATE', 'MODEL', 'CUSTOMER', 'ATTEMPTS', 'WHY', 'CREATED'],
        found.tasks.map(row),
      )
      context.stdout.write(
        `\n${
          Object.entries(found.counts)
            .map(([state, n]) => `${n} ${state}`)
            .join(', ') || 'no tasks'
        }\n`,
      )
    })
  task
    .command('show')
    .description('the same as yardmaster explain')
    .argument('<task>', 'video_…, image_…, or the UUID')
    .option('--json', 'print JSON')
    .addHelpText('after', '\nExample:\n  yardmaster task show video_0198…\n')
    .action(async (id: string, options: { json?: boolean }) => {
      await program.parseAsync(['explain', id, ...(options.json ? ['--json'] : [])], { from: 'user' })
    })
  task
    .command('cancel')
    .description('cancel a queued task, or an accepted one at its provider where that can')
    .argument('<task>', 'video_…, or the UUID')
    .addHelpText('after', '\nExample:\n  yardmaster task cancel video_0198…\n')
    .action((id: string) => cancel(context, readSettings(), id))
}

function wishOf(context: CliContext, options: ListOptions): TaskWish {
  const limit = Number(options.limit)
  if (!/^\d+$/.test(options.limit) || limit < 1 || limit > 1000)
    context.fail(2, '--limit must be a whole number from 1 to 1000')
  if (options.state !== undefined && !STATES.includes(options.state))
    context.fail(2, `--state must be one of ${STATES.join(', ')}`)
  return {
    state: options.state ?? null,
    model: options.model ?? null,
    customer: options.customer ?? null,
    limit,
  }
}

function row(task: TaskLine) {
  const why = task.error_code ?? task.wait_reason
  return [
    publicTaskId(task.kind, task.id),
    task.state,
    task.model_id,
    task.customer_id,
    task.attempts,
    why,
    at(task.created_at),
  ]
}

const REFUSED: Readonly<Record<(CancelAnswer & { kind: 'refused' })['why'], string>> = {
  submitting: 'it is being submitted right now; try again in a moment',
  uncertain: 'whether the provider took it is not known yet',
  provider_cannot: 'its provider has no way to cancel a job',
  provider_refused: 'its provider refused to cancel it: it may be running already',
  provider_silent: 'its provider did not answer',
}

async function cancel(context: CliContext, config: Config, text: string): Promise<void> {
  const id =
    taskIdOf(text) ??
    context.fail(2, `"${text}" is no task: expected video_ and 32 hexadecimal digits, or a UUID`)
  const log = openLog('warn')
  const store = await openStore(config, log, 'yardmaster-cancel')
  try {
    const { engine, close } = openEngine({
      config,
      log,
      store,
      keyring: await openKeyring(config),
      roles: [],
    })
    const answer = await engine.cancelTask(id)
    await close()
    tell(context, text, answer)
  } finally {
    await store.close()
  }
}

function tell(context: CliContext, text: string, answer: CancelAnswer): void {
  if (answer.kind === 'cancelled') context.stdout.write(`${text} is cancelled.\n`)
  else context.fail(1, whyNot(text, answer))
}

function whyNot(text: string, answer: Exclude<CancelAnswer, { kind: 'cancelled' }>): string {
  switch (answer.kind) {
    case 'already_ended':
      return `${text} had ended already: ${answer.state}`
    case 'refused':
      return `${text} cannot be cancelled: ${REFUSED[answer.why]}`
    case 'not_found':
      return `there is no task ${text}`
  }
}
