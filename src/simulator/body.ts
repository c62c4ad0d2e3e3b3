// Request bodies: JSON or multipart, as one kind of record; and a digest of them that is small enough to keep.

import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isRecord, type Json } from './fields.ts'

/** A file of a multipart body. */
export class UploadedFile {
  readonly name: string
  readonly type: string
  readonly bytes: Buffer

  constructor(name: string, type: string, bytes: Buffer) {
    this.name = name
    this.type = type
    this.bytes = bytes
  }
}

export type Body =
  | { kind: 'empty' }
  | { kind: 'invalid'; problem: string }
  /** `form`: numbers and flags arrive as strings, as multipart has nothing else. */
  | { kind: 'fields'; fields: Json; form: boolean }

const LONGEST_KEPT_STRING = 2000
const DATA_URL = /^data:([^;,]*)/

/** The whole body; rejects with the stream's error when the client goes away. */
export async function readBody(request: IncomingMessage, limit: number): Promise<Buffer | 'too large'> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request) {
    length += chunk.length
    if (length <= limit) chunks.push(chunk)
  }
  return length > limit ? 'too large' : Buffer.concat(chunks)
}

/** Parses by content type; everything that is not multipart is taken for JSON, as the real providers do. */
export async function parseBody(contentType: string, bytes: Buffer): Promise<Body> {
  if (bytes.length === 0) return { kind: 'empty' }
  if (contentType.toLowerCase().startsWith('multipart/form-data')) return parseForm(contentType, bytes)
  try {
    const value: unknown = JSON.parse(bytes.toString('utf8'))
    if (isRecord(value)) return { kind: 'fields', fields: value, form: false }
    return { kind: 'invalid', problem: 'the body is not a JSON object' }
  } catch (error) {
    return { kind: 'invalid', problem: error instanceof Error ? error.message : 'not JSON' }
  }
}

async function parseForm(contentType: string, bytes: Buffer): Promise<Body> {
  try {
    const response = new Response(new Uint8Array(bytes), { headers: { 'content-type': contentType } })
    const form = await response.formData()
    const fields: Json = {}
    for (const [name, value] of form) place(fields, name, await formValue(value))
    return { kind: 'fields', fields, form: true }
  } catch {
    return { kind: 'invalid', problem: 'the multipart body could not be parsed' }
  }
}

async function formValue(value: string | File): Promise<unknown> {
  if (typeof value === 'string') return value
  return new UploadedFile(value.name, value.type, Buffer.from(await value.arrayBuffer()))
}

/** `a[b]` becomes a field of an object, `a[]` and a repeated name an array. */
function place(into: Json, name: string, value: unknown): void {
  const nested = /^([^[\]]+)\[([^[\]]*)\]$/.exec(name)
  const outer = nested?.[1] ?? name
  const inner = nested?.[2]
  const known = into[outer]
  if (inner === undefined) into[outer] = known === undefined ? value : [known, value].flat()
  else if (inner === '') into[outer] = Array.isArray(known) ? [...known, value] : [value]
  else into[outer] = { ...(isRecord(known) ? known : {}), [inner]: value }
}

/** The body with data URLs, files and long texts replaced by their length and SHA-256. */
export function digestBody(body: Body): unknown {
  switch (body.kind) {
    case 'empty':
      return null
    case 'invalid':
      return { unreadable: body.problem }
    case 'fields':
      return digest(body.fields)
  }
}

function digest(value: unknown): unknown {
  if (typeof value === 'string') return digestText(value)
  if (value instanceof UploadedFile)
    return { file: value.name, type: value.type, length: value.bytes.length, sha256: sha256(value.bytes) }
  if (Array.isArray(value)) return value.map(digest)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, digest(inner)]))
}

function digestText(text: string): unknown {
  const dataUrl = DATA_URL.exec(text)
  if (dataUrl !== null) {
    const bytes = Buffer.from(text.slice(text.indexOf(',') + 1), 'base64')
    return { data_url: dataUrl[1], length: bytes.length, sha256: sha256(bytes) }
  }
  if (text.length <= LONGEST_KEPT_STRING) return text
  return { text: text.slice(0, 100), length: text.length, sha256: sha256(Buffer.from(text)) }
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}
