/** Kills of the bench, confirmed: who is not at the moment any more when it stands still is not killed, and goes on. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type Gateway, killAt, thoseAt } from '../../bench/safety/killing.ts'
import { Random } from '../../bench/safety/random.ts'
import { openDatabase, type Sql } from '../../src/store/database.ts'
import { admitted, attemptIn } from '../runtime/facts.ts'
import { rowsOf, type System, startSystem } from './kit.ts'

const started: Gateway[] = []

function gateway(name: string): Gateway {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  const one = { child, name, url: '', ended: once(child, 'exit') }
  started.push(one)
  return one
}

afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGKILL')
    await ended
  }
})

/** 'T' where it is stopped. */
async function stateOf({ child }: Gateway): Promise<string | undefined> {
  return (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1]?.[0]
}

const at = (name: string) => ({ gateway: name, attempt: 'a', kind: 'video' as const })

describe('a kill at a moment', () => {
  it('UNK-6: strikes who is at it, standing still', async () => {
    const [first, second] = [gateway('gateway-1'), gateway('gateway-2')]
    const states: (string | undefined)[] = []
    const rows = async () => {
      states.push(await stateOf(second))
      return [at('gateway-2')] as never[]
    }
    const killed = await killAt('settlement', [first, second], { rows, random: new Random(1) })
    expect(killed).toMatchObject({ victim: second, caught: at('gateway-2'), tries: 1 })
    expect(states).toEqual([expect.not.stringMatching('T'), 'T'])
    expect([first.child.signalCode, second.child.signalCode]).toEqual([null, 'SIGKILL'])
  })

  it('UNK-6: lets go on whose moment has passed, and tries again', async () => {
    const one = gateway('gateway-1')
    const looks = [[at('gateway-1')], [], [at('gateway-1')], [at('gateway-1')]]
    const states: (string | undefined)[] = []
    const rows = async () => {
      states.push(await stateOf(one))
      return (looks.shift() ?? []) as never[]
    }
    const killed = await killAt('settlement', [one], { rows, random: new Random(1) })
    expect(killed?.tries).toBe(2)
    expect(states.map((state) => state === 'T')).toEqual([false, true, false, true])
  })

  it('UNK-6: strikes nobody where none is at it', async () => {
    const one = gateway('gateway-1')
    const rows = async () => [at('gateway-2')] as never[]
    expect(await killAt('settlement', [one], { rows, random: new Random(1), patienceMs: 300 })).toBeNull()
    expect(one.child.signalCode).toBeNull()
  })
})

describe('the moments of a kill', () => {
  let system: System
  let attempt = ''
  beforeAll(async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 600_000 } } })
    const engine = system.engine()
    await engine.start()
    attempt = String((await attemptIn(system, await admitted(system, engine), 'accepted')).id)
    await engine.stop()
  })
  afterAll(() => system?.stop())

  const caught = async (moment: 'submission' | 'settlement') =>
    (await thoseAt(moment, (sql) => rowsOf(system.db, sql))).map((one) => [one.gateway, one.attempt])

  /** Who is found while a gateway has these statements in an open transaction; nothing of it stays. */
  async function foundDuring(...statements: string[]) {
    const db = await openDatabase({ url: system.url, applicationName: 'gateway-7' })
    let found: unknown[] = []
    const work = async (tx: Sql) => {
      for (const statement of statements) await tx.query(statement)
      found = await caught('settlement')
      throw new Error('enough')
    }
    await db.transaction(work).catch(() => undefined)
    await db.close()
    return found
  }
  const lockTask = () =>
    `select from task where id = (select task_id from attempt where id = '${attempt}') for update`
  const lockAttempt = () => `select from attempt where id = '${attempt}' for update`
  const end = () =>
    `update attempt set state = 'cancelled', ended_at = clock_timestamp() where id = '${attempt}'`

  it('UNK-6: a settlement is a transaction that holds a task and its accepted attempt, and has not ended', async () => {
    expect(await foundDuring(lockTask(), lockAttempt())).toEqual([['gateway-7', attempt]])
    expect(await foundDuring(lockTask(), lockAttempt(), end())).toEqual([['gateway-7', attempt]])
    expect(await caught('settlement')).toEqual([])
  })

  it('UNK-6: a claim of a poll is none, nor is a look', async () => {
    expect(await foundDuring(`update attempt set polls = polls + 1 where id = '${attempt}'`)).toEqual([])
    expect(await foundDuring(lockTask())).toEqual([])
    expect(await foundDuring(`select from attempt where id = '${attempt}'`)).toEqual([])
  })

  it('UNK-6: a submission is an attempt that has said so, of an owner that is alive', async () => {
    expect(await caught('submission')).toEqual([])
    const owner = `(select id from process order by started_at desc limit 1)`
    await rowsOf(system.db, `update attempt set state = 'submitting', owner = ${owner}`)
    expect(await caught('submission')).toEqual([])
    await rowsOf(
      system.db,
      `update process set stopped_at = null, alive_until = clock_timestamp() + interval '1 minute'`,
    )
    expect(await caught('submission')).toEqual([[`gateway-${process.pid}`, attempt]])
  })
})
