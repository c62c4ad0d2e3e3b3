// Kling's errors: {"code":1101,"message":…,"request_id":…}, by its published table. Money trouble is a 429 here.

import { type Answer, json, type NamedError } from '../answer.ts'

export type KlingProblem = { status: number; code: number; message: string }

const NAMED: Record<NamedError, KlingProblem> = {
  bad_parameter: { status: 400, code: 1201, message: 'Invalid parameter value' },
  asset_download_failed: { status: 400, code: 1201, message: 'Image download failed' },
  content_refused: { status: 400, code: 1301, message: 'Failed by the content security policy' },
  real_person: {
    status: 400,
    code: 1301,
    message: 'Real person is not allowed by the content security policy',
  },
  copyright: { status: 400, code: 1300, message: 'Failed by the platform policy' },
  unauthorized: { status: 401, code: 1002, message: 'Authorization is invalid' },
  no_money: { status: 429, code: 1101, message: 'Account in arrears' },
  forbidden: { status: 403, code: 1103, message: 'No permission for the requested API or model' },
  model_missing: { status: 404, code: 1203, message: 'The requested model does not exist' },
  rate_limited: { status: 429, code: 1302, message: 'API rate limit exceeded' },
  quota_exhausted: { status: 429, code: 1102, message: 'Resource pack exhausted or expired' },
  concurrency: { status: 429, code: 1303, message: 'parallel task over resource pack limit' },
  overloaded: { status: 503, code: 5001, message: 'The server is temporarily unavailable for maintenance' },
  internal: { status: 500, code: 5000, message: 'Internal server error' },
}

export function klingError(problem: KlingProblem, requestId: string): Answer {
  return json(problem.status, { code: problem.code, message: problem.message, request_id: requestId })
}

export function klingNamed(name: NamedError, requestId: string): Answer {
  return klingError(NAMED[name], requestId)
}

export function invalid(what: string): KlingProblem {
  return { status: 400, code: 1201, message: `Invalid parameter: ${what}` }
}
