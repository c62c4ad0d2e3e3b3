/**
 * The door (ORD-19): a request is judged once, with `admitted: false` and no lease. A rejection is answered at once and
 * kept with its verdict; a video that is let in becomes one row, `queued`.
 */
import { factsToJson } from '../core/frozen.ts'
import type { RejectionCode } from '../core/verdict.ts'
import { raiseAlerts } from '../store/alerts.ts'
import type { Database } from '../store/database.ts'
import { insertRound } from '../store/grant.ts'
import { withPartition } from '../store/partitions.ts'
import type { Releases } from '../store/releases.ts'
import type { DecidedRound } from '../store/round-record.ts'
import { atTheDoor, findClaim, insertTasks, matchRepeat, type NewTask } from '../store/tasks.ts'
import { recordUsage } from '../store/usage.ts'
import { type Decided, Situation } from './decider.ts'
import { alertsOf } from './decision-alerts.ts'
import { laneDigest } from './lane.ts'
import type { IncomingRequest, Refusal, VideoAdmission } from './service.ts'
import { failedTask } from './settlement.ts'

export interface DoorPorts {
  readonly db: Database
  readonly releases: Releases
  /** A task was queued: a hint for the dispatcher. */
  readonly queued: () => void
  /** The process that tells other dispatchers of it (WAKE-3); null where none has to be told. */
  readonly hintFrom: () => string | null
}

/** A request that was judged at the door, and what was read for it. */
export interface Judged {
  readonly situation: Situation
  readonly decided: Decided
  readonly task: NewTask
  readonly createdAt: number
}

export async function admitVideo(ports: DoorPorts, request: IncomingRequest): Promise<VideoAdmission> {
  const earlier = await earlierTask(ports, request, 'video')
  if (earlier) return earlier.kind === 'found' ? { kind: 'repeated', taskId: earlier.taskId } : earlier
  const judged = await judge(ports, request)
  if (!judged) return { kind: 'rejected', taskId: null, code: 'model_not_available', param: null }
  const { verdict } = judged.decided.decision
  if (verdict.result === 'rejected') {
    await keepRefusal(ports, judged, { code: verdict.code, param: verdict.param ?? null })
    return { kind: 'rejected', taskId: judged.task.id, code: verdict.code, param: verdict.param ?? null }
  }
  const stored = await ports.db.transaction((tx) => insertTasks(tx, [judged.task], ports.hintFrom()), {
    retry: true,
  })
  if (!stored.has(judged.task.id)) return holderOf(ports, request)
  ports.queued()
  return { kind: 'admitted', taskId: judged.task.id }
}

type Earlier = { readonly kind: 'found'; readonly taskId: string; readonly over: boolean } | Refusal

/** An earlier request that this one repeats: by its Idempotency-Key, or by what the SDK says of itself (CUS-4). */
export async function earlierTask(
  ports: Pick<DoorPorts, 'db'>,
  request: IncomingRequest,
  kind: 'video' | 'image',
): Promise<Earlier | undefined> {
  const { idempotency, repeat, caller } = request
  if (idempotency) {
    const holder = await findClaim(ports.db, { customerId: caller.customerId, ...idempotency })
    if (!holder) return undefined
    if (holder.digest !== hex(idempotency.payloadDigest)) return { kind: 'key_reused' }
    return { kind: 'found', taskId: holder.task_id, over: isOver(holder.state) }
  }
  if (repeat.count === 0) return undefined
  const found = await matchRepeat(ports.db, { customerId: caller.customerId, kind, ...repeat })
  return found === undefined ? undefined : { kind: 'found', taskId: found, over: false }
}

function isOver(state: string | null): boolean {
  return state !== 'queued' && state !== 'running'
}

/** The key was claimed between our look and our insert: whoever holds it is the answer. */
async function holderOf(ports: DoorPorts, request: IncomingRequest): Promise<VideoAdmission> {
  const earlier = await earlierTask(ports, request, 'video')
  if (!earlier) throw new Error('an Idempotency-Key was held and is gone within one request')
  return earlier.kind === 'found' ? { kind: 'repeated', taskId: earlier.taskId } : earlier
}

/** Undefined where the model is unknown, or was never published, so that there is nothing to judge by. */
export async function judge(
  ports: Pick<DoorPorts, 'db' | 'releases'>,
  request: IncomingRequest,
): Promise<Judged | undefined> {
  const situation = await Situation.read(ports.db, ports.releases, [request.modelId])
  if (!situation.release(request.modelId)) return undefined
  const door = await atTheDoor(ports.db, request.caller.customerId)
  const facts = factsToJson(request.facts)
  const decided = situation.decide(request.modelId, {
    id: door.taskId,
    createdAt: door.now,
    admitted: false,
    facts,
    attempts: [],
    caller: { key_active: true, user_active: door.userActive, groups: request.caller.groups },
  })
  if (!decided) return undefined
  const task: NewTask = {
    id: door.taskId,
    kind: request.facts.media,
    customer_id: request.caller.customerId,
    api_key_id: request.caller.keyId,
    model_id: request.modelId,
    release_id: decided.round.releaseId,
    state: 'queued',
    lane: laneDigest(request.modelId, facts, []),
    facts,
    content: request.content,
    request_id: request.requestId,
    fingerprint: hex(request.repeat.fingerprint),
    error_code: null,
    error_param: null,
    idempotency: request.idempotency && {
      endpoint: request.idempotency.endpoint,
      key: request.idempotency.key,
      payload_digest: hex(request.idempotency.payloadDigest),
    },
  }
  return { situation, decided, task, createdAt: door.now }
}

/** Keep what was refused with its verdict. An answer given before any submission holds no Idempotency-Key (CUS-3). */
export async function keepRefusal(
  ports: Pick<DoorPorts, 'db' | 'releases'>,
  judged: Judged,
  why: { code: RejectionCode | string; param: string | null },
): Promise<void> {
  const { task, decided } = judged
  const release = await ports.releases.release(ports.db, task.release_id)
  if (!release) throw new Error(`release ${task.release_id} is missing`)
  const refused: NewTask = {
    ...task,
    state: 'rejected',
    error_code: why.code,
    error_param: why.param,
    idempotency: null,
  }
  await withPartition(ports.db, () =>
    ports.db.transaction(
      async (tx) => {
        await insertTasks(tx, [refused])
        const { round } = decided
        await insertRound(tx, { taskId: task.id, number: 1 }, { round, outcome: outcomeOf(round) })
        await tx.query(COUNT_ROUND, [task.id])
        await recordUsage(tx, [
          { id: task.id, end: failedTask(task, release, { state: 'rejected', ...why }) },
        ])
        const alerts = decided.decision.verdict.alerts ?? []
        await raiseAlerts(tx, alertsOf([{ modelId: task.model_id, round: decided.round, alerts }]))
      },
      { retry: true },
    ),
  )
}

const COUNT_ROUND = { name: 'count-door-round', text: 'update task set rounds = 1 where id = $1' }

function outcomeOf(round: DecidedRound): string {
  return round.record.result === 'selected' ? 'asked' : round.record.result
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex')
}
