/**
 * The command line. Exit status 0: done; 1: it could not be done, or what was checked does not hold; 2: misuse. Answers
 * go to standard output, everything else to standard error.
 */
import { Command, CommanderError } from 'commander'
import { BadSetting, type Config, readConfig } from '../config.ts'
import { openLog } from '../journal.ts'
import { openKeyring, openStore, VERSION } from '../main.ts'
import type { Database } from '../store/database.ts'
import { migrate } from '../store/migrate.ts'
import * as alertEndpoint from './alert-endpoint.ts'
import * as alerts from './alerts.ts'
import * as binding from './binding.ts'
import * as catalog from './catalog.ts'
import * as channel from './channel.ts'
import type { CliContext } from './context.ts'
import * as customer from './customer.ts'
import * as decide from './decide.ts'
import * as explain from './explain.ts'
import * as key from './key.ts'
import * as migrateCommand from './migrate.ts'
import * as model from './model.ts'
import * as replay from './replay.ts'
import * as serve from './serve.ts'
import * as simulator from './simulator.ts'
import * as supply from './supply.ts'
import * as task from './task.ts'
import * as uncertain from './uncertain.ts'
import * as usage from './usage.ts'

class Ended extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

const HELP = `
Examples:
  yardmaster serve --demo                     everything on this machine, with a simulator to try it on
  yardmaster catalog check catalog.yaml       all faults of a catalog at once
  yardmaster explain video_0198…              why this supply, and why not the others
  yardmaster replay --since 2026-12-01        compute stored decisions again and compare

yardmaster COMMAND --help tells more of each.
`

// Whoever reads our output may stop early (`| head`): that is no fault.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(0)
  throw error
})

process.exitCode = await main(process.argv)

async function main(argv: readonly string[]): Promise<number> {
  try {
    await buildProgram().parseAsync([...argv])
    return Number(process.exitCode ?? 0)
  } catch (error) {
    return complain(error)
  }
}

function complain(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
  if (error instanceof Ended) {
    process.stderr.write(`yardmaster: ${error.message}\n`)
    return error.status
  }
  const text = error instanceof Error ? error.message : String(error)
  process.stderr.write(`yardmaster: ${text}\n`)
  return error instanceof BadSetting ? 2 : 1
}

function buildProgram(): Command {
  const program = new Command('yardmaster')
    .description('A dispatcher for AI media generation: picks a supply, submits exactly once, and says why.')
    .version(VERSION)
    .exitOverride()
    .showSuggestionAfterError()
    .allowExcessArguments(true)
    .addHelpText('after', HELP)
    .action((_options: unknown, command: Command) => {
      const [word] = command.args
      if (word !== undefined) fail(2, `there is no command "${word}"; yardmaster --help lists them`)
      program.outputHelp({ error: true })
      fail(2, 'a command is needed')
    })
  const context = buildContext()
  serve.register(program, context, settings)
  migrateCommand.register(program, context, settings)
  task.register(program, context, settings)
  uncertain.register(program, context, settings)
  alertEndpoint.register(program, context, settings)
  for (const command of [
    decide,
    explain,
    replay,
    catalog,
    channel,
    supply,
    binding,
    model,
    customer,
    key,
    usage,
    alerts,
    simulator,
  ])
    command.register(program, context)
  inherit(program)
  return program
}

/** Subcommands end the same way as the program itself. */
function inherit(command: Command): void {
  for (const child of command.commands) {
    child.exitOverride()
    child.showSuggestionAfterError()
    inherit(child)
  }
}

function settings(): Config {
  return readConfig(process.env, process.cwd())
}

function buildContext(): CliContext {
  return {
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    fail,
    openDatabase,
    openKeyring: () => openKeyring(settings()),
  }
}

/** Commands bring the schema up to date first, as `serve` does, so that they work on a fresh data directory too. */
async function openDatabase(): Promise<Database> {
  const log = openLog('warn')
  const store = await openStore(settings(), log, 'yardmaster-cli')
  await migrate(store.db)
  return {
    query: (statement, values) => store.db.query(statement, values),
    transaction: (body, options) => store.db.transaction(body, options),
    close: () => store.close(),
  }
}

function fail(status: number, message: string): never {
  throw new Ended(status, message)
}
