/** graphile-worker in its fastest documented settings: a local queue, and completions in batches without delay. */
import { peer } from '../peers.ts'
import type { Prepared } from './process.ts'

export interface Options {
  readonly concurrentJobs: number
  readonly localQueue: number
}

interface Runner {
  stop(): Promise<void>
}

interface Graphile {
  run(options: object): Promise<Runner>
  runMigrations(options: object): Promise<void>
  Logger: new (factory: () => () => void) => unknown
}

export const TASK = 'bench'

export async function migrateGraphile(url: string): Promise<void> {
  const { runMigrations, Logger } = await peer<Graphile>('graphile-worker')
  await runMigrations({ connectionString: url, logger: new Logger(() => () => undefined) })
}

export async function prepare(url: string, options: Options): Promise<Prepared> {
  const { run, Logger } = await peer<Graphile>('graphile-worker')
  let runner: Promise<Runner> | undefined
  return {
    go() {
      runner = run({
        connectionString: url,
        concurrency: options.concurrentJobs,
        noHandleSignals: true,
        logger: new Logger(() => () => undefined),
        taskList: { [TASK]: async () => {} },
        preset: {
          worker: {
            connectionString: url,
            concurrentJobs: options.concurrentJobs,
            maxPoolSize: 10,
            pollInterval: 2000,
            localQueue: { size: options.localQueue },
            completeJobBatchDelay: 0,
            failJobBatchDelay: 0,
          },
        },
      })
    },
    async stop() {
      await (await runner)?.stop()
    },
  }
}
