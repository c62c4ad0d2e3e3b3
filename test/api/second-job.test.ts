/** Jobs that nobody gets: a second one for a single submission, or one that turns up late. Each is paid for, and told once. */
import { afterEach, describe, expect, it } from 'vitest'
import { TIMING_DEFAULTS } from '../../src/runtime/timing.ts'
import {
  admitted,
  alertCodes,
  attemptIn,
  attemptsOf,
  ended,
  fault,
  leaveOnly,
  ledgerOf,
} from '../runtime/facts.ts'
import { rowsOf, until } from '../system/kit.ts'
import { ADMIN_TOKEN, type Api, startApi } from './kit.ts'

/** Nobody looks by itself: only what a callback names is looked for. */
const NEVER = { ...TIMING_DEFAULTS, lookupMs: 3_600_000, lookupMaxMs: 3_600_000 }

let api: Api
afterEach(() => api?.stop())

async function start(durationMs = 300): Promise<Api> {
  api = await startApi({
    running: true,
    simulator: { defaults: { duration_ms: durationMs } },
    engine: { timing: NEVER },
  })
  return api
}

const orphans = () =>
  rowsOf<{ attempt_id: string; provider_task_id: string; how: string; cost_micros: bigint }>(
    api.system.db,
    'select attempt_id, provider_task_id, how, cost_micros from orphan_result order by found_at',
  )

const usage = (task: string) =>
  rowsOf<{ result: string; cost_micros: bigint }>(
    api.system.db,
    'select result, cost_micros from usage_record where task_id = $1',
    [task],
  )

async function jobsOf(attemptId: string): Promise<string[]> {
  return ((await api.system.control('GET', `/ledger/${attemptId}`)) as { jobs: string[] }).jobs
}

/** What the desk of alerts counts: how often it was raised. */
async function timesTold(): Promise<number> {
  const rows = await rowsOf<{ count: number }>(
    api.system.db,
    `select count from alert where code = 'orphan_result'`,
  )
  return rows.reduce((sum, row) => sum + Number(row.count), 0)
}

function callBack(attemptId: string, job: string): Promise<Response> {
  return fetch(`${api.url}${api.callbackPath(attemptId)}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ id: job, status: 'running' }),
  })
}

describe('a provider that makes two jobs of one submission', () => {
  it('UNK-10, COST-7: the second is found by its callbacks, charged once, told once, and delivered to nobody', async () => {
    const { system } = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'duplicate_accept' } })
    const task = await admitted(system, api.engine)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [attempt] = await attemptsOf(system, task)
    if (!attempt) throw new Error('no attempt')
    const [own, second] = await jobsOf(attempt.id)
    if (second === undefined) throw new Error('no second job')
    expect(attempt.provider_task_id).toBe(own)
    await until('the orphan', async () => {
      await callBack(attempt.id, second)
      return (await orphans()).length > 0
    })
    const recorded = [
      {
        attempt_id: attempt.id,
        provider_task_id: second,
        how: 'late_accepted',
        cost_micros: attempt.quote_micros,
      },
    ]
    expect(await orphans()).toEqual(recorded)
    // However often it calls, and whoever says its own ID again.
    for (const job of [second, own ?? '', second]) await callBack(attempt.id, job)
    expect(
      await rowsOf(system.db, 'select hinted_task_id, next_lookup_at from attempt where id = $1', [
        attempt.id,
      ]),
    ).toEqual([{ hinted_task_id: null, next_lookup_at: null }])
    expect(await orphans()).toEqual(recorded)
    expect(await usage(task)).toEqual([{ result: 'succeeded', cost_micros: 2n * attempt.quote_micros }])
    expect((await attemptsOf(system, task))[0]?.cost_micros).toBe(2n * attempt.quote_micros)
    expect(await timesTold()).toBe(1)
    expect(await rowsOf(system.db, 'select place from task_output')).toHaveLength(1)
    expect(await ledgerOf(system, attempt.id)).toMatchObject({ posts: 1 })
  })

  it('COST-7: while its own job runs, the end of the attempt keeps what the second one cost', async () => {
    const { system } = await start(60_000)
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', times: 1, fault: { kind: 'duplicate_accept' } })
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'accepted')
    const [own, second] = await jobsOf(attempt.id)
    await until('the orphan', async () => {
      await callBack(attempt.id, second ?? '')
      return (await orphans()).length > 0
    })
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'accepted', lease_held: true }])
    await system.control('POST', `/jobs/${own}/end`, { state: 'failed' })
    await attemptIn(system, task, 'failed')
    expect((await attemptsOf(system, task))[0]?.cost_micros).toBe(attempt.quote_micros)
  })

  it('UNK-9: a callback that names a job which the account does not have changes nothing', async () => {
    const { system } = await start(60_000)
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'accepted')
    await callBack(attempt.id, 'cgt-made-up')
    await until('the look', async () => {
      const [row] = await rowsOf<{ lookup_note: string | null }>(
        system.db,
        'select lookup_note from attempt where id = $1',
        [attempt.id],
      )
      return row?.lookup_note?.includes('no job by the ID') === true
    })
    expect(
      await rowsOf(system.db, 'select hinted_task_id, next_lookup_at from attempt where id = $1', [
        attempt.id,
      ]),
    ).toEqual([{ hinted_task_id: null, next_lookup_at: null }])
    expect(await orphans()).toEqual([])
    expect(await attemptsOf(system, task)).toMatchObject([{ state: 'accepted' }])
  })

  it('UNK-9: an answer that comes late and names another job than the one that was found is a second one', async () => {
    const { system } = await start(60_000)
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'accepted')
    const named = (providerTaskId: string) =>
      api.engine.settle.apply(attempt.id, attempt.fence, {
        kind: 'accepted',
        providerTaskId,
        requestId: null,
      })
    await named(attempt.provider_task_id ?? '')
    expect(await orphans()).toEqual([])
    for (const job of ['cgt-other', 'cgt-other', 'cgt-third']) await named(job)
    expect((await orphans()).map((orphan) => orphan.provider_task_id)).toEqual(['cgt-other', 'cgt-third'])
    expect((await attemptsOf(system, task))[0]?.cost_micros).toBe(3n * attempt.quote_micros)
    expect(await timesTold()).toBe(2)
  })

  it('UNK-9: a likeness found by time, or an operator who is late, makes no second job', async () => {
    const { system } = await start(60_000)
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'accepted')
    for (const resolver of ['time', 'operator'] as const)
      await api.engine.settle.apply(attempt.id, attempt.fence, {
        kind: 'accepted',
        providerTaskId: 'cgt-like',
        requestId: null,
        found: { resolver, note: null },
      })
    expect(await orphans()).toEqual([])
  })
})

describe('a job that turns up after its attempt was ended', () => {
  const notAccepted = async (attemptId: string) => {
    const answer = await fetch(`${api.url}/admin/api/uncertain/${attemptId}/resolve`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ADMIN_TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ outcome: 'not_accepted', by: 'ann', unconfirmed: true }),
    })
    expect(answer.status).toBe(200)
  }

  it('UNK-5, COST-7: said not to be there, it is charged with what was not charged yet', async () => {
    const { system } = await start()
    await leaveOnly(system, ['seedance-north', 'seedance-south'])
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'submission_uncertain')
    await notAccepted(attempt.id)
    expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
    const [first, second] = await attemptsOf(system, task)
    expect(first).toMatchObject({ state: 'failed', cost_micros: 0n })
    expect(await usage(task)).toMatchObject([{ cost_micros: second?.cost_micros }])
    const [job] = await jobsOf(attempt.id)
    await until('the orphan', async () => {
      await callBack(attempt.id, job ?? '')
      return (await orphans()).length > 0
    })
    expect((await attemptsOf(system, task))[0]).toMatchObject({ cost_micros: attempt.quote_micros })
    expect(await usage(task)).toMatchObject([
      { result: 'succeeded', cost_micros: attempt.quote_micros + (second?.cost_micros ?? 0n) },
    ])
  })

  it('UNK-5, COST-7: given up, it was charged already, and a second one after it is charged as well', async () => {
    const { system } = await start()
    await fault(system, { on: 'create', times: 1, fault: { kind: 'accept_then_drop' } })
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    const task = await admitted(system, api.engine)
    const attempt = await attemptIn(system, task, 'submission_uncertain')
    await system.db.query('update attempt set uncertain_deadline = clock_timestamp() where id = $1', [
      attempt.id,
    ])
    await ended(system, task)
    const [over] = await attemptsOf(system, task)
    const late = (providerTaskId: string) =>
      api.engine.settle.apply(attempt.id, over?.fence ?? 0n, {
        kind: 'accepted',
        providerTaskId,
        requestId: null,
      })
    const costs = async () => [
      (await attemptsOf(system, task))[0]?.cost_micros,
      ...(await usage(task)).map((row) => row.cost_micros),
    ]
    expect(await costs()).toEqual([attempt.quote_micros, attempt.quote_micros])
    await late('cgt-late')
    expect(await costs()).toEqual([attempt.quote_micros, attempt.quote_micros])
    await late('cgt-later')
    expect(await costs()).toEqual([2n * attempt.quote_micros, 2n * attempt.quote_micros])
    expect(await orphans()).toHaveLength(2)
    expect(await alertCodes(system)).toContain('orphan_result')
  })

  it('UNK-9: what is recorded as an orphan is no other attempt’s job', async () => {
    const { system } = await start()
    await fault(system, { on: 'callback', times: 'forever', fault: { kind: 'callback_lost' } })
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', times: 2, fault: { kind: 'accept_then_drop' } })
    const attempts = []
    for (let which = 0; which < 2; which += 1)
      attempts.push(await attemptIn(system, await admitted(system, api.engine), 'submission_uncertain'))
    await system.db.query('update attempt set uncertain_deadline = clock_timestamp()')
    for (const { id } of attempts)
      await until(
        'the end',
        async () =>
          (await rowsOf(system.db, `select 1 as one from attempt where id = $1 and state = 'failed'`, [id]))
            .length > 0,
      )
    for (const { id, fence } of attempts)
      await api.engine.settle.apply(id, fence, {
        kind: 'accepted',
        providerTaskId: 'cgt-one',
        requestId: null,
        found: { resolver: 'client_id', note: null },
      })
    expect((await orphans()).map((orphan) => orphan.attempt_id)).toEqual([attempts[0]?.id])
  })
})
