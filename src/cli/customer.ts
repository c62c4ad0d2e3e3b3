/** `yardmaster customer`: who may ask. */
import type { Command } from 'commander'
import { AccountFault, createCustomer, customerViews, setCustomerActive } from '../store/accounts.ts'
import { collect, slugArgument } from './arguments.ts'
import { type CliContext, orFail, withDatabase } from './context.ts'
import { at, printJson, printTable, withInstants } from './output.ts'

interface CreateFlags {
  name?: string
  group: string[]
  json?: boolean
}

export function register(program: Command, context: CliContext): void {
  const customer = program
    .command('customer')
    .description('who may ask')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster customer create acme --name "Acme Film" --group default --group beta\n  $ yardmaster key create acme\n  $ yardmaster customer suspend acme',
    )
  customer
    .command('create')
    .description('a new customer; "key create" gives it a key')
    .argument('<id>', 'its ID, for ever', slugArgument)
    .option('--name <name>', 'what people call it; the ID where it is not given')
    .option(
      '--group <group>',
      'a group it belongs to, once for each; "default" where none is given',
      collect,
      [],
    )
    .option('--json', 'print it as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster customer create acme --name "Acme Film" --group beta')
    .action((id: string, flags: CreateFlags) => create(context, id, flags))
  customer
    .command('list')
    .description('all customers')
    .option('--json', 'print them as JSON')
    .addHelpText('after', '\nExample:\n  $ yardmaster customer list')
    .action((options: { json?: boolean }) => list(context, options))
  for (const [verb, active] of [
    ['suspend', false],
    ['activate', true],
  ] as const)
    customer
      .command(verb)
      .description(active ? 'let it ask again' : 'refuse all its keys, and end what it has queued')
      .argument('<id>', 'the customer', slugArgument)
      .addHelpText('after', `\nExample:\n  $ yardmaster customer ${verb} acme`)
      .action(async (id: string) => {
        await orFail(context, () => withDatabase(context, (db) => setCustomerActive(db, id, active)), [
          AccountFault,
        ])
        context.stdout.write(`customer ${id} is ${active ? 'active' : 'suspended'}\n`)
      })
}

async function create(context: CliContext, id: string, flags: CreateFlags): Promise<void> {
  const groups = flags.group.length > 0 ? [...new Set(flags.group)] : ['default']
  const customer = { id, name: flags.name ?? id, groups }
  await orFail(context, () => withDatabase(context, (db) => createCustomer(db, customer)), [AccountFault])
  if (flags.json) return printJson(context.stdout, customer)
  context.stdout.write(`customer ${id} is created, in ${groups.join(', ')}\n`)
}

async function list(context: CliContext, options: { json?: boolean }): Promise<void> {
  const customers = await withDatabase(context, (db) => customerViews(db))
  if (options.json) return printJson(context.stdout, customers.map(withInstants))
  printTable(
    context.stdout,
    ['CUSTOMER', 'NAME', 'GROUPS', 'ACTIVE', 'KEYS', 'SINCE'],
    customers.map((c) => [c.id, c.name, c.groups.join(', '), c.active, c.keys, at(c.created_at)]),
  )
}
