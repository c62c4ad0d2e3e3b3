/**
 * Ours with everything off that the peers do not do: no decision, no record of one, no lease, no attempt, no health. What
 * is left is the product's own scan, claim under the fence, and end of a task with its usage record.
 */
import { type Database, openDatabase } from '../../../src/store/database.ts'
import { claimTasks, type QueuedTask, scanQueue } from '../../../src/store/tasks.ts'
import { endTasks } from '../../../src/store/usage.ts'
import type { Prepared } from './process.ts'

export interface Options {
  readonly batchSize: number
  readonly workers: number
}

/** The grant's own `tasks-running`, which stands between others of its batch there. */
const RUNNING = {
  name: 'bench-tasks-running',
  text: `update task t set state = 'running', attempt_id = r.attempt_id, fence = nextval('fence_seq'), rounds = r.rounds,
      attempts = r.attempts, wait_digest = null, wait_reason = null, started_at = coalesce(t.started_at, clock_timestamp())
    from jsonb_to_recordset($1::jsonb) r(id uuid, attempt_id uuid, rounds int, attempts int) where t.id = r.id`,
}

const ENDED = {
  state: 'succeeded',
  code: null,
  param: null,
  delivered: {
    requestedProfile: 'bench',
    actualProfile: 'bench',
    droppedInputs: [],
    changes: [],
    degraded: false,
  },
} as const

export async function prepare(url: string, options: Options): Promise<Prepared> {
  const db = await openDatabase({ url, poolSize: options.workers + 1 })
  // Without an attempt, a task that runs has none.
  await db.query('alter table task drop constraint if exists running_has_an_attempt')
  let stopping = false
  let running: Promise<unknown> | undefined
  /** One scans, as a dispatcher does; each worker claims and ends what it is given. */
  const run = async () => {
    while (!stopping) {
      const tasks = await scanQueue(db, Math.ceil((options.batchSize * options.workers) / 4))
      if (tasks.length === 0) return
      const shares = Array.from({ length: options.workers }, (_, n) =>
        tasks.filter((_task, place) => place % options.workers === n),
      )
      await Promise.all(shares.map((share) => workOff(db, share)))
    }
  }
  return {
    go() {
      running = run()
    },
    async stop() {
      stopping = true
      await running
      await db.close()
    },
  }
}

/** Two transactions, as claim and completion are two for the peers. */
async function workOff(db: Database, tasks: readonly QueuedTask[]): Promise<void> {
  if (tasks.length === 0) return
  const claimed = await db.transaction(async (tx) => {
    const rows = await claimTasks(tx, tasks)
    const running = [...rows.values()].map((row) => ({
      id: row.id,
      attempt_id: null,
      rounds: row.rounds,
      attempts: row.attempts,
    }))
    await tx.query(RUNNING, [JSON.stringify(running)])
    return running
  })
  const facts = new Map(tasks.map((task) => [task.id, task.facts]))
  await db.transaction(async (tx) => {
    await endTasks(
      tx,
      claimed.map(({ id }) => ({ id, end: { ...ENDED, parameters: facts.get(id) ?? {} } })),
    )
  })
}
