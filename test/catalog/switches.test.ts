/** Switches and limits take effect at once, under the lock of the level's health row. */

import { createHash } from 'node:crypto'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  createCustomer,
  createKey,
  customerViews,
  keyViews,
  revokeKey,
  rotateKey,
  setCustomerActive,
} from '../../src/store/accounts.ts'
import { findKey } from '../../src/store/api-reads.ts'
import { limitLevel, switchLevel } from '../../src/store/switches.ts'
import { type TestDatabase, testDatabase } from '../store/database.ts'
import { apply, SMALL } from './files.ts'

let test: TestDatabase
beforeEach(async () => {
  test = await testDatabase()
  await apply(test.db, SMALL, { publish: true })
})
afterEach(() => test.drop())

const one = async (text: string) => (await test.db.query(text)).rows[0]

describe('the switch of a level', () => {
  it.each([
    ['channel', 'c'],
    ['supply', 's'],
  ] as const)('HLT-17: health of a %s mirrors it, and comes back to what it was before', async (kind, id) => {
    await test.db.query(`update ${kind}_health set state = 'degraded' where ${kind}_id = $1`, [id])
    const off = await switchLevel(test.db, { kind, id, state: 'disabled', probe: false })
    expect(off).toEqual({ id, state: 'disabled', health: 'disabled', changed: true })
    expect(
      await one(
        `select l.admin_state, h.state, h.epoch from ${kind} l join ${kind}_health h on h.${kind}_id = l.id`,
      ),
    ).toEqual({
      admin_state: 'disabled',
      state: 'disabled',
      epoch: 1n,
    })
    const on = await switchLevel(test.db, { kind, id, state: 'enabled', probe: false })
    expect(on).toMatchObject({ state: 'enabled', health: 'degraded', changed: true })
    const { rows } = await test.db.query(
      `select kind, from_state, to_state, epoch_before, epoch_after from health_events where level = $1 and level_id = $2 order by id`,
      [kind, id],
    )
    expect(rows).toEqual([
      { kind: 'disabled', from_state: 'degraded', to_state: 'disabled', epoch_before: 0n, epoch_after: 1n },
      { kind: 'enabled', from_state: 'disabled', to_state: 'degraded', epoch_before: 1n, epoch_after: 2n },
    ])
  })

  it('HLT-17: enabling may start with a probe', async () => {
    await switchLevel(test.db, { kind: 'supply', id: 's', state: 'disabled', probe: false })
    const on = await switchLevel(test.db, { kind: 'supply', id: 's', state: 'enabled', probe: true })
    expect(on.health).toBe('probing')
  })

  it('HLT-11: switched twice, it says so and writes nothing more', async () => {
    await switchLevel(test.db, { kind: 'channel', id: 'c', state: 'disabled', probe: false })
    const again = await switchLevel(test.db, { kind: 'channel', id: 'c', state: 'disabled', probe: false })
    expect(again.changed).toBe(false)
    expect(await one('select count(*)::int as n from health_events')).toEqual({ n: 1 })
    await expect(
      switchLevel(test.db, { kind: 'channel', id: 'x', state: 'disabled', probe: false }),
    ).rejects.toThrow('there is no channel x')
  })

  it('STR-6: neither switch nor limit unpublishes', async () => {
    await switchLevel(test.db, { kind: 'channel', id: 'c', state: 'disabled', probe: false })
    await limitLevel(test.db, { kind: 'supply', id: 's', concurrency: 9 })
    expect(await one('select enabled, published from model')).toEqual({ enabled: true, published: true })
    expect(await one('select concurrency from supply')).toEqual({ concurrency: 9 })
  })

  it('a limit and a switch wait for whoever is granting on that level', async () => {
    const order: string[] = []
    let limited: Promise<void> | undefined
    let off: Promise<unknown> | undefined
    await test.db.transaction(async (tx) => {
      await tx.query(`select 1 from channel_health where channel_id = 'c' for no key update`)
      limited = limitLevel(test.db, { kind: 'channel', id: 'c', concurrency: 9 }).then(
        () => void order.push('limit'),
      )
      off = switchLevel(test.db, { kind: 'channel', id: 'c', state: 'disabled', probe: false }).then(() =>
        order.push('switch'),
      )
      await blocked(2)
      order.push('granted')
    })
    await Promise.all([limited, off])
    expect(order[0]).toBe('granted')
    expect(order.toSorted()).toEqual(['granted', 'limit', 'switch'])
  })
})

/** Until that many sessions wait for a lock of another. */
async function blocked(count: number): Promise<void> {
  for (;;) {
    const waiting = await one(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    if (waiting?.n === count) return
  }
}

describe('customers and keys', () => {
  const digest = (key: string) => createHash('sha256').update(key).digest()
  beforeEach(() => createCustomer(test.db, { id: 'acme', name: 'Acme', groups: ['default', 'beta'] }))

  it('CUS-1: a key is shown once, kept as a hash, and finds its customer', async () => {
    const made = await createKey(test.db, { customerId: 'acme', name: 'production' })
    expect(made.key).toMatch(/^ym_[A-Za-z0-9_-]{43}$/)
    expect(await findKey(test.db, digest(made.key))).toMatchObject({
      customerId: 'acme',
      groups: ['default', 'beta'],
      over: false,
    })
    const dump = JSON.stringify((await test.db.query('select *, digest::text as digest from api_key')).rows)
    expect(dump).not.toContain(made.key.slice(10))
    expect(await keyViews(test.db, 'acme')).toMatchObject([
      { prefix: made.prefix, name: 'production', state: 'active' },
    ])
  })

  it('CUS-1: rotated with overlap, both are good; without, the old one is not', async () => {
    const first = await createKey(test.db, { customerId: 'acme', name: 'production' })
    const second = await rotateKey(test.db, first.prefix, 86_400)
    expect(await findKey(test.db, digest(first.key))).toMatchObject({ over: false })
    expect(await findKey(test.db, digest(second.key))).toMatchObject({ over: false, customerId: 'acme' })
    const third = await rotateKey(test.db, second.id, 0)
    expect(await findKey(test.db, digest(second.key))).toMatchObject({ over: true })
    expect(
      (await keyViews(test.db, 'acme')).map(({ id, state, replaced_by }) => [id, state, replaced_by]),
    ).toEqual([
      [first.id, 'expiring', second.id],
      [second.id, 'expired', third.id],
      [third.id, 'active', null],
    ])
    await expect(rotateKey(test.db, second.id, 0)).rejects.toThrow('that is good now')
  })

  it('CUS-1: rotating again never prolongs a key that is on its way out', async () => {
    const first = await createKey(test.db, { customerId: 'acme', name: '' })
    await rotateKey(test.db, first.id, 60)
    const ends = await one(`select expires_at from api_key where id = '${first.id}'`)
    await rotateKey(test.db, first.id, 86_400)
    expect(await one(`select expires_at from api_key where id = '${first.id}'`)).toEqual(ends)
  })

  it('CUS-1: revoked, it is refused', async () => {
    const made = await createKey(test.db, { customerId: 'acme', name: '' })
    await revokeKey(test.db, made.prefix)
    expect(await findKey(test.db, digest(made.key))).toMatchObject({ over: true })
    await expect(revokeKey(test.db, made.prefix)).rejects.toThrow(
      `there is no key ${made.prefix} that is good now`,
    )
  })

  it('CUS-1: a customer is made once, suspended and activated', async () => {
    await expect(createCustomer(test.db, { id: 'acme', name: 'x', groups: [] })).rejects.toThrow(
      'there is a customer acme already',
    )
    await setCustomerActive(test.db, 'acme', false)
    expect(await customerViews(test.db, 'acme')).toMatchObject([{ active: false, keys: 0 }])
    await expect(setCustomerActive(test.db, 'nobody', true)).rejects.toThrow('there is no customer nobody')
    await expect(createKey(test.db, { customerId: 'nobody', name: '' })).rejects.toThrow(
      'there is no customer nobody',
    )
  })
})
