/** What a crowd of waiting tasks costs those who could be served: another model's rate, and the gateway's memory. */
import type { BenchDatabase } from './cluster.ts'
import { race, stay } from './contestant.ts'
import type { Bench, Line } from './figure.ts'
import { audit, SETTINGS } from './lifecycles.ts'
import { play, ratios, spreadOf } from './rounds.ts'
import { catalogOf, FINISHED, fillQueue, MODEL, prepareYard, WIDE } from './yard.ts'

const CROWDED = 'crowded-video'

/** One job runs for ever, the others wait. */
const FULL = { model: CROWDED, channels: 1, suppliesPerChannel: 1, concurrency: 1, endless: true } as const

function sizes(bench: Bench): { few: number; many: number; served: number } {
  return bench.short ? { few: 50, many: 500, served: 200 } : { few: 1000, many: 1_000_000, served: 30_000 }
}

export async function waiting(bench: Bench): Promise<Line[]> {
  const { few, many, served } = sizes(bench)
  const rateBeside = async (crowd: number) => {
    const database = await bench.cluster.copyOf(`crowd_${crowd}`, async (url) => {
      await prepareYard(url, catalogOf([{ ...WIDE, model: MODEL }, FULL]))
      await fillQueue(url, { tasks: crowd, model: CROWDED })
      await fillQueue(url, { tasks: served })
    })
    try {
      const reached = await race(database, {
        contestant: 'yardmaster',
        options: SETTINGS,
        done: FINISHED,
        warmUpSeconds: bench.short ? 0 : 2,
        seconds: bench.short ? 30 : 5,
        waiting: served,
      })
      for (const fault of reached.faults) bench.say(`  fault: ${fault}`)
      await audit(database)
      return reached.perSecond
    } finally {
      await database.drop()
    }
  }
  const { ours = [], peer = [] } = await play(bench.rounds, {
    ours: () => rateBeside(many),
    peer: () => rateBeside(few),
  })
  return [
    {
      what: `full lifecycles, ${count(many)} tasks of another, saturated model waiting`,
      unit: '1/s',
      ours: spreadOf(ours),
      peer: { name: `${count(few)} waiting`, value: spreadOf(peer) },
      ratio: ratios(ours, peer),
      demanded: { least: 0.9 },
    },
  ]
}

interface Load {
  readonly queued: number
  readonly running: number
}

export async function memory(bench: Bench): Promise<Line[]> {
  const { few, many } = sizes(bench)
  const running = bench.short ? 100 : 10_000
  const { ours = [], peer = [] } = await play(bench.rounds, {
    ours: () => residentMiB(bench, { queued: many, running }),
    peer: () => residentMiB(bench, { queued: few, running: 10 }),
  })
  return [
    {
      what: `memory of a gateway, ${count(many)} tasks queued, ${count(running)} running`,
      unit: 'MiB',
      ours: spreadOf(ours),
      peer: { name: `${count(few)} queued, 10 running`, value: spreadOf(peer) },
      ratio: ratios(ours, peer),
      demanded: { most: 1.3 },
    },
  ]
}

async function residentMiB(bench: Bench, { queued, running }: Load): Promise<number> {
  const database = await endlessYard(bench, { queued, running })
  try {
    const { residentBytes, faults } = await stay(database, {
      contestant: 'yardmaster',
      options: SETTINGS,
      ready: allRunning(running),
      settleSeconds: bench.short ? 0 : 10,
      seconds: bench.short ? 2 : 30,
    })
    for (const fault of faults) bench.say(`  fault: ${fault}`)
    return residentBytes / 2 ** 20
  } finally {
    await database.drop()
  }
}

/** Ten channels whose jobs do not end, filled to their limits, and so many tasks that wait behind. */
export function endlessYard(bench: Bench, { queued, running }: Load): Promise<BenchDatabase> {
  const ground = {
    model: MODEL,
    channels: 10,
    suppliesPerChannel: 1,
    concurrency: running / 10,
    expectedSeconds: 600,
    endless: true,
  }
  return bench.cluster.copyOf(`endless_${queued}_${running}`, async (url) => {
    await prepareYard(url, catalogOf([ground]))
    await fillQueue(url, { tasks: queued + running })
  })
}

export function allRunning(running: number): string {
  return `select count(*) = ${running} as ready from attempt where state = 'accepted'`
}

function count(tasks: number): string {
  return tasks.toLocaleString('en-GB')
}
