/**
 * The body of a POST as one tree of fields, whichever way it came. A form has only texts and files, and names with
 * brackets; what that means for numbers and booleans is said where the field is read.
 */
import type { Readable } from 'node:stream'
import type { FastifyRequest } from 'fastify'
import { LIMITS } from '../limits.ts'
import { invalid, Problem } from '../problem.ts'
import { checkKey, parseJsonObject } from './json.ts'
import { boundaryOf, type FilePart, type Part, readMultipart } from './multipart.ts'
import type { Spool } from './spool.ts'
import { checkText } from './text.ts'

/** An uploaded file as the value of a field. */
export class Upload {
  readonly part: FilePart

  constructor(part: FilePart) {
    this.part = part
  }
}

export interface Body {
  /** From a form all texts are strings; from JSON they have their own types. */
  readonly form: boolean
  readonly fields: Readonly<Record<string, unknown>>
}

/** Throws Problem: `invalid_request`, `request_too_large`, `unsupported_media_type`. Files belong to `spool`. */
export async function readBody(request: FastifyRequest, spool: Spool): Promise<Body> {
  const contentType = request.headers['content-type'] ?? ''
  const source = request.body
  if (!isStream(source)) throw invalid(null, 'The request has no body.')
  const bytes = limited(source)
  try {
    if (Number(request.headers['content-length'] ?? 0) > LIMITS.bodyBytes) throw bodyTooLarge()
    if (!/^multipart\/form-data\b/i.test(contentType))
      return { form: false, fields: parseJsonObject(await collect(bytes)) }
    const boundary = boundaryOf(contentType)
    const parts = await readMultipart(bytes, { boundary, createFile: () => spool.create() })
    return { form: true, fields: treeOf(parts) }
  } catch (error) {
    // Read on without keeping anything: a client that is still sending would never see the answer, and what it sends
    // next on this connection would never be read.
    await bytes.return(undefined)
    source.resume()
    throw error instanceof Problem || !isBrokenUpload(error)
      ? error
      : invalid(null, 'The request ended before its body had arrived.')
  }
}

function isStream(body: unknown): body is Readable {
  return typeof body === 'object' && body !== null && 'iterator' in body
}

function isBrokenUpload(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'ECONNRESET' || error.code === 'ERR_STREAM_PREMATURE_CLOSE')
  )
}

async function* limited(source: Readable): AsyncGenerator<Uint8Array, undefined> {
  let bytes = 0
  // Breaking off must not destroy the socket, on which the answer goes out.
  for await (const chunk of source.iterator({ destroyOnReturn: false })) {
    bytes += chunk.length
    if (bytes > LIMITS.bodyBytes) throw bodyTooLarge()
    yield chunk
  }
}

export function bodyTooLarge(): Problem {
  return new Problem('request_too_large', { message: `The body is larger than ${LIMITS.bodyBytes} bytes.` })
}

async function collect(source: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of source) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** `a`, `a[]` (a list) and `a[b]` (an object); a plain name that comes twice is a list, which most fields refuse. */
function treeOf(parts: readonly Part[]): Record<string, unknown> {
  const tree: Record<string, unknown> = Object.create(null)
  for (const part of parts) place(tree, part)
  return tree
}

const NAME = /^([^[\]]+)(?:\[([^[\]]*)\])?$/

function place(tree: Record<string, unknown>, part: Part): void {
  checkText(part.name, null)
  const name = NAME.exec(part.name)
  if (!name?.[1])
    throw invalid(part.name.slice(0, 64), 'The name of a field must be like "a", "a[]" or "a[b]".')
  const [, field, key] = name
  checkKey(field, null)
  const value = leafOf(part, field)
  if (key === undefined) addOnce(tree, field, value)
  else if (key === '') addToList(tree, field, value)
  else addToObject(tree, { field, key, value })
}

function leafOf(part: Part, field: string): string | Upload {
  if ('file' in part) {
    checkText(part.filename, field)
    return new Upload(part)
  }
  checkText(part.text, field)
  if (part.text.length > LIMITS.fieldBytes && !part.text.startsWith('data:'))
    throw new Problem('request_too_large', {
      param: field,
      message: `"${field}" is longer than ${LIMITS.fieldBytes} bytes.`,
    })
  return part.text
}

function addOnce(tree: Record<string, unknown>, field: string, value: string | Upload): void {
  const known = tree[field]
  if (known === undefined) tree[field] = value
  else if (Array.isArray(known)) known.push(value)
  else if (typeof known === 'string' || known instanceof Upload) tree[field] = [known, value]
  else throw mixed(field)
}

function addToList(tree: Record<string, unknown>, field: string, value: string | Upload): void {
  const known = tree[field]
  if (known === undefined) tree[field] = [value]
  else if (Array.isArray(known)) known.push(value)
  else throw mixed(field)
}

function addToObject(
  tree: Record<string, unknown>,
  entry: { field: string; key: string; value: string | Upload },
): void {
  checkKey(entry.key, entry.field)
  const known = tree[entry.field] ?? Object.create(null)
  if (typeof known !== 'object' || Array.isArray(known) || known instanceof Upload) throw mixed(entry.field)
  if (entry.key in known) throw invalid(entry.field, `"${entry.field}[${entry.key}]" is given twice.`)
  known[entry.key] = entry.value
  tree[entry.field] = known
}

function mixed(field: string): Problem {
  return invalid(field, `"${field}" is given twice, in different ways.`)
}
