/** What a file's entries mean beside each other: dangling references, contradictions, and what can never have an effect. */
import { pricesCover, unreachedPrices } from './coverage.ts'
import type { Binding, Model, PolicyDocument, Supply } from './definitions.ts'
import { KNOWN_PROVIDERS } from './known-providers.ts'
import { type Finding, SECRET_NAME, suggest } from './problems.ts'
import { isRecord, type ReadFile, type Section } from './read.ts'
import type { Path } from './yaml-text.ts'

export function findingsOfMeaning(file: ReadFile): Finding[] {
  const { catalog } = file
  return [
    ...danglingReferences(file),
    ...[...catalog.channels.keys()].flatMap((id) => channelFindings(file, id)),
    ...[...catalog.supplies].flatMap(([id, supply]) => supplyFindings(file, id, supply)),
    ...[...catalog.policies].flatMap(([id, policy]) => policyFindings(id, policy)),
    ...[...catalog.models].flatMap(([id, model]) => modelFindings(file, id, model)),
    ...[...catalog.bindings].flatMap(([id, binding]) => bindingFindings(file, id, binding)),
    ...twiceBound(file),
  ]
}

type Severity = Finding['severity']

function finding(severity: Severity, path: Path, problem: string, remedy: string): Finding {
  return { severity, path, at: 'value', problem, remedy }
}

const error = (path: Path, problem: string, remedy: string) => finding('error', path, problem, remedy)
const warning = (path: Path, problem: string, remedy: string) => finding('warning', path, problem, remedy)

/** Followed in the file as it stands, so that a fault elsewhere in an entry does not hide a wrong reference. */
function danglingReferences(file: ReadFile): Finding[] {
  const { root } = file
  const supplies = membersOf(root.supplies).map(([id, supply]) => [['supplies', id], supply] as const)
  const models = membersOf(root.models).map(([id, model]) => [['models', id], model] as const)
  const bindings = models.flatMap(([path, model]) =>
    membersOf(model.bindings).map(([id, binding]) => [[...path, 'bindings', id], binding] as const),
  )
  return [
    ...supplies.flatMap(([path, supply]) => dangling(file, 'channels', supply.channel, [...path, 'channel'])),
    ...models.flatMap(([path, model]) => dangling(file, 'policies', model.policy, [...path, 'policy'])),
    ...bindings.flatMap(([path, binding]) => [
      ...dangling(file, 'supplies', binding.supply, [...path, 'supply']),
      ...dangling(file, 'degradation_rules', binding.degradation_rule, [...path, 'degradation_rule']),
    ]),
  ]
}

function membersOf(section: unknown): [string, Record<string, unknown>][] {
  if (!isRecord(section)) return []
  return Object.entries(section).flatMap(([id, entry]): [string, Record<string, unknown>][] =>
    isRecord(entry) ? [[id, entry]] : [],
  )
}

function dangling(file: ReadFile, section: Section, id: unknown, path: Path): Finding[] {
  const known = file.ids[section]
  if (typeof id !== 'string' || known.has(id)) return []
  return [error(path, `there is no "${id}" in ${section}`, suggest(id, known, section.replaceAll('_', ' ')))]
}

function channelFindings({ catalog }: ReadFile, id: string): Finding[] {
  const channel = catalog.channels.get(id)
  if (!channel) return []
  const at = ['channels', id]
  const found: Finding[] = []
  if (!Object.hasOwn(KNOWN_PROVIDERS, channel.provider))
    found.push(
      error(
        [...at, 'provider'],
        `no provider is called "${channel.provider}"`,
        suggest(channel.provider, Object.keys(KNOWN_PROVIDERS), 'providers'),
      ),
    )
  if (/^https?:\/\/[^/]*@/.test(channel.base_url) || /[?&][^=]*(key|token|secret)=/i.test(channel.base_url))
    found.push(
      error(
        [...at, 'base_url'],
        'holds a credential',
        'write the secret as credential: env:NAME or file:PATH',
      ),
    )
  for (const path of secretPlaces(channel.options, [...at, 'options']))
    found.push(
      error(path, 'looks like a secret in the file', 'write the secret as credential: env:NAME or file:PATH'),
    )
  const needed = [...catalog.supplies.values()]
    .filter((supply) => supply.channel === id)
    .reduce((sum, supply) => sum + supply.concurrency, 0)
  if (needed > channel.concurrency)
    found.push(
      warning(
        [...at, 'concurrency'],
        `${channel.concurrency} is less than its supplies' limits together (${needed})`,
        'they will never all be full; raise it if the account allows more',
      ),
    )
  return found
}

function secretPlaces(value: unknown, at: Path): Path[] {
  if (!isRecord(value)) return []
  return Object.entries(value).flatMap(([key, inner]) =>
    SECRET_NAME.test(key) ? [[...at, key]] : secretPlaces(inner, [...at, key]),
  )
}

function supplyFindings(file: ReadFile, id: string, supply: Supply): Finding[] {
  const at = ['supplies', id]
  return [...mediaFindings(file, id, supply), ...priceFindings(at, supply)]
}

function mediaFindings({ catalog }: ReadFile, id: string, supply: Supply): Finding[] {
  const provider = catalog.channels.get(supply.channel)?.provider ?? ''
  const can = Object.hasOwn(KNOWN_PROVIDERS, provider) ? KNOWN_PROVIDERS[provider] : undefined
  if (!can || can.includes(supply.media)) return []
  return [
    error(
      ['supplies', id, 'media'],
      `provider ${provider} makes no ${supply.media}`,
      `expected ${can.join(' or ')}`,
    ),
  ]
}

function priceFindings(at: Path, supply: Supply): Finding[] {
  const { prices } = supply
  if (!prices)
    return [
      warning(
        at,
        'has no prices',
        'without a price it is never chosen; write prices: {rows: [{price: 0.8}]}',
      ),
    ]
  const rows = [...at, 'prices', 'rows']
  const found = unreachedPrices(prices.list.prices).map((place) =>
    warning(
      [...rows, place],
      'is never reached: the rows before it hold wherever it does',
      'the first row that holds counts; put the narrower one first',
    ),
  )
  const covered = pricesCover(supply.capability.modes, prices.list.prices)
  if (covered.kind === 'uncovered')
    found.push(
      warning(
        rows,
        `no price for ${exampleText(covered.example)}`,
        'a request without a price is never served; end the list with a row without "when"',
      ),
    )
  return found
}

export function exampleText(example: Readonly<Record<string, string | number>>): string {
  return Object.entries(example)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

function policyFindings(id: string, policy: PolicyDocument): Finding[] {
  const at = ['policies', id]
  const found: Finding[] = []
  const { stable_cost_multiplier_limit: stable, fallback_cost_multiplier: fallback } = policy
  if (stable !== null && fallback !== null && fallback < stable)
    found.push(
      warning(
        [...at, 'fallback_cost_multiplier'],
        `${fallback} is less than what exact supplies may cost (${stable})`,
        'a fallback is meant to be allowed to cost more',
      ),
    )
  const { absolute_cost_limit: absolute, task_cost_limit: task } = policy
  if (absolute !== null && task !== null && Number(absolute) > Number(task))
    found.push(
      warning(
        [...at, 'absolute_cost_limit'],
        `${absolute} for one attempt is above ${task} for the whole task`,
        'the limit of the task is what will count',
      ),
    )
  for (const key of ['spill_after_seconds', 'degrade_after_seconds'] as const) {
    const after = policy[key]
    if (after !== null && after > policy.retry_window_seconds)
      found.push(
        warning(
          [...at, key],
          `${after} s lie behind retry_window_seconds (${policy.retry_window_seconds})`,
          'no attempt starts that late, so that it never has an effect',
        ),
      )
  }
  return found
}

function modelFindings(file: ReadFile, id: string, model: Model): Finding[] {
  const at = ['models', id]
  const { document } = model
  const found: Finding[] = []
  const policy = file.catalog.policies.get(document.policy)
  if (document.emergency_cost_override && policy?.task_cost_limit === null)
    found.push(
      warning(
        [...at, 'emergency_cost_override'],
        `policy ${document.policy} has no task_cost_limit`,
        'the gate will refuse it: an override never ignores the limit of a task, so there must be one',
      ),
    )
  if (model.media === 'image' && policy && (policy.spill_after_seconds ?? 0) > 0)
    found.push(
      warning(
        [...at, 'policy'],
        `spill_after_seconds of ${document.policy} is ${policy.spill_after_seconds}`,
        'nobody waits that long for an image; make a policy of its own for images',
      ),
    )
  found.push(...defaultFindings([...at, 'defaults'], model))
  if (
    document.degradation === 'strict' &&
    [...file.catalog.bindings.values()].some((b) => b.model === id && b.tier === 'degraded')
  )
    found.push(
      warning(
        at,
        'is strict, so that its degraded bindings are never used',
        'write degradation: best_effort, or take them out',
      ),
    )
  return [...found, ...billingFindings(file, id, model)]
}

/** STR-5: a request that names no billing mode means per_second, so that some exact supply should bill that. */
function billingFindings(file: ReadFile, id: string, { media, document }: Model): Finding[] {
  const exact = [...file.catalog.bindings.values()].filter((b) => b.model === id && b.tier === 'exact')
  const modes = new Set(exact.map((b) => file.catalog.supplies.get(b.supply)?.capability.billing_mode))
  const assumed = document.defaults.billing_mode ?? 'per_second'
  if (
    media === 'image' ||
    exact.length === 0 ||
    modes.has(undefined) ||
    [...modes].some((mode) => mode === assumed)
  )
    return []
  const problem = `a request that names no billing mode means ${assumed}, which no exact supply bills`
  return [
    warning(
      ['models', id],
      problem,
      `write defaults: {billing_mode: ${[...modes].join(' or ')}}, or bind one that does`,
    ),
  ]
}

/** Each default must be something that the limits allow. */
function defaultFindings(at: Path, { document }: Model): Finding[] {
  const { modes } = document.limits
  return Object.entries(document.defaults).flatMap(([name, value]) => {
    const allowed = modes.some((mode) => allows(mode, name, value))
    return allowed
      ? []
      : [
          error(
            [...at, name],
            `${value} is outside the limits of the model`,
            'expected a value that some mode of limits has',
          ),
        ]
  })
}

function allows(
  mode: Model['document']['limits']['modes'][number],
  name: string,
  value: string | number | boolean,
): boolean {
  const within = (range: { min?: number; max?: number } | { values: readonly number[] }) => {
    if ('values' in range) return range.values.includes(Number(value))
    return Number(value) >= (range.min ?? 0) && Number(value) <= (range.max ?? Number.POSITIVE_INFINITY)
  }
  if ('resolutions' in mode) {
    if (name === 'seconds') return within(mode.duration_seconds)
    if (name === 'resolution') return mode.resolutions.includes(String(value))
    if (name === 'aspect_ratio') return mode.aspect_ratios.includes(String(value))
    if (name === 'generate_audio') return mode.generate_audio || value === false
    return true
  }
  if (name === 'size') return mode.sizes.includes(String(value))
  if (name === 'quality') return mode.qualities.includes(String(value))
  return name !== 'n' || within(mode.count)
}

function bindingFindings(file: ReadFile, id: string, binding: Binding): Finding[] {
  const at = file.bindingPaths.get(id) ?? []
  const { catalog } = file
  const found: Finding[] = []
  const supply = catalog.supplies.get(binding.supply)
  const model = catalog.models.get(binding.model)
  if (supply && model && supply.media !== model.media)
    found.push(
      error(
        [...at, 'supply'],
        `${binding.supply} makes ${supply.media}, the model is ${model.media}`,
        'bind a supply of the same media',
      ),
    )
  if (binding.tier === 'degraded' && binding.degradation_rule === null)
    found.push(
      error([...at, 'tier'], 'degraded without degradation_rule', 'name the rule that says what is left out'),
    )
  if (binding.tier !== 'degraded' && binding.degradation_rule !== null)
    found.push(
      error(
        [...at, 'degradation_rule'],
        `tier ${binding.tier} takes no rule`,
        'write tier: degraded, or take the rule out',
      ),
    )
  if (binding.degradation_rule !== null) {
    const from = catalog.rules.get(binding.degradation_rule)?.from_profile
    if (from !== undefined && model && from !== model.document.profile)
      found.push(
        error(
          [...at, 'degradation_rule'],
          `leads from profile ${from}, the model's is ${model.document.profile}`,
          'the rule must start at the profile of the model',
        ),
      )
  }
  return found
}

function twiceBound(file: ReadFile): Finding[] {
  const seen = new Map<string, string>()
  return [...file.catalog.bindings].flatMap(([id, binding]) => {
    const key = JSON.stringify([binding.model, binding.supply, binding.tier, binding.degradation_rule])
    const first = seen.get(key)
    seen.set(key, first ?? id)
    if (first === undefined) return []
    return [
      {
        ...error(
          file.bindingPaths.get(id) ?? [],
          `binds ${binding.supply} as ${binding.tier} a second time, after "${first}"`,
          'one binding for each supply and tier is enough',
        ),
        at: 'key' as const,
      },
    ]
  })
}
