// What a fault does, in the few ways in which an exchange can go wrong. Kinds of faults are made of these;
// the server knows nothing else, so that a new kind is a new row of data.

import type { NamedError } from '../answer.ts'
import type { JobPlan } from '../job.ts'

/** An answer that the script gives in place of the provider's: literal, or one of its named errors. */
export type ScriptedAnswer =
  | { status: number; headers: Record<string, string>; body: string | object }
  | { named: NamedError; headers: Record<string, string> }

export type Effect = {
  /** Close the connection before the body is read. */
  dropUnread?: boolean
  /** Wait before the request is acted on. */
  beforeMs?: number
  /** Answer this and act on nothing. */
  instead?: ScriptedAnswer
  /** One create makes so many jobs. */
  jobs?: number
  plan?: JobPlan
  /** In a query: show this status. */
  show?: string
  /** These pictures of a batch fail, by index. */
  failedPictures?: number
  pictureError?: { code: string; message: string }
  /** Act on it, then wait before answering. */
  afterMs?: number
  /** Act on it, then close the connection without an answer. */
  dropAnswer?: boolean
  /** Act on it, then answer this. */
  replace?: ScriptedAnswer
  /** Send this part of the body, 0 to 1, as if it were the whole. */
  shorten?: number
  /** Announce the whole body, send this part of it, 0 to 1, and close the connection. */
  cutOff?: number
  contentType?: string
  callback?: { copies?: number; lost?: boolean; delayMs?: number; forged?: boolean }
}

/** Effects of several faults on one request; the later ones win where they contradict. */
export function mergeEffects(effects: Effect[]): Effect {
  const plans = effects.flatMap((effect) => (effect.plan === undefined ? [] : [effect.plan]))
  const callbacks = effects.flatMap((effect) => (effect.callback === undefined ? [] : [effect.callback]))
  return {
    ...Object.assign({}, ...effects),
    ...(plans.length > 0 ? { plan: Object.assign({}, ...plans) } : {}),
    ...(callbacks.length > 0 ? { callback: Object.assign({}, ...callbacks) } : {}),
  }
}
