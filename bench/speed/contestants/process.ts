/** The process of one contestant: started by contestant.ts, told what to do by messages. */
import pg from 'pg'

/** What a contestant's module exports as `prepare`. Nothing may be worked off before `go`. */
export interface Prepared {
  go(): void
  /** Finish what is in hand and let go of everything. */
  stop(): Promise<void>
  /** Where the contestant knows. */
  readonly faults?: readonly string[]
}

export type Prepare<Options> = (url: string, options: Options) => Promise<Prepared>

const [name = '', url = '', options = '{}'] = process.argv.slice(2)
const queries = countQueries()
const module: { prepare: Prepare<unknown> } = await import(`./${name}.ts`)
const prepared = await module.prepare(url, JSON.parse(options))
process.on('message', (message) => {
  if (message === 'go') prepared.go()
  else if (message === 'stop') void stop()
})
// The bench died: nobody is left to say stop.
process.on('disconnect', () => process.exit(1))
process.send?.('ready')

async function stop(): Promise<void> {
  const { user, system } = process.cpuUsage()
  await prepared.stop()
  const report = {
    cpuSeconds: (user + system) / 1e6,
    queries: queries(),
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
