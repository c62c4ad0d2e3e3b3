/** `yardmaster supply`: upstream models on channels, how they are, their switch and their limit. */
import type { Command } from 'commander'
import { type SupplyView, supplyViews } from '../store/level-views.ts'
import { slugArgument } from './arguments.ts'
import { type CliContext, withDatabase } from './context.ts'
import { registerLevelVerbs } from './level-commands.ts'
import { at, printFields, printJson, printTable, withInstants } from './output.ts'

export function register(program: Command, context: CliContext): void {
  const supply = program
    .command('supply')
    .description('upstream models on channels')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster supply list\n  $ yardmaster supply disable seedance-north\n  $ yardmaster supply limit seedance-north 8',
    )
  supply
    .command('list')
    .description('all supplies: switch, health, load')
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster supply list --json')
    .action((options: { json?: boolean }) => list(context, options))
  supply
    .command('show')
    .description('one supply')
    .argument('<id>', 'the supply', slugArgument)
    .option('--json', 'print it as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster supply show seedance-north')
    .action((id: string, options: { json?: boolean }) => show(context, id, options))
  registerLevelVerbs(supply, context, 'supply')
}

async function list(context: CliContext, options: { json?: boolean }): Promise<void> {
  const supplies = await withDatabase(context, (db) => supplyViews(db))
  if (options.json) return printJson(context.stdout, supplies.map(withInstants))
  printTable(
    context.stdout,
    ['SUPPLY', 'CHANNEL', 'MEDIA', 'SWITCH', 'HEALTH', 'IN USE', 'LIMIT', 'MODELS'],
    supplies.map((s) => [
      s.id,
      s.channel_id,
      s.media,
      s.admin_state,
      s.health,
      s.in_use,
      s.concurrency,
      s.models.join(', '),
    ]),
  )
}

async function show(context: CliContext, id: string, options: { json?: boolean }): Promise<void> {
  const [supply] = await withDatabase(context, (db) => supplyViews(db, id))
  if (!supply) return context.fail(1, `there is no supply ${id}`)
  if (options.json) return printJson(context.stdout, withInstants(supply))
  printFields(context.stdout, fieldsOf(supply))
}

function fieldsOf(supply: SupplyView) {
  return {
    supply: supply.id,
    channel: supply.channel_id,
    'upstream model': supply.upstream_model,
    media: supply.media,
    // There is no such policy for images, and no page of theirs shows it (ORD-16).
    ...(supply.media === 'video' ? { 'real person': supply.real_person } : {}),
    switch: supply.admin_state,
    health: supply.health,
    'recovery successes': supply.recovery_successes,
    epoch: supply.epoch,
    'circuit open until': at(supply.open_until),
    'held until': at(supply.not_before),
    'in use': `${supply.in_use} of ${supply.concurrency}`,
    'capability version': supply.capability_version,
    'price list version': supply.price_list_version,
    models: supply.models.join(', '),
    archived: supply.archived,
  }
}
