/** Inputs of the decision in its public JSON, and verdicts on them: a small healthy yard, changed where a test says so. */
import { decide } from '../../src/core/decide.ts'
import { parseDecisionInput, printVerdict } from '../../src/core/decision-json.ts'

export type Json = Record<string, unknown>

export const NOW = '2026-12-01T08:01:00.000Z'

export interface Verdict {
  readonly result: string
  readonly binding_id?: string
  readonly tier?: string
  readonly pass?: string
  readonly reason?: string
  readonly code?: string
  readonly param?: string
  readonly decided_by?: string
  readonly probe_turn?: boolean
  readonly quote?: string
  readonly baseline?: string | null
  readonly ranking?: readonly string[]
  readonly excluded?: Readonly<Record<string, string>>
  readonly degraded?: Json | null
  readonly alerts?: readonly string[]
}

export const VIDEO_MODE = {
  duration_seconds: { min: 4, max: 15 },
  resolutions: ['480p', '720p', '1080p'],
  aspect_ratios: ['16:9', '9:16'],
  generate_audio: true,
  inputs: { reference_images: { min: 0, max: 9 }, reference_videos: { min: 0, max: 3 } },
}

export const IMAGE_MODE = {
  sizes: ['1024x1024', '2048x2048'],
  qualities: ['high', 'low'],
  count: { min: 1, max: 4 },
  inputs: {},
}

export function level(id: string, more: Json = {}): Json {
  return {
    id,
    admin_state: 'enabled',
    health: 'healthy',
    recovery_successes: 0,
    concurrency: 5,
    in_use: 0,
    in_use_epoch: 0,
    last_granted_at: null,
    not_before: null,
    ...more,
  }
}

interface CandidateParts {
  readonly tier?: string
  readonly supply?: Json
  readonly channel?: Json
  readonly price?: string
  readonly priority?: number
  readonly more?: Json
}

/** Candidate `a`: binding b_a, supply s_a, channel c_a. */
export function candidate(name: string, parts: CandidateParts = {}): Json {
  const tier = parts.tier ?? 'exact'
  return {
    binding_id: `b_${name}`,
    enabled: true,
    tier,
    degradation_rule_id: tier === 'degraded' ? 'rule' : null,
    priority: parts.priority ?? 0,
    supply: {
      ...level(`s_${name}`),
      real_person: 'allowed',
      samples: { successes: 0, failures: 0 },
      capability: { billing_mode: 'per_second', modes: [VIDEO_MODE] },
      ...parts.supply,
    },
    channel: level(`c_${name}`, parts.channel),
    cost_rule: { mode: 'per_second', bills_failures: false, prices: [{ price: parts.price ?? '1' }] },
    ...parts.more,
  }
}

interface InputParts {
  readonly now?: string
  readonly task?: Json
  readonly caller?: Json
  readonly request?: Json
  readonly model?: Json
  readonly policy?: Json
  readonly rules?: Json[]
}

export const POLICY = {
  strategy: 'stable_first',
  max_attempts: 2,
  retry_window_seconds: 1200,
  success_min_samples: 20,
  assumed_success_rate: 0.95,
  stable_cost_multiplier_limit: null,
  fallback_cost_multiplier: null,
  absolute_cost_limit: null,
  task_cost_limit: null,
  spill_after_seconds: null,
  degrade_after_seconds: null,
  probe_interval_seconds: null,
}

export function input(candidates: readonly Json[], parts: InputParts = {}): Json {
  return {
    now: parts.now ?? NOW,
    task: { id: 't', created_at: '2026-12-01T08:00:00.000Z', admitted: true, attempts: [], ...parts.task },
    caller: { key_active: true, user_active: true, groups: ['default'], ...parts.caller },
    request: {
      media: 'video',
      billing_mode: null,
      degradation: null,
      real_person: false,
      duration_seconds: 5,
      resolution: '720p',
      aspect_ratio: '16:9',
      generate_audio: false,
      inputs: {},
      ...parts.request,
    },
    model: {
      id: 'm',
      media: 'video',
      profile: '933',
      enabled: true,
      published: true,
      allowed_groups: null,
      limits: { modes: [VIDEO_MODE] },
      degradation: 'best_effort',
      normal_cost: null,
      emergency_cost_override: false,
      ...parts.model,
      policy: { ...POLICY, ...parts.policy },
    },
    degradation_rules: parts.rules ?? [
      {
        id: 'rule',
        published: true,
        from_profile: '933',
        to_profile: '900',
        operations: [{ op: 'drop_inputs', inputs: ['reference_videos'] }],
      },
    ],
    candidates,
  }
}

/** An image request on an image model. */
export function imageInput(candidates: readonly Json[], parts: InputParts = {}): Json {
  const made = input(candidates, parts)
  const request = {
    media: 'image',
    billing_mode: null,
    degradation: null,
    size: '1024x1024',
    quality: null,
    count: 1,
    inputs: {},
    ...parts.request,
  }
  const model = { ...(made.model as Json), media: 'image', limits: { modes: [IMAGE_MODE] }, ...parts.model }
  return { ...made, request, model: { ...model, policy: { ...POLICY, ...parts.policy } } }
}

export function imageCandidate(name: string, parts: CandidateParts = {}): Json {
  const supply = { capability: { billing_mode: 'per_image', modes: [IMAGE_MODE] }, ...parts.supply }
  const cost_rule = { mode: 'per_image', bills_failures: false, prices: [{ price: parts.price ?? '1' }] }
  return candidate(name, { ...parts, supply, more: { cost_rule, ...parts.more } })
}

export function failed(name: string, more: Json = {}): Json {
  return {
    supply_id: `s_${name}`,
    channel_id: `c_${name}`,
    outcome: 'failed',
    category: 'supply',
    scope: 'supply',
    may_change_supply: true,
    cost: '0',
    ...more,
  }
}

export function verdict(json: Json): Verdict {
  return printVerdict(decide(parseDecisionInput(json))) as Verdict
}

/** The chosen binding, or why none: `wait/capacity`, `rejected/no_capable_supply`. */
export function end(json: Json): string {
  const { result, binding_id, reason, code } = verdict(json)
  return result === 'selected' ? (binding_id ?? '') : `${result}/${reason ?? code}`
}
