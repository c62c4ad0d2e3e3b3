/**
 * Lifecycles a second, whole: claimed, decided with its record, leased on both levels, attempted, submitted, accepted,
 * settled with its usage record, and health told; over a provider without a network. And what each costs PostgreSQL.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { BenchDatabase } from './cluster.ts'
import { type Course, type Reached, race } from './contestant.ts'
import type { Options } from './contestants/yardmaster.ts'
import type { Bench, Line } from './figure.ts'
import { pgBossAtItsBest } from './pg-boss-course.ts'
import { play, ratios, spreadOf } from './rounds.ts'
import { FINISHED, fillQueue, prepareYard, WIDE, yardCatalog } from './yard.ts'

/** Found by trying: more at once only waits for the poller, more connections for the processors. */
export const SETTINGS: Options = { submissions: 2000, poolSize: 20 }

export function waitingOf(bench: Bench): number {
  return bench.short ? 300 : 150_000
}

export async function wideYard(bench: Bench, waiting = waitingOf(bench)): Promise<BenchDatabase> {
  return bench.cluster.copyOf(`yard_${waiting}`, async (url) => {
    await prepareYard(url, yardCatalog(WIDE))
    await fillQueue(url, { tasks: waiting })
  })
}

export function lifecycleCourse(bench: Bench, options: Options = SETTINGS): Course {
  return {
    contestant: 'yardmaster',
    options,
    done: FINISHED,
    warmUpSeconds: bench.short ? 0 : 2,
    seconds: bench.short ? 30 : 5,
    waiting: waitingOf(bench),
  }
}

export async function runLifecycles(bench: Bench, options: Options = SETTINGS): Promise<Reached> {
  const database = await wideYard(bench)
  try {
    const reached = await race(database, lifecycleCourse(bench, options))
    for (const fault of reached.faults) bench.say(`  fault: ${fault}`)
    await audit(database)
    return reached
  } finally {
    await database.drop()
  }
}

/** A rate that was reached by leaving something out is none. */
export async function audit(database: BenchDatabase): Promise<void> {
  const [row] = await database.rows<Record<string, string>>(`select
    (select count(*) from task where state = 'succeeded') as tasks,
    (select count(*) from task where state not in ('succeeded', 'queued', 'running')) as otherwise,
    (select count(*) from usage_record) as records,
    (select count(*) from attempt where state = 'succeeded') as attempts,
    (select count(*) from capacity_lease where released_at is not null) as leases,
    (select count(distinct task_id) from round where outcome = 'granted') as rounds,
    (select count(*) from task t where state = 'succeeded' and not exists (select from round r where r.task_id = t.id)) as unexplained`)
  const { tasks, otherwise, records, attempts, leases, unexplained } = row ?? {}
  if (
    otherwise !== '0' ||
    unexplained !== '0' ||
    records !== tasks ||
    attempts !== tasks ||
    Number(leases) < Number(tasks)
  )
    throw new Error(`not every lifecycle is whole: ${JSON.stringify(row)}`)
}

export async function lifecycles(bench: Bench): Promise<Line[]> {
  const all: Reached[] = []
  const assetsDir = join(bench.cluster.dir, 'films')
  const peer = bench.peers ? await pgBossAtItsBest(bench) : undefined
  const figures = await play(bench.rounds, {
    ours: async () => {
      const reached = await runLifecycles(bench)
      all.push(reached)
      return reached.perSecond
    },
    films: async () => {
      const { perSecond } = await runLifecycles(bench, { ...SETTINGS, assetsDir })
      await rm(assetsDir, { recursive: true, force: true })
      return perSecond
    },
    ...(peer && { peer: async () => (await peer.run()).perSecond }),
  })
  const { ours = [], films = [], peer: theirs } = figures
  return [
    line('full lifecycles', ours, peer && theirs && { name: peer.name, theirs, least: 0.4 }),
    line(
      'full lifecycles, a film stored on disk for each',
      films,
      peer && theirs && { name: peer.name, theirs },
    ),
    ...costs(all),
  ]
}

function line(
  what: string,
  ours: readonly number[],
  peer: { name: string; theirs: readonly number[]; least?: number } | undefined,
): Line {
  if (!peer) return { what, unit: '1/s', ours: spreadOf(ours) }
  return {
    what,
    unit: '1/s',
    ours: spreadOf(ours),
    peer: { name: peer.name, value: spreadOf(peer.theirs) },
    ratio: ratios(ours, peer.theirs),
    ...(peer.least === undefined ? {} : { demanded: { least: peer.least } }),
  }
}

function costs(all: readonly Reached[]): Line[] {
  const per = (what: string, unit: string, of: (reached: Reached) => number): Line => ({
    what: `  of each: ${what}`,
    unit,
    ours: spreadOf(all.map((reached) => of(reached) / reached.done)),
  })
  return [
    per('PostgreSQL transactions', '', ({ spent }) => spent.commits),
    per('statements sent', '', ({ queries }) => queries),
    per('WAL', 'bytes', ({ spent }) => spent.wal),
    per('images of whole pages in it', '', ({ spent }) => spent.fullPages),
    per('time of our process', 'µs', ({ cpuSeconds }) => cpuSeconds * 1e6),
  ]
}

/** Tables, with their indexes and what is kept beside them, after so many were worked off, by their number. */
export async function storage(bench: Bench): Promise<Line[]> {
  const tasks = bench.short ? 100 : 3000
  const database = await wideYard(bench, tasks)
  try {
    const before = await sizes(database)
    await race(database, { ...lifecycleCourse(bench), waiting: tasks, warmUpSeconds: 0, seconds: 120 })
    await database.rows('vacuum')
    const after = await sizes(database)
    const grown = Object.entries(after)
      .map(([table, size]) => ({
        table,
        bytes: (size.bytes - (size.queue ? 0 : (before[table]?.bytes ?? 0))) / tasks,
      }))
      .filter(({ bytes }) => bytes >= 1)
      .sort((a, b) => b.bytes - a.bytes)
    const total = grown.reduce((sum, { bytes }) => sum + bytes, 0)
    const parts = grown.map(({ table, bytes }) => `${table} ${Math.round(bytes)}`).join(', ')
    return [{ what: 'storage per finished task', unit: 'bytes', ours: spreadOf([total]), note: parts }]
  } finally {
    await database.drop()
  }
}

/** Partitions count as their table. What the queue holds of a task beforehand counts too. */
async function sizes(database: BenchDatabase): Promise<Record<string, { bytes: number; queue: boolean }>> {
  const rows = await database.rows<{
    name: string
    bytes: string
  }>(`select coalesce(parent.relname, c.relname) as name,
      sum(pg_total_relation_size(c.oid)) as bytes
    from pg_class c join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'public'
    left join pg_inherits i on i.inhrelid = c.oid left join pg_class parent on parent.oid = i.inhparent
    where c.relkind = 'r' group by 1`)
  const queue = new Set(['task', 'task_content'])
  return Object.fromEntries(
    rows.map(({ name, bytes }) => [name, { bytes: Number(bytes), queue: queue.has(name) }]),
  )
}
