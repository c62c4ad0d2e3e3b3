/** Two values field by field, in an order that does not depend on how they were stored. */

export interface FieldChange {
  /** As in limits.modes[2].resolutions. */
  readonly field: string
  readonly from: unknown
  readonly to: unknown
}

/** Fields that differ; undefined is a field that is not there. */
export function differences(from: unknown, to: unknown, field = ''): FieldChange[] {
  if (Array.isArray(from) && Array.isArray(to) && ofObjects(from) && ofObjects(to)) {
    const places = Array.from({ length: Math.max(from.length, to.length) }, (_, place) => place)
    return places.flatMap((place) => differences(from[place], to[place], `${field}[${place}]`))
  }
  if (isObject(from) && isObject(to)) {
    const keys = [...new Set([...Object.keys(from), ...Object.keys(to)])].sort()
    return keys.flatMap((key) => differences(from[key], to[key], field === '' ? key : `${field}.${key}`))
  }
  return canonical(from) === canonical(to) ? [] : [{ field, from, to }]
}

export function sameContent(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b)
}

/** JSON with sorted keys: equal text for equal content. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'undefined'
  const members = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`)
  return `{${members.join(',')}}`
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Lists of modes and prices are compared place by place; lists of names as a whole. */
function ofObjects(list: readonly unknown[]): boolean {
  return list.length > 0 && list.every(isObject)
}
