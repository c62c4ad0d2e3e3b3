/** pg-boss at its best: a short heat finds which of its settings is the fastest here, and that one runs the rounds. */

import { type Course, type Reached, race } from './contestant.ts'
import { type Options, openPgBoss, QUEUE } from './contestants/pg-boss.ts'
import type { Bench } from './figure.ts'
import { versionOf } from './peers.ts'

const CHUNK = 5000

const HEATS: readonly Options[] = [
  { batchSize: 1000, workers: 2 },
  { batchSize: 1000, workers: 4 },
  { batchSize: 500, workers: 4 },
  { batchSize: 2000, workers: 2 },
  { batchSize: 1000, workers: 2, partition: true },
  { batchSize: 1000, workers: 2, work: true },
]

export interface PgBossCourse {
  readonly name: string
  run(): Promise<Reached>
}

let best: Promise<Options> | undefined

export async function pgBossAtItsBest(bench: Bench): Promise<PgBossCourse> {
  best ??= findBest(bench)
  const options = await best
  return {
    name: `pg-boss ${await versionOf('pg-boss')}, ${described(options)}`,
    run: () => raceOnce(bench, options, 5),
  }
}

async function findBest(bench: Bench): Promise<Options> {
  let found: { options: Options; perSecond: number } | undefined
  for (const options of HEATS) {
    const { perSecond } = await raceOnce(bench, options, 3)
    bench.say(`  heat: pg-boss ${described(options)}: ${Math.round(perSecond)}/s`)
    if (!found || perSecond > found.perSecond) found = { options, perSecond }
  }
  if (!found) throw new Error('no heat was run')
  return found.options
}

function described(options: Options): string {
  const how = options.work ? ' by work()' : ''
  return `${options.batchSize} × ${options.workers}${options.partition ? ', partition' : ''}${how}`
}

async function raceOnce(bench: Bench, options: Options, seconds: number): Promise<Reached> {
  const waiting = bench.short ? 5000 : 250_000
  const partition = options.partition ?? false
  const database = await bench.cluster.copyOf(`pg_boss_${partition ? 'apart' : 'usual'}`, (url) =>
    fill(url, { waiting, partition }),
  )
  const course: Course = {
    contestant: 'pg-boss',
    options,
    done: `select count(*) as done, extract(epoch from statement_timestamp()) as at from pgboss.job where name = '${QUEUE}' and state = 'completed'`,
    warmUpSeconds: bench.short ? 0 : 1,
    seconds,
    waiting,
  }
  try {
    return await race(database, course)
  } finally {
    await database.drop()
  }
}

async function fill(url: string, want: { waiting: number; partition: boolean }): Promise<void> {
  const boss = await openPgBoss(url)
  await boss.createQueue(QUEUE, { partition: want.partition })
  for (let n = 0; n < want.waiting; n += CHUNK) {
    const jobs = Array.from({ length: Math.min(CHUNK, want.waiting - n) }, () => ({
      data: { prompt: 'a yard at night' },
    }))
    await boss.insert(QUEUE, jobs)
  }
  await boss.stop({ graceful: false })
}
