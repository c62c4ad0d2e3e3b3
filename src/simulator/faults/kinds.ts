// The kinds of faults, as data: where each may happen, what it takes, what it does.

import { NAMED_ERRORS } from '../answer.ts'
import * as f from '../fields.ts'
import type { JobPlan } from '../job.ts'
import type { Effect, ScriptedAnswer } from './effect.ts'

export const OPERATIONS = ['create', 'query', 'list', 'cancel', 'download', 'image', 'callback'] as const
export type Operation = (typeof OPERATIONS)[number]

type Reader = (value: unknown, path: string) => unknown

export type FaultKind = {
  on: readonly Operation[]
  about: string
  parameters: Record<string, Reader>
  effect: (given: Record<string, never>) => Effect
}

const REQUESTS = ['create', 'query', 'list', 'cancel', 'download', 'image'] as const
const POSTS = ['create', 'image'] as const
const BAD_GATEWAY_PAGE =
  '<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body>\r\n</html>\r\n'
const HTML = { 'content-type': 'text/html' }

const headers: Reader = (value, path) => {
  if (!f.isRecord(value)) throw new f.ControlError(`${path}: expected an object of header names`)
  return Object.fromEntries(
    Object.entries(value).map(([name, line]) => [name, f.text(line, `${path}.${name}`)]),
  )
}
const status: Reader = (value, path) => {
  const code = f.whole(value, path)
  if (code >= 200 && code <= 599) return code
  throw new f.ControlError(`${path}: expected an HTTP status from 200 to 599, got ${code}`)
}
const part: Reader = (value, path) => {
  const number = f.amount(value, path)
  if (number < 1) return number
  throw new f.ControlError(`${path}: expected a part of the whole, 0 to less than 1`)
}
const atLeastOne: Reader = (value, path) => {
  const number = f.whole(value, path)
  if (number >= 1) return number
  throw new f.ControlError(`${path}: expected a whole number of at least 1`)
}

type Answering = { status?: number; headers?: Record<string, string>; body?: string | object }

function scripted(given: Answering, status: number): ScriptedAnswer {
  const chosen = given.status ?? status
  const page = chosen >= 500 ? BAD_GATEWAY_PAGE.replaceAll('502 Bad Gateway', `${chosen} Error`) : ''
  return {
    status: chosen,
    headers: given.headers ?? (given.body === undefined ? HTML : {}),
    body: given.body ?? page,
  }
}

type Later = { code?: string; message?: string; after_polls?: number; after_ms?: number }

function later({ after_polls, after_ms }: Later, plan: JobPlan): Effect {
  return {
    plan: {
      ...plan,
      ...(after_polls === undefined ? {} : { afterPolls: after_polls }),
      ...(after_ms === undefined ? {} : { afterMs: after_ms }),
    },
  }
}

const answering = { status, headers, body: f.anything }
const ending = { after_polls: atLeastOne, after_ms: f.amount }

// The parameters were read by `parameters`, so the cast to what `effect` takes states what has been checked.
function kind<P>(
  on: readonly Operation[],
  about: string,
  parameters: Record<keyof P & string, Reader>,
  effect: (given: P) => Effect,
): FaultKind {
  return { on, about, parameters, effect: effect as FaultKind['effect'] }
}

export const FAULT_KINDS: Record<string, FaultKind> = {
  respond: kind<Answering>(
    REQUESTS,
    'Answers this and acts on nothing. A body that is an object is sent as JSON.',
    answering,
    (given) => ({ instead: scripted(given, 500) }),
  ),
  error: kind<{ name: (typeof NAMED_ERRORS)[number]; retry_after_s?: number }>(
    REQUESTS,
    `Answers the provider's own error and acts on nothing. name: ${NAMED_ERRORS.join(', ')}.`,
    { name: f.oneOf(...NAMED_ERRORS), retry_after_s: f.whole },
    ({ name, retry_after_s }) => ({
      instead: {
        named: name,
        headers: retry_after_s === undefined ? {} : { 'retry-after': String(retry_after_s) },
      },
    }),
  ),
  html_502: kind<Answering>(
    REQUESTS,
    'Answers 502 with an HTML page and acts on nothing.',
    answering,
    (given) => ({
      instead: scripted(given, 502),
    }),
  ),
  redirect: kind<{ status?: number; location?: string }>(
    REQUESTS,
    'Answers a redirect (307) to `location` and acts on nothing.',
    { status, location: f.text },
    (given) => ({
      instead: {
        status: given.status ?? 307,
        headers: { location: given.location ?? 'https://moved.invalid/' },
        body: '',
      },
    }),
  ),
  reset: kind(
    REQUESTS,
    'Closes the connection when the head has arrived, before the body is read.',
    {},
    () => ({
      dropUnread: true,
    }),
  ),
  delay: kind<{ ms: number }>(REQUESTS, 'Waits, then acts and answers.', { ms: f.amount }, ({ ms }) => ({
    beforeMs: ms,
  })),
  slow_answer: kind<{ ms: number }>(REQUESTS, 'Acts, waits, then answers.', { ms: f.amount }, ({ ms }) => ({
    afterMs: ms,
  })),
  accept_then_drop: kind(REQUESTS, 'Acts, then closes the connection without an answer.', {}, () => ({
    dropAnswer: true,
  })),
  accept_then_respond: kind<Answering>(
    REQUESTS,
    'Acts, then answers this (500 with an HTML page unless told otherwise).',
    answering,
    (given) => ({ replace: scripted(given, 500) }),
  ),
  accept_then_error: kind<{ name: (typeof NAMED_ERRORS)[number] }>(
    REQUESTS,
    "Acts, then answers the provider's own error.",
    { name: f.oneOf(...NAMED_ERRORS) },
    ({ name }) => ({ replace: { named: name, headers: {} } }),
  ),
  empty_200: kind(REQUESTS, 'Acts, then answers 200 with an empty body.', {}, () => ({
    replace: { status: 200, headers: { 'content-type': 'application/json' }, body: '' },
  })),
  truncated_json: kind<{ keep?: number }>(
    REQUESTS,
    'Acts, then sends the part `keep` of the answer (0.5) as if it were whole.',
    { keep: part },
    ({ keep }) => ({ shorten: keep ?? 0.5 }),
  ),
  cut_off: kind<{ keep?: number }>(
    REQUESTS,
    'Acts, announces the whole answer, sends the part `keep` of it (0.5) and closes the connection.',
    { keep: part },
    ({ keep }) => ({ cutOff: keep ?? 0.5 }),
  ),
  duplicate_accept: kind<{ jobs?: number }>(
    ['create'],
    'One request makes several jobs (2); the answer names the first.',
    { jobs: atLeastOne },
    ({ jobs }) => ({ jobs: jobs ?? 2 }),
  ),
  fails: kind<Later>(
    ['create'],
    'The job fails with `code` and `message`: after its duration, `after_ms`, or at the look numbered `after_polls`.',
    { code: f.text, message: f.text, ...ending },
    (given) =>
      later(given, {
        fails: {
          code: given.code ?? 'InternalServiceError',
          message: given.message ?? 'The service encountered an unexpected internal error.',
        },
      }),
  ),
  content_refused_later: kind<Later>(
    ['create'],
    'The job is accepted and fails by moderation of its output.',
    { code: f.text, message: f.text, ...ending },
    (given) =>
      later(given, {
        fails: {
          code: given.code ?? 'OutputVideoSensitiveContentDetected',
          message:
            given.message ?? 'The request failed because the output video may contain sensitive information.',
        },
      }),
  ),
  real_person_later: kind<Later>(
    ['create'],
    'The job is accepted and fails because an input shows a real person.',
    { code: f.text, message: f.text, ...ending },
    (given) =>
      later(given, {
        fails: {
          code: given.code ?? 'InputImageSensitiveContentDetected.PrivacyInformation',
          message: given.message ?? 'The request failed because the input image may contain real person.',
        },
      }),
  ),
  stuck: kind<{ in?: 'queued' | 'running' }>(
    ['create'],
    'The job stays queued, or running (which holds its place), for ever.',
    { in: f.oneOf('queued', 'running') },
    (given) => ({ plan: { stuck: given.in ?? 'running' } }),
  ),
  expires: kind<Later>(
    ['create'],
    'The job ends as `expired` (OpenAI: failed with code `expired`).',
    { code: f.text, message: f.text, ...ending },
    (given) => later(given, { expires: true }),
  ),
  takes: kind<Later>(
    ['create', 'image'],
    'The job takes `after_ms`, or ends at the look numbered `after_polls`.',
    { code: f.text, message: f.text, ...ending },
    (given) => later(given, {}),
  ),
  without_url: kind(POSTS, 'The job succeeds, and its result has no address.', {}, () => ({
    plan: { withoutUrl: true },
  })),
  other_artefact: kind<{ width?: number; height?: number; seconds?: number; audio?: boolean }>(
    ['create', 'image'],
    'The file differs from what was asked for (a silent downgrade).',
    { width: atLeastOne, height: atLeastOne, seconds: f.amount, audio: f.flag },
    (given) => ({ plan: { artefact: given } }),
  ),
  unknown_status: kind<{ status?: string; at_poll?: number }>(
    ['create'],
    'At the look numbered `at_poll` (1) the job shows `status` (reviewing).',
    { status: f.text, at_poll: atLeastOne },
    (given) => ({ plan: { shows: { [given.at_poll ?? 1]: given.status ?? 'reviewing' } } }),
  ),
  status_regress: kind<{ to?: string; at_poll?: number }>(
    ['create'],
    'At the look numbered `at_poll` (2) the job shows `to` (queued), whatever it showed before.',
    { to: f.text, at_poll: atLeastOne },
    (given) => ({ plan: { shows: { [given.at_poll ?? 2]: given.to ?? 'queued' } } }),
  ),
  not_found_at_first: kind<{ polls?: number }>(
    ['create'],
    'The first looks (1) at the job answer 404, as from a replica that lags.',
    { polls: atLeastOne },
    ({ polls }) => ({ plan: { hiddenPolls: polls ?? 1 } }),
  ),
  show_status: kind<{ status: string }>(
    ['query'],
    'This query shows `status` instead of the true one.',
    { status: f.text },
    (given) => ({ show: given.status }),
  ),
  partial_images: kind<{ failed?: number; code?: string; message?: string }>(
    ['image'],
    'The last `failed` pictures (1) of the batch fail: named in a 200 by Ark, missing from it at OpenAI.',
    { failed: atLeastOne, code: f.text, message: f.text },
    (given) => ({
      failedPictures: given.failed ?? 1,
      pictureError: {
        code: given.code ?? 'OutputImageSensitiveContentDetected',
        message:
          given.message ?? 'The request failed because the output image may contain sensitive information.',
      },
    }),
  ),
  result_forbidden: kind(['download'], 'Answers 403 as for an expired signature.', {}, () => ({
    instead: {
      status: 403,
      headers: { 'content-type': 'application/xml' },
      body: '<?xml version="1.0" encoding="UTF-8"?><Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>',
    },
  })),
  truncated_download: kind<{ keep?: number; announced?: boolean }>(
    ['download'],
    'Sends the part `keep` (0.5) of the file. `announced` (true): the length is announced in full.',
    { keep: part, announced: f.flag },
    (given) => (given.announced === false ? { shorten: given.keep ?? 0.5 } : { cutOff: given.keep ?? 0.5 }),
  ),
  wrong_type: kind<{ content_type?: string; body?: string }>(
    ['download'],
    'Sends something else (an HTML page) with status 200; with `content_type` alone, the file under that type.',
    { content_type: f.text, body: f.text },
    (given) =>
      given.content_type !== undefined && given.body === undefined
        ? { contentType: given.content_type }
        : {
            replace: {
              status: 200,
              headers: { 'content-type': given.content_type ?? 'text/html' },
              body: given.body ?? '<html><body>Please sign in</body></html>',
            },
          },
  ),
  callbacks_early: kind(
    ['create'],
    'The first callback is delivered before the create is answered.',
    {},
    () => ({
      plan: { earlyCallback: true },
    }),
  ),
  callback_doubled: kind<{ copies?: number }>(
    ['callback'],
    'The callback is delivered several times (2).',
    { copies: atLeastOne },
    ({ copies }) => ({ callback: { copies: copies ?? 2 } }),
  ),
  callback_lost: kind(['callback'], 'The callback is never delivered.', {}, () => ({
    callback: { lost: true },
  })),
  callback_late: kind<{ ms: number }>(
    ['callback'],
    'The callback is delivered later, so that callbacks change their order.',
    { ms: f.amount },
    ({ ms }) => ({ callback: { delayMs: ms } }),
  ),
  callback_forged: kind(
    ['callback'],
    'Before the true callback a forged one arrives: success, with the address of a foreign file.',
    {},
    () => ({ callback: { forged: true } }),
  ),
}
