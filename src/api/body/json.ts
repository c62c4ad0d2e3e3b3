/**
 * A JSON body, read strictly: valid UTF-8, an object, no key twice, none named __proto__, not nested without end. What
 * JSON.parse lets pass here would be two readings of one request.
 */
import { LIMITS } from '../limits.ts'
import { invalid } from '../problem.ts'
import { checkText, decodeUtf8 } from './text.ts'

/** Throws Problem `invalid_request`. */
export function parseJsonObject(bytes: Uint8Array): Readonly<Record<string, unknown>> {
  const text = decodeUtf8(bytes, null)
  if (text.trim() === '') throw invalid(null, 'The body is empty; a JSON object was expected.')
  checkNesting(text)
  const value = parse(text)
  if (!isObject(value)) throw invalid(null, `The body is ${nameOf(value)}; a JSON object was expected.`)
  refuseRepeatedKeys(text)
  checkValues(value)
  return value
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw invalid(null, `The body is not valid JSON: ${placeOf(error)}.`)
  }
}

/** V8 quotes the body in its message; only the place is passed on. */
function placeOf(error: unknown): string {
  const message = error instanceof Error ? error.message : ''
  const place = /at position (\d+)/.exec(message)
  if (place) return `unexpected text at position ${place[1]}`
  return /end of JSON/i.test(message) || /Unterminated/.test(message)
    ? 'it ends too early'
    : 'unexpected text'
}

/** Brackets, commas and strings with their quotes. Strings are skipped by searching, since one may be a file of megabytes. */
function* tokens(text: string): Generator<string> {
  for (let at = 0; at < text.length; at += 1) {
    const character = text.charAt(at)
    if ('{}[],'.includes(character)) yield character
    if (character !== '"') continue
    const end = endOfString(text, at)
    yield text.slice(at, end + 1)
    at = end
  }
}

function endOfString(text: string, start: number): number {
  for (let at = text.indexOf('"', start + 1); at !== -1; at = text.indexOf('"', at + 1)) {
    let slashes = 0
    while (text.charAt(at - 1 - slashes) === '\\') slashes += 1
    if (slashes % 2 === 0) return at
  }
  return text.length
}

/** Before anything recursive looks at it. */
function checkNesting(text: string): void {
  let depth = 0
  for (const token of tokens(text)) {
    if (token === '{' || token === '[') depth += 1
    if (token === '}' || token === ']') depth -= 1
    if (depth > LIMITS.jsonDepth)
      throw invalid(null, `The body is nested more than ${LIMITS.jsonDepth} levels deep.`)
  }
}

/** On text that is known to be valid JSON: a string is a key if it stands at the start of an object's entry. */
function refuseRepeatedKeys(text: string): void {
  const stack: (Set<string> | null)[] = []
  let expectsKey = false
  for (const token of tokens(text)) {
    if (token === '{' || token === '[') stack.push(token === '{' ? new Set() : null)
    if (token === '}' || token === ']') stack.pop()
    const keys = stack.at(-1)
    if (expectsKey && keys && token.startsWith('"')) addKey(keys, JSON.parse(token))
    expectsKey = token === '{' || (token === ',' && keys instanceof Set)
  }
}

function addKey(keys: Set<string>, key: string): void {
  if (keys.has(key)) throw invalid(nameForParam(key), `"${nameForParam(key)}" is given twice in one object.`)
  keys.add(key)
}

/** Every text at every level, keys included. */
function checkValues(root: object): void {
  const open: { value: unknown; field: string | null }[] = [{ value: root, field: null }]
  let seen = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    seen += 1
    if (seen > LIMITS.jsonValues) throw invalid(null, `The body has more than ${LIMITS.jsonValues} values.`)
    const { value, field } = next
    if (typeof value === 'string') checkText(value, field)
    if (typeof value !== 'object' || value === null) continue
    for (const [key, inner] of Object.entries(value)) {
      checkKey(key, field)
      open.push({ value: inner, field: field ?? (Array.isArray(value) ? null : key) })
    }
  }
}

export function checkKey(key: string, field: string | null): void {
  checkText(key, field)
  if (key === '__proto__' || key === 'constructor' || key === 'prototype')
    throw invalid(field ?? key, `"${key}" is not allowed as the name of a field.`)
}

/** Short enough to be repeated to the sender. */
export function nameForParam(key: string): string {
  return key.length <= 64 ? key : `${key.slice(0, 61)}...`
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function nameOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`
}
