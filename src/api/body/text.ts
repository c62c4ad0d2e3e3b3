/** Text as it comes in: UTF-8 without a fault, and nothing that PostgreSQL's jsonb cannot hold. */
import { invalid } from '../problem.ts'

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** `where` names the field, or the body. */
export function decodeUtf8(bytes: Uint8Array, where: string | null): string {
  try {
    return UTF8.decode(bytes)
  } catch {
    throw invalid(where, `${where ?? 'The body'} is not valid UTF-8.`)
  }
}

/** Refuses U+0000 and halves of surrogate pairs. */
export function checkText(text: string, where: string | null): void {
  if (text.includes('\u0000'))
    throw invalid(where, `${where ?? 'The body'} contains the character U+0000, which is not allowed.`)
  if (!text.isWellFormed())
    throw invalid(
      where,
      `${where ?? 'The body'} contains half of a surrogate pair (U+D800 to U+DFFF), which is no character.`,
    )
}
