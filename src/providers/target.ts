/**
 * Where a call goes, and what it carries to be let in. A channel whose address, credential or options cannot be used
 * is found out here, before a connection: that is the channel's fault, never the customer's.
 */
import type { z } from 'zod'
import { classifyUnbuilt, type Fault, meaning } from '../core/outcome.ts'
import type { Account, Submission } from './adapter.ts'
import type { Call } from './call.ts'
import { isWebLink } from './json.ts'

export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly fault: Fault }

export interface Target<Options> {
  /** Without a slash at its end. */
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  readonly options: Options
  /** What no text may repeat. */
  readonly secrets: readonly string[]
}

/** The account as a target with a bearer credential, or the fault `channel_misconfigured` that says what is wrong. */
export function targetOf<Options>(account: Account, schema: z.ZodType<Options>): Checked<Target<Options>> {
  const options = schema.safeParse(account.options)
  if (!options.success) return misconfigured(problemsOf(options.error).join('; '))
  if (!isWebLink(account.baseUrl) || /[?#]/.test(account.baseUrl)) {
    return misconfigured('base_url must be an absolute http or https URL, without a query or fragment')
  }
  if (!/^[\x21-\x7e]+$/.test(account.credential)) {
    return misconfigured('the credential is empty or has characters that no HTTP header may carry')
  }
  return {
    ok: true,
    value: {
      baseUrl: account.baseUrl.replace(/\/+$/, ''),
      headers: { authorization: `Bearer ${account.credential}` },
      options: options.data,
      secrets: [account.credential],
    },
  }
}

function misconfigured(what: string): { readonly ok: false; readonly fault: Fault } {
  return { ok: false, fault: classifyUnbuilt(MISCONFIGURED, `This channel cannot be called: ${what}.`) }
}

const MISCONFIGURED = meaning('supply/channel', 'channel_misconfigured', {
  retryable: true,
  impact: 'persistent_failure',
})

/** `options.watermark: expected boolean` and the like, for the operator who wrote them. */
export function optionProblems(schema: z.ZodType, options: unknown): readonly string[] {
  const parsed = schema.safeParse(options)
  return parsed.success ? [] : problemsOf(parsed.error)
}

function problemsOf(error: z.ZodError): readonly string[] {
  return error.issues.map((issue) => `${['options', ...issue.path].join('.')}: ${issue.message}`)
}

export interface Create {
  readonly submission: Pick<Submission<unknown>, 'attemptId' | 'timeoutMs' | 'mayStillSend'>
  readonly path: string
  readonly contentType: string
  readonly body: Buffer
  readonly headers?: Readonly<Record<string, string>>
}

/** The one POST of an attempt, carrying its ID for whoever traces it: providers ignore the header. */
export function createCall(account: Account, target: Target<unknown>, create: Create): Call {
  return {
    channelId: account.channelId,
    method: 'POST',
    url: `${target.baseUrl}${create.path}`,
    headers: {
      ...target.headers,
      ...create.headers,
      'content-type': create.contentType,
      'x-client-request-id': create.submission.attemptId,
    },
    body: create.body,
    purpose: 'create',
    timeoutMs: create.submission.timeoutMs,
    mayStillSend: create.submission.mayStillSend,
    secrets: target.secrets,
  }
}

/** A call that may be repeated: GET, the DELETE that cancels, or the POST of a query. */
export function readCall(
  account: Account,
  target: Target<unknown>,
  read: {
    readonly method: 'GET' | 'DELETE' | 'POST'
    readonly path: string
    readonly timeoutMs: number
    /** JSON. */
    readonly body?: Buffer
  },
): Call {
  return {
    channelId: account.channelId,
    method: read.method,
    url: `${target.baseUrl}${read.path}`,
    headers:
      read.body === undefined ? target.headers : { ...target.headers, 'content-type': 'application/json' },
    body: read.body ?? null,
    purpose: 'read',
    timeoutMs: read.timeoutMs,
    secrets: target.secrets,
  }
}
