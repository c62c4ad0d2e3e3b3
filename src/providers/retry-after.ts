/** How long a provider asks us to wait: Retry-After as RFC 9110 has it, and the millisecond header of OpenAI's family. */

/** However long it asks, an hour is the most that it is believed (HLT-15). */
const CAP_MS = 3_600_000

/** One value per header, lower-case names. */
export type AnswerHeaders = Readonly<Record<string, string>>

/**
 * Milliseconds from `nowMs` (Unix time of receipt), 0 to one hour; null where nothing valid was said. The more precise
 * `retry-after-ms` comes first.
 */
export function retryAfterMs(headers: AnswerHeaders, nowMs: number): number | null {
  const wait = inMilliseconds(headers['retry-after-ms']) ?? inSecondsOrDate(headers['retry-after'], nowMs)
  return wait === null ? null : Math.min(Math.max(wait, 0), CAP_MS)
}

function inMilliseconds(value: string | undefined): number | null {
  return value !== undefined && /^\d{1,12}(\.\d{1,6})?$/.test(value.trim()) ? Math.ceil(Number(value)) : null
}

function inSecondsOrDate(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null
  const text = value.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  return IMF_FIXDATE.test(text) ? sinceEpoch(text, nowMs) : null
}

const IMF_FIXDATE =
  /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT$/

function sinceEpoch(date: string, nowMs: number): number | null {
  const at = Date.parse(date)
  return Number.isNaN(at) ? null : at - nowMs
}
