/** What gathers into shared transactions: in order, as large as allowed, and nobody's fault is his neighbour's. */
import { describe, expect, it } from 'vitest'
import { Batches } from '../../src/runtime/batches.ts'

function recording(refused: ReadonlySet<number> = new Set()) {
  const stored: number[][] = []
  const batches = new Batches<number, string>({
    largest: 4,
    store: async (items) => {
      stored.push([...items])
      await Promise.resolve()
      if (items.some((item) => refused.has(item))) throw new Error(`refused: ${items.join(', ')}`)
      return items.map((item) => `stored ${item}`)
    },
  })
  return { stored, batches }
}

describe('what is to be stored', () => {
  it('ORD-13: waits for the transaction under way, then goes together, in order, each with its own result', async () => {
    const { stored, batches } = recording()
    const results = await Promise.all([[1], [2, 3], [4], [5, 6], [7]].map((items) => batches.add(items)))
    expect(stored).toEqual([[1], [2, 3, 4], [5, 6, 7]])
    expect(results).toEqual([
      ['stored 1'],
      ['stored 2', 'stored 3'],
      ['stored 4'],
      ['stored 5', 'stored 6'],
      ['stored 7'],
    ])
  })

  it('ORD-13: that comes together stays together, be it more than a batch holds; nothing costs no transaction', async () => {
    const { stored, batches } = recording()
    expect(await batches.add([])).toEqual([])
    await Promise.all([batches.add([1]), batches.add([2, 3, 4, 5, 6]), batches.add([7])])
    expect(stored).toEqual([[1], [2, 3, 4, 5, 6], [7]])
  })

  it('ORD-13: and is refused, is refused alone: its neighbours are stored, and so is what comes after', async () => {
    const { stored, batches } = recording(new Set([3]))
    const results = await Promise.allSettled([1, 2, 3, 4].map((item) => batches.add([item])))
    expect(results.map((result) => result.status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'fulfilled',
    ])
    expect(stored).toEqual([[1], [2, 3, 4], [2], [3], [4]])
    expect(await batches.add([5])).toEqual(['stored 5'])
  })
})
