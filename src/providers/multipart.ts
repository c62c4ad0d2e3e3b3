/**
 * A multipart form as one Buffer. Streams would be shorter, but only a body that is whole before the call begins lets
 * the client say for certain whether a byte of it has left (UNK-7).
 */
import { randomUUID } from 'node:crypto'

export type FormPart =
  | { readonly name: string; readonly value: string }
  | {
      readonly name: string
      readonly filename: string
      readonly contentType: string
      readonly bytes: Uint8Array
    }

export interface Form {
  readonly contentType: string
  readonly body: Buffer
}

export function buildForm(parts: readonly FormPart[], boundary: string = `ym-${randomUUID()}`): Form {
  const pieces = parts.flatMap((part) => [head(part, boundary), content(part), Buffer.from('\r\n')])
  return {
    contentType: `multipart/form-data; boundary=${boundary}`,
    body: Buffer.concat([...pieces, Buffer.from(`--${boundary}--\r\n`)]),
  }
}

function head(part: FormPart, boundary: string): Buffer {
  const file = 'bytes' in part ? `; filename="${quoted(part.filename)}"` : ''
  const type = 'bytes' in part ? `\r\nContent-Type: ${part.contentType.replace(/[\r\n]/g, '')}` : ''
  return Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="${quoted(part.name)}"${file}${type}\r\n\r\n`,
  )
}

function content(part: FormPart): Uint8Array {
  return 'bytes' in part ? part.bytes : Buffer.from(part.value)
}

/** As browsers do it: what would end the quotes or the line is percent-encoded. */
function quoted(name: string): string {
  return name.replace(/"/g, '%22').replace(/\r/g, '%0D').replace(/\n/g, '%0A')
}
