// What the simulated accounts are: their keys, their models, how long a job takes and how many run at once.
//
// Unknown accounts and models work with any key, so that a test sets up only what it is about. An account
// that is `strict` knows its own models alone; a configuration that is `strict` knows its own accounts alone.

import * as f from './fields.ts'

export type Protocol = 'ark' | 'openai' | 'kling'

export type Limits = {
  images?: number
  videos?: number
  audios?: number
  /** Shortest and longest video, in seconds. */
  seconds?: [number, number]
  resolutions?: string[]
}

export type Price = {
  per_job?: number
  per_second?: number
  per_image?: number
  per_million_tokens?: number
}

export type ModelSettings = {
  duration_ms: number
  /** Part of the duration by which it varies, 0 to 1, drawn from the seed. */
  spread: number
  /** Waited in `queued` even when there is room. */
  queue_ms: number
  /** How many run at once; null for no limit. */
  concurrency: number | null
  when_full: 'queue' | 'reject'
  /** Micro-units of money. */
  price: Price
  /** Reported instead of the computed number of tokens. */
  usage_tokens: number | null
  limits: Limits
  /** How long a result's URL works. */
  url_ttl_s: number
}

type Account = {
  protocol: Protocol
  account: string
  /** Undefined: any key will do. */
  keys: string[] | undefined
  strict: boolean
  models: Map<string, Partial<ModelSettings>>
}

const DEFAULTS: ModelSettings = {
  duration_ms: 1000,
  spread: 0,
  queue_ms: 0,
  concurrency: null,
  when_full: 'queue',
  price: {},
  usage_tokens: null,
  limits: {},
  url_ttl_s: 86_400,
}
const IMAGE_DURATION_MS = 50
const ANY_MODEL = '*'

export class Configuration {
  #accounts = new Map<string, Account>()
  #defaults: Partial<ModelSettings> = {}
  #strict = false

  reset(): void {
    this.#accounts.clear()
    this.#defaults = {}
    this.#strict = false
  }

  /** Adds to what is configured; an account given again is replaced. Throws ControlError before any change. */
  apply(value: unknown): void {
    const input = f.record(value, 'configuration', ['strict', 'defaults', 'accounts'])
    const strict = f.optional(input.strict, 'strict', f.flag)
    const defaults = f.optional(input.defaults, 'defaults', readSettings)
    const accounts = f.optional(input.accounts, 'accounts', f.list(readAccount)) ?? []
    this.#strict = strict ?? this.#strict
    this.#defaults = { ...this.#defaults, ...defaults }
    for (const account of accounts) this.#accounts.set(`${account.protocol}/${account.account}`, account)
  }

  show(): unknown {
    const accounts = [...this.#accounts.values()].map((account) => ({
      protocol: account.protocol,
      account: account.account,
      keys: account.keys?.length ?? 'any',
      strict: account.strict,
      models: Object.fromEntries(account.models),
    }))
    return { strict: this.#strict, defaults: { ...DEFAULTS, ...this.#defaults }, accounts }
  }

  accepts(protocol: Protocol, account: string, key: string): boolean {
    const known = this.#accounts.get(`${protocol}/${account}`)
    if (known === undefined) return !this.#strict
    return known.keys === undefined || known.keys.includes(key)
  }

  knows(protocol: Protocol, account: string, model: string): boolean {
    const known = this.#accounts.get(`${protocol}/${account}`)
    return known === undefined || !known.strict || known.models.has(model)
  }

  /** The names of the models that the account lists. */
  models(protocol: Protocol, account: string): string[] {
    const known = this.#accounts.get(`${protocol}/${account}`)
    return [...(known?.models.keys() ?? [])].filter((name) => name !== ANY_MODEL)
  }

  /** What holds for one model of one account: its own settings, else the account's `*`, else the defaults. */
  settings(protocol: Protocol, account: string, model: string, kind: 'video' | 'image'): ModelSettings {
    const known = this.#accounts.get(`${protocol}/${account}`)
    return {
      ...DEFAULTS,
      // Ark lets what is over the limit wait; gateways of OpenAI's kind, and every synchronous call, refuse it.
      when_full: protocol === 'ark' && kind === 'video' ? 'queue' : 'reject',
      ...(kind === 'image' ? { duration_ms: IMAGE_DURATION_MS } : {}),
      ...this.#defaults,
      ...known?.models.get(ANY_MODEL),
      ...known?.models.get(model),
    }
  }
}

function readAccount(value: unknown, path: string): Account {
  const input = f.record(value, path, ['protocol', 'account', 'keys', 'strict', 'models'])
  const models = f.optional(input.models, `${path}.models`, (models, at) => {
    if (!f.isRecord(models)) throw new f.ControlError(`${at}: expected an object of model names`)
    return Object.entries(models).map(([name, settings]): [string, Partial<ModelSettings>] => [
      name,
      readSettings(settings, `${at}.${name}`),
    ])
  })
  return {
    protocol: f.oneOf('ark', 'openai', 'kling')(input.protocol, `${path}.protocol`),
    account: f.text(input.account, `${path}.account`),
    keys: f.optional(input.keys, `${path}.keys`, f.list(f.text)),
    strict: f.optional(input.strict, `${path}.strict`, f.flag) ?? false,
    models: new Map(models),
  }
}

const READERS: { [K in keyof ModelSettings]: (value: unknown, path: string) => ModelSettings[K] } = {
  duration_ms: f.amount,
  spread: f.amount,
  queue_ms: f.amount,
  concurrency: (value, path) => (value === null ? null : f.whole(value, path)),
  when_full: f.oneOf('queue', 'reject'),
  price: readPrice,
  usage_tokens: (value, path) => (value === null ? null : f.whole(value, path)),
  limits: readLimits,
  url_ttl_s: f.amount,
}

function readSettings(value: unknown, path: string): Partial<ModelSettings> {
  const input = f.record(value, path, Object.keys(READERS))
  return Object.fromEntries(
    Object.entries(READERS)
      .filter(([name]) => input[name] !== undefined)
      .map(([name, read]) => [name, read(input[name], `${path}.${name}`)]),
  )
}

function readPrice(value: unknown, path: string): Price {
  const names = ['per_job', 'per_second', 'per_image', 'per_million_tokens']
  const input = f.record(value, path, names)
  return Object.fromEntries(
    Object.entries(input).map(([name, price]) => [name, f.amount(price, `${path}.${name}`)]),
  )
}

function readLimits(value: unknown, path: string): Limits {
  const input = f.record(value, path, ['images', 'videos', 'audios', 'seconds', 'resolutions'])
  const limits: Limits = {}
  for (const name of ['images', 'videos', 'audios'] as const) {
    if (input[name] !== undefined) limits[name] = f.whole(input[name], `${path}.${name}`)
  }
  if (input.resolutions !== undefined)
    limits.resolutions = f.list(f.text)(input.resolutions, `${path}.resolutions`)
  if (input.seconds !== undefined) limits.seconds = readRange(input.seconds, `${path}.seconds`)
  return limits
}

function readRange(value: unknown, path: string): [number, number] {
  const [least, most, ...more] = f.list(f.amount)(value, path)
  if (least === undefined || most === undefined || more.length > 0 || least > most)
    throw new f.ControlError(`${path}: expected [shortest, longest]`)
  return [least, most]
}
