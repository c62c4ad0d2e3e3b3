/**
 * A health row as PostgreSQL keeps it: what a decision or a CHECK reads in columns of its own, all else in `counters`.
 * Reading is strict, since a misread count opens or closes a circuit: a wrong value is named with its place.
 */
import type { HealthState } from './catalog.ts'
import {
  type Counters,
  type HealthRow,
  type Hold,
  type Outcome,
  openUntil,
  recoverySuccesses,
  type Standing,
} from './health-row.ts'
import type { Instant } from './time.ts'

/** Columns of channel_health and supply_health. Instants in µs; `counters` is JSON, `{}` for a new level. */
export interface HealthColumns {
  readonly state: HealthState
  readonly epoch: number
  readonly recovery_successes: number
  readonly open_until: Instant | null
  readonly not_before: Instant | null
  readonly counters: Readonly<Record<string, unknown>>
}

export function healthToColumns(row: HealthRow): HealthColumns {
  return {
    state: row.state,
    epoch: row.epoch,
    recovery_successes: recoverySuccesses(row),
    open_until: openUntil(row),
    not_before: row.hold?.notBefore ?? null,
    counters: countersToJson(row),
  }
}

function countersToJson(row: HealthRow): Record<string, unknown> {
  const { counters } = row
  return {
    outcomes: counters.outcomes.map((outcome) => [
      outcome.at,
      outcome.ok ? (outcome.durationMs ?? true) : false,
    ]),
    since_opening: counters.sinceOpening,
    consecutive_failures: counters.consecutiveFailures,
    consecutive_successes: counters.consecutiveSuccesses,
    consecutive_direct: counters.consecutiveDirect,
    last_failure: counters.lastFailure,
    persistent_openings: counters.persistentOpenings,
    ...(row.hold === null ? {} : { holds: row.hold.count }),
    ...(row.state === 'circuit_open' ? { ping_first: row.pingFirst } : {}),
    ...(row.state === 'disabled' ? { before: standingToJson(row.before) } : {}),
  }
}

function standingToJson(standing: Standing): Record<string, unknown> {
  switch (standing.state) {
    case 'healthy':
    case 'degraded':
      return { state: standing.state }
    case 'circuit_open':
      return { state: standing.state, open_until: standing.openUntil, ping_first: standing.pingFirst }
    case 'probing':
    case 'recovering':
      return { state: standing.state, recovery_successes: standing.recoverySuccesses }
  }
}

/** Throws an Error that names the field, for a row that this program cannot have written. */
export function healthFromColumns(columns: HealthColumns): HealthRow {
  const json = columns.counters
  const kept = {
    epoch: count(columns.epoch, 'epoch'),
    counters: countersFromJson(json),
    hold: holdFrom(columns.not_before, json.holds),
  }
  if (columns.state === 'disabled') return { ...kept, state: 'disabled', before: beforeFrom(json.before) }
  return { ...kept, ...standingFrom({ ...columns, ping_first: json.ping_first ?? false }, '') }
}

function countersFromJson(json: HealthColumns['counters']): Counters {
  const at = (name: string) => count(json[name] ?? 0, `counters.${name}`)
  return {
    outcomes: list(json.outcomes ?? [], 'counters.outcomes').map(outcomeFrom),
    sinceOpening: at('since_opening'),
    consecutiveFailures: at('consecutive_failures'),
    consecutiveSuccesses: at('consecutive_successes'),
    consecutiveDirect: at('consecutive_direct'),
    lastFailure: lastFailureFrom(json.last_failure ?? null),
    persistentOpenings: at('persistent_openings'),
  }
}

function outcomeFrom(value: unknown, index: number): Outcome {
  const place = `counters.outcomes[${index}]`
  const [at, what] = list(value, place)
  const instant = count(at, `${place}[0]`)
  if (what === false) return { at: instant, ok: false }
  return { at: instant, ok: true, durationMs: what === true ? null : duration(what, `${place}[1]`) }
}

function lastFailureFrom(value: unknown): Counters['lastFailure'] {
  if (value === null) return null
  const { at, fingerprint } = record(value, 'counters.last_failure')
  if (typeof fingerprint !== 'string') wrong(fingerprint, 'counters.last_failure.fingerprint', 'text')
  return { at: count(at, 'counters.last_failure.at'), fingerprint }
}

function holdFrom(notBefore: Instant | null, holds: unknown): Hold | null {
  if (notBefore === null) return null
  return { notBefore: count(notBefore, 'not_before'), count: count(holds ?? 1, 'counters.holds') }
}

/** A level that was created switched off was never anything but new, and what is new starts healthy (HLT-17). */
function beforeFrom(value: unknown): Standing {
  return value === undefined
    ? { state: 'healthy' }
    : standingFrom(record(value, 'counters.before'), 'counters.before.')
}

interface StandingFields {
  readonly state?: unknown
  readonly recovery_successes?: unknown
  readonly open_until?: unknown
  readonly ping_first?: unknown
}

function standingFrom(fields: StandingFields, place: string): Standing {
  switch (fields.state) {
    case 'healthy':
    case 'degraded':
      return { state: fields.state }
    case 'circuit_open':
      return {
        state: fields.state,
        openUntil: count(fields.open_until, `${place}open_until`),
        pingFirst: flag(fields.ping_first, `${place}ping_first`),
      }
    case 'probing':
      return { state: fields.state, recoverySuccesses: oneOf([0, 1], fields.recovery_successes, place) }
    case 'recovering':
      return { state: fields.state, recoverySuccesses: oneOf([2, 3, 4], fields.recovery_successes, place) }
    default:
      return wrong(fields.state, `${place}state`, 'a state of health')
  }
}

function oneOf<N extends number>(allowed: readonly N[], value: unknown, place: string): N {
  return (
    allowed.find((one) => one === value) ?? wrong(value, `${place}recovery_successes`, allowed.join(' or '))
  )
}

function count(value: unknown, place: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value
  return wrong(value, place, 'a whole number of 0 or more')
}

function duration(value: unknown, place: string): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value
  return wrong(value, place, 'true, false or a duration in milliseconds')
}

function flag(value: unknown, place: string): boolean {
  return typeof value === 'boolean' ? value : wrong(value, place, 'true or false')
}

function list(value: unknown, place: string): readonly unknown[] {
  return Array.isArray(value) ? value : wrong(value, place, 'a list')
}

function record(value: unknown, place: string): Readonly<Record<string, unknown>> {
  return isRecord(value) ? value : wrong(value, place, 'an object')
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function wrong(value: unknown, place: string, right: string): never {
  throw new Error(`health row: ${place} is ${JSON.stringify(value)}, but must be ${right}`)
}
