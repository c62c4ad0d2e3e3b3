/**
 * Twenty clients at once against the real database: what the search through every state proves of the pure machine holds
 * where many processes grant, report and reconcile. Grants go through the store as the dispatcher makes them, decided
 * before the level changed, so that only the count under the lock keeps them within the limit.
 */
import { v7 as uuidv7 } from 'uuid'
import { afterEach, describe, expect, it } from 'vitest'
import { effectiveConcurrency } from '../../src/core/concurrency.ts'
import { coolDownOver, healthFromColumns } from '../../src/core/health.ts'
import { foldEvents, foldedOf, type HealthEvent } from '../../src/core/health-event.ts'
import type { FailureCause, HealthNews } from '../../src/core/health-news.ts'
import { HEALTH_DEFAULTS, type LevelKind } from '../../src/core/health-row.ts'
import type { Fault } from '../../src/core/outcome.ts'
import { Situation } from '../../src/runtime/decider.ts'
import type { Engine } from '../../src/runtime/engine.ts'
import type { Outcome } from '../../src/runtime/settlement.ts'
import { beginSubmitting } from '../../src/store/attempts.ts'
import { type Database, openDatabase } from '../../src/store/database.ts'
import { type Proposal, type Reserved, reserve } from '../../src/store/grant.ts'
import { applyLevelNews, changeHealth } from '../../src/store/health.ts'
import { Releases } from '../../src/store/releases.ts'
import { switchLevel } from '../../src/store/switches.ts'
import { admitted, eventsOf, healthOf, leaveOnly } from '../runtime/facts.ts'
import { rowsOf, type System, type SystemOptions, startSystem } from '../system/kit.ts'

const CLIENTS = 20
const OWNER = uuidv7()
const MODEL = 'seedance-2.0-933'
const SUPPLY = 'seedance-north'
const CHANNEL = 'ark-north'

interface Client {
  readonly db: Database
  readonly engine: Engine
}

let system: System
const opened: Database[] = []
afterEach(async () => {
  await system.stop()
  for (const db of opened.splice(0)) await db.close()
})

/** Both levels at a concurrency of 5, unless told otherwise. */
async function start(options: SystemOptions = {}, supplies: readonly string[] = [SUPPLY]) {
  system = await startSystem(options)
  await rowsOf(system.db, `update channel set concurrency = 5 where id = $1`, [CHANNEL])
  await leaveOnly(system, supplies)
}

function clients(): Promise<Client[]> {
  return Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      const db = await openDatabase({ url: system.url, poolSize: 2 })
      opened.push(db)
      return { db, engine: system.engine({ roles: ['api'], db }) }
    }),
  )
}

/** So many tasks, each decided as though it were alone. */
async function proposals(count: number): Promise<Proposal[]> {
  const door = system.engine({ roles: ['api'] })
  const ids: string[] = []
  for (let n = 0; n < count; n += 1) ids.push(await admitted(system, door))
  const tasks = await rowsOf<{ id: string; fence: bigint; created_at: number; facts: Record<string, never> }>(
    system.db,
    'select id, fence, created_at, facts from task where id = any($1::uuid[]) order by id',
    [ids],
  )
  const releases = new Releases()
  return Promise.all(
    tasks.map(async (task): Promise<Proposal> => {
      const situation = await Situation.read(system.db, releases, [MODEL])
      const decided = situation.decide(MODEL, {
        id: task.id,
        createdAt: task.created_at,
        admitted: true,
        facts: task.facts as never,
        attempts: [],
        caller: { key_active: true, user_active: true, groups: ['default'] },
      })
      if (decided?.decision.verdict.result !== 'selected')
        throw new Error(`nothing was selected: ${JSON.stringify(decided?.decision.verdict)}`)
      return {
        kind: 'reserve',
        origin: { kind: 'queued', id: task.id, fence: task.fence },
        round: decided.round,
        reservation: situation.reserve(MODEL, decided, uuidv7()),
      }
    }),
  )
}

type Granted = Extract<Reserved, { kind: 'granted' }>

async function grant(client: Client, proposal: Proposal): Promise<Granted | null> {
  const [reserved] = await reserve(client.db, [proposal], { owner: OWNER, raise: async () => {} })
  return reserved?.kind === 'granted' ? reserved : null
}

/** All of them at once, one for each client; answers those that were granted. */
async function grantAll(all: readonly Client[], wanted: readonly Proposal[]): Promise<Granted[]> {
  const results = await Promise.all(
    all.map((client, at) => {
      const proposal = wanted[at]
      return proposal ? grant(client, proposal) : null
    }),
  )
  return results.filter((result) => result !== null)
}

async function submit(client: Client, granted: Granted): Promise<void> {
  const { attemptId: id, fence } = granted
  const begun = await client.db.transaction((tx) => beginSubmitting(tx, [{ id, fence }], OWNER))
  expect(begun.has(id)).toBe(true)
}

const acceptance = (): Outcome => ({
  kind: 'accepted',
  providerTaskId: `job-${uuidv7()}`,
  requestId: null,
})
const FAULT: Fault = {
  category: 'supply',
  scope: 'supply',
  retryable: true,
  certainty: 'rejected',
  impact: 'failure',
  code: 'upstream_error',
  message: 'it failed',
  providerCode: null,
  httpStatus: 400,
  fingerprint: 'supply|supply|http|400',
  retryAfterMs: null,
  realPerson: false,
  connection: false,
}
const DOUBT: Fault = {
  ...FAULT,
  category: 'unknown',
  scope: 'attempt',
  certainty: 'unknown',
  httpStatus: 500,
  fingerprint: 'unknown|attempt|http|500',
}

function setHealth(level: LevelKind, state: string, successes: number): Promise<unknown> {
  const table = level === 'channel' ? 'channel_health' : 'supply_health'
  return rowsOf(
    system.db,
    `update ${table} set state = $2, recovery_successes = $3, epoch = epoch + 1,
      open_until = case $2 when 'circuit_open' then clock_timestamp() + interval '1 hour' end where ${level}_id = $1`,
    [level === 'channel' ? CHANNEL : SUPPLY, state, successes],
  )
}

const STATES = [
  ['healthy', 0],
  ['degraded', 0],
  ['circuit_open', 0],
  ['probing', 0],
  ['probing', 1],
  ['recovering', 2],
  ['recovering', 3],
  ['recovering', 4],
] as const

describe('twenty clients that grant at once', () => {
  it.each(['channel', 'supply'] as const)(
    'HLT-6, HLT-7, ORD-13: never more than the effective limit of a %s, in each state and rung',
    async (level) => {
      await start()
      const all = await clients()
      for (const [state, successes] of STATES) {
        const wanted = await proposals(CLIENTS)
        await setHealth(level, state, successes)
        const granted = await grantAll(all, wanted)
        expect([state, successes, granted.length]).toEqual([
          state,
          successes,
          effectiveConcurrency(state, successes, 5),
        ])
        // A second wave finds no room either.
        expect(await grantAll(all, wanted)).toEqual([])
        await Promise.all(
          granted.map((one, at) =>
            all[at]?.engine.settle.apply(one.attemptId, one.fence, { kind: 'unsendable', why: 'the test' }),
          ),
        )
        await setHealth(level, 'healthy', 0)
      }
    },
  )

  it('HLT-6, HLT-10: attempts of before the opening hold their slots, and leave the probe its own', async () => {
    await start()
    const all = await clients()
    const wanted = await proposals(CLIENTS)
    const old = await grantAll(all.slice(0, 4), wanted.slice(0, 4))
    expect(old).toHaveLength(4)
    await setHealth('supply', 'probing', 0)
    expect(await grantAll(all, wanted.slice(4))).toHaveLength(1)
    await setHealth('supply', 'recovering', 4)
    // Four slots of this epoch are open, but all five are taken.
    expect(await grantAll(all, wanted.slice(4))).toEqual([])
  })

  it('HLT-6, HLT-12: never more than one probe at a time, through a whole recovery', async () => {
    await start()
    const all = await clients()
    const wanted = await proposals(CLIENTS)
    await setHealth('supply', 'probing', 0)
    const overlapping: string[] = []
    let running = 0
    await Promise.all(
      all.map(async (client, at) => {
        const proposal = wanted[at]
        for (let tries = 0; proposal && tries < 1000; tries += 1) {
          const state = await healthOf(system, 'supply', SUPPLY)
          if (state.state === 'healthy') return
          const granted = await grant(client, proposal)
          if (!granted) continue
          running += 1
          await submit(client, granted)
          await client.engine.settle.apply(granted.attemptId, granted.fence, acceptance())
          const now = await healthOf(system, 'supply', SUPPLY)
          if (now.state === 'probing' && running > 1) overlapping.push(granted.attemptId)
          running -= 1
          await client.engine.settle.apply(granted.attemptId, granted.fence, finished())
          return
        }
      }),
    )
    expect(overlapping).toEqual([])
    const kinds = (await eventsOf(system, SUPPLY)).filter((event) => event.applied).map((event) => event.kind)
    expect(kinds).toEqual([
      'probe_succeeded',
      'recovery_started',
      'rung_climbed',
      'rung_climbed',
      'recovered',
    ])
    await expectRungsKept()
  })

  it('HLT-15: nothing is granted before the time that a 429 asked for', async () => {
    await start()
    const all = await clients()
    const wanted = await proposals(CLIENTS)
    const [first] = await grantAll(all.slice(0, 1), wanted)
    const [client] = all
    if (!first || !client) throw new Error('nothing was granted')
    await submit(client, first)
    const full = { category: 'capacity', impact: 'capacity', code: 'rate_limited', httpStatus: 429 } as const
    await client.engine.settle.apply(first.attemptId, first.fence, {
      kind: 'refused',
      fault: { ...FAULT, ...full, retryAfterMs: 1500 },
      requestId: null,
    })
    const held = await healthOf(system, 'supply', SUPPLY)
    expect(held).toMatchObject({ state: 'healthy', held: true })
    const until = Number(held.not_before)
    await Promise.all(
      all.slice(1, 6).map(async (each, at) => {
        const proposal = wanted[at + 1]
        while (proposal && !(await grant(each, proposal)));
      }),
    )
    const leases = await rowsOf<{ granted_at: number }>(
      system.db,
      'select granted_at from capacity_lease where attempt_id <> $1 order by granted_at',
      [first.attemptId],
    )
    expect(leases).toHaveLength(5)
    expect(leases[0]?.granted_at).toBeGreaterThanOrEqual(until)
    const [refused] = await rowsOf<{ n: number }>(
      system.db,
      `select count(*)::int as n from round where outcome = 'reservation_failed' and reservation->'lacking'->0->>'why' = 'held'`,
    )
    expect(refused?.n).toBeGreaterThan(0)
  })
})

/** Each grant of the recovery by what the level was when it was counted, under the lock. */
async function expectRungsKept(): Promise<void> {
  const grants = await rowsOf<{ before: number; state: string; successes: number }>(
    system.db,
    `select (r.reservation->'supply'->>'in_use_epoch')::int as before,
        coalesce(e.to_state, 'probing') as state, coalesce(e.recovery_successes, 0) as successes
      from round r join capacity_lease l on l.attempt_id = r.attempt_id
      left join lateral (select * from health_events where level_id = $1 and applied and at <= l.granted_at order by at desc limit 1) e on true
      where r.outcome = 'granted' and r.task_id in (select task_id from attempt)`,
    [SUPPLY],
  )
  expect(grants.length).toBeGreaterThanOrEqual(5)
  for (const { before, state, successes } of grants) {
    if (state !== 'probing' && state !== 'recovering' && state !== 'healthy') throw new Error(state)
    expect(before).toBeLessThan(effectiveConcurrency(state, successes, 5))
  }
}

function finished(): Outcome {
  return { kind: 'finished', outputs: [], durationMs: 1000, reported: null, requestId: null, billedPlaces: 1 }
}

describe('twenty clients that report at once', () => {
  async function submitted(): Promise<{ all: Client[]; granted: Granted }> {
    await start()
    const all = await clients()
    const wanted = await proposals(1)
    await setHealth('supply', 'probing', 0)
    await setHealth('channel', 'probing', 0)
    const [granted] = await grantAll(all.slice(0, 1), wanted)
    const [client] = all
    if (!granted || !client) throw new Error('nothing was granted')
    await submit(client, granted)
    return { all, granted }
  }

  const kindsOf = (results: readonly { kind: string }[]) => results.map(({ kind }) => kind).sort()

  it('HLT-19: an acceptance and a result count once each', async () => {
    const { all, granted } = await submitted()
    const outcome = acceptance()
    const report = (what: Outcome) =>
      Promise.all(all.map(({ engine }) => engine.settle.apply(granted.attemptId, granted.fence, what)))
    const first = kindsOf(await report(outcome))
    expect(first.filter((kind) => kind === 'open')).toHaveLength(1)
    expect(await healthOf(system, 'channel', CHANNEL)).toMatchObject({ recovery_successes: 1 })
    const second = kindsOf(await report(finished()))
    expect(second.filter((kind) => kind !== 'stale')).toEqual(['ended'])
    expect(await healthOf(system, 'channel', CHANNEL)).toMatchObject({ recovery_successes: 1 })
    expect(await healthOf(system, 'supply', SUPPLY)).toMatchObject({ recovery_successes: 1 })
    expect(await rowsOf(system.db, 'select level, kind from attempt_news order by 1, 2')).toEqual([
      { level: 'channel', kind: 'accepted' },
      { level: 'supply', kind: 'accepted' },
      { level: 'supply', kind: 'finished' },
    ])
  })

  it('HLT-19, HLT-10: polls without an answer count once for their attempt, a hundred times told', async () => {
    await start()
    const all = await clients()
    const attemptId = uuidv7()
    const explained = { code: 'upstream_timeout', fingerprint: 'supply|supply|awaiting_head|deadline' }
    const news = { ...explained, epoch: null, kind: 'unanswered_polls', cause: 'ordinary' } as const
    const settings = { ...HEALTH_DEFAULTS, sameFailureMs: 0.001 }
    for (let n = 0; n < 5; n += 1)
      await Promise.all(
        all.map(({ db }) =>
          db.transaction((tx) =>
            applyLevelNews(tx, [{ level: 'channel', id: CHANNEL, attemptId, news }], settings),
          ),
        ),
      )
    expect(await healthOf(system, 'channel', CHANNEL)).toMatchObject({
      state: 'healthy',
      counters: { consecutive_failures: 1 },
    })
    expect((await eventsOf(system, CHANNEL)).map((event) => event.kind)).toEqual(['failure_counted'])
  })

  it('HLT-8, HLT-19: a failure reopens once', async () => {
    const { all, granted } = await submitted()
    const refused: Outcome = { kind: 'refused', fault: FAULT, requestId: null }
    const before = await healthOf(system, 'supply', SUPPLY)
    const results = await Promise.all(
      all.map(({ engine }) => engine.settle.apply(granted.attemptId, granted.fence, refused)),
    )
    expect(kindsOf(results).filter((kind) => kind !== 'stale')).toHaveLength(1)
    expect(await healthOf(system, 'supply', SUPPLY)).toMatchObject({
      state: 'circuit_open',
      epoch: before.epoch + 1n,
    })
    expect((await eventsOf(system, SUPPLY)).map((event) => event.kind)).toEqual(['reopened'])
  })

  it('HLT-16: twenty failures of two supplies open their channel once', async () => {
    await start({}, ['seedance-south', 'seedance-south-priority'])
    await rowsOf(
      system.db,
      `update supply set concurrency = 10, real_person = 'allowed' where channel_id = 'ark-south'`,
    )
    const all = await clients()
    const wanted: Proposal[] = []
    for (const other of ['seedance-south', 'seedance-south-priority']) {
      await leaveOnly(system, [])
      await rowsOf(
        system.db,
        `update supply_health set state = 'healthy', open_until = null where supply_id = $1`,
        [other],
      )
      wanted.push(...(await proposals(10)))
    }
    await rowsOf(
      system.db,
      `update supply_health set state = 'healthy', open_until = null where supply_id like 'seedance-south%'`,
    )
    const granted = await grantAll(all, wanted)
    expect(granted).toHaveLength(20)
    await Promise.all(all.map((client, at) => granted[at] && submit(client, granted[at])))
    const unknown: Outcome = { kind: 'unknown', fault: DOUBT, requestId: null }
    const results = await Promise.all(
      all.map(
        ({ engine }, at) =>
          granted[at] && engine.settle.apply(granted[at].attemptId, granted[at].fence, unknown),
      ),
    )
    expect(results.filter((result) => result?.kind === 'open')).toHaveLength(20)
    const events = await eventsOf(system, 'ark-south')
    expect(events.filter((event) => event.applied).map((event) => event.kind)).toEqual(['opened'])
    expect(await healthOf(system, 'channel', 'ark-south')).toMatchObject({ state: 'circuit_open', epoch: 1n })
  })
})

describe('twenty reconcilers', () => {
  it('HLT-5: one of them moves a level whose cooldown is over, and none does before', async () => {
    await start()
    const all = await clients()
    const move = () =>
      Promise.all(
        all.map(({ db }) =>
          db.transaction((tx) =>
            changeHealth(tx, { kind: 'supply', id: SUPPLY, attemptId: null }, (row, now) =>
              coolDownOver(row, now),
            ),
          ),
        ),
      )
    await setHealth('supply', 'circuit_open', 0)
    const before = await healthOf(system, 'supply', SUPPLY)
    expect((await move()).filter((step) => step.applied)).toEqual([])
    await rowsOf(system.db, `update supply_health set open_until = clock_timestamp() where supply_id = $1`, [
      SUPPLY,
    ])
    expect((await move()).filter((step) => step.applied)).toHaveLength(1)
    expect(await healthOf(system, 'supply', SUPPLY)).toMatchObject({
      state: 'probing',
      epoch: before.epoch + 1n,
    })
    expect((await eventsOf(system, SUPPLY)).map((event) => event.kind)).toEqual(['probing_started'])
  })
})

/** Numbers from 0 to 1, the same for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return state / 2_147_483_648
  }
}

describe('the events', () => {
  it.each([1, 2, 3])(
    'HLT-18: fold to the rows after a random run of twenty clients (seed %i)',
    async (seed) => {
      await start()
      const all = await clients()
      const settings = { ...HEALTH_DEFAULTS, coolDownMs: 1, persistentCoolDownMs: 2, sameFailureMs: 1 }
      await Promise.all(
        all.map(async ({ db }, at) => {
          const random = randomFrom(seed * 1000 + at)
          for (let n = 0; n < 40; n += 1) {
            const level =
              random() < 0.5
                ? ({ kind: 'channel', id: CHANNEL } as const)
                : ({ kind: 'supply', id: SUPPLY } as const)
            await randomStep(db, level, { random, settings })
          }
        }),
      )
      const kinds = new Set<string>()
      for (const [kind, id] of [
        ['channel', CHANNEL],
        ['supply', SUPPLY],
      ] as const) {
        const [row] = await rowsOf<{ [Key in keyof Parameters<typeof healthFromColumns>[0]]: never }>(
          system.db,
          `select state, epoch::float8, recovery_successes, open_until, not_before, counters from ${kind}_health where ${kind}_id = $1`,
          [id],
        )
        if (!row) throw new Error(`${id} has no health`)
        const events = await storedEvents(kind, id)
        for (const event of events) kinds.add(event.kind)
        expect(foldEvents(events)).toEqual(foldedOf(healthFromColumns({ ...row, epoch: Number(row.epoch) })))
      }
      for (const kind of [
        'opened',
        'reopened',
        'probing_started',
        'recovered',
        'held',
        'disabled',
        'enabled',
        'ignored',
      ])
        expect([...kinds]).toContain(kind)
    },
  )

  async function storedEvents(kind: LevelKind, id: string): Promise<HealthEvent[]> {
    const rows = await rowsOf<{ [Key in keyof HealthEvent]: never }>(
      system.db,
      `select kind, from_state as "from", to_state as "to", epoch_before::float8 as "epochBefore", epoch_after::float8 as "epochAfter",
          recovery_successes as "recoverySuccesses", applied, detail
        from health_events where level = $1 and level_id = $2 order by at`,
      [kind, id],
    )
    return rows
  }
})

/** News of the present, of the past and of now, the end of a cooldown, and now and then the operator. */
async function randomStep(
  db: Database,
  level: { readonly kind: LevelKind; readonly id: string },
  by: { readonly random: () => number; readonly settings: typeof HEALTH_DEFAULTS },
): Promise<void> {
  const dice = by.random()
  if (dice < 0.03) {
    const state = by.random() < 0.3 ? 'disabled' : 'enabled'
    await switchLevel(db, { ...level, state, probe: by.random() < 0.5 })
  } else if (dice < 0.3) {
    await db.transaction((tx) =>
      changeHealth(tx, { ...level, attemptId: null }, (row, now) => coolDownOver(row, now)),
    )
  } else {
    const { epoch } = await healthOf(system, level.kind, level.id)
    const of = { epoch: Number(epoch) - (by.random() < 0.1 ? 1 : 0), calledAt: Date.now() * 1000 }
    const news = randomNews(level.kind, of, by.random)
    await db.transaction((tx) =>
      applyLevelNews(tx, [{ level: level.kind, id: level.id, attemptId: null, news }], by.settings),
    )
  }
}

function randomNews(
  kind: LevelKind,
  of: { epoch: number; calledAt: number },
  random: () => number,
): HealthNews {
  const dice = random()
  const explained = { code: 'upstream_error', fingerprint: `f${Math.floor(random() * 3)}` }
  if (dice < 0.75)
    return kind === 'channel' ? { ...of, kind: 'accepted' } : { ...of, kind: 'finished', durationMs: 1000 }
  if (dice < 0.8) return { ...of, ...explained, kind: 'capacity', retryAfterMs: 1 }
  if (dice < 0.85) return { ...explained, epoch: null, kind: 'unanswered_polls', cause: 'ordinary' }
  const causes: readonly FailureCause[] = ['ordinary', 'ordinary', 'persistent', 'escalated']
  return { ...of, ...explained, kind: 'failed', cause: causes[Math.floor(random() * 4)] ?? 'ordinary' }
}
