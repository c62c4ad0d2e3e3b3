import { afterEach, describe, expect, it } from 'vitest'
import { imageRequest, rowsOf, type System, startSystem, until, videoRequest } from './kit.ts'

let system: System | undefined
afterEach(async () => {
  await system?.stop()
  system = undefined
})

describe('the main job', () => {
  it('ORD-13, STR-7: twenty queued videos over 5, 8 and 3 start sixteen in the first scan; four wait and follow', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 1500 } } })
    const { db } = system
    const door = system.engine({ roles: ['api'] })
    for (let n = 0; n < 20; n += 1) {
      const answer = await door.admitVideo(videoRequest(system.customer))
      expect(answer.kind).toBe('admitted')
    }
    const scanner = system.engine({ roles: ['api'] })
    await scanner.start()
    await scanner.dispatchOnce()
    const granted = await rowsOf(
      db,
      `select supply_id, count(*)::int as n from capacity_lease where released_at is null group by 1 order by 1`,
    )
    expect(granted).toEqual([
      { supply_id: 'seedance-north', n: 5 },
      { supply_id: 'seedance-south', n: 8 },
      { supply_id: 'seedance-south-priority', n: 3 },
    ])
    const states = await rowsOf(db, `select state, count(*)::int as n from task group by 1 order by 1`)
    expect(states).toEqual([
      { state: 'queued', n: 4 },
      { state: 'running', n: 16 },
    ])
    await system.engine().start()
    await until('all to succeed', async () => {
      const [row] = await rowsOf<{ n: number }>(
        db,
        `select count(*)::int as n from task where state = 'succeeded'`,
      )
      return row?.n === 20
    })
    expect(await rowsOf(db, `select * from capacity_lease where released_at is null`)).toEqual([])
    expect(system.faults).toEqual([])
  })

  it('RTY-5: an image is generated inside its request', async () => {
    system = await startSystem()
    const engine = system.engine()
    await engine.start()
    const answer = await engine.runImage(imageRequest(system.customer))
    expect(system.faults).toEqual([])
    expect(answer).toMatchObject({ kind: 'finished', repeated: false })
    const rounds = await rowsOf(system.db, `select number, admitted, outcome from round order by number`)
    expect(rounds).toEqual([
      { number: 1, admitted: false, outcome: 'asked' },
      { number: 2, admitted: true, outcome: 'granted' },
    ])
  })
})
