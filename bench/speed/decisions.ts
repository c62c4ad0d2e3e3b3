/**
 * Decisions a second, without a database: `decideWithFigures(freeze(release, dynamic, prices))`, which is what a round
 * takes from what is in memory to verdict and figures. Compared with `JSON.parse` of the public JSON of the same input.
 */

import type { Level } from '../../src/core/catalog.ts'
import { decideWithFigures } from '../../src/core/decide.ts'
import { parseDecisionInput } from '../../src/core/decision-json.ts'
import {
  type Dynamic,
  factsToJson,
  freeze,
  type LevelJson,
  type PriceLists,
  type Release,
} from '../../src/core/frozen.ts'
import type { DecisionInput } from '../../src/core/verdict.ts'
import type { Bench, Line } from './figure.ts'
import { play, ratios, spreadOf } from './rounds.ts'

const VIDEO_MODES = [
  {
    duration_seconds: { min: 4, max: 15 },
    resolutions: ['480p', '720p', '1080p'],
    aspect_ratios: ['16:9', '4:3', '1:1', '3:4', '9:16', '21:9'],
    generate_audio: true,
    inputs: {},
  },
  {
    duration_seconds: { min: 4, max: 15 },
    resolutions: ['480p', '720p', '1080p'],
    aspect_ratios: ['16:9', '4:3', '1:1', '3:4', '9:16', '21:9'],
    generate_audio: true,
    inputs: { reference_images: { min: 1, max: 9 }, reference_videos: { min: 0, max: 3 } },
  },
]

export async function decisions(bench: Bench): Promise<Line[]> {
  const lines: Line[] = []
  for (const candidates of [10, 200]) lines.push(...(await withCandidates(bench, candidates)))
  return lines
}

async function withCandidates(bench: Bench, candidates: number): Promise<Line[]> {
  const text = JSON.stringify(inputOf(candidates))
  const parsed = parseDecisionInput(JSON.parse(text))
  const { release, dynamic, prices } = thaw(parsed)
  const { verdict } = decideWithFigures(freeze(release, dynamic, prices))
  if (verdict.result !== 'selected' || verdict.ranking.length < candidates / 4)
    throw new Error(`the input of ${candidates} candidates is no contest: ${verdict.result}`)
  const ready = freeze(release, dynamic, prices)
  const milliseconds = bench.short ? 20 : 1000
  const {
    ours = [],
    parse = [],
    alone = [],
  } = await play(bench.rounds, {
    ours: async () => rate(milliseconds, () => decideWithFigures(freeze(release, dynamic, prices))),
    alone: async () => rate(milliseconds, () => decideWithFigures(ready)),
    parse: async () => rate(milliseconds, () => JSON.parse(text)),
  })
  const peer = { name: `JSON.parse of ${text.length} characters`, value: spreadOf(parse) }
  return [
    {
      what: `decisions, ${candidates} candidates`,
      unit: '1/s',
      ours: spreadOf(ours),
      peer,
      ratio: ratios(ours, parse),
      demanded: { least: 1 },
      note: 'freeze and decideWithFigures',
    },
    {
      what: `  of an input that is frozen already, ${candidates} candidates`,
      unit: '1/s',
      ours: spreadOf(alone),
      peer,
      ratio: ratios(alone, parse),
    },
  ]
}

/** What a run answers is used, so that none of it can be left out. */
function rate(milliseconds: number, run: () => unknown): number {
  const kept: unknown[] = [undefined]
  const repeat = (until: number) => {
    let runs = 0
    while (performance.now() < until) {
      for (let n = 0; n < 10; n += 1) kept[0] = run()
      runs += 10
    }
    return runs
  }
  repeat(performance.now() + milliseconds / 4)
  const began = performance.now()
  const runs = repeat(began + milliseconds)
  if (kept[0] === undefined) throw new Error('nothing was answered')
  return (1000 * runs) / (performance.now() - began)
}

/** As in docs and decision.md: most can serve it, at prices, states and loads of their own; some cannot. */
function inputOf(count: number): object {
  return {
    now: '2026-12-01T08:01:00.000Z',
    task: {
      id: '019ad8a0-0000-7000-8000-000000000001',
      created_at: '2026-12-01T08:00:00.000Z',
      admitted: true,
      attempts: [],
    },
    caller: { key_active: true, user_active: true, groups: ['default'] },
    request: {
      media: 'video',
      billing_mode: null,
      degradation: null,
      real_person: false,
      duration_seconds: 5,
      resolution: '720p',
      aspect_ratio: '16:9',
      generate_audio: false,
      inputs: { reference_images: 2 },
    },
    model: {
      id: 'seedance-2.0-933',
      media: 'video',
      profile: '933',
      enabled: true,
      published: true,
      allowed_groups: null,
      limits: { modes: VIDEO_MODES },
      degradation: 'best_effort',
      normal_cost: null,
      emergency_cost_override: false,
      policy: {
        strategy: 'stable_first',
        max_attempts: 2,
        retry_window_seconds: 1200,
        success_min_samples: 20,
        assumed_success_rate: 0.95,
        stable_cost_multiplier_limit: 1.5,
        fallback_cost_multiplier: 2,
        absolute_cost_limit: null,
        task_cost_limit: '60',
        spill_after_seconds: 30,
        degrade_after_seconds: null,
        probe_interval_seconds: null,
      },
    },
    degradation_rules: [
      {
        id: 'to-900',
        published: true,
        from_profile: '933',
        to_profile: '900',
        operations: [{ op: 'drop_inputs', inputs: ['reference_videos', 'reference_audios'] }],
      },
    ],
    candidates: Array.from({ length: count }, (_, n) => candidate(n)),
  }
}

function candidate(n: number): object {
  const tier = n % 10 === 8 ? 'fallback' : n % 10 === 9 ? 'degraded' : 'exact'
  return {
    binding_id: `seedance-binding-${n}`,
    enabled: n % 17 !== 16,
    tier,
    degradation_rule_id: tier === 'degraded' ? 'to-900' : null,
    priority: n % 3,
    supply: {
      ...level(`seedance-supply-${n}`, n),
      real_person: 'allowed',
      samples: { successes: 20 + (n % 50), failures: n % 4 },
      capability: { billing_mode: 'per_second', modes: VIDEO_MODES },
    },
    channel: level(`ark-channel-${Math.floor(n / 3)}`, Math.floor(n / 3)),
    cost_rule: {
      mode: 'per_second',
      bills_failures: false,
      prices: [
        { when: { resolution: ['480p'], inputs: { reference_videos: { min: 1 } } }, price: '0.28' },
        { when: { resolution: ['480p'] }, price: '0.45' },
        { when: { resolution: ['720p'] }, price: (1 + (n % 40) / 100).toFixed(2) },
        { price: '2.48' },
      ],
    },
  }
}

function level(id: string, n: number): object {
  return {
    id,
    admin_state: 'enabled',
    health: n % 7 === 6 ? 'degraded' : 'healthy',
    recovery_successes: 0,
    concurrency: 20,
    in_use: n % 19,
    in_use_epoch: n % 19,
    last_granted_at: `2026-12-01T08:00:${String(n % 60).padStart(2, '0')}.000Z`,
    not_before: null,
  }
}

/** The two parts that a frozen input is made of, as the store gives them. */
function thaw(input: DecisionInput): { release: Release; dynamic: Dynamic; prices: PriceLists } {
  const { model, candidates, degradationRules: rules } = input
  const release: Release = {
    id: '1',
    modelId: model.id,
    media: model.media,
    profile: model.profile,
    allowedGroups: model.allowedGroups,
    limits: model.limits,
    degradation: model.degradation,
    normalCost: model.normalCost,
    emergencyCostOverride: model.emergencyCostOverride,
    policy: model.policy,
    realPersonRefusal: 'stop',
    maxRunSeconds: 600,
    imageTimeoutSeconds: 60,
    defaults: {},
    description: '',
    rules,
    bindings: candidates.map((one) => ({
      id: one.bindingId,
      supplyId: one.supply.id,
      channelId: one.channel.id,
      tier: one.tier,
      priority: one.priority,
      capability: one.supply.capability,
      degradationRuleId: one.degradationRuleId,
      degradationRuleVersionId: one.degradationRuleId,
    })),
  }
  const dynamic: Dynamic = {
    now: input.now,
    task: {
      id: input.task.id,
      created_at: input.task.createdAt,
      admitted: input.task.admitted,
      attempts: [],
    },
    caller: {
      key_active: input.caller.keyActive,
      user_active: input.caller.userActive,
      groups: input.caller.groups,
    },
    request: factsToJson(input.request),
    model: { enabled: model.enabled, published: model.published },
    rules: rules.filter((rule) => rule.published).map((rule) => rule.id),
    off: candidates.filter((one) => !one.enabled).map((one) => one.bindingId),
    channels: Object.fromEntries(candidates.map(({ channel }) => [channel.id, levelJson(channel)])),
    supplies: Object.fromEntries(
      candidates.map(({ supply }) => [
        supply.id,
        {
          ...levelJson(supply),
          p: supply.realPerson,
          s: [supply.samples.successes, supply.samples.failures] as const,
          l: supply.id,
        },
      ]),
    ),
  }
  const prices: PriceLists = new Map(
    candidates.flatMap(({ supply, costRule }) => (costRule ? [[supply.id, costRule] as const] : [])),
  )
  return { release, dynamic, prices }
}

function levelJson(of: Level): LevelJson {
  return {
    a: of.adminState,
    h: of.health,
    r: of.recoverySuccesses,
    c: of.concurrency,
    u: of.inUse,
    e: of.inUseEpoch,
    ep: 1,
    g: of.lastGrantedAt,
    n: of.notBefore,
  }
}
