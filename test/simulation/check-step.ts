/** What must hold at each grant and after every step, by the books and by what the providers know. */
import { type Attempt, type Books, epochOf, type Level, secondsSince, type Task } from './books.ts'
import { WINDOW_SECONDS } from './catalog.ts'
import { allowance } from './check-decision.ts'
import { CLAIM_SECONDS } from './incarnation.ts'
import type { Providers } from './provider.ts'

/** Two looks of a reconciler, a claim that must lapse first, and a step or two in memory. */
export const GRACE_SECONDS = CLAIM_SECONDS + 45
const CREATE_SECONDS = 30
const IMAGE_SECONDS = 120
const IMAGE_GRACE_SECONDS = 30

/** Before the lease is taken: what the decision saw may be past, what stands in the books may not be broken. */
export function checkGrant(books: Books, task: Task, levels: readonly Level[]): void {
  const { insist } = books
  insist(task.state === 'queued', 'ORD-13: only a waiting task is granted')
  insist(
    task.attempts.every((attempt) => attempt.state === 'failed' || attempt.state === 'abandoned'),
    'STR-8: never two open attempts of a task',
  )
  for (const level of levels) {
    const held = books.held(level)
    const { state } = level.row
    const ofEpoch = held.filter((attempt) => epochOf(attempt, level) === level.row.epoch).length
    const successes = 'recoverySuccesses' in level.row ? level.row.recoverySuccesses : 0
    const slots = allowance({
      health: state,
      recoverySuccesses: successes,
      concurrency: level.concurrency,
    })
    insist(held.length < level.concurrency, 'INV-1: never over the configured limit')
    insist(
      state !== 'circuit_open' && state !== 'disabled',
      'INV-3: nothing is granted to what is open or disabled',
    )
    insist(ofEpoch < slots, `INV-2, INV-4, HLT-6, HLT-7: never over the limit of the rung (${state})`)
    insist((level.row.hold?.notBefore ?? 0) <= books.now, 'HLT-15: nothing is granted before a hold is over')
    books.see(`granted in ${state}`)
    if (state === 'recovering') books.see(`granted on rung ${successes}`)
    if (state === 'recovering' && ofEpoch + 1 === slots) books.see(`filled rung ${successes}`)
  }
}

/** After every step of the clock. */
export function checkStep(books: Books, providers: Providers): void {
  for (const task of books.open) checkTask(books, task)
  for (const attempt of books.leases) checkLease(books, attempt)
  for (const task of books.open) {
    const { attempt } = task
    if (attempt)
      books.insist(books.leases.has(attempt), 'UNK-2, CON-1: an attempt that is alive holds its lease')
    for (const one of task.attempts) checkReleased(books, providers, one)
  }
}

function checkTask(books: Books, task: Task): void {
  const age = secondsSince(task.createdAt, books.now)
  if (task.state === 'running') books.insist(task.attempt !== null, 'RTY-7: a running task has an attempt')
  if (task.facts.media === 'image') {
    books.insist(
      task.attempts.every((attempt) => attempt.state !== 'submission_uncertain'),
      'UNK-7: for an image, unknown is final',
    )
    return void books.insist(
      age <= IMAGE_SECONDS + IMAGE_GRACE_SECONDS + GRACE_SECONDS,
      'RTY-5, RTY-7: an image is over within its total timeout, and some',
    )
  }
  if (task.state === 'queued')
    books.insist(age <= WINDOW_SECONDS + GRACE_SECONDS, 'RTY-3, RTY-7: no video waits beyond its window')
}

/** What holds a lease has a time by which it must let go. */
function checkLease(books: Books, attempt: Attempt): void {
  const { now, insist } = books
  const since = (then: number | null) => (then === null ? 0 : secondsSince(then, now))
  const { state } = attempt
  const isImage = attempt.task.facts.media === 'image'
  insist(
    state !== 'succeeded' && state !== 'failed' && state !== 'abandoned',
    'UNK-5: no lease outlives its attempt',
  )
  if (state === 'reserved')
    insist(
      since(attempt.grantedAt) <= CLAIM_SECONDS + GRACE_SECONDS,
      'UNK-6: what was granted is begun, or given back',
    )
  if (state === 'submitting')
    insist(
      since(attempt.submittingAt) <= (isImage ? IMAGE_SECONDS : CREATE_SECONDS) + GRACE_SECONDS,
      'UNK-6: a submission is answered, or in doubt',
    )
  if (state === 'submission_uncertain')
    insist(
      since(attempt.uncertainAt) <= (isImage ? 300 : 3600) + GRACE_SECONDS,
      'UNK-5: a doubt ends by its deadline',
    )
  if (state === 'accepted' && attempt.heldUntil === null)
    insist(
      since(attempt.acceptedAt) <= 3600 + GRACE_SECONDS,
      'RTY-7: a job that runs too long ends its task by the deadline',
    )
  if (attempt.heldUntil !== null)
    insist(
      now <= attempt.heldUntil + GRACE_SECONDS * 1_000_000,
      'RTY-7: a lease ends with the provider’s maximum life',
    )
}

/** A slot is the provider's: it is not given away while the provider is known to work, or may be. */
function checkReleased(books: Books, providers: Providers, attempt: Attempt): void {
  if (books.leases.has(attempt) || attempt.state === 'failed') return
  const job = providers.job(attempt)
  books.insist(
    !job || job.endsAt <= books.now,
    'UNK-2: no lease is released while the job of its attempt may be running',
  )
}
