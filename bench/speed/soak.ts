/**
 * The soak: tasks arrive at 80 % of the rate that was reached just before, for as long as is asked, with autovacuum on. Does
 * it last, and what does the database gather?
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { BenchDatabase } from './cluster.ts'
import { race } from './contestant.ts'
import type { Bench, Line } from './figure.ts'
import { audit, runLifecycles, SETTINGS } from './lifecycles.ts'
import { spreadOf } from './rounds.ts'
import { FINISHED, fillQueue, prepareYard, WIDE, yardCatalog } from './yard.ts'

const SHARE = 0.8
const SPAN_SECONDS = 60

export async function soak(bench: Bench): Promise<Line[]> {
  const span = bench.short ? 3 : SPAN_SECONDS
  const spans = bench.short ? 2 : Math.max(2, bench.minutes)
  const top = (await runLifecycles(bench)).perSecond
  const rate = Math.max(1, Math.floor(top * SHARE))
  bench.say(`  ${Math.round(top)} a second at most, so ${rate} arrive`)
  const database = await bench.cluster.copyOf('soak', (url) => prepareYard(url, yardCatalog(WIDE)))
  const marks: { done: number; at: number }[] = []
  try {
    const arriving = new AbortController()
    const arrivals = arrive(database, { rate, signal: arriving.signal })
    const watching = watch(database, { marks, span, spans, arriving })
    const { faults } = await race(database, {
      contestant: 'yardmaster',
      options: SETTINGS,
      done: FINISHED,
      warmUpSeconds: span,
      seconds: span * spans + 1,
      waiting: Number.POSITIVE_INFINITY,
    })
    await Promise.all([arrivals, watching])
    for (const fault of faults) bench.say(`  fault: ${fault}`)
    await audit(database)
    return [...ratesOf(marks, rate), await gathered(database)]
  } finally {
    await database.drop()
  }
}

/** A second's worth each second; what a slow second left out comes with the next. */
async function arrive(database: BenchDatabase, want: { rate: number; signal: AbortSignal }): Promise<void> {
  const began = performance.now()
  for (let stored = 0; !want.signal.aborted; await sleep(1000)) {
    const due = Math.floor(((performance.now() - began) / 1000 + 1) * want.rate)
    await fillQueue(database.url, { tasks: due - stored })
    stored = due
  }
}

/** What is done at the end of each span, the first of which only warms up. */
async function watch(
  database: BenchDatabase,
  want: { marks: { done: number; at: number }[]; span: number; spans: number; arriving: AbortController },
): Promise<void> {
  try {
    for (let n = 0; n <= want.spans; n += 1) {
      await sleep(want.span * 1000)
      const [row] = await database.rows<{ done: string; at: string }>(FINISHED)
      want.marks.push({ done: Number(row?.done), at: Number(row?.at) })
    }
  } finally {
    want.arriving.abort()
  }
}

function ratesOf(marks: readonly { done: number; at: number }[], rate: number): Line[] {
  const rates = marks.slice(1).map((mark, n) => {
    const before = marks[n] ?? mark
    return (mark.done - before.done) / (mark.at - before.at)
  })
  const first = rates[0] ?? Number.NaN
  const last = rates.at(-1) ?? Number.NaN
  return [
    {
      what: `the soak, ${rate} arriving a second: finished in the last of ${rates.length} spans`,
      unit: '1/s',
      ours: spreadOf([last]),
      peer: { name: 'in the first', value: spreadOf([first]) },
      ratio: spreadOf([last / first]),
      demanded: { least: 0.9 },
      note: `least span ${Math.min(...rates).toFixed(0)}, greatest ${Math.max(...rates).toFixed(0)}`,
    },
  ]
}

async function gathered(database: BenchDatabase): Promise<Line> {
  const rows = await database.rows<{
    name: string
    live: string
    dead: string
    bytes: string
    vacuums: string
  }>(
    `select relname as name, n_live_tup as live, n_dead_tup as dead, pg_total_relation_size(relid) as bytes,
      autovacuum_count as vacuums from pg_stat_user_tables where n_live_tup + n_dead_tup > 100 or pg_total_relation_size(relid) > 1e6
    order by 4 desc`,
  )
  const parts = rows.map(
    ({ name, live, dead, bytes, vacuums }) =>
      `${name} ${(Number(bytes) / 2 ** 20).toFixed(1)} MiB, ${live} live, ${dead} dead, ${vacuums} autovacuums`,
  )
  const dead = rows.reduce((sum, row) => sum + Number(row.dead), 0)
  return { what: '  dead tuples at its end', unit: '', ours: spreadOf([dead]), note: parts.join('; ') }
}
