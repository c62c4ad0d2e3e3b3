/**
 * The auditor of what customers were told: every request is accounted for by its answer, and every answer by a task. A task
 * is found by its prompt, which is another one for each request.
 */
import type { Asked, Seen } from '../../bench/safety/customers.ts'
import type { Sql } from '../../src/store/database.ts'

/** A task beside the request that it was made for. */
export interface Told extends Record<string, unknown> {
  readonly id: string
  readonly kind: string
  readonly state: string
  readonly code: string | null
  readonly prompt: string
}

export interface Accounts {
  readonly findings: readonly string[]
  /** How requests ended for customers, with how many. */
  readonly ends: Readonly<Record<string, number>>
}

/** Codes that say: nothing was submitted, and nothing will be. */
const NOTHING_SUBMITTED: ReadonlySet<string> = new Set([
  'capacity',
  'temporarily_unavailable',
  'service_unavailable',
  'no_capable_supply',
  'cost_limit_exceeded',
  'retry_window_expired',
])

export async function toldOf(db: Sql): Promise<Told[]> {
  const { rows } = await db.query<Told>({
    name: 'audit-told',
    text: `select t.id::text, t.kind, t.state, t.error_code as code, c.content->>'prompt' as prompt
      from task t join task_content c on c.task_id = t.id`,
  })
  return rows
}

/** Requests beside tasks: nothing that was acknowledged is missing, and nothing was made twice. */
export function accountFor(asked: readonly Asked[], told: readonly Told[]): Accounts {
  const byPrompt = Map.groupBy(told, (task) => task.prompt)
  const ends: Record<string, number> = {}
  const findings = asked.flatMap((request) => {
    const tasks = byPrompt.get(request.prompt) ?? []
    const end = endOf(request, tasks)
    ends[end] = (ends[end] ?? 0) + 1
    return findingsOf(request, tasks)
  })
  const prompts = new Set(asked.map((request) => request.prompt))
  const strange = told.filter((task) => !prompts.has(task.prompt))
  return {
    findings: [...findings, ...strange.map((task) => `nobody asked for task ${task.id}`)],
    ends: Object.fromEntries(Object.entries(ends).sort(([a], [b]) => a.localeCompare(b))),
  }
}

function endOf({ kind, answered }: Asked, tasks: readonly Told[]): string {
  const stored = tasks.some(isMade) ? 'its task is there' : 'no task'
  switch (answered.kind) {
    case 'acknowledged':
      return `${kind}: acknowledged`
    case 'refused':
      return `${kind}: ${answered.status} ${answered.code}, ${stored}`
    case 'in_doubt':
      return `${kind}: ${answered.status} ${answered.code}, not to be repeated, ${stored}`
    case 'no_answer':
      return `${kind}: gave up without an answer, ${stored}`
  }
}

/** What the door refused is kept as a record of that, and is no task that anybody waits for. */
function isMade(task: Told): boolean {
  return task.state !== 'rejected'
}

function findingsOf(request: Asked, tasks: readonly Told[]): string[] {
  const { prompt, taskIds } = request
  const made = tasks.filter(isMade)
  const twice = made.length > 1 ? [`request "${prompt}" made ${made.length} tasks`] : []
  const named = taskIds.length > 1 ? [`request "${prompt}" was told ${taskIds.length} tasks`] : []
  const missing = taskIds
    .filter((id) => !made.some((task) => task.id === id && task.kind === request.kind))
    .map((id) => `task ${id} was acknowledged, and is not there`)
  return [...twice, ...named, ...missing, ...unaccounted(request, made)]
}

function unaccounted({ prompt, kind, answered }: Asked, made: readonly Told[]): string[] {
  if (answered.kind === 'acknowledged') {
    if (answered.taskId === null) return [`request "${prompt}" was answered with success and without an ID`]
    const isUnmade = kind === 'image' && made.some((task) => task.state !== 'succeeded')
    return isUnmade ? [`image "${prompt}" was answered with success, and did not succeed`] : []
  }
  if (answered.kind !== 'refused') return []
  if (NOTHING_SUBMITTED.has(answered.code))
    return made
      .filter((task) => task.code !== answered.code)
      .map((task) => `request "${prompt}" was told ${answered.code}, and task ${task.id} is there`)
  // Everything else is told of a task that has ended so.
  return made.some((task) => task.code === answered.code)
    ? []
    : [`request "${prompt}" was told ${answered.code}, and such a task is not there`]
}

const STATUS: Readonly<Record<string, string>> = {
  queued: 'queued',
  running: 'in_progress',
  succeeded: 'completed',
  failed: 'failed',
  cancelled: 'failed',
}

/** CUS-3: what a customer sees of a video is what its row says. */
export function sightings(seen: readonly Seen[], told: readonly Told[]): string[] {
  const byId = new Map(told.map((task) => [task.id, task]))
  return seen.flatMap(({ taskId, status, code }) => {
    const task = byId.get(taskId)
    if (task && STATUS[task.state] === status && (task.state === 'cancelled' || task.code === code)) return []
    const row = task ? `${task.state} ${task.code ?? ''}` : 'not there'
    return [`video ${taskId} is shown as ${status} ${code ?? ''}, and its row is ${row}`]
  })
}
