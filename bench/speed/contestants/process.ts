/** The process of one contestant: started by contestant.ts, told what to do by messages. */
import pg from 'pg'

/** What a contestant's module exports as `prepare`. Nothing may be worked off before `go`. */
export interface Prepared {
  go(): void
  /** Finish what is in hand and let go of everything. */
  stop(): Promise<void>
  /** Where the contestant knows. */
  readonly faults?: readonly string[]
  /** What is told from here on begins anew. */
  mark?(): void
  /** What it counted since the mark, where it counts. */
  figures?(): Readonly<Record<string, number>>
}

export type Prepare<Options> = (url: string, options: Options) => Promise<Prepared>

const [name = '', url = '', options = '{}'] = process.argv.slice(2)
const queries = countQueries()
const module: { prepare: Prepare<unknown> } = await import(`./${name}.ts`)
const prepared = await module.prepare(url, JSON.parse(options))
/** Since the process began, where there is no mark. */
let marked: NodeJS.CpuUsage = { user: 0, system: 0 }
/** Bytes, once a second since the mark. */
let resident: number[] = []
setInterval(() => resident.push(process.memoryUsage.rss()), 1000).unref()

process.on('message', (message) => {
  if (message === 'go') prepared.go()
  else if (message === 'mark') mark()
  else if (message === 'stop') void stop()
})
// The bench died: nobody is left to say stop.
process.on('disconnect', () => process.exit(1))
process.send?.('ready')

function mark(): void {
  marked = process.cpuUsage()
  resident = []
  prepared.mark?.()
}

async function stop(): Promise<void> {
  const { user, system } = process.cpuUsage(marked)
  const figures = prepared.figures?.() ?? {}
  const memory = [...resident].sort((a, b) => a - b)
  await prepared.stop()
  const report = {
    cpuSeconds: (user + system) / 1e6,
    queries: queries(),
    residentBytes: memory[Math.floor(memory.length / 2)] ?? process.memoryUsage.rss(),
    figures,
    faults: (prepared.faults ?? []).slice(0, 20),
  }
  process.send?.(report, () => process.disconnect())
}

/** Whatever is sent over this copy of the driver, which is the product's. */
function countQueries(): () => number {
  let sent = 0
  const { query } = pg.Client.prototype
  const counting = function (this: unknown, ...args: unknown[]): unknown {
    sent += 1
    return Reflect.apply(query, this, args)
  }
  Object.assign(pg.Client.prototype, { query: counting })
  return () => sent
}
