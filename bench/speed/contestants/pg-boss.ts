/** pg-boss, fetch and complete: the least that it lets one do, with no delay between. */
import { peer } from '../peers.ts'
import type { Prepared } from './process.ts'

export interface Options {
  readonly batchSize: number
  readonly workers: number
  /** A table of the queue's own. */
  readonly partition?: boolean
  /** Through `work`, with its polling, rather than by calls of our own. */
  readonly work?: boolean
}

export interface PgBossLike {
  on(event: 'error', listener: (error: Error) => void): void
  start(): Promise<unknown>
  stop(options: { graceful: boolean; timeout?: number }): Promise<void>
  createQueue(name: string, options?: object): Promise<void>
  insert(name: string, jobs: readonly object[]): Promise<unknown>
  fetch(name: string, options: { batchSize: number }): Promise<readonly { id: string }[]>
  complete(name: string, ids: readonly string[]): Promise<unknown>
  work(name: string, options: object, handler: (jobs: readonly unknown[]) => Promise<void>): Promise<string>
}

export const QUEUE = 'bench'

export async function openPgBoss(url: string): Promise<PgBossLike> {
  const { PgBoss } = await peer<{ PgBoss: new (options: object) => PgBossLike }>('pg-boss')
  const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false })
  boss.on('error', (error) => console.error(`pg-boss: ${error.message}`))
  await boss.start()
  return boss
}

export async function prepare(url: string, options: Options): Promise<Prepared> {
  const boss = await openPgBoss(url)
  const { batchSize, workers } = options
  let stopping = false
  const loops: Promise<void>[] = []
  const loop = async () => {
    while (!stopping) {
      const jobs = await boss.fetch(QUEUE, { batchSize })
      if (jobs.length === 0) return
      await boss.complete(
        QUEUE,
        jobs.map((job) => job.id),
      )
    }
  }
  return {
    go() {
      if (options.work)
        void boss.work(
          QUEUE,
          { batchSize, localConcurrency: workers, pollingIntervalSeconds: 0.5 },
          async () => {},
        )
      else for (let n = 0; n < workers; n += 1) loops.push(loop())
    },
    async stop() {
      stopping = true
      await Promise.all(loops)
      await boss.stop({ graceful: true, timeout: 10_000 })
    },
  }
}
