/**
 * One customer request by its states. An image lives through the same ones inside one HTTP call. A task that is
 * `running` has exactly one attempt that is alive; an attempt may outlive its task (RTY-7), never the other way round.
 */
export type TaskState =
  | 'queued'
  | 'running'
  | 'succeeded'
  | 'failed'
  | 'cancelled'
  /** Never taken: the door's answer, or that of an image's first round behind it. */
  | 'rejected'

export type TaskTransition =
  | 'start'
  /** A second attempt (RTY-1), or one that sent nothing (UNK-6). */
  | 'requeue'
  | 'succeed'
  | 'fail'
  | 'cancel'
  | 'reject'

type Moves = Partial<Record<TaskState, TaskState>>

const LEGAL: Readonly<Record<TaskTransition, Moves>> = {
  start: { queued: 'running' },
  requeue: { running: 'queued' },
  succeed: { running: 'succeeded' },
  fail: { queued: 'failed', running: 'failed' },
  cancel: { queued: 'cancelled', running: 'cancelled' },
  reject: { queued: 'rejected' },
}

/** Where the transition leads from here; null where it is not legal: what has ended stays ended. */
export function taskAfter(state: TaskState, transition: TaskTransition): TaskState | null {
  return LEGAL[transition][state] ?? null
}

export function isOver(state: TaskState): boolean {
  return state !== 'queued' && state !== 'running'
}
