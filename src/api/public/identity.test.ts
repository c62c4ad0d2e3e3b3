import { describe, expect, it } from 'vitest'
import { Problem } from '../problem.ts'
import { digestOf, idempotencyKey, identify } from './identity.ts'

const PAYLOAD = {
  endpoint: 'e',
  fields: { a: 1, b: [{ c: 'x', d: null }] },
  metadata: {},
  inputs: { k: ['sha256:1'] },
}

describe('what makes two requests the same', () => {
  it('CUS-4: neither the order of keys nor an absent value matters', () => {
    const other = {
      inputs: { k: ['sha256:1'] },
      fields: { b: [{ d: null, c: 'x' }], a: 1, e: undefined },
      metadata: {},
      endpoint: 'e',
    }
    expect(digestOf(other)).toEqual(digestOf(PAYLOAD))
    expect(digestOf(PAYLOAD)).toHaveLength(32)
  })

  it('CUS-4: fields, order of inputs, files and endpoint do', () => {
    for (const change of [
      { fields: { a: '1' } },
      { inputs: { k: ['sha256:2'] } },
      { inputs: { k: ['url:sha256:1'] } },
      { endpoint: 'f' },
      { metadata: { a: 'b' } },
    ])
      expect(digestOf({ ...PAYLOAD, ...change })).not.toEqual(digestOf(PAYLOAD))
  })

  it('CUS-3: the key is a quoted string or bare', () => {
    expect(idempotencyKey(undefined)).toBeNull()
    expect(idempotencyKey('abc')).toBe('abc')
    expect(idempotencyKey('"abc"')).toBe('abc')
    expect(idempotencyKey('"a\\"b\\\\"')).toBe('a"b\\')
    for (const bad of ['', ' ', '"', '""', '"a', 'ä', 'x'.repeat(256), 'a\tb'])
      expect(() => idempotencyKey(bad), bad).toThrow(Problem)
  })

  it('CUS-4: the count of repeats is a small number or none', () => {
    const count = (header: string) => identify({ 'x-stainless-retry-count': header }, PAYLOAD).repeat.count
    expect(['0', '2', '-1', 'x', '1e3', '99999'].map(count)).toEqual([0, 2, 0, 0, 0, 0])
    expect(identify({}, PAYLOAD)).toMatchObject({ idempotency: null, repeat: { count: 0 } })
  })
})
