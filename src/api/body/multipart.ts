/**
 * multipart/form-data, read as it arrives and strictly. The usual parsers drop a part that they cannot read and go on;
 * here the rest would then be carried out and paid for as if it were the whole request. So every fault is an error.
 */
import { LIMITS } from '../limits.ts'
import { invalid, Problem } from '../problem.ts'
import type { SpooledFile, SpoolWriter } from './spool.ts'
import { decodeUtf8 } from './text.ts'

export interface FilePart {
  readonly filename: string
  /** As declared, in lower case, without parameters; null where it is not. */
  readonly contentType: string | null
  readonly file: SpooledFile
}

/** One part: text as sent, or a file. */
export type Part = { readonly name: string } & ({ readonly text: string } | FilePart)

/** The parameter `boundary` of a content type. Throws Problem `invalid_request`. */
export function boundaryOf(contentType: string): string {
  const found = /;\s*boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)/i.exec(contentType)
  const boundary = found?.[1] ?? found?.[2]
  if (boundary === undefined)
    throw invalid(null, 'The content type multipart/form-data needs a boundary of 1 to 70 characters.')
  return boundary
}

const CRLF = Buffer.from('\r\n')
const END_OF_HEADERS = Buffer.from('\r\n\r\n')

/**
 * All parts, in order; files go to the writers that `createFile` makes.
 * Throws Problem `invalid_request`, or `request_too_large`.
 */
export async function readMultipart(
  source: AsyncIterable<Uint8Array>,
  options: { readonly boundary: string; readonly createFile: () => Promise<SpoolWriter> },
): Promise<Part[]> {
  const input = new Window(source)
  const delimiter = Buffer.from(`\r\n--${options.boundary}`)
  await readOpening(input, delimiter.subarray(2))
  const parts: Part[] = []
  let files = 0
  while (await anotherPart(input)) {
    if (parts.length === LIMITS.parts) throw tooLarge(`The body has more than ${LIMITS.parts} parts.`)
    const head = readHead(
      await input.takeUntil(END_OF_HEADERS, LIMITS.partHeaderBytes, 'The headers of a part'),
    )
    if (head.filename !== null) files += 1
    if (files > LIMITS.files) throw tooLarge(`The body has more than ${LIMITS.files} files.`)
    parts.push(await readContent(input, head, { delimiter, createFile: options.createFile }))
  }
  await input.skipRest()
  return parts
}

/** A preamble is allowed by the standard and sent by nobody: it is refused, being most often a wrong boundary. */
async function readOpening(input: Window, opening: Buffer): Promise<void> {
  await input.need(opening.length)
  if (!input.startsWith(opening))
    throw invalid(null, 'The multipart body does not begin with its boundary as the content type gives it.')
  input.drop(opening.length)
}

/** After a boundary: CRLF and a part, or two dashes and the end. */
async function anotherPart(input: Window): Promise<boolean> {
  await input.need(2)
  const isLast = input.startsWith(Buffer.from('--'))
  if (!isLast && !input.startsWith(CRLF))
    throw invalid(null, 'A boundary in the multipart body is followed by neither a line break nor "--".')
  // The CRLF stays: where a part has no header at all, the end of its headers begins with it.
  if (isLast) input.drop(2)
  return !isLast
}

interface Head {
  readonly name: string
  readonly filename: string | null
  readonly contentType: string | null
}

function readHead(bytes: Buffer): Head {
  const headers = new Map<string, string>()
  for (const line of decodeUtf8(bytes, null).split('\r\n')) {
    if (line === '') continue
    const colon = line.indexOf(':')
    if (colon < 1 || /[\r\n\0]/.test(line))
      throw invalid(null, 'A part of the multipart body has a header that cannot be read.')
    headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim())
  }
  refuseTransferEncoding(headers.get('content-transfer-encoding'))
  const disposition = headers.get('content-disposition')
  if (disposition === undefined)
    throw invalid(null, 'A part of the multipart body has no Content-Disposition.')
  const type = headers.get('content-type')
  return { ...readDisposition(disposition), contentType: type?.split(';')[0]?.trim().toLowerCase() || null }
}

function refuseTransferEncoding(encoding: string | undefined): void {
  if (encoding === undefined || /^(7bit|8bit|binary)$/i.test(encoding)) return
  throw invalid(
    null,
    'Content-Transfer-Encoding is not supported in multipart/form-data; send the bytes as they are.',
  )
}

const PARAMETER = /;\s*([a-z0-9*_-]+)=(?:"((?:[^"\\]|\\.)*)"|([^;"\s]+))\s*/giy

function readDisposition(disposition: string): { name: string; filename: string | null } {
  if (!/^form-data\s*(;|$)/i.test(disposition))
    throw invalid(null, 'A part of the multipart body has another Content-Disposition than form-data.')
  const parameters = new Map<string, string>()
  PARAMETER.lastIndex = 'form-data'.length
  let at = PARAMETER.lastIndex
  for (let found = PARAMETER.exec(disposition); found; found = PARAMETER.exec(disposition)) {
    parameters.set((found[1] ?? '').toLowerCase(), unescaped(found[2] ?? found[3] ?? ''))
    at = PARAMETER.lastIndex
  }
  const name = parameters.get('name')
  if (at !== disposition.length || name === undefined || name === '')
    throw invalid(null, 'A part of the multipart body has no name that can be read.')
  if (Buffer.byteLength(name) > LIMITS.fieldNameBytes)
    throw invalid(null, `The name of a part is longer than ${LIMITS.fieldNameBytes} bytes.`)
  return { name, filename: filenameOf(parameters) }
}

/** As browsers and fetch escape: %22 for a quote; others put a backslash. */
function unescaped(text: string): string {
  return text.replace(/\\(["\\])/g, '$1').replaceAll('%22', '"')
}

/** The last segment of what was given, since a path is nobody's business. */
function filenameOf(parameters: ReadonlyMap<string, string>): string | null {
  const given = parameters.get('filename')
  if (given === undefined) return null
  const name = given.split(/[\\/]/).at(-1) ?? ''
  return name.slice(-LIMITS.filenameCharacters)
}

interface Reading {
  readonly delimiter: Buffer
  readonly createFile: () => Promise<SpoolWriter>
}

async function readContent(input: Window, head: Head, reading: Reading): Promise<Part> {
  const { name, filename, contentType } = head
  if (filename === null) {
    const limit = LIMITS.fileBytes * 2
    return { name, text: decodeUtf8(await input.takeUntil(reading.delimiter, limit, `"${name}"`), name) }
  }
  const writer = await reading.createFile()
  let bytes = 0
  for await (const chunk of input.chunksUntil(reading.delimiter)) {
    bytes += chunk.length
    if (bytes > LIMITS.fileBytes)
      throw tooLarge(`The file in "${name}" is larger than ${LIMITS.fileBytes} bytes.`, name)
    await writer.write(chunk)
  }
  const file = await writer.finish()
  return { name, filename, contentType, file }
}

function tooLarge(message: string, param: string | null = null): Problem {
  return new Problem('request_too_large', { message, param })
}

/** The part of the body that has arrived and is not used up. */
class Window {
  readonly #source: AsyncIterator<Uint8Array>
  #held: Buffer = Buffer.alloc(0)

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]()
  }

  startsWith(bytes: Buffer): boolean {
    return this.#held.subarray(0, bytes.length).equals(bytes)
  }

  drop(count: number): void {
    this.#held = this.#held.subarray(count)
  }

  async need(count: number): Promise<void> {
    while (this.#held.length < count) await this.#more()
  }

  /** What stands before `mark`; the mark itself is dropped. */
  async takeUntil(mark: Buffer, limit: number, what: string): Promise<Buffer> {
    const taken: Buffer[] = []
    let bytes = 0
    for await (const chunk of this.chunksUntil(mark)) {
      taken.push(chunk)
      bytes += chunk.length
      if (bytes > limit) throw tooLarge(`${what} is longer than ${limit} bytes.`)
    }
    return Buffer.concat(taken)
  }

  async *chunksUntil(mark: Buffer): AsyncGenerator<Buffer> {
    for (;;) {
      const at = this.#held.indexOf(mark)
      if (at !== -1) {
        if (at > 0) yield this.#held.subarray(0, at)
        this.drop(at + mark.length)
        return
      }
      // The mark may have begun in the last bytes.
      const safe = this.#held.length - mark.length + 1
      if (safe > 0) {
        yield this.#held.subarray(0, safe)
        this.drop(safe)
      }
      await this.#more()
    }
  }

  async skipRest(): Promise<void> {
    this.#held = Buffer.alloc(0)
    while (!(await this.#source.next()).done);
  }

  async #more(): Promise<void> {
    const next = await this.#source.next()
    if (next.done) throw invalid(null, 'The multipart body ends too early: its closing boundary is missing.')
    this.#held = this.#held.length === 0 ? Buffer.from(next.value) : Buffer.concat([this.#held, next.value])
  }
}
