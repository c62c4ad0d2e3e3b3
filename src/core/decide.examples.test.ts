/** Every worked example of the contract, through the public JSON on both sides. */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { decide, decideWithFigures } from './decide.ts'
import { parseDecisionInput, printVerdict } from './decision-json.ts'

interface Example {
  readonly name: string
  readonly input: unknown
  readonly expect: unknown
}

const folder = new URL('../../test/cases/decide/', import.meta.url)

function examples(): Example[] {
  const files = readdirSync(folder).sort()
  return files.flatMap((file) => {
    const text = readFileSync(new URL(file, folder), 'utf8')
    const documents = file.endsWith('.jsonl') ? text.trim().split('\n') : [text]
    return documents.map((document): Example => JSON.parse(document))
  })
}

const all = examples()

it('IN-1: there are as many examples as the contract brings', () => {
  expect(all.length).toBe(331)
})

it.each(all)('IN-1: $name', ({ input, expect: expected }) => {
  const parsed = parseDecisionInput(input)
  expect(JSON.parse(JSON.stringify(printVerdict(decide(parsed))))).toEqual(expected)
  expect(decideWithFigures(parsed).verdict).toEqual(decide(parsed))
})
