/** The lifecycle in company: of other gateways on the same database, and of a session that holds a snapshot open. */
import pg from 'pg'
import { race } from './contestant.ts'
import type { Options } from './contestants/yardmaster.ts'
import type { Bench, Line } from './figure.ts'
import { audit, lifecycleCourse, SETTINGS, wideYard } from './lifecycles.ts'
import { play, ratios, spreadOf } from './rounds.ts'

const PROCESSES = 4
/** What one has is shared among them, connections and submissions alike. */
const EACH: Options = { poolSize: 8, submissions: 500 }

export async function processes(bench: Bench): Promise<Line[]> {
  const rateOf = async (count: number, options: Options) => {
    const database = await wideYard(bench)
    try {
      const { perSecond, faults } = await race(database, {
        ...lifecycleCourse(bench, options),
        processes: count,
      })
      if (faults.length > 0) throw new Error(`${count} processes met faults: ${faults.join('; ')}`)
      await audit(database)
      return perSecond
    } finally {
      await database.drop()
    }
  }
  const { ours = [], peer = [] } = await play(bench.rounds, {
    ours: () => rateOf(PROCESSES, EACH),
    peer: () => rateOf(1, SETTINGS),
  })
  return [
    {
      what: `full lifecycles, ${PROCESSES} processes`,
      unit: '1/s',
      ours: spreadOf(ours),
      peer: { name: 'one process', value: spreadOf(peer) },
      ratio: ratios(ours, peer),
      demanded: { least: 1 },
      note: 'no fault, no deadlock in any of them',
    },
  ]
}

/** The last ten seconds of a minute, when what may not be cleared away has gathered. */
export async function snapshot(bench: Bench): Promise<Line[]> {
  const course = {
    ...lifecycleCourse(bench),
    ...(bench.short ? {} : { warmUpSeconds: 50, seconds: 10 }),
  }
  const rateWith = async (held: boolean) => {
    const database = await wideYard(bench)
    const holder = new pg.Client({ connectionString: database.url, application_name: 'bench' })
    await holder.connect()
    try {
      if (held) await holder.query('begin isolation level repeatable read; select count(*) from model')
      const { perSecond, faults } = await race(database, course)
      for (const fault of faults) bench.say(`  fault: ${fault}`)
      if (held) await holder.query('rollback')
      await audit(database)
      return perSecond
    } finally {
      await holder.end()
      await database.drop()
    }
  }
  const { ours = [], peer = [] } = await play(bench.rounds, {
    ours: () => rateWith(true),
    peer: () => rateWith(false),
  })
  return [
    {
      what: 'full lifecycles while a snapshot is held, at the end of a minute',
      unit: '1/s',
      ours: spreadOf(ours),
      peer: { name: 'without it', value: spreadOf(peer) },
      ratio: ratios(ours, peer),
      demanded: { least: 0.5 },
    },
  ]
}
