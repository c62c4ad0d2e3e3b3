/** UNK-6: a process is alive as long as its heartbeats come in time, by the database's clock. */
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, it } from 'vitest'
import {
  aliveProcesses,
  forgetProcesses,
  heartbeat,
  registerProcess,
  stopProcess,
} from '../../src/store/processes.ts'
import { type TestDatabase, testDatabase } from './database.ts'

let test: TestDatabase
beforeEach(async () => {
  test = await testDatabase()
})
afterEach(() => test.drop())

const register = async (seconds: number) => {
  const id = randomUUID()
  await registerProcess(
    test.db,
    { id, roles: ['api', 'worker'], host: 'here', pid: 42, version: '0.1.0' },
    seconds,
  )
  return id
}
const alive = async () => (await aliveProcesses(test.db)).map((process) => process.id)
const lapse = (id: string) =>
  test.db.query(`update process set alive_until = clock_timestamp() - interval '2 days' where id = $1`, [id])

it('UNK-6: is alive from its registration, until its time is over', async () => {
  const id = await register(30)
  const [row] = await aliveProcesses(test.db)
  expect(row).toMatchObject({
    id,
    roles: ['api', 'worker'],
    host: 'here',
    pid: 42,
    version: '0.1.0',
    stopped_at: null,
  })
  expect((row?.alive_until ?? 0) - (row?.started_at ?? 0)).toBeGreaterThan(29_000_000)
  await lapse(id)
  expect(await alive()).toEqual([])
})

it('UNK-6: a heartbeat in time keeps it alive', async () => {
  const id = await register(5)
  expect(await heartbeat(test.db, id, 100)).toBe('alive')
  const [row] = await aliveProcesses(test.db)
  expect((row?.alive_until ?? 0) - (row?.started_at ?? 0)).toBeGreaterThan(99_000_000)
})

it('UNK-6: a heartbeat that comes too late says that its claims may be another’s', async () => {
  const id = await register(5)
  await lapse(id)
  expect(await heartbeat(test.db, id, 30)).toBe('lapsed')
  expect(await heartbeat(test.db, id, 30)).toBe('alive')
})

it('UNK-6: a process that has stopped leaves its claims at once and is not revived', async () => {
  const id = await register(3600)
  await stopProcess(test.db, id)
  expect(await alive()).toEqual([])
  expect(await heartbeat(test.db, id, 30)).toBe('unknown')
  expect(await heartbeat(test.db, randomUUID(), 30)).toBe('unknown')
})

it('rows of processes that are long gone are removed', async () => {
  const [gone, here] = [await register(30), await register(30)]
  await lapse(gone)
  expect(await forgetProcesses(test.db, 3)).toBe(0)
  expect(await forgetProcesses(test.db, 1)).toBe(1)
  expect(await alive()).toEqual([here])
})
