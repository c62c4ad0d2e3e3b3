/** `yardmaster uncertain`: submissions of which nobody knows whether the provider accepted them (UNK-4, UNK-9). */
import type { Command } from 'commander'
import type { Config } from '../config.ts'
import { openLog } from '../journal.ts'
import { openEngine, openKeyring, openStore } from '../main.ts'
import type { Decision, Desk, DeskAnswer } from '../runtime/desk.ts'
import { uncertainAttempts } from '../store/resolution.ts'
import { type CliContext, operator, withDatabase } from './context.ts'
import { at, printJson, printTable, withInstants } from './output.ts'

export function register(program: Command, context: CliContext, readSettings: () => Config): void {
  const uncertain = program
    .command('uncertain')
    .description('submissions of which nobody knows whether the provider accepted them')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster uncertain\n  $ yardmaster uncertain look 01930f6e-…\n  $ yardmaster uncertain accepted 01930f6e-… cgt-2026…\n  $ yardmaster uncertain not-accepted 01930f6e-… --note "asked support"',
    )
  uncertain
    .command('list', { isDefault: true })
    .description('all of them, the most urgent first; their leases stay held until they are resolved')
    .option('--json', 'print JSON')
    .action((flags: { json?: boolean }) => list(context, flags))
  uncertain
    .command('look')
    .description('ask the provider now; what it proves counts at once')
    .argument('<attempt>', 'UUID of the attempt')
    .action((id: string) => atDesk(context, readSettings(), (desk) => desk.look(attemptId(context, id))))
  uncertain
    .command('accepted')
    .description('the provider has it, under this ID of its own')
    .argument('<attempt>', 'UUID of the attempt')
    .argument('<provider task>', 'ID of the job at the provider')
    .option('--unconfirmed', 'though the provider cannot be asked about it')
    .option('--by <name>', 'who says so')
    .option('--note <text>', 'how it is known')
    .action((id: string, providerTaskId: string, flags: Flags) => {
      const decision = {
        outcome: 'accepted',
        providerTaskId,
        unconfirmed: flags.unconfirmed ?? false,
      } as const
      return decide(context, readSettings(), { id, decision, flags })
    })
  uncertain
    .command('not-accepted')
    .description('the provider never took it: the task may try again, at another supply where one is free')
    .argument('<attempt>', 'UUID of the attempt')
    .option('--unconfirmed', 'though the account has jobs that might be this attempt’s')
    .option('--by <name>', 'who says so')
    .option('--note <text>', 'how it is known')
    .action((id: string, flags: Flags) =>
      decide(context, readSettings(), {
        id,
        decision: { outcome: 'not_accepted', unconfirmed: flags.unconfirmed ?? false },
        flags,
      }),
    )
}

interface Flags {
  readonly unconfirmed?: boolean
  readonly by?: string
  readonly note?: string
}

async function list(context: CliContext, flags: { json?: boolean }): Promise<void> {
  const attempts = await withDatabase(context, (db) => uncertainAttempts(db, 1000))
  if (flags.json) return printJson(context.stdout, attempts.map(withInstants))
  if (attempts.length === 0) {
    context.stdout.write('no uncertain submissions\n')
    return
  }
  printTable(
    context.stdout,
    ['ATTEMPT', 'MODEL', 'SUPPLY', 'SUBMITTED', 'UNTIL', 'LOOKS', 'WHY', 'LAST LOOK'],
    attempts.map((a) => [
      a.attempt_id,
      a.model_id,
      a.supply_id,
      at(a.submitting_at),
      at(a.uncertain_until),
      a.lookups,
      a.error_code,
      a.lookup_note,
    ]),
  )
}

function decide(
  context: CliContext,
  config: Config,
  what: { id: string; decision: Decision; flags: Flags },
): Promise<void> {
  const { flags } = what
  if (what.decision.outcome === 'accepted' && !/^[\x21-\x7e]{1,200}$/.test(what.decision.providerTaskId))
    context.fail(2, 'the ID of the job must be 1 to 200 visible characters')
  const by = { name: flags.by ?? operator(context), note: flags.note ?? null }
  return atDesk(context, config, (desk) => desk.decide(attemptId(context, what.id), what.decision, by))
}

function attemptId(context: CliContext, text: string): string {
  const id = text.toLowerCase()
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id)) return id
  return context.fail(2, `"${text}" is no attempt: expected a UUID, as "yardmaster uncertain" lists them`)
}

async function atDesk(
  context: CliContext,
  config: Config,
  act: (desk: Desk) => Promise<DeskAnswer>,
): Promise<void> {
  const log = openLog('warn')
  const store = await openStore(config, log, 'yardmaster-desk')
  try {
    const keyring = await openKeyring(config)
    const { engine, close } = openEngine({ config, log, store, keyring, roles: [] })
    try {
      tell(context, await act(engine.desk))
    } finally {
      await close()
    }
  } finally {
    await store.close()
  }
}

function tell(context: CliContext, answer: DeskAnswer): void {
  switch (answer.kind) {
    case 'resolved':
      context.stdout.write(`resolved as ${answer.outcome.replace('_', ' ')} (${answer.by})\n`)
      return
    case 'open':
      context.stdout.write(`still open: ${answer.why}\n`)
      if (answer.jobs.length > 0)
        printTable(
          context.stdout,
          ['JOB', 'CREATED', 'MODEL', 'SECONDS', 'RESOLUTION', 'RATIO'],
          answer.jobs.map((job) => [
            job.providerTaskId,
            job.createdAtMs === null ? null : new Date(job.createdAtMs).toISOString(),
            job.upstreamModel,
            job.durationSeconds,
            job.resolution,
            job.aspectRatio,
          ]),
        )
      return
    case 'refused':
      context.fail(1, `not resolved: ${answer.why}`)
      break
    case 'not_uncertain':
      context.fail(1, `the attempt is not uncertain: it is ${answer.state}`)
      break
    case 'not_found':
      context.fail(1, 'there is no such attempt')
  }
}
