/** Queue only: claim and completion, which is what the peers do, with our own statements and every other part left out. */
import { race } from './contestant.ts'
import { migrateGraphile, TASK } from './contestants/graphile.ts'
import type { Bench, Line } from './figure.ts'
import { wideYard } from './lifecycles.ts'
import { versionOf } from './peers.ts'
import { pgBossAtItsBest } from './pg-boss-course.ts'
import { play, ratios, spreadOf } from './rounds.ts'
import { FINISHED } from './yard.ts'

const SETTINGS = { batchSize: 500, workers: 4 }
const GRAPHILE = { concurrentJobs: 24, localQueue: 500 }

export async function queueOnly(bench: Bench): Promise<Line[]> {
  const boss = bench.peers ? await pgBossAtItsBest(bench) : undefined
  const figures = await play(bench.rounds, {
    ours: () => ours(bench),
    ...(boss && {
      boss: async () => (await boss.run()).perSecond,
      graphile: () => graphile(bench),
    }),
  })
  const { ours: own = [], boss: bosses, graphile: graphiles } = figures
  if (!boss || !bosses || !graphiles) return [{ what: 'queue only', unit: '1/s', ours: spreadOf(own) }]
  const line = (name: string, theirs: readonly number[], least: number): Line => ({
    what: 'queue only',
    unit: '1/s',
    ours: spreadOf(own),
    peer: { name, value: spreadOf(theirs) },
    ratio: ratios(own, theirs),
    demanded: { least },
  })
  const batched = `graphile-worker ${await versionOf('graphile-worker')}, batched`
  return [line(boss.name, bosses, 1.2), line(batched, graphiles, 1)]
}

async function ours(bench: Bench): Promise<number> {
  const waiting = bench.short ? 4000 : 150_000
  const database = await wideYard(bench, waiting)
  const course = {
    contestant: 'queue-only',
    options: SETTINGS,
    done: FINISHED,
    warmUpSeconds: bench.short ? 0 : 1,
    seconds: 5,
    waiting,
  }
  try {
    return (await race(database, course)).perSecond
  } finally {
    await database.drop()
  }
}

/** Completed jobs are deleted there, so that what is gone is done. */
async function graphile(bench: Bench): Promise<number> {
  const waiting = 400_000
  const database = await bench.cluster.copyOf('graphile', async (url) => fill(url, bench, waiting))
  const course = {
    contestant: 'graphile',
    options: GRAPHILE,
    done: `select ${waiting} - count(*) as done, extract(epoch from statement_timestamp()) as at from graphile_worker._private_jobs`,
    warmUpSeconds: 1,
    seconds: 5,
    waiting,
  }
  try {
    return (await race(database, course)).perSecond
  } finally {
    await database.drop()
  }
}

async function fill(url: string, bench: Bench, waiting: number): Promise<void> {
  await migrateGraphile(url)
  await bench.cluster.run(
    url,
    `select from graphile_worker.add_jobs(array(select ('${TASK}', '{"prompt": "a yard at night"}', null, null, null, null, null, null)::graphile_worker.job_spec
      from generate_series(1, ${waiting})))`,
  )
}
