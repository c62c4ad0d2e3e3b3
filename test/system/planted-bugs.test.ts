/** The auditor, proved: each of its rules finds the one violation that is planted for it, and a sound run has none. */
import { randomUUID } from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Asked } from '../../bench/safety/customers.ts'
import { replay } from '../../src/runtime/replay.ts'
import type { Sql } from '../../src/store/database.ts'
import { Releases } from '../../src/store/releases.ts'
import { roundsOf } from '../../src/store/rounds.ts'
import { admitted, attemptsOf, ended, fault } from '../runtime/facts.ts'
import { audit, auditTheEnd } from './audit.ts'
import { accountFor, sightings, type Told } from './audit-requests.ts'
import { secretsIn, secretsInTables } from './audit-secrets.ts'
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
function planted(plant: string, at: typeof audit = audit): Promise<string[]> {
  return plantedFor(plant, (db) => at({ db, control: system.control }))
}

async function plantedFor(plant: string, look: (db: Sql) => Promise<string[]>): Promise<string[]> {
  let findings: string[] = []
  const work = async (tx: Sql) => {
    await tx.query(plant)
    findings = await look(tx)
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

const KEY = 'sk-simulated-secret'
const SECRETS = { 'the key': KEY }

describe('the search for secrets', () => {
  it('finds none in the tables of a sound run', async () => {
    expect(await secretsInTables(system.db, SECRETS)).toEqual([])
  })

  it.each<[string, string, () => string]>([
    [
      'a provider’s message',
      'attempt',
      () => `update attempt set error_message = 'the key ${KEY} was refused' where id = '${attempt}'`,
    ],
    [
      'a decision',
      'round',
      () => plantedRound({ channel: { ...FREE, key: KEY }, supply: FREE }, randomUUID()),
    ],
    [
      'the record of decisions',
      'round_record',
      () =>
        `insert into round_record (content) values ('\\x${deflateRawSync(JSON.stringify([[{ key: KEY }, {}, {}]])).toString('hex')}')`,
    ],
    ['the detail of an event', 'health_events', () => event('failure_counted', { news: 'failed', key: KEY })],
    [
      'an alert',
      'alert',
      () =>
        `insert into alert (fingerprint, code, severity, message) values ('f', 'c', 'info', 'refused: ${KEY}')`,
    ],
    [
      'the content of a task',
      'task_content',
      () =>
        `update task_content set content = content || '{"metadata": {"key": "${KEY}"}}' where task_id = '${task}'`,
    ],
    [
      'options of a channel',
      'channel',
      () => `update channel set options = options || '{"key": "${KEY}"}' where id = '${channel}'`,
    ],
    [
      'bytes',
      'task',
      () => `update task set fingerprint = convert_to('${KEY}', 'UTF8') where id = '${task}'`,
    ],
    [
      'a header as it is sent for a password',
      'attempt',
      () =>
        `update attempt set error_message = 'Basic ${Buffer.from(KEY).toString('base64')}' where id = '${attempt}'`,
    ],
  ])('finds one that is planted in %s', async (_, table, plant) => {
    const findings = await plantedFor(plant(), (db) => secretsInTables(db, SECRETS))
    expect(findings.join('\n')).toContain(`table ${table} shows the key in`)
  })

  it('finds one in what a program wrote, and does not repeat it', () => {
    expect(secretsIn('a log', `{"msg":"Bearer ${KEY}"}`, SECRETS)).toEqual(['a log shows the key'])
    expect(secretsIn('a log', 'Bearer ***', SECRETS)).toEqual([])
  })
})

describe('the comparison with decisions made again', () => {
  const differences = (db: Sql) =>
    replay(db, new Releases(), '1970-01-01').then((report) => report.differences.map((one) => one.why))
  const anotherRound = async (changed: Record<string, string>) => {
    const round = (await roundsOf(system.db, task)).find((one) => one.result === 'selected')
    if (!round) throw new Error('nothing was selected')
    const columns = ['decider', 'result', 'reason', 'dynamic', 'verdict', 'figures'] as const
    const json = (['dynamic', 'verdict', 'figures'] as const).map(
      (name) => `'${JSON.stringify(round[name]).replaceAll("'", "''")}'::jsonb as ${name}`,
    )
    return `insert into round (task_id, number, admitted, release_id, outcome, ${columns.join(', ')})
      select task_id, 2000, admitted, release_id, 'asked', ${columns.map((name) => changed[name] ?? name).join(', ')}
      from (select task_id, admitted, release_id, decider, result, reason, ${json.join(', ')}
        from round where task_id = '${task}' and number = ${round.number}) stored`
  }

  it('finds none in a sound run, nor in a round that is the same once more', async () => {
    expect(await differences(system.db)).toEqual([])
    expect(await plantedFor(await anotherRound({}), differences)).toEqual([])
  })

  it.each<[string, Record<string, string>, string]>([
    ['verdict', { verdict: `jsonb_set(verdict, '{quote}', '"0.000001"')` }, 'another verdict'],
    ['result', { result: `'wait'`, reason: `'capacity'` }, 'another verdict'],
    ['figures', { figures: `figures || '{"planted": 1}'` }, 'another verdict'],
    ['input', { dynamic: `dynamic - 'channels'` }, ''],
    ['decider', { decider: 'decider + 1' }, 'judged by another version of the decider'],
  ])('finds another %s', async (_, columns, why) => {
    const found = await plantedFor(await anotherRound(columns), differences)
    expect(found).toHaveLength(1)
    expect(found[0]).toContain(why)
  })
})

describe('the account of requests', () => {
  const ID = '01a2320c-3d70-76e3-8bdd-002966d0659d'
  const video: Told = { id: ID, kind: 'video', state: 'succeeded', code: null, prompt: 'one' }
  const image: Told = { ...video, kind: 'image' }
  const asked = (answered: Asked['answered'], more: Partial<Asked> = {}): Asked => ({
    prompt: 'one',
    kind: 'video',
    answered,
    taskIds: answered.kind === 'acknowledged' && answered.taskId !== null ? [answered.taskId] : [],
    ...more,
  })
  const refused = (code: string, more: Partial<Asked> = {}) =>
    asked({ kind: 'refused', status: 400, code }, more)
  const acknowledged = asked({ kind: 'acknowledged', taskId: ID })

  it.each<[string, Asked, Told[]]>([
    ['an acknowledged task', acknowledged, [video]],
    ['one that was refused before it was stored', refused('service_unavailable'), []],
    [
      'one that the door refused, and kept',
      refused('capacity'),
      [{ ...image, state: 'rejected', code: 'capacity' }],
    ],
    [
      'an image that failed',
      refused('content_refused'),
      [{ ...image, state: 'failed', code: 'content_refused' }],
    ],
    ['one in doubt, stored', asked({ kind: 'in_doubt', status: 503, code: 'service_unavailable' }), [image]],
    ['one in doubt, not stored', asked({ kind: 'no_answer' }), []],
  ])('takes %s as accounted for', (_, request, told) => {
    expect(accountFor([request], told).findings).toEqual([])
  })

  it.each<[string, string, Asked, Told[]]>([
    ['a lost video', 'is not there', acknowledged, []],
    ['a lost image', 'is not there', { ...acknowledged, kind: 'image' }, []],
    ['a video that is another’s', 'is not there', acknowledged, [{ ...video, id: randomUUID() }]],
    [
      'a video that was only kept as refused',
      'is not there',
      acknowledged,
      [{ ...video, state: 'rejected', code: 'capacity' }],
    ],
    ['a success without an ID', 'without an ID', asked({ kind: 'acknowledged', taskId: null }), [video]],
    [
      'an image that is told to be there and failed',
      'did not succeed',
      { ...acknowledged, kind: 'image' },
      [{ ...image, state: 'failed', code: 'x' }],
    ],
    ['an end that no task has', 'such a task is not there', refused('content_refused'), []],
    ['a task that was told not to be', 'was told capacity', refused('capacity'), [video]],
    ['two tasks of one request', 'made 2 tasks', acknowledged, [video, { ...video, id: randomUUID() }]],
    [
      'two IDs for one request',
      'was told 2 tasks',
      { ...acknowledged, taskIds: [ID, randomUUID()] },
      [video],
    ],
    [
      'a task that nobody asked for',
      'nobody asked for',
      acknowledged,
      [video, { ...video, id: randomUUID(), prompt: 'two' }],
    ],
  ])('finds %s', (_, finding, request, told) => {
    expect(accountFor([request], told).findings.join('\n')).toContain(finding)
  })

  it('counts how requests ended', () => {
    const ends = accountFor([acknowledged, refused('capacity', { prompt: 'two' })], [video]).ends
    expect(ends).toEqual({ 'video: 400 capacity, no task': 1, 'video: acknowledged': 1 })
  })

  it('finds a video that its customer is shown otherwise than its row says', () => {
    const seen = (status: string, code: string | null = null) =>
      sightings([{ taskId: ID, status, code }], [video])
    expect(seen('completed')).toEqual([])
    expect(seen('in_progress').join()).toContain('is shown as in_progress')
    expect(seen('completed', 'capacity').join()).toContain('is shown as completed capacity')
    expect(sightings([{ taskId: ID, status: '404', code: 'not_found' }], []).join()).toContain('not there')
  })
})
