import { readFile } from 'node:fs/promises'
import { describe, expect, it } from 'vitest'
import { errorBody, explainCode, Problem, problemHeaders, problemTable, publicCode } from './problem.ts'

describe('the table of errors', () => {
  it('CUS-3: docs/api.md names every code with its status and type', async () => {
    const text = await readFile(new URL('../../docs/api.md', import.meta.url), 'utf8')
    for (const { code, status, type, repeat } of problemTable()) {
      const name = code === 'invalid_api_key' ? 'access_denied' : code
      const row = text
        .split('\n')
        .find((line) => line.includes(`\`${name}\``) && line.includes(`| ${status} |`))
      expect(row, code).toBeDefined()
      expect(row, code).toContain(`\`${type}\``)
      expect(/\| no \|$/.test(row ?? ''), code).toBe(repeat === 'no')
    }
  })

  it('CUS-3: every 429 and 503 has a Retry-After', () => {
    const rows = problemTable().filter(({ status }) => status === 429 || status === 503)
    for (const { code } of rows) expect(problemHeaders(new Problem(code)), code).toHaveProperty('retry-after')
  })

  it('CUS-3: what may have been submitted is never to be repeated', () => {
    for (const { code } of problemTable()) {
      const headers = problemHeaders(new Problem(code, { submitted: true, retryAfterSeconds: 5 }))
      expect(headers, code).toMatchObject({ 'x-should-retry': 'false' })
      expect(headers, code).not.toHaveProperty('retry-after')
    }
  })

  it('ERR-3: an unknown stored code says no more than that it failed', () => {
    expect(publicCode('ark.SetLimitExceeded')).toBe('generation_failed')
    expect(publicCode('constructor')).toBe('generation_failed')
    expect(explainCode('real_person_refused').message).toContain('real person')
  })

  it('CUS-3: a missing key is access_denied too, under 401', () => {
    const problem = new Problem('invalid_api_key')
    expect([problem.status, errorBody(problem).error.code]).toEqual([401, 'access_denied'])
  })
})
