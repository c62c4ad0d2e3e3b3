/** Lost submissions, found again at the simulator through each adapter (UNK-9): what the account shows, no more and no less. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Account, Submission, VideoOrder } from '../../src/providers/adapter.ts'
import { createCaller } from '../../src/providers/call.ts'
import { createProviders } from '../../src/providers/registry.ts'
import { type Simulator, startSimulator } from '../../src/simulator/server.ts'

let simulator: Simulator
const caller = createCaller()
const providers = createProviders(caller)
beforeAll(async () => {
  simulator = await startSimulator({ seed: 1 })
})
afterAll(async () => {
  await caller.close()
  await simulator.close()
})
beforeEach(async () => {
  await control('POST', '/reset')
  await control('POST', '/configuration', { defaults: { duration_ms: 30 } })
})

async function control(method: string, path: string, body?: unknown) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await fetch(`${simulator.url}/control${path}`, init)
  const said = await answer.json()
  if (!answer.ok) throw new Error(JSON.stringify(said))
  return said
}

const ORDER: VideoOrder = {
  media: 'video',
  prompt: 'a lighthouse',
  durationSeconds: 8,
  resolution: '720p',
  aspectRatio: '16:9',
  generateAudio: false,
  inputs: {},
}
const LIMITS = { timeoutMs: 10_000 }
const PLACES = [
  { name: 'ark', base: '/ark/main/api/v3', model: 'doubao-seedance-2-0-260128' },
  { name: 'openai', base: '/openai/main/v1', model: 'wan-video' },
  { name: 'kling', base: '/kling/main', model: 'kling-3.0' },
]

describe.each(PLACES)('$name', ({ name, base, model }) => {
  const adapter = providers.get(name)
  const account = (): Account => ({
    channelId: name,
    baseUrl: `${simulator.url}${base}`,
    credential: 'k-123456',
    options: {},
  })

  /** Accepted, and the answer lost. */
  async function lose(prompt = ORDER.prompt) {
    await control('POST', '/faults', { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const attemptId = randomUUID()
    const submission: Submission<VideoOrder> = {
      attemptId,
      upstreamModel: model,
      order: { ...ORDER, prompt },
      callbackUrl: null,
      timeoutMs: 5_000,
      mayStillSend: () => true,
    }
    const from = Date.now()
    const reply = await adapter?.submitVideo?.(account(), submission)
    expect(reply).toMatchObject({ kind: 'fault', fault: { certainty: 'unknown' } })
    const { jobs } = (await control('GET', `/ledger/${attemptId}`)) as { jobs: string[] }
    return { lost: { attemptId, from, until: Date.now() }, job: jobs[0] ?? '' }
  }

  it('UNK-9: by the time, among others', async () => {
    const one = await lose('one')
    const two = await lose('two')
    const reply = await adapter?.lookup?.byTime?.(account(), one.lost, LIMITS)
    if (reply?.kind !== 'jobs') throw new Error(JSON.stringify(reply))
    expect(reply.complete).toBe(true)
    expect(new Set(reply.jobs.map((job) => job.providerTaskId))).toEqual(new Set([one.job, two.job]))
    const found = reply.jobs.find((job) => job.providerTaskId === one.job)
    expect(found?.createdAtMs).toBeGreaterThan(one.lost.from - 2000)
    expect(found?.createdAtMs).toBeLessThanOrEqual(one.lost.until)
    // Whose it is: by the client's ID, by the prompt, or not at all.
    const whose = { ark: [null, null], openai: [null, 'one'], kling: [one.lost.attemptId, null] }[name]
    expect([found?.clientId, found?.prompt]).toEqual(whose)
  })

  it('UNK-9: what was made long before is left out', async () => {
    const { lost, job } = await lose()
    const later = { ...lost, from: lost.from + 600_000, until: lost.until + 600_000 }
    const reply = await adapter?.lookup?.byTime?.(account(), later, LIMITS)
    expect(reply).toMatchObject({ kind: 'jobs', jobs: [], complete: true })
    expect(job).toBeTruthy()
  })

  it('UNK-9: by the provider’s own ID, and that there is none', async () => {
    const { job } = await lose()
    const reply = await adapter?.lookup?.byTaskId?.(account(), job, LIMITS)
    expect(reply).toMatchObject({ kind: 'jobs', jobs: [{ providerTaskId: job }] })
    expect(await adapter?.lookup?.byTaskId?.(account(), `${job}0`, LIMITS)).toMatchObject({
      kind: 'jobs',
      jobs: [],
    })
  })

  it.each(['html_502', 'reset', 'empty_200', 'truncated_json', 'cut_off'])(
    'UNK-9: a list that meets %s is no answer',
    async (kind) => {
      const { lost } = await lose()
      await control('POST', '/faults', { on: 'list', times: 'forever', fault: { kind } })
      expect(await adapter?.lookup?.byTime?.(account(), lost, LIMITS)).toMatchObject({ kind: 'no_answer' })
    },
  )

  it('UNK-9: a key that is refused is no answer', async () => {
    const { lost, job } = await lose()
    await control('POST', '/configuration', {
      accounts: [{ protocol: name, account: 'main', keys: ['other'] }],
    })
    expect(await adapter?.lookup?.byTime?.(account(), lost, LIMITS)).toMatchObject({ kind: 'no_answer' })
    expect(await adapter?.lookup?.byTaskId?.(account(), job, LIMITS)).toMatchObject({
      kind: 'no_answer',
      fault: { code: 'key_refused' },
    })
  })
})

it('UNK-9: Kling by our own ID', async () => {
  const kling = providers.get('kling')
  const account = {
    channelId: 'kling',
    baseUrl: `${simulator.url}/kling/main`,
    credential: 'k-123456',
    options: {},
  }
  await control('POST', '/faults', { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
  const attemptId = randomUUID()
  const submission = {
    attemptId,
    upstreamModel: 'kling-3.0',
    order: ORDER,
    callbackUrl: null,
    timeoutMs: 5_000,
    mayStillSend: () => true,
  }
  await kling?.submitVideo?.(account, submission)
  const lost = { attemptId, from: 0, until: Date.now() }
  const { jobs } = (await control('GET', `/ledger/${attemptId}`)) as { jobs: string[] }
  expect(await kling?.lookup?.byClientId?.(account, lost, LIMITS)).toMatchObject({
    kind: 'jobs',
    jobs: [{ providerTaskId: jobs[0], clientId: attemptId }],
  })
  const never = { ...lost, attemptId: randomUUID() }
  expect(await kling?.lookup?.byClientId?.(account, never, LIMITS)).toEqual({
    kind: 'jobs',
    jobs: [],
    complete: true,
  })
})
