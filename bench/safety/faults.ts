/**
 * The faults of the mix, as rules for the simulator: every kind that it knows, save `respond`, which has no meaning of its
 * own. `neverPlayed` says which of them a run has not met.
 */

interface Rule {
  readonly on: string
  readonly account: string
  readonly prompt?: string
  readonly times: 'forever'
  readonly rate: number
  readonly fault: object | readonly object[]
}

type Weighted = readonly (readonly [number, object | readonly object[]])[]

/** What a create may meet, with how often of a thousand. */
const ON_CREATE: Weighted = [
  [14, { kind: 'accept_then_drop' }],
  [8, { kind: 'accept_then_respond', status: 500 }],
  [8, { kind: 'accept_then_respond', status: 502 }],
  [8, { kind: 'accept_then_respond', status: 504 }],
  // Under a status that proves nothing; what claims a refusal and accepts all the same can be helped by nobody.
  [6, { kind: 'accept_then_error', name: 'internal' }],
  // Past the timeout of a submission, and within it.
  [6, { kind: 'slow_answer', ms: 9500 }],
  [4, { kind: 'delay', ms: 9500 }],
  [6, { kind: 'delay', ms: 700 }],
  [6, { kind: 'duplicate_accept' }],
  [8, { kind: 'error', name: 'rate_limited', retry_after_s: 1 }],
  [6, { kind: 'error', name: 'concurrency' }],
  [4, { kind: 'error', name: 'overloaded' }],
  [3, { kind: 'error', name: 'no_money' }],
  [2, { kind: 'error', name: 'quota_exhausted' }],
  [3, { kind: 'error', name: 'unauthorized' }],
  [2, { kind: 'error', name: 'forbidden' }],
  [8, { kind: 'error', name: 'content_refused' }],
  [4, { kind: 'error', name: 'real_person' }],
  [3, { kind: 'error', name: 'copyright' }],
  [2, { kind: 'error', name: 'bad_parameter' }],
  [6, { kind: 'error', name: 'internal' }],
  [3, { kind: 'error', name: 'asset_download_failed' }],
  [4, { kind: 'reset' }],
  [2, { kind: 'error', name: 'model_missing' }],
  [4, { kind: 'content_refused_later', after_polls: 2 }],
  [4, { kind: 'real_person_later' }],
  [8, { kind: 'fails' }],
  [4, { kind: 'expires' }],
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

/** Jobs that end by our deadline alone. They fall on the model that allows little time: so they end soon, and no others late. */
const ON_SHORT: Weighted = [
  [150, { kind: 'stuck', in: 'queued' }],
  [150, { kind: 'stuck', in: 'running' }],
  [150, { kind: 'without_url' }],
]

const ON_IMAGE: Weighted = [
  [20, { kind: 'accept_then_drop' }],
  [10, { kind: 'accept_then_respond', status: 502 }],
  [20, { kind: 'error', name: 'rate_limited', retry_after_s: 1 }],
  [20, { kind: 'error', name: 'content_refused' }],
  [100, { kind: 'partial_images' }],
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
  ['query', 10, { kind: 'delay', ms: 700 }],
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
      ...ON_SHORT.map(([rate, fault]) => ({ ...rule('create', rate, fault), prompt: 'short video' })),
      ...ON_IMAGE.map(([rate, fault]) => rule('image', rate, fault)),
      ...ON_READ.map(([on, rate, fault]) => rule(on, rate, fault)),
    ])
  })
}

interface Described {
  readonly kind: string
  readonly name?: string
  readonly status?: number | string
  readonly in?: string
  readonly ms?: number
}

/** How a fault is called in the table. */
export function nameOf(fault: Described): string {
  return [fault.kind, fault.name ?? fault.status ?? fault.in ?? fault.ms]
    .filter((part) => part !== undefined)
    .join(' ')
}

/** How often each fault was played, by its name. */
export function playedBy(
  rules: readonly { readonly fault: unknown; readonly played: number }[],
): Record<string, number> {
  const played: Record<string, number> = {}
  for (const rule of rules)
    for (const fault of [rule.fault].flat() as Described[])
      played[nameOf(fault)] = (played[nameOf(fault)] ?? 0) + rule.played
  return played
}

/** Kinds that the simulator knows and that were not played, nor any fault of the mix. */
export function neverPlayed(played: Readonly<Record<string, number>>, kinds: readonly string[]): string[] {
  const known = kinds.filter((kind) => kind !== 'respond')
  const unknown = known.filter((kind) => !Object.keys(played).some((name) => name.split(' ')[0] === kind))
  return [...Object.keys(played).filter((name) => played[name] === 0), ...unknown]
}
