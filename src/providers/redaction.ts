/**
 * What a provider or a socket says may repeat a key, a signed link or a whole picture. Nothing of it reaches a fault, a
 * log or a row: every text from outside passes here first, and is cut.
 */

const LIMIT = 500
/** Longer texts are cut before they are searched, so that a hostile one costs nothing. */
const SEARCHED = 8_000

/** The text without credentials, signed queries and data URLs, on one line, at most 500 characters. */
export function redact(text: string, secrets: readonly string[] = []): string {
  const known = secrets.filter((secret) => secret.length >= 4)
  const without = known.reduce((rest, secret) => rest.replaceAll(secret, REMOVED), text.slice(0, SEARCHED))
  return cut(RULES.reduce((rest, [pattern, replacement]) => rest.replace(pattern, replacement), without))
}

const REMOVED = '[removed]'

const RULES: readonly (readonly [RegExp, string])[] = [
  [/data:[\w.+-]*(?:\/[\w.+-]+)?(?:;[\w.=+-]+)*,[^\s"'<>]*/gi, `data:${REMOVED}`],
  [/\b([a-z][a-z0-9+.-]{1,15}:\/\/)[^\s/@"'<>]{1,200}@/gi, `$1${REMOVED}@`],
  [/(\bhttps?:\/\/[^\s?#"'<>]*)[?#][^\s"'<>]*/gi, `$1?${REMOVED}`],
  [/\b(bearer|basic|token)\s+[A-Za-z0-9._~+/=-]{6,}/gi, `$1 ${REMOVED}`],
  [
    /\b((?:x-)?api[-_ ]?key(?: provided)?|access[-_ ]?key(?:[-_ ]?id)?|authorization|secret|signature|password|token)(["']?\s*[:=]\s*["']?)[^\s"',;&})]{4,}/gi,
    `$1$2${REMOVED}`,
  ],
  [/\b(?:sk|ak|pk|rk|key|ark|ym)[-_][A-Za-z0-9_*-]{6,}/gi, REMOVED],
  [/\beyJ[\w-]{5,}(?:\.[\w-]+){1,2}/g, REMOVED],
  [/\bAKLT[A-Za-z0-9_=-]{8,}/g, REMOVED],
  // A long run with small letters, capitals and digits is a token or an encoded file; a request ID has no capitals.
  [
    /(?=[A-Za-z0-9+/_=.-]*[a-z])(?=[A-Za-z0-9+/_=.-]*[A-Z])(?=[A-Za-z0-9+/_=.-]*\d)[A-Za-z0-9+/_=-]{32,}/g,
    REMOVED,
  ],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is taken out.
  [/[\u0000-\u001f\u007f\u2028\u2029]+/g, ' '],
]

function cut(text: string): string {
  return text.length <= LIMIT
    ? text
    : `${Array.from(text.slice(0, LIMIT - 1))
        .filter(isWhole)
        .join('')}…`
}

/** Cutting may have left half of a character outside the basic plane. */
function isWhole(character: string): boolean {
  const code = character.charCodeAt(0)
  return character.length === 2 || code < 0xd800 || code > 0xdfff
}
