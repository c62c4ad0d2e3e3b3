// Ark's errors: {"error":{code,message,param,type}}, by its published table of codes.

import { type Answer, json, type NamedError } from '../answer.ts'

export type ArkProblem = { status: number; code: string; message: string; param?: string }

const TYPES: Record<number, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  413: 'BadRequest',
  429: 'TooManyRequests',
  500: 'InternalServerError',
}

const NAMED: Record<NamedError, ArkProblem> = {
  bad_parameter: {
    status: 400,
    code: 'InvalidParameter',
    message: 'A parameter specified in the request is not valid.',
  },
  asset_download_failed: {
    status: 400,
    code: 'InvalidParameter',
    message: 'A parameter specified in the request is not valid: resource download failed.',
    param: 'content',
  },
  content_refused: {
    status: 400,
    code: 'InputTextSensitiveContentDetected',
    message: 'The request failed because the input text may contain sensitive information.',
  },
  real_person: {
    status: 400,
    code: 'InputImageSensitiveContentDetected.PrivacyInformation',
    message: 'The request failed because the input image may contain real person.',
  },
  copyright: {
    status: 400,
    code: 'InputImageSensitiveContentDetected.PolicyViolation',
    message: 'The request failed because the input image may be related to copyright restrictions.',
  },
  unauthorized: {
    status: 401,
    code: 'AuthenticationError',
    message: 'The API key or AK/SK in the request is missing or invalid.',
  },
  no_money: {
    status: 403,
    code: 'AccountOverdueError',
    message: 'The request failed because your account has an overdue balance.',
  },
  forbidden: {
    status: 403,
    code: 'AccessDenied',
    message: 'The request failed because you do not have access to the requested resource.',
  },
  model_missing: {
    status: 404,
    code: 'InvalidEndpointOrModel.NotFound',
    message: 'The model or endpoint does not exist or you do not have access to it.',
  },
  rate_limited: {
    status: 429,
    code: 'ModelAccountRpmRateLimitExceeded',
    message: 'The request failed because the account exceeded the limit of requests per minute of the model.',
  },
  quota_exhausted: {
    status: 429,
    code: 'QuotaExceeded',
    message: 'The request failed because the free trial quota has been consumed.',
  },
  concurrency: {
    status: 429,
    code: 'InflightBatchsizeExceeded',
    message: 'The request failed because the number of concurrent requests exceeded the limit.',
  },
  overloaded: {
    status: 429,
    code: 'ServerOverloaded',
    message: 'The service is currently unable to handle additional requests due to server overload.',
  },
  internal: {
    status: 500,
    code: 'InternalServiceError',
    message: 'The service encountered an unexpected internal error.',
  },
}

/** The answer to a request that has this problem. */
export function arkError(problem: ArkProblem, requestId: string): Answer {
  return json(problem.status, {
    error: {
      code: problem.code,
      message: `${problem.message} Request id: ${requestId}`,
      param: problem.param ?? '',
      type: TYPES[problem.status] ?? 'InternalServerError',
    },
  })
}

export function arkNamed(name: NamedError, requestId: string): Answer {
  return arkError(NAMED[name], requestId)
}

export function invalid(param: string, message: string): ArkProblem {
  return {
    status: 400,
    code: 'InvalidParameter',
    message: `The parameter \`${param}\` specified in the request is not valid: ${message}.`,
    param,
  }
}

export function missing(param: string): ArkProblem {
  return {
    status: 400,
    code: `MissingParameter.${param}`,
    message: `The request is missing the required parameter \`${param}\`.`,
    param,
  }
}

export function unsupported(param: string, model: string): ArkProblem {
  return {
    status: 400,
    code: 'InvalidParameter.UnsupportedParameter',
    message: `The parameter \`${param}\` specified in the request is not supported by ${model}.`,
    param,
  }
}
