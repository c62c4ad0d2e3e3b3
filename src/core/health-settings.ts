/** HLT-14, HLT-15: settings of health as an operator writes them, over the defaults. */
import { HEALTH_DEFAULTS, type HealthSettings } from './health-row.ts'

const NAMES: ReadonlyMap<string, keyof HealthSettings> = new Map([
  ['window_size', 'windowSize'],
  ['window_age_ms', 'windowAgeMs'],
  ['window_durations', 'windowDurations'],
  ['sample_size', 'sampleSize'],
  ['sample_age_ms', 'sampleAgeMs'],
  ['degrade_after', 'degradeAfter'],
  ['degrade_at_percent', 'degradeAtPercent'],
  ['degrade_minimum', 'degradeMinimum'],
  ['restore_after', 'restoreAfter'],
  ['open_after', 'openAfter'],
  ['open_at_percent', 'openAtPercent'],
  ['open_minimum', 'openMinimum'],
  ['open_with_consecutive', 'openWithConsecutive'],
  ['open_after_direct', 'openAfterDirect'],
  ['same_failure_ms', 'sameFailureMs'],
  ['cool_down_ms', 'coolDownMs'],
  ['persistent_cool_down_ms', 'persistentCoolDownMs'],
  ['persistent_cool_down_max_ms', 'persistentCoolDownMaxMs'],
  ['hold_ms', 'holdMs'],
  ['hold_max_ms', 'holdMaxMs'],
])

export type ReadSettings =
  | { readonly ok: true; readonly settings: HealthSettings }
  | { readonly ok: false; readonly problem: string }

/** Whole numbers of at least 1 by their names; what is not named keeps its default. */
export function healthSettingsFrom(given: unknown): ReadSettings {
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    return { ok: false, problem: 'must be an object, as in {"cool_down_ms": 30000}' }
  const changed: { -readonly [K in keyof HealthSettings]: number } = { ...HEALTH_DEFAULTS }
  for (const [name, value] of Object.entries(given)) {
    const key = NAMES.get(name)
    if (key === undefined)
      return { ok: false, problem: `has ${name}, but knows ${[...NAMES.keys()].join(', ')}` }
    if (!Number.isSafeInteger(value) || value < 1)
      return {
        ok: false,
        problem: `has ${name} ${JSON.stringify(value)}, which must be a whole number of at least 1`,
      }
    changed[key] = value
  }
  return { ok: true, settings: changed }
}
