import { afterEach, describe, expect, it } from 'vitest'
import { replay } from '../../src/runtime/replay.ts'
import type { IncomingRequest } from '../../src/runtime/service.ts'
import { Releases } from '../../src/store/releases.ts'
import { roundsOf } from '../../src/store/rounds.ts'
import { IMAGE, imageRequest, rowsOf, type System, startSystem, VIDEO, videoRequest } from './kit.ts'

let system: System | undefined
afterEach(async () => {
  await system?.stop()
  system = undefined
})

const SEEDANCE = [
  'seedance-north',
  'seedance-south',
  'seedance-south-priority',
  'seedance-relay',
  'seedance-mini-south',
]

/** A small generator with a seed, so that a failing run can be run again. */
function randomFrom(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Requests of all shapes, some of which no model takes. */
function anyVideo(random: (below: number) => number, customer: IncomingRequest['caller']): IncomingRequest {
  const inputs = [
    {},
    { first_frame: 1 },
    { reference_images: 1 + random(9), reference_videos: random(4) },
    { reference_audios: 2 },
  ]
  return videoRequest(customer, {
    facts: {
      ...VIDEO,
      durationSeconds: 4 + random(13),
      resolution: ['480p', '720p', '1080p', '4k'][random(4)] ?? '720p',
      generateAudio: random(2) === 0,
      realPerson: random(3) === 0,
      degradation: ([null, 'strict', 'best_effort'] as const)[random(3)] ?? null,
      billingMode: random(12) === 0 ? 'per_request' : null,
      inputs: inputs[random(4)] ?? {},
    },
  })
}

/** An operator who switches every supply off between a decision and its lock, each time. */
function switchingOff(db: System['db']): System['db'] {
  return {
    query: (statement, values) => db.query(statement, values),
    transaction: async (body, options) => {
      await db.query(`update supply set admin_state = 'disabled'`)
      return db.transaction(body, options)
    },
    close: async () => {},
  }
}

describe('replay', () => {
  it('IN-2, COST-1, ORD-15: computes a thousand rounds of every kind again, bit for bit, and finds a planted difference', {
    timeout: 180_000,
  }, async () => {
    system = await startSystem()
    const { db, customer } = system
    const random = randomFrom(20261201)
    const engine = system.engine({ roles: ['api'] })
    await engine.start()

    const healths = ['healthy', 'healthy', 'degraded', 'circuit_open', 'probing', 'recovering']
    const shake = async () => {
      for (const id of SEEDANCE) {
        const state = healths[random(healths.length)]
        const successes = state === 'recovering' ? 2 + random(3) : 0
        await db.query(
          {
            name: 'shake',
            text: `update supply_health set state = $2, recovery_successes = $3,
              open_until = case when $2 = 'circuit_open' then clock_timestamp() + interval '1 hour' end,
              not_before = case when $4 then clock_timestamp() + interval '40 seconds' end,
              last_granted_at = case when $5 then clock_timestamp() - interval '10 minutes' end where supply_id = $1`,
          },
          [id, state, successes, random(5) === 0, random(2) === 0],
        )
        await db.query({ name: 'switch', text: 'update supply set admin_state = $2 where id = $1' }, [
          id,
          random(6) === 0 ? 'disabled' : 'enabled',
        ])
      }
    }
    for (let turn = 0; turn < 45; turn += 1) {
      await shake()
      for (let n = 0; n < 18; n += 1) await engine.admitVideo(anyVideo(random, customer))
      await engine.dispatchOnce()
      await db.query(
        `update task set wait_round_at = wait_round_at - interval '11 seconds' where state = 'queued'`,
      )
      if (turn % 9 === 4)
        await db.query(
          `update task set created_at = created_at - interval '21 minutes' where state = 'queued' and id in (select id from task where state = 'queued' order by id limit 5)`,
        )
    }
    // Waits and failed reservations that the loop may not bring about.
    await db.query(`update supply set admin_state = 'enabled'`)
    await db.query(
      `update supply_health set state = 'circuit_open', recovery_successes = 0, open_until = clock_timestamp() + interval '1 hour'`,
    )
    await engine.admitVideo(videoRequest(customer))
    await engine.dispatchOnce()
    await db.query(`update supply_health set state = 'healthy', open_until = null, not_before = null`)
    await db.query(`update supply set concurrency = concurrency + 100`)
    await db.query(`update channel set concurrency = concurrency + 100`)
    const hurried = system.engine({ roles: ['api'], db: switchingOff(db) })
    await hurried.start()
    await db.query(`update supply set admin_state = 'enabled'`)
    await hurried.dispatchOnce()
    await db.query(`update task set wait_round_at = null, wait_digest = null where state = 'queued'`)
    await engine.admitVideo(videoRequest(customer))
    await engine.dispatchOnce()
    await db.query(`update supply set admin_state = 'enabled'`)
    // Door verdicts that the loop cannot bring about.
    await db.query(`update customer set active = false where id = 'acme'`)
    await engine.admitVideo(videoRequest(customer))
    await db.query(`update customer set active = true where id = 'acme'`)
    await db.query(`update model set published = false, enabled = false where id = 'seedream-4.0'`)
    await engine.runImage(imageRequest(customer))
    await db.query(`update model set published = true, enabled = true where id = 'seedream-4.0'`)
    await engine.runImage(imageRequest(customer, { facts: { ...IMAGE, count: 9 } }))
    await engine.runImage(imageRequest(customer))

    const report = await replay(db, new Releases(), '1970-01-01')
    expect(report.differences).toEqual([])
    expect(report.rounds).toBeGreaterThanOrEqual(1000)
    for (const kind of [
      'selected/granted',
      'selected/asked',
      'selected/reservation_failed',
      'wait/wait',
      'rejected/rejected',
    ])
      expect(report.byResult, kind).toHaveProperty([kind])
    const reasons = (
      await rowsOf<{ reason: string }>(db, `select distinct reason from round where result <> 'selected'`)
    ).map((row) => row.reason)
    expect(reasons).toEqual(
      expect.arrayContaining([
        'capacity',
        'health',
        'invalid_request',
        'retry_window_expired',
        'access_denied',
        'model_not_available',
      ]),
    )

    // The database refuses a change, so the difference is planted as a row that says something else.
    const [asked] = await rowsOf<{ task_id: string; number: number }>(
      db,
      `select task_id, number from round where result = 'selected' and outcome = 'asked' limit 1`,
    )
    const round = (await roundsOf(db, asked?.task_id ?? '')).find((one) => one.number === asked?.number)
    if (!round) throw new Error('no round was asked')
    const { dynamic, verdict, figures } = round
    await rowsOf(
      db,
      `insert into round (task_id, number, admitted, decider, release_id, outcome, result, reason, dynamic, verdict, figures)
        select task_id, number + 1000, admitted, decider, release_id, outcome, result, reason, $3, $4, $5
        from round where task_id = $1 and number = $2`,
      [round.task_id, round.number, dynamic, { ...verdict, quote: '0.000001' }, figures],
    )
    const again = await replay(db, new Releases(), '1970-01-01')
    expect(again.rounds).toBe(report.rounds + 1)
    expect(again.differences).toHaveLength(1)
    expect(again.differences[0]?.number).toBeGreaterThan(1000)
    await expect(db.query(`update round_record set content = ''`)).rejects.toThrow(/immutable/)
    await expect(db.query(`update round set verdict = '{}'`)).rejects.toThrow(/immutable/)
  })
})
