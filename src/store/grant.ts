/**
 * The one way in which leases are granted, for video and image alike (ORD-13, ORD-14). Many requests share one
 * transaction: claim the tasks, lock channels and then supplies, count live leases in a later statement, and store
 * round, attempt and lease of each request that still has room; of the others, the round, marked `reservation_failed`.
 */
import { effectiveConcurrency } from '../core/concurrency.ts'
import { freeCapacity } from '../core/free-capacity.ts'
import { afterGrant, type LevelJson, levelOf, type SupplyLevelJson } from '../core/frozen.ts'
import type { Database, Sql } from './database.ts'
import { type Levels, lockLevels, readLevels } from './levels.ts'
import { withPartition } from './partitions.ts'
import {
  type DecidedRound,
  type EncodedRecord,
  encodeRecord,
  type StoredRecord,
  storeRecord,
} from './round-record.ts'
import { claimTasks, insertTasks, type NewTask } from './tasks.ts'

/** Where the task comes from: the queue, or the door (an image, which is never queued). */
export type Origin =
  | { readonly kind: 'queued'; readonly id: string; readonly fence: bigint }
  | { readonly kind: 'new'; readonly task: NewTask; readonly door: DecidedRound }

export interface Reservation {
  readonly attemptId: string
  readonly bindingId: string
  readonly supplyId: string
  readonly channelId: string
  readonly tier: string
  readonly priceListVersionId: string
  readonly degradationRuleVersionId: string | null
  /** Micro-units, decimal text. */
  readonly quote: string
  readonly billsFailures: boolean
  readonly degraded: object | null
}

export type Proposal =
  | {
      readonly kind: 'reserve'
      readonly origin: Origin
      readonly round: DecidedRound
      readonly reservation: Reservation
    }
  /** Nothing could be chosen: the task waits on. */
  | {
      readonly kind: 'wait'
      readonly origin: Origin & { kind: 'queued' }
      readonly round: DecidedRound
      readonly digest: string
    }

export type Reserved =
  | {
      readonly kind: 'granted'
      readonly taskId: string
      readonly attemptId: string
      readonly fence: bigint
      readonly number: number
    }
  /** The round is stored as `reservation_failed`; decide again. */
  | { readonly kind: 'reservation_failed'; readonly taskId: string; readonly fence: bigint }
  | { readonly kind: 'waiting'; readonly taskId: string }
  /** Another process, a cancellation or another request with the same key was faster: nothing was stored. */
  | { readonly kind: 'lost'; readonly taskId: string }

interface Shortage {
  readonly level: 'channel' | 'supply'
  readonly id: string
  readonly why: 'switched_off' | 'circuit' | 'held' | 'full'
  readonly in_use: number
  readonly in_use_epoch: number
  readonly concurrency: number
  readonly limit: number
}

const INSERT_ROUNDS = {
  name: 'insert-rounds',
  text: `insert into round (task_id, number, admitted, decider, release_id, outcome, result, reason, attempt_id, record_id,
      place, reservation)
    select task_id, number, admitted, decider, release_id, outcome, result, reason, attempt_id, record_id, place, reservation
    from jsonb_to_recordset($1::jsonb) r(task_id uuid, number int, admitted boolean, decider int, release_id bigint, outcome text,
      result text, reason text, attempt_id uuid, record_id uuid, place int, reservation jsonb)`,
}

const INSERT_ATTEMPTS = {
  name: 'insert-attempts',
  text: `insert into attempt (id, task_id, number, round, kind, binding_id, supply_id, channel_id, provider, upstream_model, tier,
      release_id, price_list_version_id, degradation_rule_version_id, credential_id, state, owner, channel_epoch, supply_epoch,
      quote_micros, bills_failures, submitting_at, expected_ms, degraded, cost_micros)
    select a.id, a.task_id, a.number, a.round, a.kind, a.binding_id, a.supply_id, a.channel_id, c.provider, s.upstream_model, a.tier,
      a.release_id, a.price_list_version_id, a.degradation_rule_version_id, c.credential_id, a.state, a.owner, a.channel_epoch,
      a.supply_epoch, a.quote_micros, a.bills_failures, case a.state when 'submitting' then clock_timestamp() end,
      s.expected_seconds * 1000, a.degraded, a.quote_micros
    from jsonb_to_recordset($1::jsonb) a(id uuid, task_id uuid, number int, round int, kind text, binding_id text, supply_id text,
      channel_id text, tier text, release_id bigint, price_list_version_id bigint, degradation_rule_version_id bigint, state text,
      owner uuid, channel_epoch bigint, supply_epoch bigint, quote_micros bigint, bills_failures boolean, degraded jsonb)
    join supply s on s.id = a.supply_id join channel c on c.id = a.channel_id
    returning id, fence`,
}

const INSERT_LEASES = {
  name: 'insert-leases',
  text: `insert into capacity_lease (attempt_id, channel_id, supply_id, channel_epoch, supply_epoch)
    select * from jsonb_to_recordset($1::jsonb) l(id uuid, channel_id text, supply_id text, channel_epoch bigint, supply_epoch bigint)`,
}

const TASKS_RUNNING = {
  name: 'tasks-running',
  text: `update task t set state = 'running', attempt_id = r.attempt_id, fence = nextval('fence_seq'), rounds = r.rounds,
      attempts = r.attempts, wait_digest = null, wait_reason = null, started_at = coalesce(t.started_at, clock_timestamp())
    from jsonb_to_recordset($1::jsonb) r(id uuid, attempt_id uuid, rounds int, attempts int) where t.id = r.id`,
}

const TASKS_WAITING = {
  name: 'tasks-waiting',
  text: `update task t set rounds = r.rounds, wait_digest = r.digest, wait_reason = r.reason, wait_round_at = clock_timestamp()
    from jsonb_to_recordset($1::jsonb) r(id uuid, rounds int, digest text, reason text) where t.id = r.id`,
}

const TASKS_ROUNDS = {
  name: 'tasks-rounds',
  text: `update task t set rounds = r.rounds from jsonb_to_recordset($1::jsonb) r(id uuid, rounds int) where t.id = r.id`,
}

const GRANTED_AT = {
  name: 'levels-granted',
  text: `with c as (update channel_health set last_granted_at = clock_timestamp() where channel_id = any($1::text[]))
    update supply_health set last_granted_at = clock_timestamp() where supply_id = any($2::text[])`,
}

/** `raise` is called in the same transaction for each granted or waiting round, to keep its alerts with their cause. */
export interface ReserveOptions {
  readonly owner: string
  readonly raise: (tx: Sql, rounds: readonly DecidedRound[]) => Promise<void>
}

export async function reserve(
  db: Database,
  proposals: readonly Proposal[],
  options: ReserveOptions,
): Promise<Reserved[]> {
  if (proposals.length === 0) return []
  const record = encodeRecord(proposals.flatMap(roundsOf))
  return withPartition(db, () =>
    db.transaction((tx) => reserveIn(tx, { proposals, record }, options), { retry: true }),
  )
}

function roundsOf({ origin, round }: Proposal): DecidedRound[] {
  return origin.kind === 'new' ? [origin.door, round] : [round]
}

interface Claimed {
  readonly proposal: Proposal
  readonly taskId: string
  readonly fence: bigint
  readonly rounds: number
  readonly attempts: number
}

async function reserveIn(
  tx: Sql,
  { proposals, record }: { proposals: readonly Proposal[]; record: EncodedRecord },
  options: ReserveOptions,
): Promise<Reserved[]> {
  const [claimed, stored, levels] = await Promise.all([
    claim(tx, proposals),
    storeRecord(tx, record),
    lockAndCount(tx, proposals),
  ])
  const batch = new Batch({ levels, owner: options.owner, record: stored })
  for (const one of claimed) batch.add(one)
  const rounds = claimed.map((one) => one.proposal.round)
  await Promise.all([batch.store(tx), options.raise(tx, rounds)])
  return proposals.map((proposal) => batch.result(taskIdOf(proposal.origin)))
}

function taskIdOf(origin: Origin): string {
  return origin.kind === 'new' ? origin.task.id : origin.id
}

async function claim(tx: Sql, proposals: readonly Proposal[]): Promise<Claimed[]> {
  const fresh = proposals.flatMap((proposal) =>
    proposal.origin.kind === 'new' ? [proposal.origin.task] : [],
  )
  const seen = proposals.flatMap((proposal) => (proposal.origin.kind === 'queued' ? [proposal.origin] : []))
  const [stored, rows] = await Promise.all([
    fresh.length > 0 ? insertTasks(tx, fresh) : new Map<string, bigint>(),
    seen.length > 0 ? claimTasks(tx, seen) : new Map<string, { rounds: number; attempts: number }>(),
  ])
  return proposals.flatMap((proposal): Claimed[] => {
    const { origin } = proposal
    const taskId = taskIdOf(origin)
    const row = origin.kind === 'new' ? { rounds: 0, attempts: 0 } : rows.get(taskId)
    const fence = origin.kind === 'new' ? stored.get(taskId) : origin.fence
    return row && fence !== undefined
      ? [{ proposal, taskId, fence, rounds: row.rounds, attempts: row.attempts }]
      : []
  })
}

/**
 * Lock, then count in a statement of its own: the order that queues.md §0 finding 4 measured. Levels of those that turn out
 * to be lost are locked as well, so that nobody has to wait for who is.
 */
async function lockAndCount(tx: Sql, proposals: readonly Proposal[]): Promise<Levels> {
  const channels = new Set<string>()
  const supplies = new Set<string>()
  for (const proposal of proposals) {
    if (proposal.kind !== 'reserve') continue
    channels.add(proposal.reservation.channelId)
    supplies.add(proposal.reservation.supplyId)
  }
  const ids = { channels: [...channels], supplies: [...supplies] }
  const [, levels] = await Promise.all([lockLevels(tx, ids), readLevels(tx, ids)])
  return levels
}

/** What one level lacks for one more lease, or undefined where there is room. Both limits are checked at every grant. */
function shortage(level: 'channel' | 'supply', id: string, now: LevelJson, at: number): Shortage | undefined {
  const limit = effectiveConcurrency(now.h, now.r, now.c)
  const figures = { level, id, in_use: now.u, in_use_epoch: now.e, concurrency: now.c, limit }
  if (now.a !== 'enabled' || now.h === 'disabled') return { ...figures, why: 'switched_off' }
  if (now.h === 'circuit_open') return { ...figures, why: 'circuit' }
  if (now.n !== null && at < now.n) return { ...figures, why: 'held' }
  // The decision's own rule, so that what was judged free is granted by the same count.
  return freeCapacity(levelOf(id, now)) > 0 ? undefined : { ...figures, why: 'full' }
}

class Batch {
  readonly #now: number
  readonly #owner: string
  readonly #record: StoredRecord
  readonly #channels: Map<string, LevelJson>
  readonly #supplies: Map<string, SupplyLevelJson>
  readonly #rounds: object[] = []
  readonly #attempts: object[] = []
  readonly #leases: object[] = []
  readonly #running: object[] = []
  readonly #waiting: object[] = []
  readonly #counted: object[] = []
  readonly #results = new Map<string, Reserved | { kind: 'stored'; attemptId: string; number: number }>()
  readonly #fences = new Map<string, bigint>()
  readonly #granted = { channel: new Set<string>(), supply: new Set<string>() }

  constructor({ levels, owner, record }: { levels: Levels; owner: string; record: StoredRecord }) {
    this.#now = levels.now
    this.#owner = owner
    this.#record = record
    this.#channels = new Map(Object.entries(levels.channels))
    this.#supplies = new Map(Object.entries(levels.supplies))
  }

  add(claimed: Claimed): void {
    const { proposal } = claimed
    if (proposal.kind === 'wait') this.#wait(claimed, proposal)
    else this.#reserve(claimed, proposal)
  }

  /** Only after `store`: the fence of an attempt comes from the database. */
  result(taskId: string): Reserved {
    const found = this.#results.get(taskId)
    if (!found) return { kind: 'lost', taskId }
    if (found.kind !== 'stored') return found
    const fence = this.#fences.get(found.attemptId)
    if (fence === undefined) throw new Error(`attempt ${found.attemptId} was granted but not stored`)
    return { kind: 'granted', taskId, attemptId: found.attemptId, fence, number: found.number }
  }

  async store(tx: Sql): Promise<void> {
    await Promise.all([
      insert(tx, INSERT_ROUNDS, this.#rounds),
      this.#storeAttempts(tx),
      insert(tx, INSERT_LEASES, this.#leases),
      insert(tx, TASKS_RUNNING, this.#running),
      insert(tx, TASKS_WAITING, this.#waiting),
      insert(tx, TASKS_ROUNDS, this.#counted),
      this.#leases.length > 0 &&
        tx.query(GRANTED_AT, [[...this.#granted.channel], [...this.#granted.supply]]),
    ])
  }

  async #storeAttempts(tx: Sql): Promise<void> {
    if (this.#attempts.length === 0) return
    const values = [JSON.stringify(this.#attempts)]
    const { rows } = await tx.query<{ id: string; fence: bigint }>(INSERT_ATTEMPTS, values)
    for (const row of rows) this.#fences.set(row.id, row.fence)
    if (rows.length !== this.#attempts.length) throw new Error('a granted attempt has no channel or supply')
  }

  #store(taskId: string, number: number, end: RoundEnd): void {
    this.#rounds.push(roundRow(taskId, number, end, this.#record))
  }

  #wait(claimed: Claimed, proposal: Proposal & { kind: 'wait' }): void {
    const number = claimed.rounds + 1
    this.#store(claimed.taskId, number, { round: proposal.round, outcome: 'wait' })
    this.#waiting.push({
      id: claimed.taskId,
      rounds: number,
      digest: proposal.digest,
      reason: proposal.round.record.reason,
    })
    this.#results.set(claimed.taskId, { kind: 'waiting', taskId: claimed.taskId })
  }

  #reserve(claimed: Claimed, proposal: Proposal & { kind: 'reserve' }): void {
    const { origin, reservation, round } = proposal
    let number = claimed.rounds
    if (origin.kind === 'new') {
      number += 1
      this.#store(claimed.taskId, number, { round: origin.door, outcome: 'asked' })
    }
    number += 1
    const lacking = this.#lacking(reservation)
    if (lacking.length > 0) this.#refuse(claimed, round, { number, lacking })
    else this.#grant(claimed, proposal, number)
  }

  #lacking(reservation: Reservation): Shortage[] {
    const channel = this.#channels.get(reservation.channelId)
    const supply = this.#supplies.get(reservation.supplyId)
    if (!channel || !supply)
      throw new Error(`no health row for ${reservation.channelId} or ${reservation.supplyId}`)
    return [
      shortage('channel', reservation.channelId, channel, this.#now),
      shortage('supply', reservation.supplyId, supply, this.#now),
    ].filter((one) => one !== undefined)
  }

  #refuse(claimed: Claimed, round: DecidedRound, failed: { number: number; lacking: Shortage[] }): void {
    const reservation = { lacking: failed.lacking }
    this.#store(claimed.taskId, failed.number, { round, outcome: 'reservation_failed', reservation })
    this.#counted.push({ id: claimed.taskId, rounds: failed.number })
    this.#results.set(claimed.taskId, {
      kind: 'reservation_failed',
      taskId: claimed.taskId,
      fence: claimed.fence,
    })
  }

  #grant(claimed: Claimed, proposal: Proposal & { kind: 'reserve' }, number: number): void {
    const { reservation, round, origin } = proposal
    const { channelId, supplyId, attemptId } = reservation
    const channel = this.#channels.get(channelId)
    const supply = this.#supplies.get(supplyId)
    if (!channel || !supply) throw new Error('a level vanished inside its own batch')
    this.#channels.set(channelId, afterGrant(channel, this.#now))
    this.#supplies.set(supplyId, afterGrant(supply, this.#now))
    this.#granted.channel.add(channelId)
    this.#granted.supply.add(supplyId)
    const image = round.dynamic.request.media === 'image'
    const epochs = { channel_epoch: channel.ep, supply_epoch: supply.ep }
    const counts = {
      channel: { in_use: channel.u, in_use_epoch: channel.e, concurrency: channel.c, epoch: channel.ep },
      supply: { in_use: supply.u, in_use_epoch: supply.e, concurrency: supply.c, epoch: supply.ep },
    }
    this.#store(claimed.taskId, number, { round, outcome: 'granted', attemptId, reservation: counts })
    // An image's attempt is committed as submitting at once; a video's waits for its turn at the submitter.
    this.#attempts.push({
      id: attemptId,
      task_id: claimed.taskId,
      number: image ? claimed.attempts + 1 : null,
      round: number,
      kind: round.dynamic.request.media,
      binding_id: reservation.bindingId,
      supply_id: supplyId,
      channel_id: channelId,
      tier: reservation.tier,
      release_id: round.releaseId,
      price_list_version_id: reservation.priceListVersionId,
      degradation_rule_version_id: reservation.degradationRuleVersionId,
      state: image ? 'submitting' : 'reserved',
      owner: this.#owner,
      quote_micros: reservation.quote,
      bills_failures: reservation.billsFailures,
      degraded: reservation.degraded,
      ...epochs,
    })
    this.#leases.push({ id: attemptId, channel_id: channelId, supply_id: supplyId, ...epochs })
    const attempts = image ? claimed.attempts + 1 : claimed.attempts
    this.#running.push({ id: claimed.taskId, attempt_id: attemptId, rounds: number, attempts })
    this.#results.set(claimed.taskId, { kind: 'stored', attemptId, number: attempts })
    if (origin.kind === 'new' && !image) throw new Error('a video is granted from the queue only')
  }
}

async function insert(
  tx: Sql,
  statement: { name: string; text: string },
  rows: readonly object[],
): Promise<void> {
  if (rows.length > 0) await tx.query(statement, [JSON.stringify(rows)])
}

/** What became of a decision. */
export interface RoundEnd {
  readonly round: DecidedRound
  readonly outcome: string
  readonly attemptId?: string
  readonly reservation?: object
}

/** A round as its table takes it. */
function roundRow(taskId: string, number: number, end: RoundEnd, record: StoredRecord): object {
  const { round } = end
  return {
    task_id: taskId,
    number,
    admitted: round.dynamic.task.admitted,
    decider: round.decider,
    release_id: round.releaseId,
    outcome: end.outcome,
    result: round.record.result,
    reason: round.record.reason,
    attempt_id: end.attemptId ?? null,
    record_id: record.id,
    place: record.places.get(round),
    reservation: end.reservation ?? null,
  }
}

/** A round by itself, with its record. */
export async function insertRound(
  tx: Sql,
  of: { taskId: string; number: number },
  end: RoundEnd,
): Promise<void> {
  const record = await storeRecord(tx, encodeRecord([end.round]))
  await insert(tx, INSERT_ROUNDS, [roundRow(of.taskId, of.number, end, record)])
}
