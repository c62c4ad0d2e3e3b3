/** `yardmaster alerts`: what wants an operator's eye, deduplicated. */
import { type Command, InvalidArgumentError } from 'commander'
import { acknowledgeAlerts, alertViews } from '../store/alert-views.ts'
import { type CliContext, operator, withDatabase } from './context.ts'
import { at, printJson, printTable, withInstants } from './output.ts'

interface ListFlags {
  all?: boolean
  limit: number
  json?: boolean
}

export function register(program: Command, context: CliContext): void {
  const alerts = program
    .command('alerts')
    .description('what wants an operator’s eye')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster alerts\n  $ yardmaster alerts list --all --json\n  $ yardmaster alerts ack --all',
    )
  alerts
    .command('list', { isDefault: true })
    .description('open alerts, the gravest and newest first')
    .option('--all', 'resolved ones too')
    .option('--limit <count>', 'at most so many', limitArgument, 100)
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExamples:\n  $ yardmaster alerts\n  $ yardmaster alerts list --all --limit 20')
    .action((flags: ListFlags) => list(context, flags))
  alerts
    .command('ack [id]')
    .description('note that an alert was seen; it stays open until its cause is gone')
    .option('--all', 'all open ones')
    .option('--by <name>', 'who has seen it')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster alerts ack 01930f6e-7a1b-7c3d-8e4f-5a6b7c8d9e0f\n  $ yardmaster alerts ack --all --by ann',
    )
    .action((id: string | undefined, flags: { all?: boolean; by?: string }) =>
      acknowledge(context, id, flags),
    )
}

function limitArgument(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) >= 1) return Number(text)
  throw new InvalidArgumentError('Expected a whole number from 1 to 99999.')
}

async function list(context: CliContext, flags: ListFlags): Promise<void> {
  const wanted = { all: flags.all ?? false, limit: flags.limit }
  const alerts = await withDatabase(context, (db) => alertViews(db, wanted))
  if (flags.json) return printJson(context.stdout, alerts.map(withInstants))
  if (alerts.length === 0) context.stdout.write('no open alerts\n')
  else
    printTable(
      context.stdout,
      ['SEVERITY', 'CODE', 'TIMES', 'LAST', 'SEEN BY', 'ID', 'MESSAGE'],
      alerts.map((a) => [a.severity, a.code, a.count, at(a.last_at), a.acknowledged_by, a.id, a.message]),
    )
}

async function acknowledge(
  context: CliContext,
  id: string | undefined,
  flags: { all?: boolean; by?: string },
): Promise<void> {
  if ((id === undefined) === !flags.all) context.fail(2, 'name one alert, or give --all')
  const by = flags.by ?? operator(context)
  const count = await withDatabase(context, (db) => acknowledgeAlerts(db, id ?? null, by))
  if (id !== undefined && count === 0) context.fail(1, `there is no open alert ${id}`)
  context.stdout.write(`${count} alert${count === 1 ? '' : 's'} acknowledged by ${by}\n`)
}
