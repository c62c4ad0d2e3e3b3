/**
 * Kling's official error table as data, and the words of failed tasks, which carry no code (docs/providers.md). Money
 * trouble comes as HTTP 429 here: the code is what tells it from a rate limit.
 */
import { meaning } from '../../core/outcome.ts'
import type { Dialect, FaultRow } from '../proof.ts'
import { readEnvelope } from './wire.ts'

const failure = { retryable: true, impact: 'failure' } as const
const persistent = { retryable: true, impact: 'persistent_failure' } as const
const full = { retryable: true, impact: 'capacity' } as const

const KEY_REFUSED = meaning('supply/channel', 'key_refused', persistent)
const ACCOUNT_REFUSED = meaning('supply/channel', 'access_refused', persistent)
const BAD_REQUEST = meaning('request/request', 'invalid_request')
const UNREADABLE = meaning('request/request', 'input_unreadable')
const CONTENT = meaning('content/request', 'content_refused')
const REAL_PERSON = meaning('content/request', 'real_person_refused', { realPerson: true })
const MODEL_MISSING = meaning('supply/supply', 'model_missing', failure)
const BROKEN = meaning('supply/supply', 'upstream_error', failure)
const SLOW = meaning('supply/supply', 'upstream_timeout', failure)

export const KLING_FAULTS: readonly FaultRow[] = [
  { code: '1000', meaning: KEY_REFUSED },
  { code: '1001', meaning: KEY_REFUSED },
  { code: '1002', meaning: KEY_REFUSED },
  { code: '1003', meaning: KEY_REFUSED },
  { code: '1004', meaning: KEY_REFUSED },
  { code: '1100', meaning: ACCOUNT_REFUSED },
  { code: '1101', meaning: meaning('supply/channel', 'balance_exhausted', persistent) },
  { code: '1102', meaning: meaning('supply/channel', 'quota_exhausted', persistent) },
  { code: '1103', meaning: meaning('supply/supply', 'model_not_open', persistent) },
  {
    code: '1201',
    text: /(download|fetch|load|decode)\w* .{0,40}fail|fail\w* to (download|fetch|load|decode)/i,
    meaning: UNREADABLE,
  },
  { code: '1200', meaning: BAD_REQUEST },
  { code: '1201', meaning: BAD_REQUEST },
  { code: '1202', meaning: MODEL_MISSING },
  { code: '1203', meaning: MODEL_MISSING },
  { code: '1300', meaning: CONTENT },
  { code: '1301', meaning: CONTENT },
  { code: '1302', meaning: meaning('capacity/channel', 'rate_limited', full) },
  // "Parallel task over resource pack limit": counted for account, model version and pack.
  { code: '1303', meaning: meaning('capacity/supply', 'concurrency_full', full) },
  { code: '1304', meaning: ACCOUNT_REFUSED },
  { code: '5000', not4xx: true, meaning: BROKEN },
  { code: '5001', not4xx: true, meaning: BROKEN },
  { code: '5002', not4xx: true, meaning: SLOW },
  // [?] The words of failed tasks, in both languages. What none of these knows is nobody's fault for certain.
  { text: /real (person|human)|portrait right|真人|肖像/i, meaning: REAL_PERSON },
  {
    text: /risk control|content (security|policy|review|moderation)|sensitive (content|information|words?)|platform policy|violat\w+ .{0,30}(polic|content|community)|内容安全|风控|敏感|违规/i,
    meaning: CONTENT,
  },
  {
    text: /(download|fetch|load|decode)\w* .{0,40}fail|fail\w* to (download|fetch|load|decode)|(下载|加载|解码)失败/i,
    meaning: UNREADABLE,
  },
  { text: /timed? ?out|超时/i, meaning: SLOW },
  {
    text: /internal (server )?error|system (is )?(busy|error)|service (is )?(busy|unavailable)|try again later|内部错误|系统繁忙|服务繁忙/i,
    meaning: BROKEN,
  },
]

export const KLING_DIALECT: Dialect = {
  table: KLING_FAULTS,
  // [?] No document says that any 5xx of Kling's means "not accepted and not charged".
  create5xx: [],
  envelope: readEnvelope,
}
