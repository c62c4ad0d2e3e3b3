/**
 * Ark's official error table as data (docs/providers.md names its source), and what it says of a submission. The same
 * code may come at once, as an HTTP error, or later, in a failed task.
 */
import { meaning } from '../../core/outcome.ts'
import type { Dialect, FaultRow } from '../proof.ts'
import { readEnvelope } from './wire.ts'

const retry = { retryable: true }
const failure = { retryable: true, impact: 'failure' } as const
const persistent = { retryable: true, impact: 'persistent_failure' } as const
const full = { retryable: true, impact: 'capacity' } as const

const CONTENT = meaning('content/request', 'content_refused')
const REAL_PERSON = meaning('content/request', 'real_person_refused', { realPerson: true })
const BAD_REQUEST = meaning('request/request', 'invalid_request')
const UNREADABLE = meaning('request/request', 'input_unreadable')
const MODEL_MISSING = meaning('supply/supply', 'model_missing', failure)
const MODEL_CLOSED = meaning('supply/supply', 'model_not_open', persistent)
const KEY_REFUSED = meaning('supply/channel', 'key_refused', persistent)
const ACCESS_REFUSED = meaning('supply/channel', 'access_refused', failure)
const BALANCE = meaning('supply/channel', 'balance_exhausted', persistent)
const QUOTA = meaning('supply/channel', 'quota_exhausted', persistent)
const RATE_OF_SUPPLY = meaning('capacity/supply', 'rate_limited', full)
const RATE_OF_CHANNEL = meaning('capacity/channel', 'rate_limited', full)
const CONCURRENCY_OF_SUPPLY = meaning('capacity/supply', 'concurrency_full', full)
const CONCURRENCY_OF_CHANNEL = meaning('capacity/channel', 'concurrency_full', full)
const OVERLOADED = meaning('capacity/supply', 'overloaded', full)
const BROKEN = meaning('supply/supply', 'upstream_error', failure)

export const ARK_FAULTS: readonly FaultRow[] = [
  // Real person, before the general review: the codes share their beginning.
  { code: 'InputImageSensitiveContentDetected.PrivacyInformation', meaning: REAL_PERSON },
  { code: 'InputVideoSensitiveContentDetected.PrivacyInformation', meaning: REAL_PERSON },
  // Review of what was sent, and of what was made.
  { code: 'InputTextSensitiveContentDetected*', meaning: CONTENT },
  { code: 'InputImageSensitiveContentDetected*', meaning: CONTENT },
  { code: 'InputVideoSensitiveContentDetected*', meaning: CONTENT },
  { code: 'InputAudioSensitiveContentDetected*', meaning: CONTENT },
  { code: 'InputTextRiskDetection', meaning: CONTENT },
  { code: 'InputImageRiskDetection', meaning: CONTENT },
  { code: 'SensitiveContentDetected*', meaning: CONTENT },
  { code: 'OutputVideoSensitiveContentDetected*', meaning: CONTENT },
  { code: 'OutputImageSensitiveContentDetected*', meaning: CONTENT },
  { code: 'OutputTextSensitiveContentDetected*', meaning: CONTENT },
  { code: 'OutputAudioSensitiveContentDetected*', meaning: CONTENT }, // [?] the code; the text below is seen in the wild
  { text: /output (audio|video|image|text).{0,20} sensitive content/i, meaning: CONTENT },
  // The review itself is broken: nothing is said about the content.
  {
    code: 'ContentSecurityDetectionError',
    meaning: meaning('supply/supply', 'moderation_unavailable', failure),
  },
  // Parameters and assets. A download that failed may work at once when tried again, but not to another supply's gain.
  { code: 'InvalidParameter.TosURLInvalid', meaning: UNREADABLE },
  { code: 'InvalidImageURL*', meaning: UNREADABLE },
  {
    code: 'InvalidParameter*',
    text: /resource download failed|download(ing)? .{0,40}failed|failed to download/i,
    meaning: UNREADABLE,
  },
  { code: 'MissingParameter*', meaning: BAD_REQUEST },
  { code: 'InvalidParameter*', meaning: BAD_REQUEST },
  { code: 'InvalidArgumentError*', meaning: BAD_REQUEST },
  { code: 'OutofContextError', meaning: BAD_REQUEST },
  // Model and endpoint.
  { code: 'InvalidEndpointOrModel.ModelIDAccessDisabled', meaning: MODEL_CLOSED },
  { code: 'InvalidEndpointOrModel*', meaning: MODEL_MISSING },
  { code: 'ModelNotOpen', meaning: MODEL_CLOSED },
  { code: 'InvalidEndpoint.ClosedEndpoint', meaning: MODEL_CLOSED },
  { code: 'UnsupportedModel', meaning: MODEL_MISSING },
  { code: 'NotFound*', meaning: MODEL_MISSING },
  // Permission, key, money.
  { code: 'OperationDenied.ServiceNotOpen', meaning: MODEL_CLOSED },
  { code: 'OperationDenied.ServiceOverdue', meaning: BALANCE },
  { code: 'OperationDenied.PermissionDenied', meaning: ACCESS_REFUSED },
  { code: 'OperationDenied.InvalidState', meaning: ACCESS_REFUSED },
  { code: 'AccessDenied', meaning: ACCESS_REFUSED },
  { code: 'AuthenticationError', meaning: KEY_REFUSED },
  { code: 'InvalidAccountStatus', meaning: KEY_REFUSED },
  { code: 'AccountOverdueError', meaning: BALANCE },
  { code: 'InvalidSubscription', meaning: BALANCE },
  { code: 'SetLimitExceeded', meaning: QUOTA },
  // One code, two causes: the free quota is used up, or the queue is full. Only the words tell.
  { code: 'QuotaExceeded', text: /queue/i, meaning: CONCURRENCY_OF_SUPPLY },
  { code: 'QuotaExceeded', meaning: QUOTA },
  { code: 'InflightBatchsizeExceeded', meaning: CONCURRENCY_OF_CHANNEL },
  // Rates: of one endpoint, of the account on one model, of the account.
  { code: 'RateLimitExceeded.Endpoint*', meaning: RATE_OF_SUPPLY },
  { code: 'ModelAccountRpmRateLimitExceeded', meaning: RATE_OF_SUPPLY },
  { code: 'ModelAccountTpmRateLimitExceeded', meaning: RATE_OF_SUPPLY },
  { code: 'ModelAccountIpmRateLimitExceeded', meaning: RATE_OF_SUPPLY },
  { code: 'APIAccountRpmRateLimitExceeded', meaning: RATE_OF_CHANNEL },
  { code: 'AccountRateLimitExceeded', meaning: RATE_OF_CHANNEL },
  { code: 'RateLimitExceeded*', meaning: RATE_OF_SUPPLY },
  { code: 'ServerOverloaded', meaning: OVERLOADED },
  { code: 'RequestBurstTooFast', meaning: OVERLOADED },
  { code: 'FlowLimitExceeded', meaning: OVERLOADED },
  // Internal. On a create their 5xx proves nothing (create5xx below); of a failed task they are the cause.
  { code: 'InternalServiceError', not4xx: true, meaning: BROKEN },
  {
    code: 'InternalServiceTimeout',
    not4xx: true,
    meaning: meaning('supply/supply', 'upstream_timeout', failure),
  },
  { code: 'ServiceUnavailableTemp', not4xx: true, meaning: BROKEN },
]

/** A task that waited, or ran, longer than Ark keeps it: nobody's fault that a second try could not cure. */
export const ARK_EXPIRED = meaning('capacity/attempt', 'job_expired', retry)

export const ARK_DIALECT: Dialect = {
  table: ARK_FAULTS,
  // [?] No document says that any 5xx of Ark's means "not accepted and not charged".
  create5xx: [],
  envelope: readEnvelope,
}
