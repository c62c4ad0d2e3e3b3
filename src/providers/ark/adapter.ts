/** Volcengine Ark and BytePlus ModelArk: Seedance videos, Seedream images. The protocol is in docs/providers.md. */
import type { Account, CallLimits, DownloadReply, PingReply, ProviderAdapter } from '../adapter.ts'
import type { Caller } from '../call.ts'
import { parseObject } from '../json.ts'
import { isSuccess, readFault } from '../proof.ts'
import { openResult } from '../result.ts'
import { optionProblems, readCall, targetOf } from '../target.ts'
import { generateImage } from './images.ts'
import { arkLookup, taskIdInCallback } from './lookup.ts'
import { ArkOptionsSchema } from './options.ts'
import { cancel, poll, readingOf, submitVideo } from './video.ts'
import { isTaskList } from './wire.ts'

export function createArkAdapter(caller: Caller): ProviderAdapter {
  return {
    name: 'ark',
    optionProblems: (options) => optionProblems(ArkOptionsSchema, options),
    submitVideo: (account, submission) => submitVideo(caller, account, submission),
    generateImage: (account, submission) => generateImage(caller, account, submission),
    poll: (account, providerTaskId, limits) => poll(caller, account, providerTaskId, limits),
    cancel: (account, providerTaskId, limits) => cancel(caller, account, providerTaskId, limits),
    download: (account, location, limits) => download(caller, account, location, limits),
    lookup: arkLookup(caller),
    taskIdInCallback,
    ping: (account, limits) => ping(caller, account, limits),
  }
}

/** The link is signed, for GET and for a day: it gets no credential. */
async function download(
  caller: Caller,
  account: Account,
  location: string,
  limits: CallLimits,
): Promise<DownloadReply> {
  const target = targetOf(account, ArkOptionsSchema)
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

/** The shortest list there is: it costs nothing, and needs the key and the account. */
async function ping(caller: Caller, account: Account, limits: CallLimits): Promise<PingReply> {
  const target = targetOf(account, ArkOptionsSchema)
  if (!target.ok) return { ok: false, fault: target.fault }
  const path = '/contents/generations/tasks?page_num=1&page_size=1'
  const exchange = await caller.exchange(readCall(account, target.value, { method: 'GET', path, ...limits }))
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  if (body && isTaskList(body)) return { ok: true, fault: null }
  return { ok: false, fault: readFault(exchange, readingOf(target.value)) }
}
