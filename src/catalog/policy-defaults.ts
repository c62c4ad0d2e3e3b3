/** STR-13: what a new policy says where its writer says nothing. The one place; docs/catalog.md repeats it for readers. */
import type { Media } from '../core/request.ts'
import type { PolicyDocument } from './definitions.ts'

const COMMON = {
  strategy: 'stable_first',
  max_attempts: 2,
  retry_window_seconds: 1200,
  success_min_samples: 20,
  assumed_success_rate: 0.95,
  stable_cost_multiplier_limit: 2,
  fallback_cost_multiplier: 3,
  absolute_cost_limit: null,
  task_cost_limit: null,
  degrade_after_seconds: 0,
  probe_interval_seconds: 300,
  real_person_refusal: 'stop',
} satisfies Omit<PolicyDocument, 'spill_after_seconds'>

/** A queue can wait ten minutes for its own tier; somebody who waits for an image cannot (LAY-2). */
const SPILL_AFTER_SECONDS = { video: 600, image: 0 } satisfies Record<Media, number>

export function policyDefaults(media: Media): PolicyDocument {
  return { ...COMMON, spill_after_seconds: SPILL_AFTER_SECONDS[media] }
}

/** What a new model says where its writer says nothing (RTY-7). */
export const MODEL_DEFAULTS = {
  profile: 'standard',
  description: '',
  degradation: 'strict',
  maxRunSeconds: 3600,
  imageTimeoutSeconds: 120,
} as const

/** What a new supply says where its writer says nothing. */
export const SUPPLY_DEFAULTS = {
  realPerson: 'restricted',
  expectedSeconds: { video: 60, image: 20 },
} as const
