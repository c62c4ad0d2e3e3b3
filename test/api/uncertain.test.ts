/** Submissions of unknown fate, found again: by callback, by the list of that time, by the operator. Never posted twice. */
import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, it } from 'vitest'
import { HEALTH_DEFAULTS } from '../../src/core/health-row.ts'
import { TIMING_DEFAULTS } from '../../src/runtime/timing.ts'
import {
  admitted,
  alertCodes,
  attemptIn,
  attemptsOf,
  ended,
  fault,
  healthOf,
  leaveOnly,
  ledger,
  ledgerOf,
  taskOf,
} from '../runtime/facts.ts'
import { rowsOf, until, VIDEO } from '../system/kit.ts'
import { ADMIN_TOKEN, type Api, type ApiOptions, startApi } from './kit.ts'

/** Nobody looks by itself during a test, unless it says so. */
const NEVER = { ...TIMING_DEFAULTS, lookupMs: 3_600_000, lookupMaxMs: 3_600_000 }
const SOON = { ...TIMING_DEFAULTS, lookupMs: 100, lookupMaxMs: 200 }

const KLING = { modelId: 'kling-3.0' }

let api: Api
afterEach(() => api?.stop())

async function start(options: Partial<ApiOptions> = {}): Promise<Api> {
  api = await startApi({
    running: true,
    simulator: { defaults: { duration_ms: 300 } },
    ...options,
    engine: { timing: NEVER, ...options.engine },
  })
  return api
}

const withOption = (option: string) => (text: string) =>
  text.replaceAll('    concurrency: 12\n', `    concurrency: 12\n    options: { ${option} }\n`)

async function lost(more: Parameters<typeof admitted>[2] = {}) {
  const task = await admitted(api.system, api.engine, more)
  return { task, attempt: await attemptIn(api.system, task, 'submission_uncertain') }
}

async function jobsOf(attemptId: string): Promise<string[]> {
  return ((await api.system.control('GET', `/ledger/${attemptId}`)) as { jobs: string[] }).jobs
}

async function foundBy(attemptId: string) {
  const [row] = await rowsOf<{ resolved_by: string | null; lookup_note: string | null; state: string }>(
    api.system.db,
    'select resolved_by, lookup_note, state from attempt where id = $1',
    [attemptId],
  )
  return row
}

function admin(method: string, path: string, body?: object): Promise<Response> {
  const headers: Record<string, string> = { authorization: `Bearer ${ADMIN_TOKEN}` }
  if (body !== undefined) headers['content-type'] = 'application/json'
  return fetch(`${api.url}/admin/api${path}`, {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

function call(path: string, body: string | Buffer, type = 'application/json'): Promise<Response> {
  return fetch(`${api.url}${path}`, { method: 'POST', headers: { 'content-type': type }, body })
}

describe('a callback', () => {
  it('UNK-9, UNK-6: reveals the job of a lost submission, which goes on under it, posted once', async () => {
    const { system } = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, api.engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [attempt] = await attemptsOf(system, task)
    expect(await foundBy(attempt?.id ?? '')).toMatchObject({ resolved_by: 'callback', state: 'succeeded' })
    expect(attempt?.provider_task_id).toBe((await jobsOf(attempt?.id ?? ''))[0])
    expect(await ledger(system)).toMatchObject({ posts: 1, accepted: 1 })
    // HLT-19: it counted as a failure when it was seen, and its luck proves nothing.
    expect(await healthOf(system, 'supply', attempt?.supply_id ?? '')).toMatchObject({
      counters: { consecutive_failures: 1 },
    })
  })

  it.each([
    ['doubled', { on: 'callback', times: 'forever', fault: { kind: 'callback_doubled', copies: 3 } }],
    ['early, before the answer', { on: 'create', times: 'forever', fault: { kind: 'callbacks_early' } }],
    ['late and out of order', { on: 'callback', times: 2, fault: { kind: 'callback_late', ms: 250 } }],
    ['forged, with a foreign file', { on: 'callback', times: 'forever', fault: { kind: 'callback_forged' } }],
    ['lost', { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } }],
  ])('UNK-9: %s, is harmless: one job, one result, its own', async (_, rule) => {
    const { system } = await start()
    await fault(system, rule)
    const tasks = await Promise.all([1, 2, 3].map(() => admitted(system, api.engine)))
    for (const task of tasks) expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    expect(await ledger(system)).toMatchObject({ posts: 3, accepted: 3 })
    const outputs = await rowsOf(system.db, 'select distinct asset_digest from task_output')
    expect(outputs).toHaveLength(3)
    expect(system.faults).toEqual([])
  })

  it('UNK-9: makes the poller look now', async () => {
    const { system } = await start({ simulator: { defaults: { duration_ms: 60_000 } } })
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'accepted')
    await until('the first look', async () => ((await attemptsOf(system, task))[0]?.polls ?? 0) > 0)
    await rowsOf(
      system.db,
      `update attempt set next_poll_at = clock_timestamp() + interval '1 hour', poll_owner = null`,
    )
    const before = (await attemptsOf(system, task))[0]?.polls ?? 0
    expect((await call(api.callbackPath(attempt.id), '{}')).status).toBe(204)
    await until('another look', async () => ((await attemptsOf(system, task))[0]?.polls ?? 0) > before)
  })

  it('UNK-9: without its HMAC, or with that of another attempt, is refused and changes nothing', async () => {
    const { system } = await start()
    await fault(system, { on: 'create', times: 1, fault: [{ kind: 'accept_then_drop' }] })
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    const { attempt } = await lost()
    const [job] = await jobsOf(attempt.id)
    const body = JSON.stringify({ id: job, status: 'succeeded' })
    const mac = api.callbackPath(attempt.id).split('/').at(-1) ?? ''
    const others = api.callbackPath(randomUUID()).split('/').at(-1) ?? ''
    for (const wrong of [others, mac.slice(0, -1), `${mac}A`, mac.toUpperCase(), 'x'])
      expect((await call(`/callbacks/${attempt.id}/${wrong}`, body)).status, wrong).toBe(404)
    expect((await call(`/callbacks/not-an-attempt/${mac}`, body)).status).toBe(404)
    expect(await foundBy(attempt.id)).toMatchObject({ state: 'submission_uncertain', lookup_note: null })
    const [row] = await rowsOf(
      system.db,
      'select called_back_at, hinted_task_id from attempt where id = $1',
      [attempt.id],
    )
    expect(row).toEqual({ called_back_at: null, hinted_task_id: null })
  })

  it('UNK-9: that names a job of another attempt, or none, resolves nothing; the right one then does', async () => {
    const { system } = await start()
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await leaveOnly(system, ['seedance-north'])
    const other = await admitted(system, api.engine)
    await ended(system, other)
    const [theirs] = await attemptsOf(system, other)
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const { task, attempt } = await lost()
    const path = api.callbackPath(attempt.id)
    const said = async (body: string | Buffer, type?: string) => {
      const looks = (await foundLooks(attempt.id)) ?? 0
      // Callbacks within a fifth of a second count as one.
      await until('it to be let through', async () => {
        expect((await call(path, body, type)).status).toBe(204)
        return ((await foundLooks(attempt.id)) ?? 0) > looks
      })
    }
    await said(JSON.stringify({ id: theirs?.provider_task_id, status: 'succeeded' }))
    expect((await foundBy(attempt.id))?.state).toBe('submission_uncertain')
    await said(JSON.stringify({ id: 'cgt-20260101000000-nobody', status: 'succeeded' }))
    await said('no JSON at all', 'text/plain')
    await said(Buffer.from([0xff, 0x00, 0xfe]), 'application/octet-stream')
    expect((await foundBy(attempt.id))?.state).toBe('submission_uncertain')
    const [job] = await jobsOf(attempt.id)
    await said(JSON.stringify({ id: job, status: 'running' }))
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    expect(await foundBy(attempt.id)).toMatchObject({ resolved_by: 'callback' })
    expect(await ledgerOf(system, attempt.id)).toMatchObject({ posts: 1, accepted: 1 })
  })

  it('UNK-5: after the deadline, it records an orphan with its cost, delivers nothing, and is harmless when repeated', async () => {
    const { system } = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    const { task, attempt } = await lost()
    await rowsOf(system.db, `update attempt set uncertain_deadline = clock_timestamp() where id = $1`, [
      attempt.id,
    ])
    expect(await ended(system, task)).toMatchObject({ error_code: 'submission_unresolved' })
    const [job] = await jobsOf(attempt.id)
    const orphans = () => rowsOf(system.db, 'select attempt_id, how, cost_micros from orphan_result')
    await until('the orphan', async () => {
      await call(api.callbackPath(attempt.id), JSON.stringify({ id: job, status: 'succeeded' }))
      return (await orphans()).length > 0
    })
    await call(api.callbackPath(attempt.id), JSON.stringify({ id: job, status: 'succeeded' }))
    expect(await orphans()).toEqual([
      { attempt_id: attempt.id, how: 'late_accepted', cost_micros: attempt.quote_micros },
    ])
    expect(await taskOf(system, task)).toMatchObject({ state: 'failed', error_code: 'submission_unresolved' })
    expect(await rowsOf(system.db, 'select * from task_output')).toEqual([])
    expect(await alertCodes(system)).toContain('orphan_result')
    const [usage] = await rowsOf(system.db, 'select cost_micros from usage_record where task_id = $1', [task])
    expect(usage).toEqual({ cost_micros: attempt.quote_micros })
  })
})

describe('an operator who was wrong', () => {
  it('UNK-5: a callback of a job that was said not to be there is recorded as an orphan, with its cost', async () => {
    const { system } = await start()
    await leaveOnly(system, ['seedance-north', 'seedance-south'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const { task, attempt } = await lost()
    const insisted = { outcome: 'not_accepted', by: 'ann', unconfirmed: true }
    expect((await admin('POST', `/uncertain/${attempt.id}/resolve`, insisted)).status).toBe(200)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [job] = await jobsOf(attempt.id)
    const orphans = () => rowsOf(system.db, 'select attempt_id, cost_micros from orphan_result')
    await until('the orphan', async () => {
      await call(api.callbackPath(attempt.id), JSON.stringify({ id: job, status: 'succeeded' }))
      return (await orphans()).length > 0
    })
    expect(await orphans()).toEqual([{ attempt_id: attempt.id, cost_micros: attempt.quote_micros }])
    expect(await taskOf(system, task)).toMatchObject({ state: 'succeeded' })
    expect(await rowsOf(system.db, 'select place from task_output')).toHaveLength(1)
  })
})

async function foundLooks(attemptId: string): Promise<number | undefined> {
  const [row] = await rowsOf<{ lookups: number }>(
    api.system.db,
    'select lookups from attempt where id = $1',
    [attemptId],
  )
  return row?.lookups
}

describe('the list of that time', () => {
  const ours = { catalog: withOption('sole_user: true'), engine: { timing: SOON } }

  it('UNK-9: finds the only job that fits, where the account is ours alone', async () => {
    const { system } = await start(ours)
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    const done = await admitted(system, api.engine)
    expect(await ended(system, done)).toMatchObject({ state: 'succeeded' })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, api.engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [attempt] = await attemptsOf(system, task)
    expect(await foundBy(attempt?.id ?? '')).toMatchObject({ resolved_by: 'time' })
    expect(attempt?.provider_task_id).toBe((await jobsOf(attempt?.id ?? ''))[0])
    expect(await ledger(system)).toMatchObject({ posts: 2, accepted: 2 })
  })

  it('UNK-9: two that fit, or two attempts that could have made one, are left to the deadline or the desk', async () => {
    const { system } = await start(ours)
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    // Of two equal submissions one was accepted, the other was not: nobody can tell which.
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'reset' } })
    const one = await lost()
    const two = await lost()
    await until('looks at both', async () => {
      const looks = await Promise.all([one, two].map(({ attempt }) => foundLooks(attempt.id)))
      return looks.every((count) => (count ?? 0) >= 2)
    })
    for (const { attempt } of [one, two])
      expect(await foundBy(attempt.id)).toMatchObject({ state: 'submission_uncertain', resolved_by: null })
    expect(await ledger(system)).toMatchObject({ posts: 2, accepted: 1 })
  })

  it('UNK-9: a job whose attempt an operator gave up is not given to the next one that was lost', async () => {
    const { system } = await start({ ...ours, engine: { timing: NEVER } })
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const first = await lost()
    const insisted = { outcome: 'not_accepted', by: 'ann', unconfirmed: true }
    expect((await admin('POST', `/uncertain/${first.attempt.id}/resolve`, insisted)).status).toBe(200)
    await ended(system, first.task)
    await fault(system, { on: 'create', times: 1, fault: { kind: 'reset' } })
    const second = await lost()
    const look = (await (await admin('POST', `/uncertain/${second.attempt.id}/look`)).json()) as {
      why: string
    }
    expect(look.why).toContain(`fits attempt ${first.attempt.id} as well`)
    expect((await foundBy(second.attempt.id))?.state).toBe('submission_uncertain')
  })

  it('UNK-9: proves nothing where others may use the account', async () => {
    const { system } = await start({ engine: { timing: SOON } })
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const { attempt } = await lost()
    await until('a look', async () => ((await foundLooks(attempt.id)) ?? 0) >= 2)
    expect(await foundBy(attempt.id)).toMatchObject({
      state: 'submission_uncertain',
      lookup_note: expect.stringContaining('does not tell whose it is'),
    })
  })

  it('UNK-9: an account that gives no answer is asked again', async () => {
    const { system } = await start(ours)
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'list', times: 2, fault: { kind: 'html_502' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, api.engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
  })
})

describe('the client’s own ID', () => {
  it('UNK-9: finds a lost submission at Kling, though an equal one is lost beside it', async () => {
    const { system } = await start({ engine: { timing: SOON } })
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 2, fault: { kind: 'accept_then_drop' } })
    const tasks = await Promise.all([1, 2].map(() => admitted(system, api.engine, KLING)))
    for (const task of tasks) {
      expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
      const [attempt] = await attemptsOf(system, task)
      expect(await foundBy(attempt?.id ?? '')).toMatchObject({ resolved_by: 'client_id' })
      expect(await jobsOf(attempt?.id ?? '')).toEqual([attempt?.provider_task_id])
    }
    expect(await ledger(system)).toMatchObject({ posts: 2, accepted: 2 })
  })

  it('UNK-6: that it is not there proves nothing', async () => {
    const { system } = await start({ engine: { timing: SOON } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'reset' } })
    const { attempt } = await lost(KLING)
    await until('looks', async () => ((await foundLooks(attempt.id)) ?? 0) >= 2)
    expect(await foundBy(attempt.id)).toMatchObject({
      state: 'submission_uncertain',
      lookup_note: expect.stringContaining('proves nothing'),
    })
  })

  it('UNK-6: but it does where the channel declares so, after the declared time: the task then tries again', async () => {
    const { system } = await start({
      engine: { timing: SOON },
      catalog: (text) =>
        text.replace(
          '    concurrency: 6\n',
          '    concurrency: 6\n    options: { absence_proves_after_seconds: 60 }\n',
        ),
    })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'reset' } })
    const { task, attempt } = await lost(KLING)
    await until('a look', async () => ((await foundLooks(attempt.id)) ?? 0) >= 1)
    expect((await foundBy(attempt.id))?.state).toBe('submission_uncertain')
    // Time passes: the call's own minute, and the declared one.
    await rowsOf(
      system.db,
      `update attempt set submitting_at = submitting_at - interval '3 minutes', uncertain_at = uncertain_at - interval '3 minutes' where id = $1`,
      [attempt.id],
    )
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    expect(await foundBy(attempt.id)).toMatchObject({ state: 'failed', resolved_by: 'client_id' })
    expect(await ledger(system)).toMatchObject({ posts: 2, accepted: 1 })
  })

  it('UNK-6: nor there, once the provider has called back: it has got the submission, whatever its list shows', async () => {
    const { system } = await start({
      engine: { timing: SOON },
      catalog: (text) =>
        text.replace(
          '    concurrency: 6\n',
          '    concurrency: 6\n    options: { absence_proves_after_seconds: 60 }\n',
        ),
    })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'reset' } })
    const { attempt } = await lost(KLING)
    expect((await call(api.callbackPath(attempt.id), '{}')).status).toBe(204)
    await rowsOf(
      system.db,
      `update attempt set submitting_at = submitting_at - interval '3 minutes', uncertain_at = uncertain_at - interval '3 minutes' where id = $1`,
      [attempt.id],
    )
    const before = (await foundLooks(attempt.id)) ?? 0
    await until('looks', async () => ((await foundLooks(attempt.id)) ?? 0) >= before + 2)
    expect(await foundBy(attempt.id)).toMatchObject({ state: 'submission_uncertain', resolved_by: null })
    const denied = { outcome: 'not_accepted', by: 'ann' }
    const answer = await admin('POST', `/uncertain/${attempt.id}/resolve`, denied)
    expect(answer.status).toBe(409)
    expect(await answer.text()).toContain('has called back')
    expect(await ledger(system)).toMatchObject({ posts: 1 })
    const insisted = await admin('POST', `/uncertain/${attempt.id}/resolve`, { ...denied, unconfirmed: true })
    expect(insisted.status).toBe(200)
  })
})

describe('the operator’s desk', () => {
  async function atDesk() {
    const { system } = await start()
    await leaveOnly(system, ['seedance-north', 'seedance-south'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    return { system, ...(await lost()) }
  }

  it('UNK-4: shows what is uncertain, looks, and resolves as accepted under a job that the account has', async () => {
    const { system, task, attempt } = await atDesk()
    const list = (await (await admin('GET', '/uncertain')).json()) as { data: Record<string, unknown>[] }
    expect(list.data).toMatchObject([
      {
        attempt_id: attempt.id,
        task_id: task,
        supply_id: attempt.supply_id,
        uncertain_until: expect.any(String),
      },
    ])
    expect(JSON.stringify(list)).not.toContain('a yard at night')
    const look = (await (await admin('POST', `/uncertain/${attempt.id}/look`)).json()) as { jobs: object[] }
    const [job] = await jobsOf(attempt.id)
    expect(look).toMatchObject({ resolved: false, jobs: [{ provider_task_id: job }] })
    const resolve = { outcome: 'accepted', by: 'ann', note: 'support said so' }
    const wrong = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
      ...resolve,
      provider_task_id: 'cgt-nobody',
    })
    expect(wrong.status).toBe(409)
    expect(await wrong.text()).toContain('has no job cgt-nobody')
    const right = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
      ...resolve,
      provider_task_id: job,
    })
    expect(await right.json()).toEqual({ resolved: true, outcome: 'accepted', by: 'operator' })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    expect(await foundBy(attempt.id)).toMatchObject({
      resolved_by: 'operator',
      lookup_note: 'ann: support said so',
    })
    expect(await ledger(system)).toMatchObject({ posts: 1, accepted: 1 })
    const again = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
      outcome: 'not_accepted',
      by: 'ann',
    })
    expect(again.status).toBe(409)
  })

  it('UNK-4: gives no job that was made under another ID, and one that was not ordered only to who insists', async () => {
    const { system } = await start()
    await leaveOnly(system, ['seedance-north', 'kling-3'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    const longer = { facts: { ...VIDEO, durationSeconds: 10 } }
    for (const [theirOrder, ourOrder, why] of [
      [KLING, KLING, 'made under another ID'],
      [longer, {}, 'is not what this attempt ordered'],
    ] as const) {
      const other = await admitted(system, api.engine, theirOrder)
      await ended(system, other)
      const [theirs] = await attemptsOf(system, other)
      // As if somebody else had made it in the same account.
      await rowsOf(system.db, `update attempt set provider_task_id = 'another' where id = $1`, [theirs?.id])
      await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
      const { attempt } = await lost(ourOrder)
      const wanted = { outcome: 'accepted', provider_task_id: theirs?.provider_task_id, by: 'ann' }
      const answer = await admin('POST', `/uncertain/${attempt.id}/resolve`, wanted)
      expect(answer.status).toBe(409)
      expect(await answer.text()).toContain(why)
      expect(await foundBy(attempt.id)).toMatchObject({ state: 'submission_uncertain', resolved_by: null })
      const insisted = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
        ...wanted,
        unconfirmed: true,
      })
      expect(insisted.status).toBe(theirOrder === KLING ? 409 : 200)
    }
  })

  it('UNK-4: never gives one job to two attempts', async () => {
    const { system, attempt } = await atDesk()
    const other = await admitted(system, api.engine)
    await ended(system, other)
    const [theirs] = await attemptsOf(system, other)
    // The same channel, so that the job exists there.
    await rowsOf(system.db, 'update attempt set channel_id = $2 where id = $1', [
      theirs?.id,
      attempt.channel_id,
    ])
    const answer = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
      outcome: 'accepted',
      provider_task_id: theirs?.provider_task_id,
      unconfirmed: true,
      by: 'ann',
    })
    expect(answer.status).toBe(409)
    expect(await answer.text()).toContain('belongs to another attempt')
  })

  it('UNK-6: resolved as not accepted, it counts as a retryable supply error, and the task goes on elsewhere', async () => {
    const { system } = await start()
    await leaveOnly(system, ['seedance-north', 'seedance-south'])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'reset' } })
    const { task, attempt } = await lost()
    const before = await healthOf(system, 'supply', attempt.supply_id)
    const answer = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
      outcome: 'not_accepted',
      by: 'ann',
    })
    expect(await answer.json()).toEqual({ resolved: true, outcome: 'not_accepted', by: 'operator' })
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded', attempts: 2 })
    const [first, second] = await attemptsOf(system, task)
    expect(first).toMatchObject({
      state: 'failed',
      category: 'supply',
      scope: 'supply',
      retryable: true,
      cost_micros: 0n,
      lease_held: false,
    })
    expect(second?.supply_id).not.toBe(first?.supply_id)
    expect(await healthOf(system, 'supply', attempt.supply_id)).toMatchObject({ counters: before.counters })
  })

  it('UNK-6: refuses “not accepted” where the provider shows the job', async () => {
    const { attempt } = await atDesk()
    const answer = await admin('POST', `/uncertain/${attempt.id}/resolve`, {
      outcome: 'not_accepted',
      by: 'ann',
    })
    expect(answer.status).toBe(409)
    expect(await answer.text()).toContain((await jobsOf(attempt.id))[0])
    expect((await foundBy(attempt.id))?.state).toBe('submission_uncertain')
    const insisted = { outcome: 'not_accepted', by: 'ann', unconfirmed: true }
    expect((await admin('POST', `/uncertain/${attempt.id}/resolve`, insisted)).status).toBe(200)
  })

  it('UNK-6: not even an operator can say “not accepted” against proof', async () => {
    await start({ catalog: withOption('sole_user: true') })
    await leaveOnly(api.system, ['seedance-north'])
    await fault(api.system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(api.system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const { task, attempt } = await lost()
    // Ark tells what a task is like once it has ended.
    const [job] = await jobsOf(attempt.id)
    await until('the job to end', async () => {
      const { state } = (await api.system.control('GET', `/jobs/${job}`)) as { state: string }
      return state === 'succeeded'
    })
    const insisted = { outcome: 'not_accepted', by: 'ann', unconfirmed: true }
    const answer = await admin('POST', `/uncertain/${attempt.id}/resolve`, insisted)
    expect(answer.status).toBe(409)
    expect(await answer.text()).toContain('resolve it as accepted')
    expect(await taskOf(api.system, task)).toMatchObject({ state: 'running' })
  })

  it.each([
    [{ outcome: 'maybe', by: 'ann' }, 400],
    [{ outcome: 'accepted', by: 'ann' }, 400],
    [{ outcome: 'accepted', provider_task_id: 'with space', by: 'ann' }, 400],
    [{ outcome: 'not_accepted' }, 400],
    [{ outcome: 'not_accepted', by: 'ann', provider_task_id: 'x' }, 400],
  ])('UNK-4: %j is refused with what would be right', async (body, status) => {
    await start()
    const answer = await admin('POST', `/uncertain/${randomUUID()}/resolve`, body)
    expect(answer.status).toBe(status)
    expect(await answer.json()).toMatchObject({ code: 'invalid_request' })
  })

  it('UNK-4: an attempt that does not exist is 404, and without the token nothing is told', async () => {
    await start()
    const body = { outcome: 'not_accepted', by: 'ann' }
    expect((await admin('POST', `/uncertain/${randomUUID()}/resolve`, body)).status).toBe(404)
    expect((await fetch(`${api.url}/admin/api/uncertain`)).status).toBe(401)
  })
})

describe('with short deadlines', () => {
  it('UNK-5, HLT-14: an installation chooses them', async () => {
    const timing = { ...NEVER, videoDoubtSeconds: 1 }
    const { system } = await start({ engine: { timing, health: { ...HEALTH_DEFAULTS, coolDownMs: 100 } } })
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, api.engine)
    expect(await ended(system, task)).toMatchObject({ state: 'failed', error_code: 'submission_unresolved' })
  })
})
