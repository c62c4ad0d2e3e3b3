/** What a file takes from outside: variables in base URLs, and the secrets that credentials refer to. */
import { resolveReference } from '../store/secrets.ts'
import type { Catalog, Channel } from './definitions.ts'
import type { Finding } from './problems.ts'

/** Variables by name; handed in, since one place alone reads the process's. */
export type Environment = Readonly<Record<string, string | undefined>>

const VARIABLE = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}/g

export type Resolved<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly why: string }

/** `${NAME}` and `${NAME:-default}` in a base URL. */
export function resolveUrl(written: string, environment: Environment): Resolved<string> {
  const missing: string[] = []
  const value = written.replace(VARIABLE, (_, name: string, otherwise: string | undefined) => {
    const found = environment[name] || otherwise
    if (found === undefined) missing.push(name)
    return found ?? ''
  })
  if (missing.length > 0) return { ok: false, why: `${missing.join(', ')} is not set in the environment` }
  if (!URL.canParse(value)) return { ok: false, why: `"${value}" is no URL` }
  return { ok: true, value: value.replace(/\/+$/, '') }
}

/** The secret behind `env:NAME` or `file:PATH`, or why there is none. */
export async function resolveSecret(reference: string, environment: Environment): Promise<Resolved<string>> {
  try {
    return { ok: true, value: await resolveReference(reference, environment) }
  } catch (error) {
    return { ok: false, why: error instanceof Error ? error.message : String(error) }
  }
}

/** The catalog with its base URLs as this environment makes them, and what it lacks. */
export async function resolveCatalog(catalog: Catalog, environment: Environment) {
  const findings: Finding[] = []
  const channels = new Map<string, Channel>()
  for (const [id, channel] of catalog.channels) {
    const url = resolveUrl(channel.base_url, environment)
    if (!url.ok) findings.push(urlFinding(id, url.why))
    const secret = await resolveSecret(channel.credential, environment)
    if (!secret.ok) findings.push(secretFinding(id, secret.why))
    channels.set(id, url.ok ? { ...channel, base_url: url.value } : channel)
  }
  return { catalog: { ...catalog, channels }, findings }
}

function urlFinding(id: string, problem: string): Finding {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what a writer writes.
  const remedy = 'set it, or give a default: ${NAME:-default}'
  return { severity: 'error', at: 'value', path: ['channels', id, 'base_url'], problem, remedy }
}

function secretFinding(id: string, problem: string): Finding {
  const remedy = 'set it before you apply: without it no model on this channel can be published'
  return { severity: 'warning', at: 'value', path: ['channels', id, 'credential'], problem, remedy }
}
