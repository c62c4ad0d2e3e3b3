/**
 * The errors of OpenAI's dialect as data: OpenAI's own, those of the gateways that speak it (new-api, LiteLLM, another
 * Yardmaster), and what gateways repeat in words from the providers behind them. docs/providers.md names the sources.
 */
import { meaning } from '../../core/outcome.ts'
import type { Dialect, FaultRow } from '../proof.ts'
import { readEnvelope } from './wire.ts'

const failure = { retryable: true, impact: 'failure' } as const
const persistent = { retryable: true, impact: 'persistent_failure' } as const
const full = { retryable: true, impact: 'capacity' } as const

const CONTENT = meaning('content/request', 'content_refused')
const REAL_PERSON = meaning('content/request', 'real_person_refused', { realPerson: true })
const BAD_REQUEST = meaning('request/request', 'invalid_request')
const UNREADABLE = meaning('request/request', 'input_unreadable')
const KEY_REFUSED = meaning('supply/channel', 'key_refused', persistent)
const ACCESS_REFUSED = meaning('supply/channel', 'access_refused', failure)
const BALANCE = meaning('supply/channel', 'balance_exhausted', persistent)
const MODEL_MISSING = meaning('supply/supply', 'model_missing', failure)
const RATE = meaning('capacity/supply', 'rate_limited', full)
const OVERLOADED = meaning('capacity/supply', 'overloaded', full)
const BROKEN = meaning('supply/supply', 'upstream_error', failure)

export const OPENAI_FAULTS: readonly FaultRow[] = [
  // Real person, before the general review: only gateways say it, by code or in the words of the provider behind.
  { code: 'real_person_refused', meaning: REAL_PERSON },
  { text: /PrivacyInformation|\breal[- ](person|people|human)|\blikeness\b/i, meaning: REAL_PERSON },
  // Review of the content.
  { code: 'moderation_blocked', meaning: CONTENT },
  { code: 'content_policy_violation', meaning: CONTENT },
  { code: 'content_filter', meaning: CONTENT },
  { code: 'content_refused', meaning: CONTENT },
  { code: 'sensitive_words_detected', meaning: CONTENT },
  {
    text: /SensitiveContentDetected|RiskDetection|safety system|content policy|content moderation|output (audio|video|image|text).{0,20} sensitive content/i,
    meaning: CONTENT,
  },
  // Key, permission, money: the last two may come as 429 or 403, and do not heal by waiting.
  { code: 'insufficient_quota', meaning: BALANCE },
  { code: 'insufficient_user_quota', meaning: BALANCE },
  { code: 'pre_consume_token_quota_failed', meaning: BALANCE },
  { code: 'billing_hard_limit_reached', meaning: BALANCE },
  { code: 'billing_not_active', meaning: BALANCE },
  { code: 'invalid_api_key', meaning: KEY_REFUSED },
  { code: 'account_deactivated', meaning: KEY_REFUSED },
  { code: 'access_denied', status: 401, meaning: KEY_REFUSED },
  { code: 'access_denied', meaning: ACCESS_REFUSED },
  { code: 'unsupported_country_region_territory', meaning: ACCESS_REFUSED },
  // Model.
  { code: 'model_not_found', meaning: MODEL_MISSING },
  { code: 'model_not_available', meaning: MODEL_MISSING },
  { code: 'deployment_not_found', meaning: MODEL_MISSING },
  // Full.
  { code: 'rate_limit_exceeded', meaning: RATE },
  { code: 'rate_limit_error', meaning: RATE },
  { code: 'throttling_error', meaning: RATE }, // [?] LiteLLM's type of a 429
  { code: 'capacity', meaning: meaning('capacity/supply', 'concurrency_full', full) },
  { code: 'engine_overloaded', meaning: OVERLOADED }, // [?]
  { code: 'slow_down', meaning: OVERLOADED }, // [?]
  // Parameters and assets, by OpenAI's names; a bare 400 means the same.
  {
    text: /resource download failed|(failed|unable|could not|cannot).{0,20}(download|fetch).{0,40}(image|video|audio|url|file|resource)/i,
    meaning: UNREADABLE,
  },
  { code: 'invalid_image*', meaning: UNREADABLE },
  { code: 'invalid_request*', not4xx: true, meaning: BAD_REQUEST },
  { code: 'invalid_value', meaning: BAD_REQUEST },
  { code: 'invalid_type', meaning: BAD_REQUEST },
  { code: 'missing_required_parameter', meaning: BAD_REQUEST },
  { code: 'unknown_parameter', meaning: BAD_REQUEST },
  { code: 'unsupported_parameter', meaning: BAD_REQUEST },
  { code: 'unsupported_value', meaning: BAD_REQUEST },
  { code: 'string_above_max_length', meaning: BAD_REQUEST },
  { code: 'image_generation_user_error', not4xx: true, meaning: BAD_REQUEST },
  // Of a failed job, the last by way of a gateway; on a create their 5xx proves nothing.
  { code: 'server_error', not4xx: true, meaning: BROKEN },
  { code: 'internal_error', not4xx: true, meaning: BROKEN },
  { code: 'internal_server_error', not4xx: true, meaning: BROKEN },
  { code: 'upstream_error', not4xx: true, meaning: BROKEN },
  { text: /\bInternalService(Error|Timeout)\b/, not4xx: true, meaning: BROKEN },
  { code: 'expired', meaning: meaning('capacity/attempt', 'job_expired', { retryable: true }) },
  // Another Yardmaster gave up. Where it cannot know, or a late result may come, nothing is tried again.
  {
    code: 'submission_unresolved',
    meaning: meaning('unknown/attempt', 'generation_failed', { impact: 'failure' }),
  },
  {
    code: 'generation_timeout',
    meaning: meaning('supply/supply', 'upstream_timeout', { impact: 'failure' }),
  },
  { code: 'retry_window_expired', meaning: BROKEN },
  { code: 'attempts_exhausted', meaning: BROKEN },
  { code: 'no_capable_supply', meaning: BROKEN },
  { code: 'cost_limit_exceeded', meaning: BROKEN },
]

export const OPENAI_DIALECT: Dialect = {
  table: OPENAI_FAULTS,
  // [?] Gateways answer 503 `model_not_found` before they submit anything, and other 5xx after: each channel says which
  // of them are refusals, in `refusals_5xx`.
  create5xx: [],
  envelope: readEnvelope,
}
