/** `yardmaster usage`: usage records per customer and period, for whoever settles (CUS-2). */
import type { Command } from 'commander'
import { printMicros } from '../core/money.ts'
import { printInstant } from '../core/time.ts'
import { type UsageRow, usageRows } from '../store/usage-report.ts'
import { instantArgument, slugArgument } from './arguments.ts'
import { type CliContext, withDatabase } from './context.ts'
import { at, csvLine, jsonLine, printTable } from './output.ts'

interface Flags {
  customer?: string
  from?: string
  to?: string
  csv?: boolean
  json?: boolean
}

const COLUMNS = [
  'task',
  'customer',
  'key',
  'model',
  'kind',
  'result',
  'error_code',
  'degraded',
  'requested_profile',
  'actual_profile',
  'dropped_inputs',
  'cost',
  'currency',
  'created_at',
  'ended_at',
  'parameters',
  'shortfalls',
] as const

export function register(program: Command, context: CliContext): void {
  program
    .command('usage')
    .description('usage records of requests that ended in a period')
    .option('--customer <id>', 'of one customer only', slugArgument)
    .option('--from <time>', 'ended at or after this day or instant (UTC)', instantArgument)
    .option('--to <time>', 'ended before this day or instant (UTC)', instantArgument)
    .option('--csv', 'print them as CSV')
    .option('--json', 'print them as JSON, one a line')
    .addHelpText(
      'after',
      '\nExamples:\n  $ yardmaster usage --customer acme --from 2026-11-01 --to 2026-12-01\n  $ yardmaster usage --from 2026-11-01 --csv > november.csv',
    )
    .action((flags: Flags) => usage(context, flags))
}

async function usage(context: CliContext, flags: Flags): Promise<void> {
  if (flags.csv && flags.json) context.fail(2, '--csv and --json exclude each other: choose one')
  if (flags.from !== undefined && flags.to !== undefined && flags.from >= flags.to)
    context.fail(2, `--from ${flags.from} is not before --to ${flags.to}`)
  const period = { customerId: flags.customer ?? null, from: flags.from ?? null, to: flags.to ?? null }
  await withDatabase(context, async (db) => {
    const rows = usageRows(db, period)
    if (flags.csv) await printCsv(context, rows)
    else if (flags.json) for await (const row of rows) context.stdout.write(jsonLine(record(row)))
    else await printSummary(context, rows)
  })
}

function record(row: UsageRow): Record<(typeof COLUMNS)[number], unknown> {
  return {
    task: row.task_id,
    customer: row.customer_id,
    key: row.api_key_id,
    model: row.model_id,
    kind: row.kind,
    result: row.result,
    error_code: row.error_code,
    degraded: row.degraded,
    requested_profile: row.requested_profile,
    actual_profile: row.actual_profile,
    dropped_inputs: row.dropped_inputs,
    shortfalls: row.shortfalls,
    cost: printMicros(row.cost_micros),
    currency: row.currency,
    created_at: printInstant(row.created_at),
    ended_at: printInstant(row.ended_at),
    parameters: row.parameters,
  }
}

async function printCsv({ stdout }: CliContext, rows: AsyncIterable<UsageRow>): Promise<void> {
  stdout.write(csvLine(COLUMNS))
  for await (const row of rows) {
    const values = {
      ...record(row),
      dropped_inputs: row.dropped_inputs.join(' '),
      shortfalls: row.shortfalls.join(' '),
      parameters: JSON.stringify(row.parameters),
    }
    stdout.write(csvLine(COLUMNS.map((column) => String(values[column] ?? ''))))
  }
}

/** For people: each request, and what they come to. */
async function printSummary({ stdout }: CliContext, rows: AsyncIterable<UsageRow>): Promise<void> {
  const all: UsageRow[] = []
  const totals = new Map<string, bigint>()
  for await (const row of rows) {
    all.push(row)
    totals.set(row.currency, (totals.get(row.currency) ?? 0n) + row.cost_micros)
  }
  printTable(
    stdout,
    ['ENDED', 'CUSTOMER', 'MODEL', 'RESULT', 'DEGRADED', 'COST', 'TASK'],
    all.map((row) => [
      at(row.ended_at),
      row.customer_id,
      row.model_id,
      row.error_code ? `${row.result} (${row.error_code})` : row.result,
      row.degraded,
      `${printMicros(row.cost_micros)} ${row.currency}`,
      row.task_id,
    ]),
  )
  const sums = [...totals].map(([currency, sum]) => `${printMicros(sum)} ${currency}`).join(', ')
  stdout.write(`${all.length} request${all.length === 1 ? '' : 's'}${sums === '' ? '' : `, ${sums}`}\n`)
}
