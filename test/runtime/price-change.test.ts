/**
 * Prices change while tasks are under way (COST-4, COST-7): an attempt is held to the version that its round was decided
 * by, and what a task has cost so far and the next quote never exceed its limit together, whoever publishes meanwhile.
 */
import { afterEach, describe, expect, it } from 'vitest'
import { HEALTH_DEFAULTS } from '../../src/core/health-row.ts'
import { allRounds, roundsOf, type StoredRound } from '../../src/store/rounds.ts'
import { audit } from '../system/audit.ts'
import { rowsOf, type System, startSystem, until } from '../system/kit.ts'
import { admitted, attemptIn, attemptsOf, ended, fault } from './facts.ts'

const LIMIT = 10_000_000n
/** Five seconds at 0.95, 1 and 1.05 cost 4.75, 5 and 5.25: two attempts are just within the limit. */
const CHEAP = 1
/** Nothing dear fits beside anything else. */
const DEAR = 1.6

let system: System
afterEach(() => system?.stop())

/** Failures are billed, so that a first attempt leaves its cost behind; the model degrades to nothing cheaper. */
function priced(text: string, factor: number): string {
  return text
    .replace('video: {}', 'video: { task_cost_limit: 10, stable_cost_multiplier_limit: null }')
    .replace('degradation: best_effort', 'degradation: strict')
    .replaceAll('prices:\n      rows:', 'prices:\n      bills_failures: true\n      rows:')
    .replace(/(resolution: 720p \}, price: )(1\.0|0\.95|1\.05|1\.5)( \})/g, (_, before, price, after) => {
      return `${before}${(Number(price) * factor).toFixed(3)}${after}`
    })
}

const publish = (factor: number) => system.applyText(priced(system.demo, factor))

/** No circuit opens here, however many jobs fail: it is the cost alone that stops. */
const NEVER_OPEN = {
  ...HEALTH_DEFAULTS,
  degradeAfter: 1e6,
  degradeMinimum: 1e6,
  openAfter: 1e6,
  openMinimum: 1e6,
}

async function start(engines: number, durationMs: number) {
  system = await startSystem({
    simulator: { defaults: { duration_ms: durationMs } },
    catalog: (text) => priced(text, CHEAP),
  })
  const all = Array.from({ length: engines }, () => system.engine({ health: NEVER_OPEN }))
  for (const engine of all) await engine.start()
  const [door] = all
  if (!door) throw new Error('no engine was asked for')
  return door
}

const failingJobs = (times: number | 'forever') =>
  fault(system, {
    on: 'create',
    times,
    fault: { kind: 'fails', code: 'InternalServiceError', message: 'no' },
  })

interface Granted extends Record<string, unknown> {
  readonly task_id: string
  readonly supply_id: string
  readonly quote: bigint
  readonly version: string
  readonly frozen_version: string
  readonly frozen_quote: string
  readonly so_far: string
  readonly limit: string
  /** What the earlier attempts of the task have cost. */
  readonly earlier: bigint
  /** The quote by the stored price list itself: five seconds of 720p without references. */
  readonly by_list: bigint
}

/** Each attempt beside the round that granted it, and the price list that it was quoted with. */
async function granted(): Promise<Granted[]> {
  const rounds = new Map<string | null, StoredRound>()
  for await (const round of allRounds(system.db, '1970-01-01')) rounds.set(round.attempt_id, round)
  const attempts = await rowsOf<Granted & { id: string; binding_id: string }>(
    system.db,
    `select a.id, a.binding_id, a.task_id, a.supply_id, a.quote_micros as quote, a.price_list_version_id::text as version,
        coalesce((select sum(b.cost_micros) from attempt b where b.task_id = a.task_id and b.round < a.round), 0)::bigint as earlier,
        (select (5000000 * (p->>'price')::numeric)::bigint from jsonb_array_elements(v.converted->'prices') p
          where p->'when'->'resolution' ? '720p' and p->'when'->'inputs' is null) as by_list
      from attempt a join price_list_version v on v.id = a.price_list_version_id
      order by a.created_at`,
  )
  return attempts.map((attempt) => {
    const round = rounds.get(attempt.id)
    if (!round) throw new Error(`attempt ${attempt.id} has no round`)
    return {
      ...attempt,
      frozen_version: round.dynamic.supplies[attempt.supply_id]?.l ?? '',
      frozen_quote: round.figures.candidates[attempt.binding_id]?.quote ?? '',
      so_far: round.figures.cost_so_far,
      limit: round.figures.task_cost_limit ?? '',
    }
  })
}

const micros = (amount: string) => BigInt(Math.round(Number(amount) * 1e6))

function expectWithinLimit(attempts: readonly Granted[]) {
  for (const attempt of attempts) {
    expect(attempt.limit).toBe('10')
    expect(attempt.version).toBe(attempt.frozen_version)
    expect(attempt.quote).toBe(attempt.by_list)
    expect(attempt.quote).toBe(micros(attempt.frozen_quote))
    expect(micros(attempt.so_far)).toBe(attempt.earlier)
    expect(attempt.earlier + attempt.quote).toBeLessThanOrEqual(LIMIT)
  }
}

describe('prices that change', () => {
  it('COST-4, COST-7: between two attempts: the second is judged by the new ones, on top of what the first has cost', async () => {
    const door = await start(1, 600)
    await failingJobs('forever')
    const task = await admitted(system, door)
    await attemptIn(system, task, 'accepted')
    await publish(DEAR)
    expect(await ended(system, task)).toMatchObject({
      state: 'failed',
      error_code: 'cost_limit_exceeded',
      attempts: 1,
    })
    const attempts = await attemptsOf(system, task)
    // What it is charged is what it was quoted, not what it would cost now.
    expect(attempts).toMatchObject([{ quote_micros: 4_750_000n, cost_micros: 4_750_000n }])
    const last = (await roundsOf(system.db, task)).at(-1)
    expect(last?.figures.cost_so_far).toBe('4.75')
    const { excluded = {} } = (last?.verdict ?? {}) as { excluded?: Record<string, string> }
    expect(new Set(Object.values(excluded))).toEqual(new Set(['over_task_limit', 'degradation_not_allowed']))
    expect(await rowsOf(system.db, 'select cost_micros from usage_record')).toEqual([
      { cost_micros: 4_750_000n },
    ])
  })

  it('COST-4, COST-7: while a round waits for its lock: the attempt keeps the version that it was decided by', async () => {
    const door = await start(1, 60_000)
    const task = await system.db.transaction(async (tx) => {
      await tx.query('select 1 from channel_health for update')
      const admittedNow = await admitted(system, door)
      await until('the grant to stand at the lock', async () => {
        const { rows } = await system.db.query(
          `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
        return rows.length > 0
      })
      await publish(DEAR)
      return admittedNow
    })
    expect(await attemptIn(system, task, 'accepted')).toMatchObject({ quote_micros: 4_750_000n })
    const attempts = await granted()
    expectWithinLimit(attempts)
    const [now] = await rowsOf<{ version: string }>(
      system.db,
      `select price_list_version_id::text as version from supply where id = $1`,
      [attempts[0]?.supply_id],
    )
    expect(Number(now?.version)).toBeGreaterThan(Number(attempts[0]?.version))
  })

  it('COST-4, COST-7: all the time, under several dispatchers: no task exceeds its limit, and each attempt its own version', async () => {
    const door = await start(3, 50)
    await failingJobs('forever')
    const settled: string[] = []
    // At steady prices first: two attempts are affordable.
    for (let n = 0; n < 4; n += 1) settled.push(await admitted(system, door))
    for (const task of settled) await ended(system, task)
    expect(await granted()).toHaveLength(8)

    let over = false
    let published = 0
    const publisher = (async () => {
      while (!over) {
        published += 1
        await publish(published % 2 === 1 ? DEAR : CHEAP)
      }
    })()
    const tasks: string[] = []
    try {
      for (let n = 0; n < 40; n += 1) tasks.push(await admitted(system, door))
      for (const task of tasks) await ended(system, task)
    } finally {
      over = true
      await publisher
    }
    const attempts = await granted()
    expectWithinLimit(attempts)
    const spent = await rowsOf<{ cost: bigint }>(system.db, 'select cost_micros as cost from usage_record')
    for (const { cost } of spent) expect(cost).toBeLessThanOrEqual(LIMIT)
    // It happened: many publications, quotes by several versions of one list, and tasks that a new price stopped.
    expect(published).toBeGreaterThan(3)
    const versions = new Set(attempts.slice(8).map((attempt) => `${attempt.supply_id} ${attempt.version}`))
    expect(versions.size).toBeGreaterThan(3)
    const codes = await rowsOf<{ code: string }>(system.db, 'select distinct error_code as code from task')
    expect(codes.map(({ code }) => code)).toContain('cost_limit_exceeded')
    expect(await audit(system)).toEqual([])
    expect(system.faults).toEqual([])
  })
})
