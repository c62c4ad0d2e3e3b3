// OpenAI's errors: {"error":{message,type,param,code}}.

import { type Answer, json, type NamedError } from '../answer.ts'

export type OpenAiProblem = {
  status: number
  type: string
  code: string | null
  message: string
  param?: string
}

const INVALID = 'invalid_request_error'
const MODERATED = 'image_generation_user_error'

const NAMED: Record<NamedError, OpenAiProblem & { extra?: Record<string, unknown> }> = {
  bad_parameter: { status: 400, type: INVALID, code: 'invalid_value', message: 'Invalid value.' },
  asset_download_failed: {
    status: 400,
    type: INVALID,
    code: 'invalid_image_url',
    message: 'Error while downloading the file.',
  },
  content_refused: {
    status: 400,
    type: MODERATED,
    code: 'moderation_blocked',
    message: 'Your request was rejected as a result of our safety system.',
    extra: { moderation_details: { moderation_stage: 'input', categories: ['violence'] } },
  },
  real_person: {
    status: 400,
    type: MODERATED,
    code: 'moderation_blocked',
    message: 'Your request was rejected: the input shows a real person.',
    extra: { moderation_details: { moderation_stage: 'input', categories: ['likeness'] } },
  },
  copyright: {
    status: 400,
    type: MODERATED,
    code: 'moderation_blocked',
    message: 'Your request was rejected: it may concern third-party content.',
    extra: { moderation_details: { moderation_stage: 'input', categories: ['third_party_content'] } },
  },
  unauthorized: {
    status: 401,
    type: INVALID,
    code: 'invalid_api_key',
    message: 'Incorrect API key provided.',
  },
  no_money: {
    status: 429,
    type: 'insufficient_quota',
    code: 'insufficient_quota',
    message: 'You exceeded your current quota, please check your plan and billing details.',
  },
  forbidden: {
    status: 403,
    type: INVALID,
    code: null,
    message: 'You are not allowed to do this.',
  },
  model_missing: {
    status: 404,
    type: INVALID,
    code: 'model_not_found',
    message: 'The model does not exist or you do not have access to it.',
    param: 'model',
  },
  rate_limited: {
    status: 429,
    type: 'requests',
    code: 'rate_limit_exceeded',
    message: 'Rate limit reached on requests per min.',
  },
  quota_exhausted: {
    status: 429,
    type: 'insufficient_quota',
    code: 'insufficient_quota',
    message: 'You exceeded your current quota, please check your plan and billing details.',
  },
  concurrency: {
    status: 429,
    type: 'requests',
    code: 'rate_limit_exceeded',
    message: 'Too many generations at once.',
  },
  overloaded: {
    status: 503,
    type: 'server_error',
    code: 'overloaded',
    message: 'The engine is currently overloaded, please try again later.',
  },
  internal: {
    status: 500,
    type: 'server_error',
    code: null,
    message: 'The server had an error while processing your request.',
  },
}

export function openAiError(problem: OpenAiProblem, extra: Record<string, unknown> = {}): Answer {
  const { status, message, type, param, code } = problem
  return json(status, { error: { message, type, param: param ?? null, code, ...extra } })
}

export function openAiNamed(name: NamedError): Answer {
  const { extra, ...problem } = NAMED[name]
  return openAiError(problem, extra)
}

export function invalidValue(param: string, message: string): OpenAiProblem {
  return { status: 400, type: INVALID, code: 'invalid_value', message, param }
}

export function missingField(param: string): OpenAiProblem {
  return {
    status: 400,
    type: INVALID,
    code: 'missing_required_parameter',
    message: `Missing required parameter: '${param}'.`,
    param,
  }
}

export function isOpenAiProblem(value: object): value is OpenAiProblem {
  return 'status' in value && 'message' in value
}
