/** What the yard decides with: the product's own functions, as a value, so that a broken one can be put in its place. */
import { isAlive } from '../../src/core/attempt.ts'
import { decideWithFigures } from '../../src/core/decide.ts'
import { escalates } from '../../src/core/escalation.ts'
import { freeCapacity } from '../../src/core/free-capacity.ts'
import { afterPing, applyNews, coolDownOver, disable, enable } from '../../src/core/health.ts'
import { mayGive, newsFor } from '../../src/core/health-news.ts'
import { classifySubmission } from '../../src/core/outcome.ts'
import { recordOf } from '../../src/core/record.ts'
import { afterFailure, costOfAttempt, mayChangeSupply } from '../../src/core/retry.ts'

export const RULES = {
  decide: decideWithFigures,
  recordOf,
  /** A round on its way into its table. */
  keep: (round: object): string => JSON.stringify(round),
  applyNews,
  coolDownOver,
  afterPing,
  disable,
  enable,
  newsFor,
  mayGive,
  escalates,
  /** At the grant. */
  freeCapacity,
  isAlive,
  afterFailure,
  costOfAttempt,
  mayChangeSupply,
  classifySubmission,
  // What the engine does by SQL or by its own clock: by the book, here.
  /** What is due for an attempt whose process is gone (UNK-6). */
  lostBy: (state: 'reserved' | 'submitting'): 'not_started' | 'lost' =>
    state === 'reserved' ? 'not_started' : 'lost',
  /** Whether a task is still as the decision saw it. */
  isSameTurn: (seen: number, now: number): boolean => seen === now,
  /** Whether a process that has been still for so many seconds may send what it has begun. */
  mayStillSend: (silentSeconds: number): boolean => silentSeconds < 10,
  /** RTY-7, UNK-5: seconds until an attempt is given up. */
  maxRunSeconds: 3600,
  doubtSeconds: 3600,
  imageSeconds: 120,
  imageDoubtSeconds: 300,
  /** UNK-7: for an image, unknown is final. */
  unknownEndsImage: true,
}
export type Rules = typeof RULES
