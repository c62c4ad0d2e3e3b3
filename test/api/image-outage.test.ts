/** What the customer of an image is told to do when the database goes away: repeat, until a provider may have been asked. */
import { afterEach, describe, expect, it } from 'vitest'
import { attemptsOf, ledger } from '../runtime/facts.ts'
import { imageRequest, rowsOf } from '../system/kit.ts'
import { type Api, startApi } from './kit.ts'

let api: Api
afterEach(() => api?.stop())

/** PostgreSQL's own words for a server that has no room left, at every insertion into that table. */
async function full(table: string): Promise<void> {
  await rowsOf(
    api.system.db,
    `create function full_up() returns trigger language plpgsql as
      $$ begin raise exception 'no room' using errcode = '53300'; end $$`,
  )
  await rowsOf(
    api.system.db,
    `create trigger full_up before insert on ${table} for each statement execute function full_up()`,
  )
}

const ask = () =>
  api.fetch('/v1/images/generations', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'seedream-4.0', prompt: 'a pier at dawn' }),
  })

describe('an image whose database goes away', () => {
  it('CUS-3, RTY-5: before its attempt is stored may be repeated: nothing was sent', async () => {
    api = await startApi({ running: true })
    await full('attempt')
    const answer = await ask()
    expect(answer.status).toBe(503)
    expect(await answer.json()).toMatchObject({ error: { code: 'service_unavailable' } })
    expect(answer.headers.get('x-should-retry')).toBeNull()
    expect(answer.headers.get('retry-after')).not.toBeNull()
    expect(await ledger(api.system)).toMatchObject({ posts: 0 })
    expect(await attemptsOf(api.system)).toEqual([])
    api.system.faults.splice(0)
  })

  it('CUS-3, UNK-7: is told that it runs before the provider is asked, and once', async () => {
    api = await startApi({ running: true })
    let started = 0
    const asked = api.engine.runImage(imageRequest(api.system.customer), () => {
      started += 1
    })
    expect(await asked).toMatchObject({ kind: 'finished' })
    expect(started).toBe(1)
    await full('attempt')
    await expect(
      api.engine.runImage(imageRequest(api.system.customer), () => {
        started += 1
      }),
    ).rejects.toThrow('no room')
    expect(started).toBe(1)
  })
})
