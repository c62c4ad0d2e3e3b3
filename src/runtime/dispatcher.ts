/**
 * The dispatcher: at most a second after a slot is free, a waiting task has it (WAKE-2). Each tick looks, decides and
 * acts: it scans the lanes, decides in the order of STR-12, and reserves what was selected. Correctness rests on the
 * database alone; a hint only makes the next tick come sooner.
 */
import { v7 as uuidv7 } from 'uuid'
import { waitDigest } from '../core/record.ts'
import type { Rejected } from '../core/verdict.ts'
import type { Database } from '../store/database.ts'
import type { Origin, Reserved } from '../store/grant.ts'
import type { Releases } from '../store/releases.ts'
import { type QueuedTask, scanQueue } from '../store/tasks.ts'
import { type Decided, Situation } from './decider.ts'
import type { Granter, Submitted } from './granter.ts'

export interface GrantedAttempt {
  readonly id: string
  readonly fence: bigint
  readonly taskId: string
}

export interface DispatcherPorts {
  readonly db: Database
  readonly releases: Releases
  readonly granter: Granter
  /** Takes what was granted; the call to the provider is its business. */
  readonly submit: (attempts: readonly GrantedAttempt[]) => void
  /** End a queued task that no waiting would help, with its round. */
  readonly reject: (task: QueuedTask, decided: Decided, rejected: Rejected) => Promise<void>
  /** How many more attempts this process can take on; what is granted beyond it would only hold leases. */
  readonly room: () => number
}

const PAGE_SIZE = 512
const SMALLEST_PAGE = 4
const ROUND_INTERVAL_US = 10_000_000

export interface Tick {
  readonly granted: number
  /** Whether more may be granted at once: some lane had more than was looked at, or a reservation failed. */
  readonly again: boolean
}

export class Dispatcher {
  readonly #ports: DispatcherPorts
  #lanes = 1

  constructor(ports: DispatcherPorts) {
    this.#ports = ports
  }

  async tick(): Promise<Tick> {
    const perLane = Math.max(SMALLEST_PAGE, Math.floor(PAGE_SIZE / this.#lanes))
    // One more than will be decided tells whether a lane goes on behind its page.
    const tasks = await scanQueue(this.#ports.db, perLane + 1)
    const page = new Page(tasks, perLane)
    this.#lanes = Math.max(1, page.lanes)
    if (tasks.length === 0) return { granted: 0, again: false }
    const situation = await Situation.read(this.#ports.db, this.#ports.releases, page.models)
    const plan = await this.#decide(page, situation)
    const results = await this.#ports.granter.grant(plan.items)
    const granted = results.filter((result) => result.kind === 'granted')
    this.#ports.submit(granted.map((one) => ({ id: one.attemptId, fence: one.fence, taskId: one.taskId })))
    return { granted: granted.length, again: plan.more || results.some(mustDecideAgain) }
  }

  async #decide(page: Page, situation: Situation): Promise<{ items: Submitted[]; more: boolean }> {
    const items: Submitted[] = []
    let room = this.#ports.room()
    for (const task of page.inOrder()) {
      const decided = situation.decide(task.modelId, askedOf(task))
      if (!decided) continue
      const { verdict } = decided.decision
      if (verdict.result === 'selected') {
        if (room <= 0) break
        room -= 1
        items.push(selection(task, decided, situation))
      } else if (verdict.result === 'wait') {
        page.waits(task)
        const item = waiting(task, decided)
        if (item) items.push(item)
      } else {
        await this.#ports.reject(task, decided, verdict)
      }
    }
    return { items, more: page.more && room > 0 }
  }
}

function mustDecideAgain(result: Reserved): boolean {
  return result.kind === 'reservation_failed'
}

function askedOf(task: QueuedTask) {
  return {
    id: task.id,
    createdAt: task.createdAt,
    admitted: true,
    facts: task.facts,
    attempts: task.attempts,
    // ORD-19: later rounds judge only whether the user is still active.
    caller: { key_active: true, user_active: task.userActive, groups: [] },
  }
}

function originOf(task: QueuedTask): Origin & { kind: 'queued' } {
  return { kind: 'queued', id: task.id, fence: task.fence }
}

function selection(task: QueuedTask, decided: Decided, situation: Situation): Submitted {
  const reservation = situation.reserve(task.modelId, decided, uuidv7())
  return {
    modelId: task.modelId,
    alerts: decided.decision.verdict.alerts ?? [],
    proposal: { kind: 'reserve', origin: originOf(task), round: decided.round, reservation },
  }
}

/** ORD-18: a round only when its result, its reason or its exclusions changed, and at most one every ten seconds. */
function waiting(task: QueuedTask, decided: Decided): Submitted | undefined {
  const digest = waitDigest(decided.decision.verdict)
  const { now } = decided.round.dynamic
  if (digest === task.waitDigest) return undefined
  if (task.waitRoundAt !== null && now - task.waitRoundAt < ROUND_INTERVAL_US) return undefined
  return {
    modelId: task.modelId,
    alerts: decided.decision.verdict.alerts ?? [],
    proposal: { kind: 'wait', origin: originOf(task), round: decided.round, digest },
  }
}

/**
 * What one scan brought. Tasks come in the order of STR-12. A lane whose first task waits is done with: the rest of it
 * would wait too. Where a lane goes on behind what was brought of it, the rest of its model is left for the next tick,
 * since older tasks may stand there.
 */
class Page {
  readonly #tasks: readonly QueuedTask[]
  readonly #perLane: number
  readonly #seen = new Map<string, number>()
  readonly #waiting = new Set<string>()
  readonly #horizon = new Set<string>()
  readonly models: readonly string[]
  more = false

  constructor(tasks: readonly QueuedTask[], perLane: number) {
    this.#tasks = tasks
    this.#perLane = perLane
    this.models = [...new Set(tasks.map((task) => task.modelId))]
  }

  get lanes(): number {
    return new Set(this.#tasks.map(laneKey)).size
  }

  waits(task: QueuedTask): void {
    this.#waiting.add(laneKey(task))
  }

  *inOrder(): Generator<QueuedTask> {
    for (const task of this.#tasks) {
      const lane = laneKey(task)
      if (this.#waiting.has(lane)) continue
      const seen = (this.#seen.get(lane) ?? 0) + 1
      this.#seen.set(lane, seen)
      if (seen > this.#perLane) this.#horizon.add(task.modelId)
      if (this.#horizon.has(task.modelId)) this.more = true
      else yield task
    }
  }
}

function laneKey(task: QueuedTask): string {
  return `${task.turn} ${task.lane}`
}
