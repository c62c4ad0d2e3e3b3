/** The faults of the mix, as rules for the simulator: every kind that a provider has been seen to misbehave in. */

interface Rule {
  readonly on: string
  readonly account: string
  readonly times: 'forever'
  readonly rate: number
  readonly fault: object | readonly object[]
}

/** What a create may meet, with how often of a thousand. */
const ON_CREATE: readonly (readonly [number, object | readonly object[]])[] = [
  [14, { kind: 'accept_then_drop' }],
  [8, { kind: 'accept_then_respond', status: 500 }],
  [8, { kind: 'accept_then_respond', status: 502 }],
  [8, { kind: 'accept_then_respond', status: 504 }],
  [6, { kind: 'slow_answer', ms: 4500 }],
  [6, { kind: 'duplicate_accept' }],
  [8, { kind: 'error', name: 'rate_limited', retry_after_s: 1 }],
  [6, { kind: 'error', name: 'concurrency' }],
  [4, { kind: 'error', name: 'overloaded' }],
  [1, { kind: 'error', name: 'no_money' }],
  [1, { kind: 'error', name: 'quota_exhausted' }],
  [1, { kind: 'error', name: 'unauthorized' }],
  [8, { kind: 'error', name: 'content_refused' }],
  [4, { kind: 'error', name: 'real_person' }],
  [6, { kind: 'error', name: 'internal' }],
  [3, { kind: 'error', name: 'asset_download_failed' }],
  [4, { kind: 'reset' }],
  [2, { kind: 'error', name: 'model_missing' }],
  [4, { kind: 'content_refused_later', after_polls: 1 }],
  [4, { kind: 'real_person_later' }],
  [8, { kind: 'fails' }],
  [3, { kind: 'stuck', in: 'queued' }],
  [3, { kind: 'stuck', in: 'running' }],
  [4, { kind: 'expires' }],
  [4, { kind: 'without_url' }],
  [8, { kind: 'empty_200' }],
  [8, { kind: 'truncated_json' }],
  [6, { kind: 'cut_off' }],
  [6, { kind: 'html_502' }],
  [6, { kind: 'redirect' }],
  [6, { kind: 'unknown_status' }],
  [6, { kind: 'status_regress' }],
  [8, { kind: 'not_found_at_first', polls: 2 }],
  [6, { kind: 'callbacks_early' }],
  [8, { kind: 'takes', after_ms: 2500 }],
  [4, { kind: 'other_artefact', width: 320, height: 180 }],
]

const ON_IMAGE: readonly (readonly [number, object])[] = [
  [20, { kind: 'accept_then_drop' }],
  [10, { kind: 'accept_then_respond', status: 502 }],
  [20, { kind: 'error', name: 'rate_limited', retry_after_s: 1 }],
  [20, { kind: 'error', name: 'content_refused' }],
  [30, { kind: 'partial_images' }],
  [10, { kind: 'empty_200' }],
  [10, { kind: 'truncated_json' }],
  [10, { kind: 'error', name: 'internal' }],
]

const ON_READ: readonly (readonly [string, number, object])[] = [
  ['query', 20, { kind: 'html_502' }],
  ['query', 10, { kind: 'reset' }],
  ['query', 10, { kind: 'empty_200' }],
  ['query', 10, { kind: 'truncated_json' }],
  ['query', 10, { kind: 'error', name: 'internal' }],
  ['query', 5, { kind: 'show_status', status: 'reviewing' }],
  ['list', 100, { kind: 'html_502' }],
  ['list', 50, { kind: 'truncated_json' }],
  ['download', 30, { kind: 'result_forbidden' }],
  ['download', 30, { kind: 'truncated_download' }],
  ['download', 30, { kind: 'wrong_type' }],
  ['callback', 100, { kind: 'callback_forged' }],
  ['callback', 100, { kind: 'callback_doubled' }],
  ['callback', 300, { kind: 'callback_lost' }],
  ['callback', 100, { kind: 'callback_late', ms: 700 }],
]

/** Rules for one account, in an order of their own: the first that plays wins. */
export function faultRules(accounts: readonly string[], shuffled: <T>(items: readonly T[]) => T[]): Rule[] {
  return accounts.flatMap((account) => {
    const rule = (on: string, perMille: number, fault: Rule['fault']): Rule => ({
      on,
      account,
      times: 'forever',
      rate: perMille / 1000,
      fault,
    })
    return shuffled([
      ...ON_CREATE.map(([rate, fault]) => rule('create', rate, fault)),
      ...ON_IMAGE.map(([rate, fault]) => rule('image', rate, fault)),
      ...ON_READ.map(([on, rate, fault]) => rule(on, rate, fault)),
    ])
  })
}
