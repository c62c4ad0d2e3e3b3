/** Whatever stands in a file: an answer with places in it, never a crash, and never the secret. */

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isMap, isSeq, parseDocument, stringify } from 'yaml'
import { checkCatalog } from './check.ts'

const DEMO = readFileSync(new URL('../../demo/catalog.yaml', import.meta.url), 'utf8')
const ENVIRONMENT = { SIMULATOR_KEY: 'k' }
const SECRET = 'sk-do-not-repeat'

/** Every place of the demo file, anchors resolved. */
function placesOf(value: unknown, path: (string | number)[] = []): (string | number)[][] {
  if (typeof value !== 'object' || value === null) return [path]
  return [
    path,
    ...Object.entries(value).flatMap(([key, inner]) =>
      placesOf(inner, [...path, Array.isArray(value) ? Number(key) : key]),
    ),
  ]
}

const plain: unknown = parseDocument(DEMO, { merge: true }).toJS()
const text = stringify(plain, { aliasDuplicateObjects: false })
const places = placesOf(plain).filter((path) => path.length > 0 && path[0] !== 'anchors')
const junk = fc.oneof(
  fc.json().map((written) => JSON.parse(written)),
  fc.constantFrom(
    null,
    -1,
    0.5,
    1e300,
    '',
    ' ',
    '\u0000',
    '💥',
    '4-',
    '9-1',
    'env:',
    [],
    {},
    [[]],
    '__proto__',
    SECRET.repeat(9),
  ),
)

async function check(changed: string) {
  const { problems, catalog } = await checkCatalog(changed, ENVIRONMENT)
  const lines = changed.split('\n').length
  for (const { line, column, problem } of problems) {
    expect(line).toBeGreaterThanOrEqual(1)
    expect(line).toBeLessThanOrEqual(lines)
    expect(column).toBeGreaterThanOrEqual(1)
    expect(problem).not.toBe('')
  }
  expect(catalog === null).toBe(problems.some(({ severity }) => severity === 'error'))
  return problems
}

describe('catalog check of anything', () => {
  it('takes any value anywhere', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...places), junk, async (path, value) => {
        const document = parseDocument(text)
        document.setIn(path, document.createNode(value))
        const changed = document.toString()
        await check(changed)
      }),
      { numRuns: 60 },
    )
  })

  it('takes any key anywhere, and says when it knows it not', async () => {
    const whole = parseDocument(text)
    const maps = places.filter(
      (path) =>
        isMap(whole.getIn(path)) && path[2] !== 'options' && !path.includes('inputs') && path.length !== 1,
    )
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...maps),
        fc.stringMatching(/^[a-zA-Z_$ ]{1,20}$/),
        async (path, key) => {
          const document = parseDocument(text)
          const map = document.getIn(path)
          if (!isMap(map) || map.has(key) || (path.length === 3 && path[2] === 'bindings')) return
          document.setIn([...path, key], 1)
          const problems = await check(document.toString())
          expect(
            problems.some((one) => one.severity === 'error' && one.problem.includes(JSON.stringify(key))),
          ).toBe(true)
        },
      ),
      { numRuns: 60 },
    )
  })

  it('takes any text', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.string(),
          fc.string({ unit: 'binary' }),
          fc
            .tuple(fc.nat(text.length), fc.nat(40))
            .map(([at, length]) => text.slice(0, at) + text.slice(at + length)),
        ),
        async (changed) => void (await check(changed)),
      ),
      { numRuns: 60 },
    )
  })

  it('never repeats what stands where a credential should', async () => {
    const spots = [
      ['channels', 'relay', 'credential'],
      ['channels', 'relay', 'options', 'api_key'],
      ['channels', 'relay', 'options', 'auth', 'secret'],
    ]
    const shapes = [SECRET, [SECRET], { key: SECRET }, `env:${SECRET} `, `http://${SECRET}@host`]
    for (const path of spots)
      for (const shape of shapes) {
        const document = parseDocument(text)
        document.setIn(path, document.createNode(shape))
        expect(isSeq(document.contents)).toBe(false)
        const problems = await check(document.toString())
        expect(problems.length).toBeGreaterThan(0)
        expect(JSON.stringify(problems.map(({ problem, remedy }) => problem + remedy))).not.toContain(SECRET)
      }
  })
})
