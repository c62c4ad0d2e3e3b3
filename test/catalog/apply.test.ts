/** Applying a file: what is versioned, what clears flags, and that it is one transaction. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { publishedModels, Releases } from '../../src/store/releases.ts'
import { type TestDatabase, testDatabase } from '../store/database.ts'
import { apply, DEMO } from './files.ts'

let test: TestDatabase
beforeEach(async () => {
  test = await testDatabase()
})
afterEach(() => test.drop())

async function count(table: string) {
  const { rows } = await test.db.query<{ n: number }>(`select count(*)::int as n from ${table}`)
  return rows[0]?.n
}

describe('catalog apply', () => {
  it('applies and publishes the demo catalog, whose releases the runtime can read', async () => {
    const applied = await apply(test.db, DEMO, { publish: true })
    expect(applied.published.map(({ modelId, number }) => [modelId, number])).toEqual([
      ['seedance-2.0-933', 1],
      ['seedream-4.0', 1],
    ])
    const models = await publishedModels(test.db, new Releases())
    const seedance = models.find(({ modelId }) => modelId === 'seedance-2.0-933')
    expect(seedance?.bindings.map(({ id, tier }) => [id, tier])).toEqual([
      ['seedance-900-mini', 'degraded'],
      ['seedance-933-north', 'exact'],
      ['seedance-933-relay', 'fallback'],
      ['seedance-933-south', 'exact'],
      ['seedance-933-south-priority', 'exact'],
    ])
    const { rows } = await test.db.query<{ limit: bigint; sum: bigint }>(
      `select c.concurrency::bigint as limit, sum(s.concurrency) as sum from channel c join supply s on s.channel_id = c.id group by c.id`,
    )
    for (const row of rows) expect(row.sum <= row.limit).toBe(true)
    expect(await count('channel_health')).toBe(3)
    expect(await count('supply_health')).toBe(7)
  })
})
