/** `yardmaster key`: API keys. The key itself is printed once, when it is made, and on standard output alone. */
import type { Command } from 'commander'
import { AccountFault, createKey, keyViews, type NewKey, revokeKey, rotateKey } from '../store/accounts.ts'
import { durationArgument, slugArgument } from './arguments.ts'
import { type CliContext, orFail, withDatabase } from './context.ts'
import { at, printJson, printTable, withInstants } from './output.ts'

const DAY = 86_400

interface Flags {
  json?: boolean
}

export function register(program: Command, context: CliContext): void {
  const key = program
    .command('key')
    .description('API keys of customers')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster key create acme --name production\n  $ yardmaster key list --customer acme\n  $ yardmaster key rotate ym_Ab3xYz --overlap 24h',
    )
  key
    .command('create')
    .description('a new key; it is shown this once, and cannot be shown again')
    .argument('<customer>', 'whose key it is', slugArgument)
    .option('--name <name>', 'what it is for', '')
    .option('--json', 'print it as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster key create acme --name production')
    .action(async (customerId: string, options: Flags & { name: string }) => {
      const made = await orFail(
        context,
        () => withDatabase(context, (db) => createKey(db, { customerId, name: options.name })),
        [AccountFault],
      )
      show(context, made, options)
    })
  key
    .command('list')
    .description('keys by their prefix, and whether they are good')
    .option('--customer <id>', 'of one customer only', slugArgument)
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster key list --customer acme')
    .action((options: Flags & { customer?: string }) => list(context, options))
  key
    .command('revoke <key>')
    .description('refuse a key, given by its ID or prefix, from now on')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster key revoke ym_Ab3xYz')
    .action(async (which: string, options: Flags) => {
      const id = await orFail(context, () => withDatabase(context, (db) => revokeKey(db, which)), [
        AccountFault,
      ])
      if (options.json) printJson(context.stdout, { id, state: 'revoked' })
      else context.stdout.write(`key ${id} is revoked\n`)
    })
  key
    .command('rotate <key>')
    .description('a new key beside an old one, given by its ID or prefix; the old one stays good for a while')
    .option(
      '--overlap <duration>',
      'how long the old one stays good: 24h, 30m, 7d, or 0',
      durationArgument,
      DAY,
    )
    .option('--json', 'print the new key as JSON')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster key rotate ym_Ab3xYz --overlap 24h\n  $ yardmaster key rotate ym_Ab3xYz --overlap 0',
    )
    .action(async (which: string, options: Flags & { overlap: number }) => {
      const made = await orFail(
        context,
        () => withDatabase(context, (db) => rotateKey(db, which, options.overlap)),
        [AccountFault],
      )
      show(context, made, options)
    })
}

function show(context: CliContext, made: NewKey, options: Flags): void {
  const { id, customerId: customer, prefix, key } = made
  if (options.json) printJson(context.stdout, { id, customer, prefix, key })
  else {
    context.stdout.write(`${key}\n`)
    context.stderr.write(`Key ${id} of ${customer}. Keep it now: it cannot be shown again.\n`)
  }
}

async function list(context: CliContext, options: Flags & { customer?: string }): Promise<void> {
  const keys = await withDatabase(context, (db) => keyViews(db, options.customer ?? null))
  if (options.json) return printJson(context.stdout, keys.map(withInstants))
  printTable(
    context.stdout,
    ['KEY', 'PREFIX', 'CUSTOMER', 'NAME', 'STATE', 'CREATED', 'LAST USED', 'EXPIRES'],
    keys.map((k) => [
      k.id,
      k.prefix,
      k.customer_id,
      k.name,
      k.state,
      at(k.created_at),
      at(k.last_used_at),
      at(k.expires_at),
    ]),
  )
}
