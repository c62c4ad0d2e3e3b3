/** `yardmaster catalog`: check, apply and export the file that says what there is. */
import { readFile, writeFile } from 'node:fs/promises'
import { text as readAll } from 'node:stream/consumers'
import type { Command } from 'commander'
import { type Applied, applyCatalog, CatalogRefused } from '../catalog/apply.ts'
import { checkCatalog } from '../catalog/check.ts'
import type { Catalog } from '../catalog/definitions.ts'
import { exportCatalog } from '../catalog/export.ts'
import { catalogJsonSchema } from '../catalog/format.ts'
import type { Change } from '../catalog/plan.ts'
import { type Problem, printProblem } from '../catalog/problems.ts'
import { GateRefused } from '../catalog/publish.ts'
import { type CliContext, operator, withDatabase } from './context.ts'
import { printJson } from './output.ts'

const EXAMPLES = `
Examples:
  $ yardmaster catalog check catalog.yaml
  $ yardmaster catalog apply catalog.yaml --dry-run
  $ yardmaster catalog apply catalog.yaml --publish
  $ yardmaster catalog export > catalog.yaml

docs/catalog.md explains the file; docs/catalog.schema.json completes it in an editor.`

export function register(program: Command, context: CliContext): void {
  const catalog = program
    .command('catalog')
    .description('check, apply and export the catalog')
    .addHelpText('after', EXAMPLES)
  catalog
    .command('check <file>')
    .description(
      'name every fault of a file with its line; needs no database. Exit status 2 where there are errors',
    )
    .option('--json', 'print the faults as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster catalog check catalog.yaml\n  $ cat catalog.yaml | yardmaster catalog check - --json',
    )
    .action((file: string, options: { json?: boolean }) => check(context, file, options))
  catalog
    .command('apply <file>')
    .description('save what the file says, in one transaction')
    .option('--publish', 'publish what is not, through the gate; where the gate refuses, nothing is applied')
    .option('--prune', 'archive what the file omits')
    .option('--dry-run', 'do all of it, the gate included, and take it back')
    .option('--by <name>', 'who publishes, for the record')
    .option('--json', 'print what was done as JSON')
    .addHelpText(
      'after',
      '\nSaving a binding, policy, rule or model unpublishes the models it touches, until they are published again. Prices,\nlimits, channels and credentials take effect at once. Switches are never touched.\n\nExamples:\n  $ yardmaster catalog apply catalog.yaml --dry-run\n  $ yardmaster catalog apply catalog.yaml --publish --by ann',
    )
    .action((file: string, options: ApplyFlags) => apply(context, file, options))
  catalog
    .command('export')
    .description('write the stored catalog as a file; applying it would change nothing')
    .option('-o, --output <file>', 'write it there instead of to standard output')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster catalog export > catalog.yaml\n  $ yardmaster catalog export -o catalog.yaml',
    )
    .action((options: { output?: string }) => exportTo(context, options.output))
  catalog
    .command('schema')
    .description('print the JSON Schema of the file')
    .addHelpText('after', '\nExample:\n  $ yardmaster catalog schema > catalog.schema.json')
    .action(() => printJson(context.stdout, catalogJsonSchema()))
}

interface ApplyFlags {
  publish?: boolean
  prune?: boolean
  dryRun?: boolean
  by?: string
  json?: boolean
}

async function readInput(context: CliContext, file: string): Promise<string> {
  if (file === '-') return readAll(process.stdin)
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : 'unreadable'
    return context.fail(2, `${file}: cannot be read (${code})`)
  }
}

async function check(context: CliContext, file: string, options: { json?: boolean }): Promise<void> {
  const { problems, catalog } = await checkCatalog(await readInput(context, file), context.env)
  if (options.json) printJson(context.stdout, { ok: catalog !== null, problems })
  else report(context, file, problems)
  const errors = problems.filter(({ severity }) => severity === 'error').length
  if (catalog === null) context.fail(2, `${file}: ${errors} error${errors === 1 ? '' : 's'}`)
  if (!options.json) context.stdout.write(`${file}: no errors\n`)
}

function report(context: CliContext, file: string, problems: readonly Problem[]): void {
  for (const problem of problems) context.stderr.write(`${printProblem(file, problem)}\n`)
}

async function apply(context: CliContext, file: string, flags: ApplyFlags): Promise<void> {
  const { problems, catalog } = await checkCatalog(await readInput(context, file), context.env)
  report(context, file, problems)
  if (catalog === null) return context.fail(2, `${file}: not applied`)
  const applied = await applyOrFail(context, catalog, flags)
  if (flags.json) printJson(context.stdout, applied)
  else printApplied(context, applied)
}

async function applyOrFail(context: CliContext, catalog: Catalog, flags: ApplyFlags): Promise<Applied> {
  const keyring = await context.openKeyring()
  try {
    return await withDatabase(context, (db) =>
      applyCatalog(db, catalog, {
        publish: flags.publish ?? false,
        prune: flags.prune ?? false,
        dryRun: flags.dryRun ?? false,
        by: flags.by ?? operator(context),
        environment: context.env,
        keyring,
      }),
    )
  } catch (error) {
    if (error instanceof GateRefused)
      context.fail(1, `the gate refuses, nothing was applied:\n${error.message}`)
    if (error instanceof CatalogRefused) context.fail(1, `nothing was applied:\n${error.message}`)
    throw error
  }
}

const SIGN = { add: '+', change: '~', restore: '^', archive: '-' } as const

function printApplied({ stdout }: CliContext, applied: Applied): void {
  for (const { field, from, to } of applied.settings)
    stdout.write(`~ ${field}: ${short(from)} → ${short(to)}\n`)
  for (const change of applied.changes) stdout.write(changeText(change))
  for (const channel of applied.credentials.stored) stdout.write(`~ channel ${channel}: new secret\n`)
  for (const note of applied.notes) stdout.write(`note: ${note}\n`)
  for (const { modelId, why } of applied.cleared)
    stdout.write(`model ${modelId} is no longer published, since these were saved: ${why.join(', ')}\n`)
  for (const { modelId, number } of applied.published)
    stdout.write(`model ${modelId} is published as release ${number}\n`)
  const count = applied.changes.length + applied.settings.length + applied.credentials.stored.length
  const done = applied.dryRun ? 'would be made' : 'made'
  stdout.write(count === 0 ? 'no changes\n' : `${count} change${count === 1 ? '' : 's'} ${done}\n`)
}

/** A new entry is one line; of a change, each field is. */
function changeText({ kind, family, id, fields }: Change): string {
  const head = `${SIGN[kind]} ${family} ${id}\n`
  if (kind === 'add') return head
  return head + fields.map(({ field, from, to }) => `    ${field}: ${short(from)} → ${short(to)}\n`).join('')
}

function short(value: unknown): string {
  const text = value === undefined ? '(none)' : typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 97)}…` : text
}

async function exportTo(context: CliContext, output: string | undefined): Promise<void> {
  const text = await withDatabase(context, exportCatalog)
  if (output === undefined) context.stdout.write(text)
  else await writeFile(output, text)
}
