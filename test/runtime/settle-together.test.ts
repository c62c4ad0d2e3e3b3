/** Outcomes that settle in one transaction: each counts as if it were alone, and none suffers from its neighbours. */
import { afterEach, describe, expect, it } from 'vitest'
import type { SubmitReply } from '../../src/providers/adapter.ts'
import type { Outcome } from '../../src/runtime/settlement.ts'
import { rowsOf, type System, startSystem, until } from '../system/kit.ts'
import { type AttemptFacts, admitted, attemptsOf } from './facts.ts'

/** The demo's model has 5 + 8 + 3 slots. */
const ALL = 16

let system: System
afterEach(() => system.stop())

/** Sixteen attempts whose calls are under way; `answer` answers all of them in one moment. */
async function sixteenCalls() {
  system = await startSystem()
  const calls = new Map<string, (reply: SubmitReply) => void>()
  const ark = system.providers.get('ark')
  if (!ark) throw new Error('there is no such provider')
  const submitVideo = (_: unknown, { attemptId }: { attemptId: string }) =>
    new Promise<SubmitReply>((resolve) => calls.set(attemptId, resolve))
  const engine = system.engine({ roles: ['api'], providers: new Map([['ark', { ...ark, submitVideo }]]) })
  await engine.start()
  for (let n = 0; n < ALL; n += 1) await admitted(system, engine)
  await engine.dispatchOnce()
  await until('all of them to be called', async () => calls.size === ALL)
  const answer = () => {
    for (const [id, resolve] of calls)
      resolve({ kind: 'accepted', providerTaskId: `job-${id}`, requestId: null })
  }
  return { engine, answer }
}

async function sixteenAccepted() {
  const { engine, answer } = await sixteenCalls()
  answer()
  await until('all to be accepted', async () => (await inState('accepted')).length === ALL)
  return { engine, attempts: await attemptsOf(system) }
}

const inState = async (state: string) =>
  (await attemptsOf(system)).filter((attempt) => attempt.state === state)

/** How many transactions wrote these attempts last. */
async function writers(): Promise<number> {
  const rows = await rowsOf(system.db, 'select distinct xmin::text from attempt')
  return rows.length
}

function delivery(attempt: AttemptFacts): Outcome {
  const digest = attempt.id.replaceAll('-', '').repeat(2)
  const output = { asset_digest: digest, content_type: 'video/mp4', bytes: 9, error: null, measured: null }
  return {
    kind: 'finished',
    outputs: [{ place: 0, ...output }],
    billedPlaces: 1,
    durationMs: 1000,
    reported: null,
    requestId: null,
  }
}

const successes = async () => {
  const rows = await rowsOf<{ id: string; n: number }>(
    system.db,
    `select channel_id as id, jsonb_array_length(counters->'outcomes')::int as n from channel_health
      where jsonb_array_length(counters->'outcomes') > 0
      union all select supply_id, jsonb_array_length(counters->'outcomes')::int from supply_health
      where jsonb_array_length(counters->'outcomes') > 0`,
  )
  return rows.reduce((sum, row) => sum + row.n, 0)
}

describe('outcomes that come together', () => {
  it('ORD-13, HLT-19: acceptances share a transaction, and each is told to its channel once', async () => {
    await sixteenAccepted()
    expect(await writers()).toBeLessThanOrEqual(3)
    expect(
      await rowsOf(system.db, `select count(*)::int as n from attempt_news where level = 'channel'`),
    ).toEqual([{ n: ALL }])
    expect(await successes()).toBe(ALL)
    expect(
      (await attemptsOf(system)).every((attempt) => attempt.provider_task_id === `job-${attempt.id}`),
    ).toBe(true)
  })

  it('ORD-13, CUS-2, HLT-19: deliveries too: each task ends once, with its usage, and every slot is free', async () => {
    const { engine, attempts } = await sixteenAccepted()
    const settled = await Promise.all(
      attempts.map((attempt) => engine.settle.apply(attempt.id, attempt.fence, delivery(attempt))),
    )
    expect(settled).toEqual(attempts.map(() => ({ kind: 'ended', state: 'succeeded', code: null })))
    expect(await writers()).toBeLessThanOrEqual(3)
    expect((await attemptsOf(system)).filter((attempt) => attempt.lease_held)).toEqual([])
    const facts = `select t.id, u.cost_micros, a.cost_micros as cost, o.asset_digest, a.id as attempt
      from task t join usage_record u on u.task_id = t.id and u.result = 'succeeded' join attempt a on a.task_id = t.id
      join task_output o on o.task_id = t.id where t.state = 'succeeded'`
    const rows = await rowsOf<{ cost_micros: bigint; cost: bigint; asset_digest: string; attempt: string }>(
      system.db,
      facts,
    )
    expect(rows.length).toBe(ALL)
    for (const row of rows) {
      expect(row.cost_micros).toBe(row.cost)
      expect(row.asset_digest).toBe(row.attempt.replaceAll('-', '').repeat(2))
    }
    expect(await successes()).toBe(2 * ALL)
  })

  it('UNK-6, HLT-19: what is stale, or told twice, changes nothing, and keeps nobody from settling', async () => {
    const { engine, attempts } = await sixteenAccepted()
    const [first, second, ...others] = attempts
    if (!first || !second) throw new Error('there are sixteen')
    const settled = await Promise.all([
      engine.settle.apply(first.id, first.fence - 1n, delivery(first)),
      ...others.map((attempt) => engine.settle.apply(attempt.id, attempt.fence, delivery(attempt))),
      engine.settle.apply(second.id, second.fence, delivery(second)),
      engine.settle.apply(second.id, second.fence, delivery(second)),
    ])
    expect(settled[0]).toEqual({ kind: 'stale' })
    expect(settled.filter((one) => one.kind === 'ended').length).toBe(ALL - 1)
    expect(settled.slice(-2).map((one) => one.kind)).toEqual(['ended', 'stale'])
    for (const late of [delivery(second), { kind: 'job_cancelled' } as const])
      expect(await engine.settle.apply(second.id, second.fence, late)).toEqual({ kind: 'stale' })
    expect((await inState('accepted')).map((attempt) => attempt.id)).toEqual([first.id])
    expect(await rowsOf(system.db, 'select count(*)::int as n from usage_record')).toEqual([{ n: ALL - 1 }])
  })

  it('ORD-13: what the database refuses for one is settled for the others, and for that one once it can be', async () => {
    const { engine, attempts } = await sixteenAccepted()
    const bad = attempts[7]
    if (!bad) throw new Error('there are sixteen')
    await system.db.query(`create function refuse() returns trigger language plpgsql as $$ begin
      if new.asset_digest = '${bad.id.replaceAll('-', '').repeat(2)}' then raise exception 'refused by the test'; end if;
      return new; end $$`)
    await system.db.query(
      'create trigger refuse before insert on task_output for each row execute function refuse()',
    )
    const all = Promise.all(
      attempts.map((attempt) => engine.settle.apply(attempt.id, attempt.fence, delivery(attempt))),
    )
    await until('the others to be settled', async () => (await inState('succeeded')).length === ALL - 1)
    expect((await inState('accepted')).map((attempt) => attempt.id)).toEqual([bad.id])
    await system.db.query('drop trigger refuse on task_output')
    expect((await all).every((one) => one.kind === 'ended')).toBe(true)
    expect(await rowsOf(system.db, 'select count(*)::int as n from usage_record')).toEqual([{ n: ALL }])
    expect(system.faults.length).toBeGreaterThan(0)
    system.faults.length = 0
  })

  it('HLT-18: events of one transaction fold back in their order', async () => {
    const { engine, attempts } = await sixteenAccepted()
    const [{ supply_id: supply } = { supply_id: '' }] = attempts
    const its = attempts.filter((attempt) => attempt.supply_id === supply)
    // On probation: every success is a rung, and so an event.
    await rowsOf(system.db, `update supply_health set state = 'probing' where supply_id = $1`, [supply])
    await Promise.all(its.map((attempt) => engine.settle.apply(attempt.id, attempt.fence, delivery(attempt))))
    const events = await rowsOf<{ from_state: string; to_state: string; recovery_successes: number }>(
      system.db,
      'select from_state, to_state, recovery_successes from health_events where level_id = $1 order by at',
      [supply],
    )
    expect(events.map((event) => event.recovery_successes)).toEqual([1, 2, 3, 4, 5].slice(0, events.length))
    expect(events.length).toBe(Math.min(5, its.length))
    for (const [place, event] of events.entries())
      if (place > 0) expect(event.from_state).toBe(events[place - 1]?.to_state)
  })
})
