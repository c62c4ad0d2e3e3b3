/** `yardmaster model`: public models, the gate, publishing, and their switch. */
import type { Command } from 'commander'
import { checkGate, type GateReport } from '../catalog/gate.ts'
import { type BindingView, modelViews } from '../catalog/model-views.ts'
import {
  GateRefused,
  NoSuchModel,
  publishModel,
  refusalLines,
  switchModel,
  unpublishModel,
} from '../catalog/publish.ts'
import type { Database } from '../store/database.ts'
import { modelArgument } from './arguments.ts'
import { type CliContext, operator, orFail, withDatabase } from './context.ts'
import { printFields, printJson, printTable } from './output.ts'

const FAULTS = [GateRefused, NoSuchModel] as const

interface Flags {
  json?: boolean
  by?: string
}

export function register(program: Command, context: CliContext): void {
  const model = program
    .command('model')
    .description('public models')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster model list\n  $ yardmaster model gate seedance-2.0-933\n  $ yardmaster model publish seedance-2.0-933',
    )
  model
    .command('list')
    .description('all models and whether customers can use them')
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster model list --json')
    .action((options: Flags) => list(context, options))
  const verb = (name: string, description: string, act: (id: string, options: Flags) => Promise<void>) =>
    model
      .command(name)
      .description(description)
      .argument('<model>', 'its name', modelArgument)
      .option('--json', 'print the result as JSON')
      .addHelpText('after', `\nExample:\n  $ yardmaster model ${name} seedance-2.0-933`)
      .action(act)
  verb('show', 'one model with its bindings', (id, options) => show(context, id, options))
  verb('gate', 'what the gate says, without publishing; exit status 1 where it refuses', (id, options) =>
    gate(context, id, options),
  )
  verb('publish', 'publish what is saved, through the gate', (id, options) =>
    publish(context, id, options),
  ).option('--by <name>', 'who publishes, for the record')
  verb('unpublish', 'take it from customers; what they have queued goes on', (id, options) =>
    done(context, options, { model: id, published: false }, (db) => unpublishModel(db, id)),
  )
  verb('enable', 'switch a published model on', (id, options) =>
    done(context, options, { model: id, enabled: true }, (db) => switchModel(db, id, true)),
  )
  verb('disable', 'switch it off; it stays published, and what is queued goes on', (id, options) =>
    done(context, options, { model: id, enabled: false }, (db) => switchModel(db, id, false)),
  )
}

async function list(context: CliContext, options: Flags): Promise<void> {
  const models = (await withDatabase(context, modelViews)).filter((model) => !model.archived)
  const rows = models.map(({ id, media, enabled, published, release, document, bindings }) => ({
    id,
    media,
    profile: document.profile,
    enabled,
    published,
    release,
    policy: document.policy,
    bindings: bindings.length,
  }))
  if (options.json) return printJson(context.stdout, rows)
  printTable(
    context.stdout,
    ['MODEL', 'MEDIA', 'PROFILE', 'ENABLED', 'PUBLISHED', 'RELEASE', 'POLICY', 'BINDINGS'],
    rows.map((row) => Object.values(row)),
  )
}

async function show(context: CliContext, id: string, options: Flags): Promise<void> {
  const model = (await withDatabase(context, modelViews)).find((view) => view.id === id)
  if (!model) return context.fail(1, new NoSuchModel(id).message)
  const { document, bindings, ...rest } = model
  if (options.json) return printJson(context.stdout, { ...rest, ...document, bindings })
  printFields(context.stdout, {
    model: id,
    media: model.media,
    profile: document.profile,
    enabled: model.enabled,
    published: model.published,
    release: model.release,
    'saved version': model.version,
    policy: document.policy,
    degradation: document.degradation,
    'allowed groups': document.allowed_groups?.join(', ') ?? 'all',
    'emergency cost override': document.emergency_cost_override,
    archived: model.archived,
  })
  context.stdout.write('\n')
  printTable(
    context.stdout,
    ['BINDING', 'SUPPLY', 'TIER', 'RULE', 'PRIORITY', 'ENABLED', 'VERIFIED'],
    bindings.map((b) => [b.id, b.supply, b.tier, b.degradation_rule, b.priority, b.enabled, verifiedText(b)]),
  )
}

function verifiedText({ verified }: BindingView): string | null {
  return verified && `version ${verified.capability} by ${verified.by}`
}

async function gate(context: CliContext, id: string, options: Flags): Promise<void> {
  const report = await withDatabase(context, (db) => checkGate(db, id))
  if (options.json) printJson(context.stdout, report)
  else printReport(context, report)
  if (report.refusals.length > 0) context.fail(1, `${id} cannot be published`)
}

function printReport(context: CliContext, report: GateReport): void {
  for (const { check, evidence } of report.passed)
    context.stdout.write(`ok       ${check}: ${JSON.stringify(evidence)}\n`)
  for (const { check, missing, mend } of report.refusals)
    context.stdout.write(`refused  ${check}: ${missing}; ${mend}\n`)
}

async function publish(context: CliContext, id: string, options: Flags): Promise<void> {
  const by = options.by ?? operator(context)
  const published = await withDatabase(context, (db) => publishModel(db, id, by)).catch((error: unknown) => {
    if (!(error instanceof GateRefused)) throw error
    return context.fail(1, `the gate refuses:\n${error.reports.flatMap(refusalLines).join('\n')}`)
  })
  if (options.json) return printJson(context.stdout, published)
  context.stdout.write(`model ${id} is published as release ${published.number}\n`)
}

async function done(
  context: CliContext,
  options: Flags,
  result: { model: string; enabled?: boolean; published?: boolean },
  act: (db: Database) => Promise<unknown>,
): Promise<void> {
  const answer = await orFail(context, () => withDatabase(context, act), FAULTS)
  const after = { ...result, ...(typeof answer === 'object' ? answer : {}) }
  if (options.json) return printJson(context.stdout, after)
  const facts = Object.entries(after).filter(([key]) => key !== 'model')
  context.stdout.write(
    `model ${after.model}: ${facts.map(([key, value]) => `${value ? '' : 'not '}${key}`).join(', ')}\n`,
  )
}
