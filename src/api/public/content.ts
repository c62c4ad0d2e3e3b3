/** A stored file as an HTTP answer: whole or one range of it (RFC 9110 §14), with its SHA-256 as the entity tag. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AssetStore } from '../../store/assets.ts'
import { Problem } from '../problem.ts'

export interface Served {
  readonly digest: string
  /** Without its extension. */
  readonly name: string
}

export type Range = { readonly start: number; readonly end: number }

/** Throws Problem: `result_expired`, `range_not_satisfiable`. */
export async function sendAsset(
  answer: { readonly request: FastifyRequest; readonly reply: FastifyReply; readonly assets: AssetStore },
  { digest, name }: Served,
): Promise<FastifyReply> {
  const { request, reply, assets } = answer
  const asset = await assets.stat(digest)
  if (asset === null) throw new Problem('result_expired')
  const range = rangeFor(request, { bytes: asset.bytes, etag: `"${digest}"` })
  const opened = request.method === 'HEAD' ? null : await assets.open(digest, range ?? {})
  reply
    .header('accept-ranges', 'bytes')
    .header('etag', `"${digest}"`)
    .header('cache-control', 'private')
    .header('content-type', asset.contentType)
    .header('content-disposition', `inline; filename="${name}.${extensionOf(asset.contentType)}"`)
    .header('content-length', String(range ? range.end - range.start + 1 : asset.bytes))
  if (range) reply.code(206).header('content-range', `bytes ${range.start}-${range.end}/${asset.bytes}`)
  return reply.send(opened?.stream)
}

function extensionOf(contentType: string): string {
  const [, subtype = 'bin'] = contentType.split('/')
  return subtype === 'jpeg' ? 'jpg' : subtype
}

function rangeFor(request: FastifyRequest, of: { bytes: number; etag: string }): Range | null {
  const ifRange = request.headers['if-range']
  if (request.headers.range === undefined || (ifRange !== undefined && ifRange !== of.etag)) return null
  const range = parseRange(request.headers.range, of.bytes)
  if (range === 'unsatisfiable')
    throw new Problem('range_not_satisfiable', {
      message: `The file has ${of.bytes} bytes; the range lies outside of it.`,
      headers: { 'content-range': `bytes */${of.bytes}` },
    })
  return range
}

/** null: no range that is understood, or several of them; then the whole file is sent, as the standard allows. */
export function parseRange(header: string, bytes: number): Range | 'unsatisfiable' | null {
  const found = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header)
  if (!found || (found[1] === '' && found[2] === '')) return null
  const first = found[1] === '' ? null : Number(found[1])
  const last = found[2] === '' ? null : Number(found[2])
  if (first === null) return suffix(last ?? 0, bytes)
  if (last !== null && last < first) return null
  return first >= bytes ? 'unsatisfiable' : { start: first, end: Math.min(last ?? bytes - 1, bytes - 1) }
}

function suffix(length: number, bytes: number): Range | 'unsatisfiable' {
  return length === 0 || bytes === 0
    ? 'unsatisfiable'
    : { start: Math.max(0, bytes - length), end: bytes - 1 }
}
