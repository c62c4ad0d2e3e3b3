/** Kling, new standard: videos of the 3.0 family. The protocol is in docs/providers.md. */
import type { Account, CallLimits, DownloadReply, PingReply, ProviderAdapter } from '../adapter.ts'
import type { Caller } from '../call.ts'
import { parseObject } from '../json.ts'
import { isSuccess, readFault } from '../proof.ts'
import { openResult } from '../result.ts'
import { optionProblems, readCall, targetOf } from '../target.ts'
import { klingLookup, taskIdInCallback } from './lookup.ts'
import { KlingOptionsSchema } from './options.ts'
import { poll, readingOf, submitVideo } from './video.ts'
import { readTasks } from './wire.ts'

export function createKlingAdapter(caller: Caller): ProviderAdapter {
  return {
    name: 'kling',
    optionProblems: (options) => optionProblems(KlingOptionsSchema, options),
    submitVideo: (account, submission) => submitVideo(caller, account, submission),
    poll: (account, providerTaskId, limits) => poll(caller, account, providerTaskId, limits),
    download: (account, location, limits) => download(caller, account, location, limits),
    lookup: klingLookup(caller),
    taskIdInCallback,
    ping: (account, limits) => ping(caller, account, limits),
  }
}

/** The link is Kling's own and needs no credential; it is protected against hot-linking, so no referrer is sent [?]. */
async function download(
  caller: Caller,
  account: Account,
  location: string,
  limits: CallLimits,
): Promise<DownloadReply> {
  const target = targetOf(account, KlingOptionsSchema)
  if (!target.ok) return { kind: 'no_answer', fault: target.fault }
  return openResult(caller, {
    channelId: account.channelId,
    location,
    credentialHeaders: {},
    trustedOrigin: '',
    limits,
    reading: readingOf(target.value),
  })
}

/** A query costs nothing, is not limited, and needs the key: of a task that does not exist, the list is empty. */
async function ping(caller: Caller, account: Account, limits: CallLimits): Promise<PingReply> {
  const target = targetOf(account, KlingOptionsSchema)
  if (!target.ok) return { ok: false, fault: target.fault }
  const call = readCall(account, target.value, { method: 'GET', path: '/tasks?task_ids=0', ...limits })
  const exchange = await caller.exchange(call)
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  if (body && readTasks(body)) return { ok: true, fault: null }
  return { ok: false, fault: readFault(exchange, readingOf(target.value)) }
}
