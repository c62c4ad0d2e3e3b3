/** Ours, whole: the engine as `serve` runs it, with every role, over the null provider. */
import { createCaller } from '../../../src/providers/call.ts'
import { Engine, type Role } from '../../../src/runtime/engine.ts'
import { AssetStore } from '../../../src/store/assets.ts'
import { openDatabase } from '../../../src/store/database.ts'
import { parseKeyring } from '../../../src/store/secrets.ts'
import { KEY_TEXT } from '../yard.ts'
import { AssetsInMemory, Looks, nullProvider } from './null-provider.ts'
import type { Prepared } from './process.ts'

export interface Options {
  readonly poolSize?: number
  readonly submissions?: number
  readonly scanMs?: number
  readonly hints?: boolean
  /** Where films are stored on disk, each under its own digest; in memory where absent. */
  readonly assetsDir?: string
  /** All of them where absent. */
  readonly roles?: readonly Role[]
  readonly pollMs?: number
}

export async function prepare(url: string, options: Options): Promise<Prepared> {
  const db = await openDatabase({
    url,
    poolSize: options.poolSize ?? 20,
    applicationName: 'yardmaster-serve',
  })
  const caller = createCaller()
  const faults: string[] = []
  const looks = new Looks()
  const engine = new Engine({
    db,
    keyring: parseKeyring(KEY_TEXT, 'the bench'),
    assets: options.assetsDir ? new AssetStore(db, options.assetsDir) : new AssetsInMemory(db),
    providers: new Map([
      ['ark', nullProvider({ alike: !options.assetsDir, pollMs: options.pollMs ?? 0 }, looks)],
    ]),
    journal: {
      note: () => undefined,
      fault: (event, error) => faults.push(`${event}: ${error instanceof Error ? error.message : error}`),
    },
    roles: options.roles ?? ['api', 'dispatch', 'poll', 'reconcile'],
    version: 'bench',
    resultLifeMs: 3_600_000,
    largestResultBytes: 50_000_000,
    alertCaller: caller,
    listenUrl: url,
    ...(options.submissions === undefined ? {} : { submissions: options.submissions }),
    ...(options.scanMs === undefined ? {} : { scanMs: options.scanMs }),
    ...(options.hints === undefined ? {} : { hints: options.hints }),
  })
  let started: Promise<void> | undefined
  return {
    faults,
    mark: () => looks.forget(),
    figures: () => ({
      looks: looks.count,
      busiestSecond: looks.busiestSecond,
      mostAtOnce: looks.mostAtOnce,
    }),
    go() {
      started = engine.start()
    },
    async stop() {
      await started
      await engine.stop()
      await caller.close()
      await db.close()
    },
  }
}
