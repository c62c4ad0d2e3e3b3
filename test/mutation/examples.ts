/** Every worked example against the decision beside it; status 1 at the first that differs. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual } from 'node:util'
import { decide } from '../../src/core/decide.ts'
import { parseDecisionInput, printVerdict } from '../../src/core/decision-json.ts'

interface Example {
  readonly input: unknown
  readonly expect: unknown
}

const folder = fileURLToPath(new URL('../cases/decide/', import.meta.url))
const texts = readdirSync(folder).flatMap((name) => {
  const text = readFileSync(folder + name, 'utf8')
  return name.endsWith('.jsonl') ? text.trim().split('\n') : [text]
})
for (const text of texts) {
  const example: Example = JSON.parse(text)
  const found = JSON.parse(JSON.stringify(printVerdict(decide(parseDecisionInput(example.input)))))
  if (!isDeepStrictEqual(found, example.expect)) process.exit(1)
}
