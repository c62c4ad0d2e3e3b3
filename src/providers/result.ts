/** A finished result, opened for streaming: the adapter says with which credential and how to read a refusal. */
import { classifyRead } from '../core/outcome.ts'
import type { CallLimits, DownloadReply } from './adapter.ts'
import type { Caller } from './call.ts'
import { type Fetch, openDownload } from './download.ts'
import { isWebLink } from './json.ts'
import { type Reading, readFault } from './proof.ts'

/** Where the runtime names no limit of its own. */
const LARGEST_RESULT = 2 * 1024 * 1024 * 1024

export interface ResultSource {
  readonly channelId: string
  readonly location: string
  /** Sent to `trustedOrigin` alone; both empty where the link carries its own signature. */
  readonly credentialHeaders: Fetch['credentialHeaders']
  readonly trustedOrigin: string
  readonly limits: CallLimits
  readonly reading: Reading
}

/** Never rejects; the stream itself may throw BrokenDownload. */
export async function openResult(caller: Caller, source: ResultSource): Promise<DownloadReply> {
  if (!isWebLink(source.location)) return noLink()
  const opened = await openDownload(caller, {
    channelId: source.channelId,
    url: source.location,
    credentialHeaders: source.credentialHeaders,
    trustedOrigin: source.trustedOrigin,
    timeoutMs: source.limits.timeoutMs,
    maxBytes: source.limits.maxBytes ?? LARGEST_RESULT,
    secrets: source.reading.secrets,
  })
  return opened.kind === 'body' ? opened : { kind: 'no_answer', fault: readFault(opened, source.reading) }
}

function noLink(): DownloadReply {
  const end = {
    kind: 'error' as const,
    code: 'NO_WEB_LINK',
    message: 'the result is at no http or https address',
  }
  return { kind: 'no_answer', fault: classifyRead({ stage: 'awaiting_head', end }) }
}
