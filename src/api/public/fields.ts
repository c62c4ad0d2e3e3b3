/**
 * Fields of a body by their schema: the same schema that /openapi.json shows. In a form everything is text; a number or
 * boolean must then be written exactly as JSON would write it. null means that a field was left out.
 */
import type { z } from 'zod'
import { checkKey, isObject, nameForParam, nameOf, parseJsonObject } from '../body/json.ts'
import { type Body, Upload } from '../body/read-body.ts'
import { LIMITS } from '../limits.ts'
import { invalid, type Problem } from '../problem.ts'

export interface FieldRules<Schema extends z.ZodObject> {
  readonly schema: Schema
  /** Fields whose values are read elsewhere. */
  readonly apart: readonly string[]
  /** Fields that are booleans, or integers, in a form's text. */
  readonly booleans: readonly string[]
  readonly integers: readonly string[]
  /** Fields that the dialect knows and this service does not, with why. */
  readonly unsupported: ReadonlyMap<string, string>
}

/** Throws Problem `invalid_request` that names the field. */
export function parseFields<Schema extends z.ZodObject>(
  body: Body,
  rules: FieldRules<Schema>,
): z.output<Schema> {
  const given: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(body.fields)) {
    if (value === null || value === undefined || rules.apart.includes(name)) continue
    const why = rules.unsupported.get(name)
    if (why !== undefined) throw invalid(name, `${name} is not supported: ${why}`)
    given[name] = body.form ? fromForm(name, value, rules) : value
  }
  const parsed = rules.schema.safeParse(given)
  if (!parsed.success) throw problemOf(parsed.error, given)
  return parsed.data
}

function fromForm(
  name: string,
  value: unknown,
  rules: Pick<FieldRules<z.ZodObject>, 'booleans' | 'integers'>,
): unknown {
  if (value instanceof Upload) throw invalid(name, `${name} takes no file.`)
  if (Array.isArray(value))
    throw invalid(name, `"${name}" is given ${value.length === 1 ? 'as a list' : 'more than once'}.`)
  if (typeof value !== 'string') return value
  if (rules.booleans.includes(name)) {
    if (value !== 'true' && value !== 'false') throw invalid(name, `${name} must be true or false.`)
    return value === 'true'
  }
  if (rules.integers.includes(name)) {
    if (!/^-?(0|[1-9]\d{0,14})$/.test(value)) throw invalid(name, `${name} must be a whole number.`)
    return Number(value)
  }
  return value
}

function problemOf(error: z.ZodError, given: Readonly<Record<string, unknown>>): Problem {
  const issue = error.issues[0]
  if (!issue) return invalid(null, 'The request is not valid.')
  if (issue.code === 'unrecognized_keys') {
    const key = nameForParam(issue.keys[0] ?? '')
    return invalid(key, `"${key}" is no field of this request.`)
  }
  const param = String(issue.path[0] ?? '')
  if (!(param in given)) return invalid(param, `${param} is required.`)
  return invalid(param, `${param}: ${issue.message}.`)
}

/** An object, its entries as form fields, or its JSON as text. Values become texts. */
export function parseMetadata(given: unknown): Record<string, string> {
  if (given === undefined || given === null) return {}
  const object = typeof given === 'string' ? metadataFromText(given) : given
  if (!isObject(object) || object instanceof Upload)
    throw invalid('metadata', `metadata must be an object of texts; ${nameOf(object)} was given.`)
  const entries = Object.entries(object)
  if (entries.length > LIMITS.metadataKeys)
    throw invalid(
      'metadata',
      `metadata has ${entries.length} keys; at most ${LIMITS.metadataKeys} are taken.`,
    )
  return Object.fromEntries(entries.map(([key, value]) => [checkMetadataKey(key), metadataValue(key, value)]))
}

function metadataFromText(text: string): unknown {
  if (!text.trimStart().startsWith('{'))
    throw invalid('metadata', 'metadata as a text must be a JSON object.')
  try {
    return parseJsonObject(Buffer.from(text))
  } catch {
    throw invalid('metadata', 'metadata as a text must be a valid JSON object.')
  }
}

function checkMetadataKey(key: string): string {
  checkKey(key, 'metadata')
  if (key === '' || key.length > LIMITS.metadataKeyCharacters)
    throw invalid('metadata', `A key of metadata must have 1 to ${LIMITS.metadataKeyCharacters} characters.`)
  return key
}

function metadataValue(key: string, value: unknown): string {
  if (typeof value !== 'string' && typeof value !== 'number' && typeof value !== 'boolean')
    throw invalid('metadata', `metadata.${nameForParam(key)} must be a text; ${nameOf(value)} was given.`)
  const text = String(value)
  if (text.length > LIMITS.metadataValueCharacters)
    throw invalid(
      'metadata',
      `metadata.${nameForParam(key)} is longer than ${LIMITS.metadataValueCharacters} characters.`,
    )
  return text
}
