/** What a file takes from outside: variables in base URLs, and the secrets that credentials refer to. */
import type { Catalog } from './definitions.ts'
import type { Finding } from './problems.ts'

export interface Environment {
  readonly variables: Readonly<Record<string, string | undefined>>
  /** The content of a file; throws where it cannot be read. */
  readonly readFile: (path: string) => string
}

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g

export type Resolved<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly why: string }

/** `${NAME}` and `${NAME:-default}` in a base URL. */
export function resolveUrl(written: string, environment: Environment): Resolved<string> {
  const missing: string[] = []
  const value = written.replace(VARIABLE, (_, name: string, otherwise: string | undefined) => {
    const found = environment.variables[name] || otherwise
    if (found === undefined) missing.push(name)
    return found ?? ''
  })
  if (missing.length > 0) return { ok: false, why: `${missing.join(', ')} is not set in the environment` }
  if (!URL.canParse(value)) return { ok: false, why: `"${value}" is no URL` }
  return { ok: true, value: value.replace(/\/+$/, '') }
}

/** The secret behind `env:NAME` or `file:PATH`, without the line break at its end. The answer never repeats it. */
export function resolveSecret(reference: string, environment: Environment): Resolved<string> {
  const value = reference.startsWith('env:')
    ? environment.variables[reference.slice(4)]
    : secretOfFile(reference, environment)
  if (typeof value === 'object') return value
  const secret = value?.trim() ?? ''
  if (secret !== '') return { ok: true, value: secret }
  return { ok: false, why: `${reference} is ${value === undefined ? 'not set' : 'empty'}` }
}

function secretOfFile(reference: string, environment: Environment): string | Resolved<string> {
  try {
    return environment.readFile(reference.slice('file:'.length))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unreadable'
    return { ok: false, why: `${reference} cannot be read (${code})` }
  }
}

/** The catalog with its base URLs as this environment makes them, and what it lacks. */
export function resolveCatalog(
  catalog: Catalog,
  environment: Environment,
): { catalog: Catalog; findings: Finding[] } {
  const findings: Finding[] = []
  const channels = new Map(
    [...catalog.channels].map(([id, channel]) => {
      const url = resolveUrl(channel.base_url, environment)
      if (!url.ok)
        findings.push({
          severity: 'error',
          at: 'value',
          path: ['channels', id, 'base_url'],
          problem: url.why,
          // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what a writer writes.
          remedy: 'set it, or give a default: ${NAME:-default}',
        })
      const secret = resolveSecret(channel.credential, environment)
      if (!secret.ok)
        findings.push({
          severity: 'warning',
          at: 'value',
          path: ['channels', id, 'credential'],
          problem: secret.why,
          remedy: 'set it before you apply: without it no model on this channel can be published',
        })
      return [id, { ...channel, base_url: url.ok ? url.value : channel.base_url }]
    }),
  )
  return { catalog: { ...catalog, channels }, findings }
}
