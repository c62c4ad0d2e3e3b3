import { afterEach, describe, expect, it } from 'vitest'
import { replay } from '../../src/runtime/replay.ts'
import { Releases } from '../../src/store/releases.ts'
import { audit } from './audit.ts'
import { rowsOf, type System, startSystem, until, videoRequest } from './kit.ts'
import { type Gateway, startGateway, submittingOf } from './processes.ts'

const TASKS = 2016
const PROCESSES = 4
const KILLS = 5

let system: System | undefined
const gateways: Gateway[] = []
afterEach(async () => {
  for (const gateway of gateways.splice(0)) await gateway.kill('SIGKILL')
  await system?.stop()
  system = undefined
})

describe('four gateways on one database', () => {
  it('UNK-6, ORD-13, STR-8, WAKE-1: killed five times while submitting, every task ends, and no attempt makes two jobs', {
    timeout: 600_000,
  }, async () => {
    system = await startSystem({
      simulator: { defaults: { duration_ms: 150 } },
      // Wide enough that 2,000 tasks take tens of seconds; what is proved does not depend on the width.
      catalog: (text) => text.replace(/concurrency: (\d+)/g, (_, n) => `concurrency: ${Number(n) * 8}`),
    })
    const { db } = system
    for (let n = 0; n < PROCESSES; n += 1) gateways.push(await startGateway(system))
    // A provider that is slow to answer now and then is well-behaved, and leaves time to be killed in.
    const slow = { on: 'create', times: 'forever', rate: 0.02, fault: { kind: 'slow_answer', ms: 700 } }
    await system.control('POST', '/faults', [slow])
    const door = system.engine({ roles: ['api'] })
    const { customer } = system
    const admitSome = async (count: number) => {
      for (let n = 0; n < count; n += 1)
        expect((await door.admitVideo(videoRequest(customer))).kind).toBe('admitted')
    }
    // In portions, so that there is work to be killed at, however fast the one before was done.
    const portion = () => Promise.all(Array.from({ length: 8 }, () => admitSome(TASKS / 8 / (KILLS + 1))))
    await portion()

    const killed = system
    for (let n = 0; n < KILLS; n += 1) {
      const admitting = portion()
      const victim = await until('a gateway that is submitting', async () => {
        for (const gateway of gateways) if ((await submittingOf(killed, gateway.pid)) > 0) return gateway
        return undefined
      })
      await victim.kill('SIGKILL')
      gateways.splice(gateways.indexOf(victim), 1, await startGateway(system))
      await admitting
    }

    await until(
      'all but the uncertain to end',
      async () => {
        const [row] = await rowsOf<{ n: number }>(
          db,
          `select count(*)::int as n from task t left join attempt a on a.id = t.attempt_id
              where t.ended_at is null and a.state is distinct from 'submission_uncertain'`,
        )
        return row?.n === 0
      },
      480,
    )
    // An hour is over: whoever is still uncertain is given up (UNK-5).
    await db.query(
      `update attempt set uncertain_deadline = clock_timestamp() where state = 'submission_uncertain'`,
    )
    await until('every task to end', async () => {
      const [row] = await rowsOf<{ n: number }>(
        db,
        `select count(*)::int as n from task where ended_at is null`,
      )
      return row?.n === 0
    })

    const ends = await rowsOf<{ state: string; error_code: string | null; n: number }>(
      db,
      `select state, error_code, count(*)::int as n from task group by 1, 2 order by 3 desc`,
    )
    const well = ends.find((end) => end.state === 'succeeded')?.n ?? 0
    expect(well, JSON.stringify(ends)).toBeGreaterThanOrEqual(0.95 * TASKS)
    expect(ends.map((end) => end.error_code).filter((code) => code !== null)).toEqual(
      ends.length > 1 ? ['submission_unresolved'] : [],
    )
    expect(await audit(system)).toEqual([])
    expect(await rowsOf(db, `select attempt_id from capacity_lease where released_at is null`)).toEqual([])
    const replayed = await replay(db, new Releases(), '1970-01-01')
    expect(replayed.differences).toEqual([])
    expect(replayed.rounds).toBeGreaterThanOrEqual(TASKS)
    expect(system.faults).toEqual([])
  })
})
