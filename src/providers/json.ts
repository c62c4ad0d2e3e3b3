/**
 * Reading what a provider sent: only the fields that are needed, each by its type, everything else ignored. A provider
 * may add fields or drop optional ones at any time; a field of the wrong type counts as absent.
 */

export type JsonObject = Readonly<Record<string, unknown>>

/** The body as an object; null where it is no JSON, or no object: an HTML page, a cut-off text, an empty answer. */
export function parseObject(body: Buffer): JsonObject | null {
  try {
    return asObject(JSON.parse(body.toString('utf8').replace(/^\uFEFF/, '')))
  } catch {
    return null
  }
}

export function asObject(value: unknown): JsonObject | null {
  return isObject(value) ? value : null
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function objectAt(from: JsonObject, key: string): JsonObject | null {
  return asObject(from[key])
}

/** A string that is not empty. */
export function textAt(from: JsonObject, key: string): string | null {
  const value = from[key]
  return typeof value === 'string' && value !== '' ? value : null
}

export function numberAt(from: JsonObject, key: string): number | null {
  const value = from[key]
  return typeof value === 'number' && Number.isFinite(value) ? value : null
}

export function listAt(from: JsonObject, key: string): readonly unknown[] | null {
  const value = from[key]
  return Array.isArray(value) ? value : null
}

/** The named fields that are plain values: what an operator may compare with our own figures (COST-7). */
export function plainFields(
  from: JsonObject | null,
  keys: readonly string[],
): Record<string, string | number | boolean> {
  const fields: Record<string, string | number | boolean> = {}
  for (const key of keys) {
    const value = from?.[key]
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
      fields[key] = value
  }
  return fields
}

/** A link that may be fetched: absolute, http or https. */
export function linkAt(from: JsonObject, key: string): string | null {
  const value = textAt(from, key)
  return value !== null && isWebLink(value) ? value : null
}

export function isWebLink(link: string): boolean {
  return URL.canParse(link) && ['http:', 'https:'].includes(new URL(link).protocol)
}
