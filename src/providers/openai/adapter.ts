/**
 * Whatever speaks OpenAI's dialect of videos and images: OpenAI's images, new-api, LiteLLM, resellers, another
 * Yardmaster. OpenAI's own video service is gone; its shape lives on. The protocol is in docs/providers.md.
 */
import type { Account, CallLimits, PingReply, ProviderAdapter } from '../adapter.ts'
import type { Caller } from '../call.ts'
import { parseObject } from '../json.ts'
import { isSuccess, readFault } from '../proof.ts'
import { optionProblems, readCall, targetOf } from '../target.ts'
import { generateImage } from './images.ts'
import { openAiLookup, taskIdInCallback } from './lookup.ts'
import { OpenAiOptionsSchema } from './options.ts'
import { cancel, download, poll, readingOf, submitVideo } from './video.ts'
import { isModelList } from './wire.ts'

export function createOpenAiAdapter(caller: Caller): ProviderAdapter {
  return {
    name: 'openai',
    optionProblems: (options) => optionProblems(OpenAiOptionsSchema, options),
    submitVideo: (account, submission) => submitVideo(caller, account, submission),
    generateImage: (account, submission) => generateImage(caller, account, submission),
    poll: (account, providerTaskId, limits) => poll(caller, account, providerTaskId, limits),
    cancel: (account, providerTaskId, limits) => cancel(caller, account, providerTaskId, limits),
    download: (account, location, limits) => download(caller, account, location, limits),
    lookup: openAiLookup(caller),
    taskIdInCallback,
    ping: (account, limits) => ping(caller, account, limits),
  }
}

/** The list of models costs nothing, and needs the key. */
async function ping(caller: Caller, account: Account, limits: CallLimits): Promise<PingReply> {
  const target = targetOf(account, OpenAiOptionsSchema)
  if (!target.ok) return { ok: false, fault: target.fault }
  const exchange = await caller.exchange(
    readCall(account, target.value, { method: 'GET', path: '/models', ...limits }),
  )
  const body =
    exchange.kind === 'answered' && isSuccess(exchange.answer) ? parseObject(exchange.answer.body) : null
  if (body && isModelList(body)) return { ok: true, fault: null }
  return { ok: false, fault: readFault(exchange, readingOf(target.value)) }
}
