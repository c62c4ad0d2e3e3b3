/** `yardmaster channel`: accounts at providers, how they are, their switch and their limit. */
import type { Command } from 'commander'
import { type ChannelView, channelViews } from '../store/level-views.ts'
import { slugArgument } from './arguments.ts'
import { type CliContext, withDatabase } from './context.ts'
import { registerLevelVerbs } from './level-commands.ts'
import { at, printFields, printJson, printTable, withInstants } from './output.ts'

export function register(program: Command, context: CliContext): void {
  const channel = program
    .command('channel')
    .description('accounts at providers')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster channel list\n  $ yardmaster channel disable north\n  $ yardmaster channel limit north 20',
    )
  channel
    .command('list')
    .description('all channels: switch, health, load')
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster channel list --json')
    .action((options: { json?: boolean }) => list(context, options))
  channel
    .command('show')
    .description('one channel')
    .argument('<id>', 'the channel', slugArgument)
    .option('--json', 'print it as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster channel show north')
    .action((id: string, options: { json?: boolean }) => show(context, id, options))
  registerLevelVerbs(channel, context, 'channel')
}

async function list(context: CliContext, options: { json?: boolean }): Promise<void> {
  const channels = await withDatabase(context, (db) => channelViews(db))
  if (options.json) return printJson(context.stdout, channels.map(withInstants))
  printTable(
    context.stdout,
    ['CHANNEL', 'PROVIDER', 'SWITCH', 'HEALTH', 'IN USE', 'LIMIT', 'SUPPLIES'],
    channels.map((c) => [
      c.id,
      c.provider,
      c.admin_state,
      c.health,
      c.in_use,
      c.concurrency,
      c.supplies.length,
    ]),
  )
}

async function show(context: CliContext, id: string, options: { json?: boolean }): Promise<void> {
  const [channel] = await withDatabase(context, (db) => channelViews(db, id))
  if (!channel) return context.fail(1, `there is no channel ${id}`)
  if (options.json) return printJson(context.stdout, withInstants(channel))
  printFields(context.stdout, fieldsOf(channel))
}

function fieldsOf(channel: ChannelView) {
  return {
    channel: channel.id,
    provider: channel.provider,
    'base url': channel.base_url,
    credential: `${channel.credential_ref} (${channel.credential_stored ? 'stored' : 'not stored'})`,
    switch: channel.admin_state,
    health: channel.health,
    'recovery successes': channel.recovery_successes,
    epoch: channel.epoch,
    'circuit open until': at(channel.open_until),
    'held until': at(channel.not_before),
    'in use': `${channel.in_use} of ${channel.concurrency}`,
    supplies: channel.supplies.join(', '),
    archived: channel.archived,
  }
}
