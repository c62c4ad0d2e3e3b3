/** From the release of a slot to the submission of the task that waited for it, by another process than the one that freed it. */
import { race } from './contestant.ts'
import type { Options } from './contestants/yardmaster.ts'
import type { Bench, Line } from './figure.ts'
import { spreadOf } from './rounds.ts'
import { catalogOf, FINISHED, fillQueue, MODEL, prepareYard } from './yard.ts'

const SLOTS = { model: MODEL, channels: 8, suppliesPerChannel: 1, concurrency: 1 } as const

/** The slot of a supply is freed, then given to the next: what the provider noted of its submission (null-provider.ts). */
const WAITS = `select 1000 * (split_part(a.provider_task_id, '/', 3)::numeric / 1000 - extract(epoch from freed.at)) as ms
  from (select released_at as at, lead(attempt_id) over (partition by supply_id order by granted_at) as next from capacity_lease) freed
  join attempt a on a.id = freed.next where a.provider_task_id is not null and freed.at is not null`

export async function wake(bench: Bench): Promise<Line[]> {
  const lines: Line[] = []
  for (const { hints, most } of [
    { hints: true, most: 30 },
    { hints: false, most: 1100 },
  ]) {
    const middle: number[] = []
    const late: number[] = []
    let samples = 0
    for (let round = 0; round < bench.rounds; round += 1) {
      const waits = await waitsOf(bench, hints)
      samples += waits.length
      middle.push(quantile(waits, 0.5))
      late.push(quantile(waits, 0.99))
    }
    const which = `hints ${hints ? 'on' : 'off'}`
    const note = `${samples} slots; one process polls and settles, another dispatches`
    lines.push(
      { what: `from release to submission, ${which}: p50`, unit: 'ms', ours: spreadOf(middle), note },
      {
        what: `from release to submission, ${which}: p99`,
        unit: 'ms',
        ours: spreadOf(late),
        demanded: { most },
      },
    )
  }
  return lines
}

async function waitsOf(bench: Bench, hints: boolean): Promise<number[]> {
  const tasks = bench.short ? 60 : 4000
  const database = await bench.cluster.copyOf(`slots_${tasks}`, async (url) => {
    await prepareYard(url, catalogOf([SLOTS]))
    await fillQueue(url, { tasks })
  })
  const dispatches: Options = { roles: ['dispatch'], hints }
  const settles: Options = { roles: ['api', 'poll', 'reconcile'], hints }
  try {
    const { faults } = await race(database, {
      contestant: 'yardmaster',
      options: [dispatches, settles],
      done: FINISHED,
      warmUpSeconds: 0,
      seconds: bench.short ? 5 : 20,
      waiting: tasks,
    })
    for (const fault of faults) bench.say(`  fault: ${fault}`)
    const rows = await database.rows<{ ms: string }>(WAITS)
    if (rows.length === 0) throw new Error('no slot was given a second time')
    return rows.map(({ ms }) => Number(ms)).sort((a, b) => a - b)
  } finally {
    await database.drop()
  }
}

function quantile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
