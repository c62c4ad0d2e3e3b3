/**
 * The production gate [STR-6]: a model is published only if each of these checks has its evidence. Coverage is proved
 * exactly for everything that modes can say; that a supply really does what its capability claims is what `verified` is
 * for.
 */

import { readCatalogRows } from '../store/catalog.ts'
import type { Sql } from '../store/database.ts'
import { type Coverage, modesCover, pricesCover, transformedModes } from './coverage.ts'
import type { CapabilityDocument, ModeDocument, PolicyDocument } from './definitions.ts'
import { exampleText } from './references.ts'
import {
  type SavedBinding,
  type SavedCatalog,
  type SavedModel,
  type SavedSupply,
  savedCatalog,
} from './saved.ts'

export type GateCheck =
  | 'model_exists'
  | 'exact_covers_limits'
  | 'cost_rules'
  | 'capabilities_verified'
  | 'degradation_fits'
  | 'policy_limits'
  | 'credentials'
  | 'base_currency'

/** A check that holds, with what shows it. */
export interface Evidence {
  readonly check: GateCheck
  readonly ok: true
  readonly evidence: Readonly<Record<string, unknown>>
}

/** A check that fails: what is missing, and how to mend it. */
export interface Refusal {
  readonly check: GateCheck
  readonly ok: false
  readonly missing: string
  readonly mend: string
}

export interface GateReport {
  readonly modelId: string
  readonly passed: readonly Evidence[]
  /** Empty: it may be published. */
  readonly refusals: readonly Refusal[]
}

export async function checkGate(sql: Sql, modelId: string): Promise<GateReport> {
  return judgeGate(savedCatalog(await readCatalogRows(sql)), modelId)
}

interface Bound {
  readonly id: string
  readonly binding: SavedBinding
  readonly supply: SavedSupply | undefined
}

interface Judged {
  readonly model: SavedModel
  readonly policy: PolicyDocument | undefined
  readonly bound: readonly Bound[]
  readonly catalog: SavedCatalog
}

type Result = Evidence | Refusal

export function judgeGate(catalog: SavedCatalog, modelId: string): GateReport {
  const model = catalog.models.get(modelId)
  if (!model || model.archived) {
    const refusal = refuse('model_exists', `there is no model ${modelId}`, 'apply a catalog that has it')
    return { modelId, passed: [], refusals: [refusal] }
  }
  const policy = catalog.policies.get(model.definition.document.policy)
  const judged: Judged = {
    model,
    policy: policy?.archived ? undefined : policy?.definition,
    bound: boundOf(catalog, modelId),
    catalog,
  }
  const results = [
    ...exactCoversLimits(judged),
    ...costRules(judged),
    ...capabilitiesVerified(judged),
    ...degradationFits(judged),
    ...policyLimits(judged),
    ...credentials(judged),
    ...baseCurrency(judged),
  ]
  return {
    modelId,
    passed: results.filter((result) => result.ok),
    refusals: results.filter((result) => !result.ok),
  }
}

/** Bindings that are switched off are judged too: the switch may come back at any time, without the gate. */
function boundOf(catalog: SavedCatalog, modelId: string): Bound[] {
  return [...catalog.bindings]
    .filter(([, binding]) => binding.definition.model === modelId && !binding.archived)
    .map(([id, binding]) => {
      const supply = catalog.supplies.get(binding.definition.supply)
      return { id, binding, supply: supply?.archived ? undefined : supply }
    })
}

const hold = (check: GateCheck, evidence: Record<string, unknown>): Evidence => ({
  check,
  ok: true,
  evidence,
})
const refuse = (check: GateCheck, missing: string, mend: string): Refusal => ({
  check,
  ok: false,
  missing,
  mend,
})

/** One holding result, or all that fail. */
function allOrRefusals(
  check: GateCheck,
  refusals: readonly Refusal[],
  evidence: Record<string, unknown>,
): Result[] {
  return refusals.length > 0 ? [...refusals] : [hold(check, evidence)]
}

function exactCoversLimits({ model, bound }: Judged): Result[] {
  const limits = model.definition.document.limits.modes
  const exact = bound.filter(({ binding }) => binding.definition.tier === 'exact')
  if (exact.length === 0)
    return [refuse('exact_covers_limits', 'the model has no exact binding', 'bind a supply with tier: exact')]
  const covers = exact.map((one) => ({ ...one, coverage: coverageOf(limits, capabilityOf(one)) }))
  const covering = covers.filter(({ coverage }) => coverage.kind === 'covered')
  if (covering.length > 0)
    return [
      hold('exact_covers_limits', {
        bindings: covering.map(({ id, binding }) => ({
          binding: id,
          supply: binding.definition.supply,
          capability_version: binding.definition.verified?.capability ?? null,
        })),
        not_covering: Object.fromEntries(
          covers
            .filter(({ coverage }) => coverage.kind !== 'covered')
            .map(({ id, coverage }) => [id, gapText(coverage)]),
        ),
      }),
    ]
  return covers.map(({ id, binding, coverage }) =>
    refuse(
      'exact_covers_limits',
      `binding ${id}: supply ${binding.definition.supply} does not cover the limits of the model: ${gapText(coverage)}`,
      'narrow the limits, or bind a supply that can do all of them',
    ),
  )
}

/** What it was verified against; where it was not, what the supply says of itself. */
function capabilityOf({ binding, supply }: Bound): CapabilityDocument | undefined {
  return binding.capability ?? supply?.definition.capability
}

function coverageOf(limits: readonly ModeDocument[], capability: CapabilityDocument | undefined): Coverage {
  return capability ? modesCover(limits, capability.modes) : { kind: 'uncovered', example: {} }
}

function gapText(coverage: Coverage): string {
  switch (coverage.kind) {
    case 'covered':
      return 'covered'
    case 'uncovered':
      return `it does not take, for example, ${exampleText(coverage.example)}`
    case 'too_many_pieces':
      return 'the modes overlap in too many ways for a proof; write fewer, wider ones'
  }
}

function costRules({ bound }: Judged): Result[] {
  const refusals: Refusal[] = []
  const evidence: Record<string, unknown> = {}
  for (const one of bound) {
    const { id, supply } = one
    const name = one.binding.definition.supply
    if (!supply) {
      refusals.push(
        refuse(
          'cost_rules',
          `binding ${id}: supply ${name} is archived`,
          'take the binding out, or bring the supply back',
        ),
      )
      continue
    }
    const { prices } = supply.definition
    const capability = capabilityOf(one)
    if (!prices)
      refusals.push(
        refuse(
          'cost_rules',
          `binding ${id}: supply ${name} has no prices`,
          `write prices of ${name}: an unknown price is no candidate`,
        ),
      )
    else if (capability && prices.list.mode !== capability.billing_mode)
      refusals.push(
        refuse(
          'cost_rules',
          `binding ${id}: ${name} is priced ${prices.list.mode}, but its capability bills ${capability.billing_mode}`,
          'make the two agree',
        ),
      )
    else if (capability) {
      const priced = pricesCover(capability.modes, prices.list.prices)
      evidence[id] = {
        supply: name,
        price_list_version: supply.priceVersion,
        mode: prices.list.mode,
        every_request_has_a_price: priced.kind === 'covered',
        ...(priced.kind === 'uncovered' ? { without_a_price: priced.example } : {}),
      }
    }
  }
  return allOrRefusals('cost_rules', refusals, evidence)
}

function capabilitiesVerified({ bound }: Judged): Result[] {
  const refusals = bound
    .filter(({ binding }) => binding.definition.verified === null)
    .map(({ id, binding }) =>
      refuse(
        'capabilities_verified',
        `binding ${id} was not verified`,
        `try ${binding.definition.supply} and write verified: {by, at, evidence} on the binding`,
      ),
    )
  const evidence = bound.map(({ id, binding, supply }) => [
    id,
    { ...binding.definition.verified, newest_capability: supply?.capabilityVersion ?? null },
  ])
  return allOrRefusals('capabilities_verified', refusals, Object.fromEntries(evidence))
}

function degradationFits({ model, bound, catalog }: Judged): Result[] {
  const limits = model.definition.document.limits.modes
  const refusals: Refusal[] = []
  const evidence: Record<string, unknown> = {}
  for (const one of bound) {
    const { tier, degradation_rule: ruleId, supply } = one.binding.definition
    if (tier !== 'degraded' || ruleId === null) continue
    const rule = catalog.rules.get(ruleId)
    const fail = (missing: string, mend: string) =>
      refusals.push(refuse('degradation_fits', `binding ${one.id}: ${missing}`, mend))
    if (!rule || rule.archived) {
      fail(`there is no rule ${ruleId}`, 'bring the rule back, or take the binding out')
      continue
    }
    const { from_profile: from, to_profile: to, operations } = rule.definition
    if (from !== model.definition.document.profile)
      fail(
        `rule ${ruleId} starts at profile ${from}, the model's is ${model.definition.document.profile}`,
        'make the two agree',
      )
    const coverage = coverageOf(transformedModes(limits, operations), capabilityOf(one))
    if (coverage.kind === 'covered')
      evidence[one.id] = { rule: ruleId, rule_version: rule.version, supply, from, to, operations }
    else
      fail(
        `${supply} does not fit the limits after ${ruleId}: ${gapText(coverage)}`,
        'drop more in the rule, or bind a supply that can do the rest',
      )
  }
  return allOrRefusals('degradation_fits', refusals, evidence)
}

function policyLimits({ model, policy }: Judged): Result[] {
  const { document } = model.definition
  if (!policy)
    return [refuse('policy_limits', `there is no policy ${document.policy}`, 'apply a catalog that has it')]
  const refusals: Refusal[] = []
  const fail = (missing: string, mend: string) =>
    refusals.push(refuse('policy_limits', `policy ${document.policy}: ${missing}`, mend))
  if (document.emergency_cost_override && policy.task_cost_limit === null)
    fail(
      'emergency_cost_override needs a task_cost_limit, which it never ignores',
      'write task_cost_limit, or switch the override off',
    )
  for (const key of ['stable_cost_multiplier_limit', 'fallback_cost_multiplier'] as const) {
    const multiplier = policy[key]
    if (multiplier !== null && multiplier < 1)
      fail(`${key} is ${multiplier}: not even the normal price would do`, 'write 1 or more, or null')
  }
  if (policy.max_attempts < 1 || policy.max_attempts > 2)
    fail(`max_attempts is ${policy.max_attempts}`, 'write 1 or 2')
  return allOrRefusals('policy_limits', refusals, {
    policy: document.policy,
    emergency_cost_override: document.emergency_cost_override,
    task_cost_limit: policy.task_cost_limit,
    absolute_cost_limit: policy.absolute_cost_limit,
    stable_cost_multiplier_limit: policy.stable_cost_multiplier_limit,
    fallback_cost_multiplier: policy.fallback_cost_multiplier,
  })
}

function credentials({ bound, catalog }: Judged): Result[] {
  const ids = new Set(bound.flatMap(({ supply }) => (supply ? [supply.definition.channel] : [])))
  const refusals: Refusal[] = []
  const evidence: Record<string, unknown> = {}
  for (const id of [...ids].sort()) {
    const channel = catalog.channels.get(id)
    if (!channel || channel.archived)
      refusals.push(
        refuse('credentials', `channel ${id} is archived`, 'bring it back, or bind supplies of another'),
      )
    else if (channel.credential === null)
      refusals.push(
        refuse(
          'credentials',
          `channel ${id}: ${channel.definition.credential} could not be resolved, so that no secret is stored`,
          'set it where the catalog is applied, and apply again',
        ),
      )
    else
      evidence[id] = { reference: channel.definition.credential, credential: String(channel.credential.id) }
  }
  return allOrRefusals('credentials', refusals, evidence)
}

function baseCurrency({ catalog, bound }: Judged): Result[] {
  if (catalog.currency === null)
    return [refuse('base_currency', 'no base currency is set', 'apply a catalog, which sets it')]
  const lists = bound.flatMap(({ supply }) => (supply?.definition.prices ? [supply.definition.prices] : []))
  const rates = lists
    .filter(({ currency }) => currency !== catalog.currency)
    .map(({ currency, rate }) => [currency, rate])
  return [hold('base_currency', { currency: catalog.currency, exchange_rates: Object.fromEntries(rates) })]
}
