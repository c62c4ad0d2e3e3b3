/**
 * References to images, videos and sounds: a public URL, a data: URL, or an uploaded file. First all are looked at, and
 * only when the whole request is valid are files kept: a refused request leaves nothing behind.
 */
import { createReadStream } from 'node:fs'
import type { InputReference } from '../../runtime/service.ts'
import type { AssetStore } from '../../store/assets.ts'
import { isObject, nameOf } from '../body/json.ts'
import { type Body, Upload } from '../body/read-body.ts'
import type { Spool, SpooledFile } from '../body/spool.ts'
import { LIMITS } from '../limits.ts'
import { invalid, Problem } from '../problem.ts'
import { type MediaKind, mediaTypeOf } from './media-type.ts'

interface InputField {
  readonly field: string
  /** As a decision counts it. */
  readonly kind: string
  readonly media: MediaKind
  readonly many: boolean
}

export const VIDEO_INPUTS: readonly InputField[] = [
  { field: 'input_reference', kind: 'first_frame', media: 'image', many: false },
  { field: 'first_frame', kind: 'first_frame', media: 'image', many: false },
  { field: 'last_frame', kind: 'last_frame', media: 'image', many: false },
  { field: 'reference_images', kind: 'reference_images', media: 'image', many: true },
  { field: 'reference_videos', kind: 'reference_videos', media: 'video', many: true },
  { field: 'reference_audios', kind: 'reference_audios', media: 'audio', many: true },
]

export const IMAGE_INPUTS: readonly InputField[] = [
  { field: 'reference_images', kind: 'reference_images', media: 'image', many: true },
]

/** An input that was looked at: a URL to pass on, or a file that may be kept. */
export type CheckedInput =
  | { readonly url: string }
  | { readonly file: SpooledFile; readonly contentType: string; readonly filename: string }

export type CheckedInputs = ReadonlyMap<string, readonly CheckedInput[]>

/** By kind. Throws Problem `invalid_request` or `request_too_large`. data: URLs become files of `spool`. */
export async function checkInputs(
  body: Body,
  known: readonly InputField[],
  spool: Spool,
): Promise<CheckedInputs> {
  const found = new Map<string, CheckedInput[]>()
  for (const input of known) {
    const given = body.fields[input.field]
    if (given === undefined || given === null) continue
    if (found.has(input.kind))
      throw invalid(
        input.field,
        'input_reference is the first frame: give either input_reference or first_frame.',
      )
    found.set(input.kind, await checkField(given, input, spool))
  }
  const files = [...found.values()].flat().filter((input) => 'file' in input).length
  if (files > LIMITS.files)
    throw new Problem('request_too_large', { message: `The request has more than ${LIMITS.files} files.` })
  return found
}

async function checkField(given: unknown, input: InputField, spool: Spool): Promise<CheckedInput[]> {
  const list = Array.isArray(given) ? given : [given]
  if (Array.isArray(given) && !input.many)
    throw invalid(input.field, `${input.field} takes one ${input.media}, not a list.`)
  if (list.length > LIMITS.inputsOfOneKind)
    throw invalid(
      input.field,
      `${input.field} has ${list.length} entries; at most ${LIMITS.inputsOfOneKind} are taken.`,
    )
  const checked: CheckedInput[] = []
  for (const entry of list) checked.push(await checkEntry(entry, input, spool))
  return checked
}

async function checkEntry(entry: unknown, input: InputField, spool: Spool): Promise<CheckedInput> {
  if (entry instanceof Upload) return checkFile(entry.part.file, { ...entry.part, input })
  const link = isObject(entry) ? linkIn(entry, input) : entry
  if (typeof link !== 'string' || link === '')
    throw invalid(
      input.field,
      `${input.field} must be a URL or a file; ${link === '' ? 'an empty text' : nameOf(link)} was given.`,
    )
  return link.startsWith('data:') ? fileOfDataUrl(link, input, spool) : { url: checkUrl(link, input) }
}

const LINK_KEYS = ['url', 'image_url', 'video_url', 'audio_url']

/** `{"image_url": "…"}`, as the dialect writes references. */
function linkIn(entry: Readonly<Record<string, unknown>>, input: InputField): unknown {
  const keys = Object.keys(entry)
  if (keys.includes('file_id'))
    throw invalid(
      input.field,
      `${input.field}: files by file_id are not supported; give a URL, or upload the file.`,
    )
  const [key] = keys
  if (keys.length !== 1 || key === undefined || !LINK_KEYS.includes(key))
    throw invalid(
      input.field,
      `${input.field} as an object must have exactly one key, image_url, video_url, audio_url or url.`,
    )
  return entry[key]
}

function checkUrl(link: string, input: InputField): string {
  if (link.length > LIMITS.urlCharacters)
    throw invalid(input.field, `A URL in ${input.field} is longer than ${LIMITS.urlCharacters} characters.`)
  const url = URL.canParse(link) ? new URL(link) : null
  if (!url || !/^https?:$/.test(url.protocol) || /[\s\p{Cc}]/u.test(link))
    throw invalid(input.field, `${input.field} must be an http, https or data URL.`)
  if (url.username !== '' || url.password !== '')
    throw invalid(
      input.field,
      `A URL in ${input.field} carries a user name or password, which is not allowed.`,
    )
  return link
}

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

async function fileOfDataUrl(link: string, input: InputField, spool: Spool): Promise<CheckedInput> {
  const comma = link.indexOf(',')
  const head = /^data:([a-z0-9.+/-]+);base64$/i.exec(link.slice(0, Math.max(0, Math.min(comma, 200))))
  const data = link.slice(comma + 1)
  if (!head?.[1] || data.length % 4 !== 0 || !BASE64.test(data))
    throw invalid(
      input.field,
      `A data URL in ${input.field} must be like "data:image/png;base64,…", in valid base64.`,
    )
  const bytes = Buffer.from(data, 'base64')
  if (bytes.length > LIMITS.fileBytes)
    throw new Problem('request_too_large', {
      param: input.field,
      message: `A data URL in ${input.field} holds more than ${LIMITS.fileBytes} bytes.`,
    })
  const writer = await spool.create()
  await writer.write(bytes)
  return checkFile(await writer.finish(), { contentType: head[1].toLowerCase(), filename: '', input })
}

function checkFile(
  file: SpooledFile,
  as: { readonly contentType: string | null; readonly filename: string; readonly input: InputField },
): CheckedInput {
  const { field, media } = as.input
  if (file.bytes === 0) throw invalid(field, `A file in ${field} is empty.`)
  const contentType = mediaTypeOf(file.head, as.contentType, media)
  if (contentType === null)
    throw invalid(
      field,
      `A file in ${field} is not recognised as ${media === 'video' ? 'a' : 'an'} ${media}; send one, with its content type.`,
    )
  const extension = contentType.slice(contentType.indexOf('/') + 1).replace('jpeg', 'jpg')
  return { file, contentType, filename: as.filename || `${field}.${extension}` }
}

/** How many of each kind, as a decision reads it. */
export function countsOf(inputs: CheckedInputs): Record<string, number> {
  return Object.fromEntries(
    [...inputs].filter(([, list]) => list.length > 0).map(([kind, list]) => [kind, list.length]),
  )
}

/** What stands for an input in a digest: the URL, or the file's SHA-256. */
export function identityOf(inputs: CheckedInputs): Record<string, string[]> {
  return Object.fromEntries(
    [...inputs].map(([kind, list]) => [
      kind,
      list.map((input) => ('url' in input ? `url:${input.url}` : `sha256:${input.file.digest}`)),
    ]),
  )
}

export interface Keeping {
  readonly assets: AssetStore
  /** µs since 1970. */
  readonly expiresAt: number
}

const WEEK_MS = 7 * 24 * 3_600_000

export function keeping(deps: { readonly assets: AssetStore; readonly uploadLifeMs?: number }): Keeping {
  return { assets: deps.assets, expiresAt: (Date.now() + (deps.uploadLifeMs ?? WEEK_MS)) * 1000 }
}

/** Put the files into the asset store; from here on the request is valid. */
export async function keepInputs(
  inputs: CheckedInputs,
  into: Keeping,
): Promise<Record<string, InputReference[]>> {
  const kept: Record<string, InputReference[]> = {}
  for (const [kind, list] of inputs) {
    kept[kind] = []
    for (const input of list) kept[kind].push(await keepInput(input, into))
  }
  return kept
}

async function keepInput(input: CheckedInput, into: Keeping): Promise<InputReference> {
  if ('url' in input) return { url: input.url }
  const { contentType, filename } = input
  const options = { contentType, expiresAt: into.expiresAt, maxBytes: LIMITS.fileBytes }
  const { digest } = await into.assets.put(createReadStream(input.file.path), options)
  return { asset: digest, contentType, filename }
}
