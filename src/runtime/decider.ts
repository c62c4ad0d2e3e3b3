/**
 * From a task to a decided round: read what is dynamic, freeze, decide. Every decision of the program comes through
 * here, the door's and the dispatcher's alike, so that what is stored is what was judged (IN-1, IN-2).
 */
import { DECIDER_VERSION, decideWithFigures } from '../core/decide.ts'
import { degrade } from '../core/degrade.ts'
import {
  afterGrant,
  type Dynamic,
  type FactsJson,
  factsFromJson,
  factsToJson,
  freeze,
  type LevelJson,
  type PastAttemptJson,
  type PriceLists,
  type Release,
  type SupplyLevelJson,
} from '../core/frozen.ts'
import { recordOf } from '../core/record.ts'
import type { Decision } from '../core/verdict.ts'
import type { Sql } from '../store/database.ts'
import type { Reservation } from '../store/grant.ts'
import { readLevels } from '../store/levels.ts'
import { type ModelNow, modelsNow, type Releases } from '../store/releases.ts'
import type { DecidedRound } from '../store/round-record.ts'

/** A task as a decision reads it. */
export interface Asked {
  readonly id: string
  readonly createdAt: number
  readonly admitted: boolean
  readonly facts: FactsJson
  readonly attempts: readonly PastAttemptJson[]
  readonly caller: {
    readonly key_active: boolean
    readonly user_active: boolean
    readonly groups: readonly string[]
  }
}

export interface Decided {
  readonly decision: Decision
  readonly round: DecidedRound
}

/** Models and levels at one instant, kept up to date with the grants that a batch proposes. */
export class Situation {
  readonly now: number
  readonly #models: ReadonlyMap<string, ModelNow>
  readonly #releases: ReadonlyMap<string, Release>
  readonly #prices: PriceLists
  readonly #channels: Map<string, LevelJson>
  readonly #supplies: Map<string, SupplyLevelJson>

  private constructor(parts: {
    now: number
    models: ReadonlyMap<string, ModelNow>
    releases: ReadonlyMap<string, Release>
    prices: PriceLists
    channels: Map<string, LevelJson>
    supplies: Map<string, SupplyLevelJson>
  }) {
    this.now = parts.now
    this.#models = parts.models
    this.#releases = parts.releases
    this.#prices = parts.prices
    this.#channels = parts.channels
    this.#supplies = parts.supplies
  }

  static async read(sql: Sql, known: Releases, modelIds: readonly string[]): Promise<Situation> {
    const models = await modelsNow(sql, [...new Set(modelIds)])
    const releases = new Map<string, Release>()
    const ids = { channels: new Set<string>(), supplies: new Set<string>() }
    for (const model of models.values()) {
      const release = model.releaseId === null ? undefined : await known.release(sql, model.releaseId)
      if (!release) continue
      releases.set(model.id, release)
      for (const binding of release.bindings) {
        ids.channels.add(binding.channelId)
        ids.supplies.add(binding.supplyId)
      }
    }
    const levels = await readLevels(sql, { channels: [...ids.channels], supplies: [...ids.supplies] })
    const prices = await known.prices(
      sql,
      Object.values(levels.supplies).map((supply) => supply.l),
    )
    return new Situation({
      now: levels.now,
      models,
      releases,
      prices,
      channels: new Map(Object.entries(levels.channels)),
      supplies: new Map(Object.entries(levels.supplies)),
    })
  }

  release(modelId: string): Release | undefined {
    return this.#releases.get(modelId)
  }

  /** Undefined where the model has never been published, so that there is nothing to judge by. */
  decide(modelId: string, asked: Asked): Decided | undefined {
    const model = this.#models.get(modelId)
    const release = this.#releases.get(modelId)
    if (!model || !release) return undefined
    const dynamic = this.#dynamic(model, release, asked)
    const input = freeze(release, dynamic, this.#prices)
    const decision = decideWithFigures(input)
    const round = {
      releaseId: release.id,
      decider: DECIDER_VERSION,
      dynamic,
      record: recordOf(decision, input),
    }
    return { decision, round }
  }

  /** A selection as the reservation that is to be made of it; the next decision sees it granted. */
  reserve(modelId: string, decided: Decided, attemptId: string): Reservation {
    const { verdict } = decided.decision
    const binding = this.#releases
      .get(modelId)
      ?.bindings.find((one) => verdict.result === 'selected' && one.id === verdict.bindingId)
    if (verdict.result !== 'selected' || !binding) throw new Error('only a selection can be reserved')
    const channel = this.#channels.get(binding.channelId)
    const supply = this.#supplies.get(binding.supplyId)
    if (!channel || !supply?.l)
      throw new Error(`binding ${binding.id} was selected without a level or a price`)
    this.#channels.set(binding.channelId, afterGrant(channel, this.now))
    this.#supplies.set(binding.supplyId, afterGrant(supply, this.now))
    return {
      attemptId,
      bindingId: binding.id,
      supplyId: binding.supplyId,
      channelId: binding.channelId,
      tier: binding.tier,
      priceListVersionId: supply.l,
      degradationRuleVersionId: binding.degradationRuleVersionId,
      quote: String(verdict.quote),
      billsFailures: this.#prices.get(supply.l)?.billsFailures ?? false,
      degraded: verdict.degraded && {
        requested_profile: verdict.degraded.requestedProfile,
        actual_profile: verdict.degraded.actualProfile,
        dropped_inputs: verdict.degraded.droppedInputs,
        changes: verdict.degraded.changes,
        // DEG-6: the request as it is sent; as it was asked for, it stands with the task.
        sent: sentFacts(decided, this.#releases.get(modelId), binding.degradationRuleId),
      },
    }
  }

  #dynamic(model: ModelNow, release: Release, asked: Asked): Dynamic {
    const channels: Record<string, LevelJson> = {}
    const supplies: Record<string, SupplyLevelJson> = {}
    for (const binding of release.bindings) {
      const channel = this.#channels.get(binding.channelId)
      const supply = this.#supplies.get(binding.supplyId)
      if (!channel || !supply) throw new Error(`binding ${binding.id} has no health rows`)
      channels[binding.channelId] = channel
      supplies[binding.supplyId] = supply
    }
    return {
      now: this.now,
      task: { id: asked.id, created_at: asked.createdAt, admitted: asked.admitted, attempts: asked.attempts },
      caller: asked.caller,
      request: asked.facts,
      model: { enabled: model.enabled, published: model.published },
      rules: release.rules.map((rule) => rule.id).filter((id) => model.rules.includes(id)),
      off: release.bindings.map((binding) => binding.id).filter((id) => model.off.includes(id)),
      channels,
      supplies,
    }
  }
}

function sentFacts(decided: Decided, release: Release | undefined, ruleId: string | null): FactsJson {
  const rule = release?.rules.find((one) => one.id === ruleId)
  if (!rule)
    throw new Error(`a degraded delivery was selected by rule ${ruleId}, which its release does not have`)
  return factsToJson(degrade(factsFromJson(decided.round.dynamic.request), rule).request)
}
