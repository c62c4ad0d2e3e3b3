/** Leaving: what is being answered is answered, and nothing else holds the process up. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, it } from 'vitest'
import type { ImageAnswer } from '../../src/runtime/service.ts'
import { dispatchingThat, startApi } from './kit.ts'

it('closes idle connections at once, also one without any request, and waits for what is being answered', async () => {
  const asked = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<ImageAnswer>()
  const runImage = () => {
    asked.resolve()
    return answer.promise
  }
  const api = await startApi({ running: false, public: { dispatching: dispatchingThat({ runImage }) } })
  const silent = connect(Number(new URL(api.url).port), '127.0.0.1')
  await once(silent, 'connect')
  await api.fetch('/livez')
  const running = api.fetch('/v1/images/generations', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'seedream-4.0', prompt: 'the last one' }),
  })
  await asked.promise
  let closed = false
  const stopped = api.app.close().then(() => {
    closed = true
  })
  silent.resume()
  await once(silent, 'close')
  expect(closed).toBe(false)
  answer.resolve({ kind: 'wait', taskId: 't', reason: 'capacity', retryAfterSeconds: 3 })
  expect((await running).status).toBe(429)
  await stopped
  await api.stop()
})
