/**
 * Cancelling: a queued task at once; an accepted one at its provider, where that can; one whose submission is under way
 * or of unknown outcome not at all, since nobody knows what would be cancelled.
 */
import type { CancelReply, ProviderAdapter } from '../providers/adapter.ts'
import { type AttemptRow, readAttempt, type TaskRow } from '../store/attempts.ts'
import type { Database, Sql } from '../store/database.ts'
import type { Releases } from '../store/releases.ts'
import { endTasks } from '../store/usage.ts'
import type { Accounts } from './accounts.ts'
import type { CancelAnswer } from './service.ts'
import type { Settle } from './settle.ts'
import { failedTask } from './settlement.ts'

export interface CancelPorts {
  readonly db: Database
  readonly releases: Releases
  readonly accounts: Accounts
  readonly providers: ReadonlyMap<string, ProviderAdapter>
  readonly settle: Settle
}

const CANCEL_TIMEOUT_MS = 15_000

const LOCK = {
  name: 'lock-task-to-cancel',
  text: 'select * from task where id = $1 for update',
}

const WISH = {
  name: 'wish-cancel',
  text: 'update task set cancel_requested_at = clock_timestamp() where id = $1',
}
const UNWISH = {
  name: 'unwish-cancel',
  text: 'update task set cancel_requested_at = null where id = $1 and ended_at is null',
}

const ACCOUNT = {
  name: 'account-of-attempt',
  text: `select a.channel_id, a.credential_id, c.base_url, c.options from attempt a join channel c on c.id = a.channel_id where a.id = $1`,
}

type Looked = CancelAnswer | { readonly kind: 'ask_provider'; readonly attempt: AttemptRow }

export async function cancelTask(ports: CancelPorts, taskId: string): Promise<CancelAnswer> {
  const looked = await ports.db.transaction((tx) => look(tx, ports, taskId), { retry: true })
  return looked.kind === 'ask_provider' ? askProvider(ports, taskId, looked.attempt) : looked
}

async function look(tx: Sql, ports: CancelPorts, taskId: string): Promise<Looked> {
  const [task] = (await tx.query<TaskRow>(LOCK, [taskId])).rows
  if (!task) return { kind: 'not_found' }
  if (task.state === 'queued') {
    const release = await ports.releases.release(tx, String(task.release_id))
    if (!release) throw new Error(`release ${task.release_id} of task ${task.id} is missing`)
    const end = failedTask(task, release, { state: 'cancelled', code: null })
    await endTasks(tx, [{ id: task.id, end }])
    return { kind: 'cancelled' }
  }
  if (task.state !== 'running' || task.attempt_id === null)
    return { kind: 'already_ended', state: task.state }
  const attempt = await readAttempt(tx, task.attempt_id)
  if (!attempt) throw new Error(`attempt ${task.attempt_id} is missing`)
  if (attempt.state === 'submission_uncertain') return { kind: 'refused', why: 'uncertain' }
  if (attempt.state !== 'accepted') return { kind: 'refused', why: 'submitting' }
  if (!ports.providers.get(attempt.provider)?.cancel) return { kind: 'refused', why: 'provider_cannot' }
  await tx.query(WISH, [taskId])
  return { kind: 'ask_provider', attempt }
}

async function askProvider(ports: CancelPorts, taskId: string, attempt: AttemptRow): Promise<CancelAnswer> {
  const reply = await callCancel(ports, attempt)
  switch (reply.kind) {
    case 'cancelled':
      return settleCancelled(ports, taskId, attempt)
    case 'refused':
      await ports.db.query(UNWISH, [taskId])
      return { kind: 'refused', why: 'provider_refused' }
    case 'no_answer':
      // The wish stays: should the provider have cancelled after all, the next poll says so, and it was wanted.
      return { kind: 'refused', why: 'provider_silent' }
  }
}

async function callCancel(ports: CancelPorts, attempt: AttemptRow): Promise<CancelReply> {
  const cancel = ports.providers.get(attempt.provider)?.cancel
  const [row] = (
    await ports.db.query<{
      channel_id: string
      credential_id: bigint
      base_url: string
      options: Record<string, unknown>
    }>(ACCOUNT, [attempt.id])
  ).rows
  if (!cancel || !row || attempt.provider_task_id === null)
    throw new Error(`attempt ${attempt.id} cannot be cancelled`)
  return cancel(await ports.accounts.open(row), attempt.provider_task_id, { timeoutMs: CANCEL_TIMEOUT_MS })
}

/** A poll may have claimed the attempt meanwhile: its fence is read again until one of us has settled it. */
async function settleCancelled(
  ports: CancelPorts,
  taskId: string,
  attempt: AttemptRow,
): Promise<CancelAnswer> {
  for (
    let now: AttemptRow | undefined = attempt;
    now?.ended_at === null;
    now = await readAttempt(ports.db, attempt.id)
  ) {
    const settled = await ports.settle.apply(now.id, now.fence, { kind: 'job_cancelled' })
    if (settled.kind !== 'stale') return { kind: 'cancelled' }
  }
  const { rows } = await ports.db.query<{ state: string }>(
    { name: 'task-state', text: 'select state from task where id = $1' },
    [taskId],
  )
  const state = rows[0]?.state ?? 'gone'
  return state === 'cancelled' ? { kind: 'cancelled' } : { kind: 'already_ended', state }
}
