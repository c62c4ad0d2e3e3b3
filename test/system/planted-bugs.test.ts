/** The auditor, proved: each of its rules finds the one violation that is planted for it, and a sound run has none. */
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Sql } from '../../src/store/database.ts'
import { admitted, attemptsOf, ended, fault } from '../runtime/facts.ts'
import { audit, auditTheEnd } from './audit.ts'
import { imageRequest, type System, startSystem } from './kit.ts'

let system: System
let task = ''
let attempt = ''
let channel = ''
let supply = ''

beforeAll(async () => {
  system = await startSystem({ simulator: { defaults: { duration_ms: 400 } } })
  const engine = system.engine()
  await engine.start()
  await fault(system, { on: 'create', nth: 2, times: 1, fault: { kind: 'error', name: 'content_refused' } })
  const tasks = await Promise.all([1, 2, 3, 4].map(() => admitted(system, engine)))
  for (const one of tasks) await ended(system, one)
  await engine.runImage(imageRequest(system.customer))
  const good = (await attemptsOf(system)).find(
    (one) => one.state === 'succeeded' && one.provider_task_id !== null,
  )
  if (!good) throw new Error('no attempt succeeded')
  attempt = good.id
  channel = good.channel_id
  supply = good.supply_id
  const { rows } = await system.db.query<{ task_id: string }>(
    `select task_id::text from attempt where id = '${attempt}'`,
  )
  task = rows[0]?.task_id ?? ''
})
afterAll(() => system?.stop())

class RollBack extends Error {}

/** What the auditor finds with this planted; nothing of it stays. */
async function planted(plant: string, at: typeof audit = audit): Promise<string[]> {
  let findings: string[] = []
  const work = async (tx: Sql) => {
    await tx.query(plant)
    findings = await at({ db: tx, control: system.control })
    throw new RollBack()
  }
  await system.db.transaction(work).catch((error: unknown) => {
    if (!(error instanceof RollBack)) throw error
  })
  return findings
}

const copyOfAttempt = (columns: Record<string, string>) => {
  const changed = JSON.stringify({ id: randomUUID(), provider_task_id: null, ...columns })
  return `insert into attempt select (jsonb_populate_record(a, '${changed}'::jsonb)).* from attempt a where id = '${attempt}'`
}
const plantedRound = (reservation: object, attemptId = attempt) => `
  insert into round (task_id, number, admitted, decider, release_id, outcome, result, attempt_id, dynamic, verdict, figures, record_id, place, reservation)
  select task_id, 2000, true, decider, release_id, 'granted', 'selected', '${attemptId}', dynamic, verdict, figures, record_id, place, '${JSON.stringify(reservation)}'
  from round where task_id = '${task}' limit 1`
const FREE = { in_use: 0, in_use_epoch: 0, concurrency: 9, epoch: 0 }
const event = (kind: string, detail: object, more = '') => `
  insert into health_events (level, level_id, attempt_id, kind, from_state, to_state, epoch_before, epoch_after, recovery_successes, applied, detail)
  values ('channel', '${channel}', '${attempt}', '${kind}', 'healthy', 'healthy', 0, 0, 0, true, '${JSON.stringify(detail)}')${more}`

describe('the auditor', () => {
  it('finds nothing in a sound run', async () => {
    expect(await auditTheEnd(system)).toEqual([])
  })

  it.each<[string, () => string]>([
    [
      'a lease is held exactly while',
      () =>
        `update capacity_lease set released_at = null, released_why = null where attempt_id = '${attempt}'`,
    ],
    [
      'no task has more than two attempts',
      () => `alter table attempt drop constraint attempt_number_check; drop index attempt_open;
      ${copyOfAttempt({ number: '2' })}; ${copyOfAttempt({ number: '3' })}`,
    ],
    [
      'no attempt follows one whose outcome is unknown',
      () => `update attempt set uncertain_at = created_at, ended_at = clock_timestamp() where id = '${attempt}';
      ${copyOfAttempt({ number: '2' })}; update attempt set created_at = created_at + interval '1 millisecond', uncertain_at = null where task_id = '${task}' and number = 2`,
    ],
    [
      'a running task has an attempt that is alive',
      () =>
        `update task set state = 'running', ended_at = null, attempt_id = '${attempt}' where id = '${task}'`,
    ],
    [
      'every grant was within both limits',
      () => plantedRound({ channel: FREE, supply: { ...FREE, in_use: 9 } }),
    ],
    [
      'every ended task has one usage record',
      () => `update usage_record set cost_micros = cost_micros + 1 where task_id = '${task}'`,
    ],
    [
      'every granted round has its attempt',
      () => plantedRound({ channel: FREE, supply: FREE }, randomUUID()),
    ],
    [
      'content and request errors moved no health',
      () => `${event('failure_counted', { news: 'failed' })};
      update attempt set state = 'failed', category = 'content', scope = 'request', error_code = 'content_refused' where id = '${attempt}'`,
    ],
    [
      'a probe was granted only while',
      () =>
        `${event('probing_started', {})}; ${plantedRound({ channel: { ...FREE, in_use_epoch: 1 }, supply: FREE })}`,
    ],
    [
      'results of a task are of one attempt',
      () =>
        `update attempt set state = 'failed', category = 'supply', scope = 'supply', error_code = 'x' where id = '${attempt}'`,
    ],
    [
      'no two attempts of a channel have one job',
      () => copyOfAttempt({ number: '2' }).replace('"provider_task_id":null', '"number":2'),
    ],
    ['a success has its result', () => `delete from task_output where task_id = '${task}'`],
    [
      'leases over a limit',
      () => `update capacity_lease set granted_at = '2026-01-01', channel_id = '${channel}';
      update channel set concurrency = 1 where id = '${channel}'; update supply set concurrency = 1 where channel_id = '${channel}'`,
    ],
    [
      'do not fold to its row',
      () => `update supply_health set epoch = epoch + 1 where supply_id = '${supply}'`,
    ],
    [
      'is not in the database',
      () => `set constraints all deferred; delete from orphan_result; alter table capacity_lease drop constraint capacity_lease_attempt_id_fkey;
      alter table orphan_result drop constraint orphan_result_attempt_id_fkey; delete from attempt where id = '${attempt}'`,
    ],
    [
      'is called abandoned',
      () =>
        `update attempt set state = 'abandoned', number = null, submitting_at = null where id = '${attempt}'`,
    ],
    ['nobody wrote it down', () => `update attempt set provider_task_id = 'another' where id = '${attempt}'`],
  ])('finds it where it does not hold that %s', async (rule, plant) => {
    expect((await planted(plant())).join('\n')).toContain(rule)
  })

  it.each<[string, () => string]>([
    [
      'every task has ended',
      () => `update task set state = 'queued', ended_at = null, attempt_id = null where id = '${task}'`,
    ],
    [
      'every attempt has ended',
      () => `update attempt set state = 'submitting', ended_at = null where id = '${attempt}'`,
    ],
    [
      'no lease is held',
      () =>
        `update capacity_lease set released_at = null, released_why = null where attempt_id = '${attempt}'`,
    ],
  ])('finds it at the end where it does not hold that %s', async (rule, plant) => {
    expect((await planted(plant(), auditTheEnd)).join('\n')).toContain(rule)
  })

  it('finds a second POST of one attempt, and its second job', async () => {
    const order = { model: 'doubao-seedance-2-0-260128', content: [{ type: 'text', text: 'again' }] }
    const post = (id: string) =>
      fetch(`${system.simulatorUrl}/ark/north/api/v3/contents/generations/tasks`, {
        method: 'POST',
        headers: { authorization: 'Bearer k', 'content-type': 'application/json', 'x-client-request-id': id },
        body: JSON.stringify(order),
      })
    expect((await post(attempt)).status).toBe(200)
    const findings = await audit(system)
    expect(findings).toContain(`attempt ${attempt} was posted 2 times`)
    expect(findings).toContain(`attempt ${attempt} created 2 jobs`)
  })
})
