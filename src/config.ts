/**
 * The only place that reads the environment. Every setting has a default that suits `npm start`; a value that cannot be
 * used is refused at start with its name, what was wrong and what would be right.
 */
import { resolve } from 'node:path'
import { HEALTH_DEFAULTS, type HealthSettings } from './core/health-row.ts'
import { healthSettingsFrom } from './core/health-settings.ts'
import type { Role } from './runtime/engine.ts'
import { TIMING_DEFAULTS, type Timing } from './runtime/timing.ts'

export interface Config {
  readonly host: string
  readonly port: number
  readonly dataDir: string
  /** null: the embedded PostgreSQL under the data directory. */
  readonly databaseUrl: string | null
  readonly poolSize: number
  readonly publicUrl: string | null
  readonly simulatorPort: number
  /** Keys that seal credentials; null: the data directory's own. */
  readonly masterKeyFile: string | null
  readonly masterKey: string | null
  readonly adminToken: string | null
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error' | 'silent'
  readonly resultLifeHours: number
  readonly largestResultBytes: number
  readonly roundRetentionDays: number
  readonly eventRetentionDays: number
  readonly timing: Timing
  readonly health: HealthSettings
  /** False: work is found by the scan alone. */
  readonly wakeHints: boolean
  /** Straight to PostgreSQL, where the database's own URL leads through a pooler; null: the same. */
  readonly listenUrl: string | null
}

export const ROLES: readonly Role[] = ['api', 'dispatch', 'poll', 'reconcile']

type Environment = Readonly<Record<string, string | undefined>>

/** A setting that cannot be used. */
export class BadSetting extends Error {
  constructor(name: string, problem: string) {
    super(`${name} ${problem}`)
    this.name = 'BadSetting'
  }
}

/** The names, for `--help` and the documentation. */
export const SETTINGS: readonly { readonly name: string; readonly about: string }[] = [
  { name: 'HOST', about: 'where to listen (127.0.0.1)' },
  { name: 'PORT', about: 'port to listen on (8080)' },
  { name: 'DATA_DIR', about: 'data of this installation (.yardmaster)' },
  { name: 'DATABASE_URL', about: 'an external PostgreSQL, 15 or newer (none: the embedded one)' },
  {
    name: 'DATABASE_LISTEN_URL',
    about: 'past a pooler straight to PostgreSQL, to hear of work that other processes leave (DATABASE_URL)',
  },
  { name: 'DATABASE_POOL', about: 'connections to PostgreSQL at most (20)' },
  { name: 'PUBLIC_URL', about: 'how customers reach this service, for links (as the request says)' },
  { name: 'SIMULATOR_PORT', about: 'port of the simulator in demo mode (8090)' },
  {
    name: 'MASTER_KEY',
    about: 'keys that seal credentials: 32 bytes in base64, several separated by commas, the newest first',
  },
  { name: 'MASTER_KEY_FILE', about: 'a file with the same (DATA_DIR/secret.key, made at the first start)' },
  { name: 'ADMIN_TOKEN', about: 'token of the admin API (DATA_DIR/admin.token, made at the first start)' },
  { name: 'LOG_LEVEL', about: 'debug, info, warn, error or silent (info)' },
  { name: 'RESULT_LIFE_HOURS', about: 'how long results are kept (168)' },
  { name: 'LARGEST_RESULT_BYTES', about: 'largest result that is fetched (2147483648)' },
  { name: 'ROUND_RETENTION_DAYS', about: 'how long selection rounds are kept (90)' },
  { name: 'EVENT_RETENTION_DAYS', about: 'how long health events are kept (90)' },
  { name: 'SUBMIT_TIMEOUT_SECONDS', about: 'how long the submission of a video may take (60)' },
  {
    name: 'UNCERTAIN_VIDEO_SECONDS',
    about: 'how long the unknown submission of a video is asked about (3600)',
  },
  { name: 'UNCERTAIN_IMAGE_SECONDS', about: 'how long that of an image keeps its leases (300)' },
  {
    name: 'LOOKUP_SECONDS',
    about: 'until the first look for a lost submission, doubling to twelve times that (10)',
  },
  { name: 'CLAIM_SECONDS', about: 'after how long without a sign of life a process counts as dead (15)' },
  { name: 'WAKE_HINTS', about: 'on, or off: work is found by the scan of a second alone (on)' },
  {
    name: 'HEALTH_SETTINGS',
    about: 'thresholds of health as JSON, as in {"cool_down_ms": 30000}; docs/operating explains them (none)',
  },
]

/** Throws BadSetting. */
export function readConfig(environment: Environment, cwd: string): Config {
  const read = new Reader(environment)
  return {
    host: read.text('HOST') ?? '127.0.0.1',
    port: read.whole('PORT', 8080, { min: 0, max: 65_535 }),
    dataDir: resolve(cwd, read.text('DATA_DIR') ?? '.yardmaster'),
    databaseUrl: read.databaseUrl('DATABASE_URL'),
    poolSize: read.whole('DATABASE_POOL', 20, { min: 2, max: 1000 }),
    publicUrl: read.url('PUBLIC_URL', ['http:', 'https:'])?.replace(/\/+$/, '') ?? null,
    simulatorPort: read.whole('SIMULATOR_PORT', 8090, { min: 1, max: 65_535 }),
    masterKey: read.text('MASTER_KEY'),
    masterKeyFile: read.text('MASTER_KEY_FILE'),
    adminToken: read.secret('ADMIN_TOKEN'),
    logLevel: read.oneOf('LOG_LEVEL', ['debug', 'info', 'warn', 'error', 'silent'], 'info'),
    resultLifeHours: read.whole('RESULT_LIFE_HOURS', 168, { min: 1, max: 87_600 }),
    largestResultBytes: read.whole('LARGEST_RESULT_BYTES', 2_147_483_648, {
      min: 1,
      max: Number.MAX_SAFE_INTEGER,
    }),
    roundRetentionDays: read.whole('ROUND_RETENTION_DAYS', 90, { min: 1, max: 36_500 }),
    eventRetentionDays: read.whole('EVENT_RETENTION_DAYS', 90, { min: 1, max: 36_500 }),
    timing: readTiming(read),
    health: read.health('HEALTH_SETTINGS'),
    wakeHints: read.oneOf('WAKE_HINTS', ['on', 'off'], 'on') === 'on',
    listenUrl: read.databaseUrl('DATABASE_LISTEN_URL'),
  }
}

function readTiming(read: Reader): Timing {
  const usual = TIMING_DEFAULTS
  const seconds = (name: string, otherwise: number, max: number) =>
    read.whole(name, otherwise, { min: 1, max })
  const lookupMs = seconds('LOOKUP_SECONDS', usual.lookupMs / 1000, 3600) * 1000
  return {
    submitTimeoutMs: seconds('SUBMIT_TIMEOUT_SECONDS', usual.submitTimeoutMs / 1000, 600) * 1000,
    videoDoubtSeconds: seconds('UNCERTAIN_VIDEO_SECONDS', usual.videoDoubtSeconds, 86_400),
    imageDoubtSeconds: seconds('UNCERTAIN_IMAGE_SECONDS', usual.imageDoubtSeconds, 86_400),
    lookupMs,
    lookupMaxMs: 12 * lookupMs,
    claimSeconds: read.whole('CLAIM_SECONDS', usual.claimSeconds, { min: 5, max: 300 }),
  }
}

class Reader {
  readonly #environment: Environment

  constructor(environment: Environment) {
    this.#environment = environment
  }

  text(name: string): string | null {
    const value = this.#environment[name]?.trim()
    return value === undefined || value === '' ? null : value
  }

  secret(name: string): string | null {
    const value = this.text(name)
    if (value !== null && value.length < 16)
      throw new BadSetting(name, 'is too short: use at least 16 characters')
    return value
  }

  whole(name: string, otherwise: number, range: { min: number; max: number }): number {
    const value = this.text(name)
    if (value === null) return otherwise
    const number = Number(value)
    if (/^\d+$/.test(value) && number >= range.min && number <= range.max) return number
    throw new BadSetting(name, `is "${value}", but must be a whole number from ${range.min} to ${range.max}`)
  }

  /** The value is not repeated in the error: a URL may hold a password. */
  url(name: string, protocols: readonly string[]): string | null {
    const value = this.text(name)
    if (value === null) return null
    if (URL.canParse(value) && protocols.includes(new URL(value).protocol)) return value
    throw new BadSetting(
      name,
      `must be a URL that begins with ${protocols.map((one) => `${one}//`).join(' or ')}`,
    )
  }

  health(name: string): HealthSettings {
    const value = this.text(name)
    if (value === null) return HEALTH_DEFAULTS
    const read = healthSettingsFrom(parsed(name, value))
    if (read.ok) return read.settings
    throw new BadSetting(name, read.problem)
  }

  /** As PostgreSQL's own programs take it: a socket's URL has no host, which makes it no URL to others. */
  databaseUrl(name: string): string | null {
    const value = this.text(name)
    if (value === null || /^(postgres|postgresql|socket):\/\/./.test(value)) return value
    throw new BadSetting(
      name,
      'must begin with postgres:// or postgresql://, as in postgres://user:password@host:5432/database',
    )
  }

  oneOf<T extends string>(name: string, allowed: readonly T[], otherwise: T): T {
    const value = this.text(name)
    if (value === null) return otherwise
    const found = allowed.find((one) => one === value)
    if (found !== undefined) return found
    throw new BadSetting(name, `is "${value}", but must be one of ${allowed.join(', ')}`)
  }
}

function parsed(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new BadSetting(name, 'is no JSON')
  }
}

/** `api,dispatch`: the work that a process takes on. Throws BadSetting. */
export function parseRoles(text: string): Role[] {
  const roles = text.split(',').map((word) => word.trim())
  return roles.map((word) => {
    const role = ROLES.find((one) => one === word)
    if (role) return role
    throw new BadSetting('--roles', `has "${word}", but knows ${ROLES.join(', ')}`)
  })
}
