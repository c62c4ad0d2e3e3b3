/**
 * What PostgreSQL alone makes of the statements of a lifecycle (lifecycle.sql, frozen before tuning): pgbench sends them,
 * with prepared statements and nothing between, each lifecycle in transactions of its own.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { BenchDatabase } from './cluster.ts'
import type { Bench, Line } from './figure.ts'
import { runLifecycles } from './lifecycles.ts'
import { play, ratios, spreadOf } from './rounds.ts'
import { FINISHED, fillQueue, prepareYard, WIDE, yardCatalog } from './yard.ts'

const SCRIPT = fileURLToPath(new URL('lifecycle.sql', import.meta.url))
const CLIENTS = [4, 8, 16]

export async function statements(bench: Bench): Promise<Line[]> {
  const what = 'full lifecycles, by pgbench’s pace of the frozen statements'
  const version = await pgbenchVersion()
  if (version === null)
    return [
      { what, unit: '1/s', ours: null, note: 'pgbench is not on this machine (Debian: postgresql-contrib)' },
    ]
  const clients = bench.short ? 2 : await bestOf(bench)
  const { ours = [], pgbench = [] } = await play(bench.rounds, {
    ours: async () => (await runLifecycles(bench)).perSecond,
    pgbench: () => pace(bench, clients),
  })
  return [
    {
      what,
      unit: '1/s',
      ours: spreadOf(ours),
      peer: { name: `${version}, ${clients} clients`, value: spreadOf(pgbench) },
      ratio: ratios(ours, pgbench),
    },
  ]
}

async function pgbenchVersion(): Promise<string | null> {
  try {
    const { stdout } = await promisify(execFile)('pgbench', ['--version'])
    return stdout.replace(/\(PostgreSQL\) (\S+).*/s, '$1').trim()
  } catch {
    return null
  }
}

async function bestOf(bench: Bench): Promise<number> {
  const heats = new Map<number, number>()
  for (const clients of CLIENTS) {
    const perSecond = await pace(bench, clients)
    bench.say(`  heat: pgbench with ${clients} clients: ${Math.round(perSecond)}/s`)
    heats.set(clients, perSecond)
  }
  return [...heats].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 8
}

async function pace(bench: Bench, clients: number): Promise<number> {
  const waiting = bench.short ? 400 : 60_000
  const database = await bench.cluster.copyOf(`statements_${waiting}`, (url) => fill(bench, url, waiting))
  try {
    return await run(database, {
      clients,
      warmUpSeconds: bench.short ? 0.2 : 1,
      seconds: bench.short ? 1 : 5,
    })
  } finally {
    await database.drop()
  }
}

async function run(
  database: BenchDatabase,
  how: { clients: number; warmUpSeconds: number; seconds: number },
): Promise<number> {
  const [first] = await database.rows<{ prefix: string }>(
    'select left(min(id::text), 13) as prefix from task',
  )
  const variables = { n: 0, clients: how.clients, prefix: first?.prefix }
  const defined = Object.entries(variables).flatMap(([name, value]) => ['-D', `${name}=${value}`])
  const time = String(Math.ceil(how.warmUpSeconds + how.seconds + 2))
  const args = ['-n', '-M', 'prepared', '-c', String(how.clients), '-j', '2', '-T', time]
  const child = spawn('pgbench', [...args, ...defined, '-f', SCRIPT, database.url], { stdio: 'pipe' })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
  const gone = once(child, 'exit')
  await sleep(how.warmUpSeconds * 1000)
  const from = await count(database)
  await sleep(how.seconds * 1000)
  const to = await count(database)
  child.kill('SIGINT')
  await gone
  if (to.done === from.done || /ERROR|aborted/.test(said)) throw new Error(`pgbench: ${said.slice(0, 500)}`)
  return (to.done - from.done) / (to.at - from.at)
}

async function count(database: BenchDatabase): Promise<{ done: number; at: number }> {
  const [row] = await database.rows<{ done: string; at: string }>(FINISHED)
  return { done: Number(row?.done), at: Number(row?.at) }
}

/** Tasks under IDs that a client can make up. */
async function fill(bench: Bench, url: string, waiting: number): Promise<void> {
  await prepareYard(url, yardCatalog(WIDE))
  await fillQueue(url, { tasks: waiting, seconds: [5] })
  await bench.cluster.run(url, 'alter table task_content drop constraint task_content_task_id_fkey')
  const numbered = `select id, ((select left(min(id::text), 13) from task) || '-7000-8000-' || lpad(to_hex(row_number() over (order by id) - 1), 12, '0'))::uuid as made from task`
  await bench.cluster.run(
    url,
    `with n as materialized (${numbered}), c as (update task_content set task_id = n.made from n where task_id = n.id)
      update task set id = n.made from n where task.id = n.id`,
  )
  await bench.cluster.run(
    url,
    'alter table task_content add constraint task_content_task_id_fkey foreign key (task_id) references task',
  )
}
