/**
 * Every alert that there is: how grave it is, and what ends it. A condition ends when it no longer holds; an event, which
 * holds at no time, when it has not come again for a while. docs/operating/alerts has a page for each.
 */
export const SEVERITIES = ['info', 'warning', 'high', 'critical'] as const
export type Severity = (typeof SEVERITIES)[number]

export type Ending =
  /** The level is healthy again, or the operator switched it off. */
  | 'level_recovered'
  /** An exact supply of the model was granted since. */
  | 'exact_granted'
  | 'below_half'
  | 'partitions_made'
  | 'network_back'
  | 'endpoint_on'
  | { readonly quietHours: number }

export interface AlertRule {
  readonly severity: Severity
  readonly ends: Ending
}

const DAY = { quietHours: 24 } as const

export const ALERT_RULES = {
  channel_circuit_open: { severity: 'high', ends: 'level_recovered' },
  supply_circuit_open: { severity: 'high', ends: 'level_recovered' },
  own_network_suspected: { severity: 'critical', ends: 'network_back' },
  exact_unavailable: { severity: 'high', ends: 'exact_granted' },
  degradation_used: { severity: 'high', ends: 'exact_granted' },
  emergency_cost_override: { severity: 'critical', ends: DAY },
  cost_limit_blocks: { severity: 'warning', ends: DAY },
  price_missing: { severity: 'warning', ends: DAY },
  baseline_missing: { severity: 'warning', ends: DAY },
  uncertain_half: { severity: 'high', ends: 'below_half' },
  submission_unresolved: { severity: 'high', ends: DAY },
  generation_timeout: { severity: 'high', ends: DAY },
  orphan_result: { severity: 'warning', ends: DAY },
  request_unsendable: { severity: 'high', ends: DAY },
  job_not_found: { severity: 'high', ends: DAY },
  result_unavailable: { severity: 'high', ends: DAY },
  silent_downgrade: { severity: 'warning', ends: DAY },
  unknown_status: { severity: 'warning', ends: DAY },
  real_person_policy: { severity: 'warning', ends: DAY },
  partitions_late: { severity: 'high', ends: 'partitions_made' },
  alert_endpoint_off: { severity: 'high', ends: 'endpoint_on' },
} as const satisfies Readonly<Record<string, AlertRule>>

export type AlertCode = keyof typeof ALERT_RULES

/** Of those that end by silence: after how many hours. */
export function quietHours(): Readonly<Record<string, number>> {
  const rules: [string, AlertRule][] = Object.entries(ALERT_RULES)
  return Object.fromEntries(
    rules.flatMap(([code, { ends }]) => (typeof ends === 'object' ? [[code, ends.quietHours]] : [])),
  )
}
