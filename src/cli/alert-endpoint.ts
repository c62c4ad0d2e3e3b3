/** `yardmaster alert-endpoint`: where alerts are told. Addresses and secrets are read from files or the environment, never from arguments. */
import { type Command, InvalidArgumentError } from 'commander'
import type { Config } from '../config.ts'
import { SEVERITIES } from '../core/alert-rules.ts'
import { openLog } from '../journal.ts'
import { openEngine, openKeyring, openStore } from '../main.ts'
import { createEndpoint } from '../runtime/alert-desk.ts'
import {
  deliveryViews,
  ENDPOINT_KINDS,
  endpointViews,
  removeEndpoint,
  switchEndpoint,
} from '../store/alert-endpoints.ts'
import { resolveReference } from '../store/secrets.ts'
import { slugArgument } from './arguments.ts'
import { type CliContext, withDatabase } from './context.ts'
import { at, printTable } from './output.ts'

const choice =
  <T extends string>(allowed: readonly T[]) =>
  (text: string): T => {
    const found = allowed.find((one) => one === text)
    if (found !== undefined) return found
    throw new InvalidArgumentError(`Expected one of ${allowed.join(', ')}.`)
  }

export function register(program: Command, context: CliContext, readSettings: () => Config): void {
  const endpoint = program
    .command('alert-endpoint')
    .description('where alerts are told: webhooks, Slack, Feishu, DingTalk, WeCom')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster alert-endpoint add ops --kind slack --url env:SLACK_URL --min-severity high\n  $ yardmaster alert-endpoint test ops\n  $ yardmaster alert-endpoint deliveries ops',
    )
  endpoint
    .command('add')
    .description('tell alerts there from now on')
    .argument('<id>', 'a name of your own', slugArgument)
    .requiredOption('--kind <kind>', ENDPOINT_KINDS.join(', '), choice(ENDPOINT_KINDS))
    .requiredOption('--url <reference>', 'its address, as env:NAME or file:PATH')
    .option('--secret <reference>', 'its signing secret, as env:NAME or file:PATH (a webhook gets a new one)')
    .option('--min-severity <severity>', SEVERITIES.join(', '), choice(SEVERITIES), 'warning' as const)
    .action((id: string, flags: AddFlags) => add(context, id, flags))
  endpoint
    .command('list', { isDefault: true })
    .description('all of them, with what waits')
    .action(() => list(context))
  endpoint
    .command('test')
    .description('send a message now, and say what came back')
    .argument('<id>', 'the endpoint', slugArgument)
    .action((id: string) => test(context, readSettings(), id))
  for (const enabled of [true, false])
    endpoint
      .command(enabled ? 'enable' : 'disable')
      .description(enabled ? 'deliver again, from what waits' : 'keep what comes until it is enabled again')
      .argument('<id>', 'the endpoint', slugArgument)
      .action((id: string) => change(context, id, enabled))
  endpoint
    .command('remove')
    .description('with what still waits for it')
    .argument('<id>', 'the endpoint', slugArgument)
    .action(async (id: string) => {
      if (!(await withDatabase(context, (db) => removeEndpoint(db, id)))) none(context, id)
      context.stdout.write(`${id} is removed\n`)
    })
  endpoint
    .command('deliveries')
    .description('what it was told, the newest first')
    .argument('<id>', 'the endpoint', slugArgument)
    .action((id: string) => deliveries(context, id))
}

interface AddFlags {
  readonly kind: (typeof ENDPOINT_KINDS)[number]
  readonly url: string
  readonly secret?: string
  readonly minSeverity: (typeof SEVERITIES)[number]
}

async function add(context: CliContext, id: string, flags: AddFlags): Promise<void> {
  const read = (reference: string) =>
    resolveReference(reference, context.env).catch((error: Error) => context.fail(1, error.message))
  const url = await read(flags.url)
  const secret = flags.secret === undefined ? null : await read(flags.secret)
  const keyring = await context.openKeyring()
  const wanted = { id, kind: flags.kind, url, secret, minSeverity: flags.minSeverity }
  const added = await withDatabase(context, (db) => createEndpoint(db, keyring, wanted))
  if (added.kind === 'invalid') context.fail(1, `the ${added.field} ${added.why}`)
  if (added.kind === 'exists') context.fail(1, `there is an alert endpoint ${id} already`)
  context.stdout.write(`${id} is added; try it with "yardmaster alert-endpoint test ${id}"\n`)
  if (added.kind === 'added' && added.secret !== null)
    context.stdout.write(`its signing secret, shown only now: ${added.secret}\n`)
}

async function list(context: CliContext): Promise<void> {
  const rows = await withDatabase(context, (db) => endpointViews(db))
  if (rows.length === 0) return void context.stdout.write('no alert endpoints\n')
  printTable(
    context.stdout,
    ['ID', 'KIND', 'HOST', 'FROM', 'STATE', 'WAITING', 'FAILURES', 'FAILING SINCE'],
    rows.map((row) => [
      row.id,
      row.kind,
      row.host,
      row.min_severity,
      row.enabled ? 'on' : `off: ${row.off_why}`,
      row.waiting,
      row.failures,
      row.failing_since === null ? null : at(row.failing_since),
    ]),
  )
}

async function test(context: CliContext, config: Config, id: string): Promise<void> {
  const log = openLog('warn')
  const store = await openStore(config, log, 'yardmaster-alerts')
  try {
    const keyring = await openKeyring(config)
    const { engine, close } = openEngine({ config, log, store, keyring, roles: [] })
    const answer = await engine.outbox.test(id)
    await close()
    if (answer.kind === 'not_found') none(context, id)
    if (answer.kind === 'failed') context.fail(1, `not delivered: ${answer.why}`)
    context.stdout.write('delivered\n')
  } finally {
    await store.close()
  }
}

async function change(context: CliContext, id: string, enabled: boolean): Promise<void> {
  const why = enabled ? null : 'by an operator'
  if (!(await withDatabase(context, (db) => switchEndpoint(db, id, { enabled, why })))) none(context, id)
  context.stdout.write(`${id} is ${enabled ? 'on' : 'off'}\n`)
}

async function deliveries(context: CliContext, id: string): Promise<void> {
  const rows = await withDatabase(context, (db) => deliveryViews(db, id, 100))
  if (rows.length === 0) return void context.stdout.write('nothing yet\n')
  printTable(
    context.stdout,
    ['AT', 'EVENT', 'CODE', 'TRIES', 'DELIVERED', 'LAST ERROR'],
    rows.map((row) => [
      at(row.created_at),
      row.event,
      row.code,
      row.tries,
      row.delivered_at === null ? 'waiting' : at(row.delivered_at),
      row.last_error,
    ]),
  )
}

function none(context: CliContext, id: string): never {
  return context.fail(1, `there is no alert endpoint ${id}`)
}
