import { describe, expect, it } from 'vitest'
import { isOver, type TaskState, type TaskTransition, taskAfter } from './task.ts'

const STATES: TaskState[] = ['queued', 'running', 'succeeded', 'failed', 'cancelled', 'rejected']
const TRANSITIONS: TaskTransition[] = ['start', 'requeue', 'succeed', 'fail', 'cancel', 'reject']

const from = (state: TaskState) => TRANSITIONS.map((name) => taskAfter(state, name))

describe('task', () => {
  it('RTY-4, RTY-7: what has ended stays ended', () => {
    expect(STATES.filter(isOver)).toEqual(['succeeded', 'failed', 'cancelled', 'rejected'])
    for (const state of STATES.filter(isOver)) expect(from(state)).toEqual(Array(6).fill(null))
  })

  it('RTY-7: from every state that is not over, an end can be reached at once', () => {
    expect(from('queued')).toEqual(['running', null, null, 'failed', 'cancelled', 'rejected'])
    expect(from('running')).toEqual([null, 'queued', 'succeeded', 'failed', 'cancelled', null])
  })
})
