// Plays the effects of faults on one answer, and puts it on the wire.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Answer, json, type NamedError } from './answer.ts'
import type { Effect, ScriptedAnswer } from './faults/effect.ts'
import type { AnswerNote } from './ledger.ts'

export type Performance = {
  /** Acts on the request and answers it. */
  answer: () => Answer | Promise<Answer>
  /** The provider's own words for a named error. */
  named?: (name: NamedError) => Answer
  effect: Effect
  headers: Record<string, string>
}

/** Returns what the client was told. */
export async function play(
  request: IncomingMessage,
  response: ServerResponse,
  { answer, named, effect, headers }: Performance,
): Promise<AnswerNote> {
  if (effect.beforeMs !== undefined) await wait(effect.beforeMs)
  const scripted = (given: ScriptedAnswer) => write(given, named)
  const acted = effect.instead === undefined ? await answer() : scripted(effect.instead)
  if (effect.afterMs !== undefined) await wait(effect.afterMs)
  if (effect.dropAnswer === true) {
    request.socket.destroy()
    return 'dropped'
  }
  const final = effect.replace === undefined ? acted : scripted(effect.replace)
  if (response.destroyed || request.socket.destroyed) return 'no answer'
  return send(request, response, { final, effect, headers })
}

function write(given: ScriptedAnswer, named: Performance['named']): Answer {
  if ('named' in given) {
    const answer = named?.(given.named) ?? json(500, {})
    return { ...answer, headers: { ...answer.headers, ...given.headers } }
  }
  if (typeof given.body === 'object') return json(given.status, given.body, given.headers)
  return { status: given.status, headers: given.headers, body: Buffer.from(given.body) }
}

type Sending = { final: Answer; effect: Effect; headers: Record<string, string> }

function send(
  request: IncomingMessage,
  response: ServerResponse,
  { final, effect, headers }: Sending,
): Promise<AnswerNote> {
  const keep = effect.shorten ?? effect.cutOff ?? 1
  const part = final.body.subarray(0, Math.floor(final.body.length * keep))
  const announced = effect.cutOff === undefined ? part.length : final.body.length
  response.writeHead(final.status, {
    ...headers,
    ...final.headers,
    ...(effect.contentType === undefined ? {} : { 'content-type': effect.contentType }),
    'content-length': String(announced),
  })
  return new Promise((resolve) => {
    response.once('close', () => resolve(response.writableFinished ? final.status : 'no answer'))
    if (effect.cutOff === undefined || request.method === 'HEAD') return void response.end(part)
    // The head and the part must be on the wire before the connection goes.
    response.write(part, () => {
      setImmediate(() => request.socket.destroy())
    })
  })
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms).unref())
}
