/**
 * The shape of a catalog file. Each entry has its own schema, so that one faulty entry does not hide the faults of the
 * others; the whole is what docs/catalog.schema.json is made from. What an entry means beside others is references.ts's.
 */
import { z } from 'zod'
import { parseInstant, printInstant } from '../core/time.ts'
import { canonicalDecimal, canonicalRate, decimalOf, rangeOf } from './notation.ts'
import { MODEL_DEFAULTS, SUPPLY_DEFAULTS } from './policy-defaults.ts'

export const SLUG = /^[a-z0-9][a-z0-9._-]{0,62}$/
export const MODEL_ID = /^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/
const SLUG_RULE = 'lower-case letters, digits, ".", "_" and "-", at most 63, the first a letter or digit'

const MOST_TEXT = 2000

/** Names like 720p or 933: YAML reads the second as a number. */
const name = z
  .union([z.string().min(1).max(200), z.number()], { error: 'expected a name, such as 720p' })
  .transform(String)

const names = (what: string) =>
  z
    .union([z.array(name).min(1, { error: `expected at least one: ${what}, or a list of them` }), name], {
      error: `expected ${what}, or a list of them`,
    })
    .transform((written) => (Array.isArray(written) ? written : [written]))

const slug = (what: string) =>
  z
    .string({ error: (issue) => (issue.input === undefined ? undefined : `expected the ID of ${what}`) })
    .regex(SLUG, { error: `an ID has ${SLUG_RULE}` })

const whole = (min: number, max: number) =>
  z
    .int({ error: `expected a whole number from ${min} to ${max}` })
    .min(min)
    .max(max)

const RANGE_RULE = 'expected a range of whole numbers: 5, 4-15, 4- (at least 4), or [5, 10] (one of them)'
const range = z
  .union(
    [
      z.int().min(0, { error: RANGE_RULE }).max(999_999_999, { error: RANGE_RULE }),
      z.string().regex(/^\d{1,9}-(\d{1,9})?$/, { error: RANGE_RULE }),
      z.array(z.int().min(0).max(999_999_999)).min(1),
    ],
    { error: RANGE_RULE },
  )
  .transform((written, context) => {
    const found = rangeOf(written)
    if (found !== null) return found
    context.addIssue({
      code: 'custom',
      message: `the range ends before it begins; ${RANGE_RULE}`,
      input: written,
    })
    return z.NEVER
  })

const AMOUNT = /^(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?$/
const AMOUNT_RULE = 'expected an amount of 0 or more with at most six decimals, such as 0.8'
const money = z
  .union([z.string().regex(AMOUNT, { error: AMOUNT_RULE }), z.number().min(0, { error: AMOUNT_RULE })], {
    error: AMOUNT_RULE,
  })
  .transform((written, context) => {
    const found = canonicalDecimal(written)
    if (found !== null) return found
    context.addIssue({ code: 'custom', message: AMOUNT_RULE, input: written })
    return z.NEVER
  })

/** A fraction or multiplier: at most six decimals, so that the double that carries it is exact when printed. */
const ratio = (from: string, to: string) => {
  const rule = `expected a number from ${from} to ${to} with at most six decimals`
  return z
    .union([z.string().regex(AMOUNT, { error: rule }), z.number()], { error: rule })
    .transform((written, context) => {
      const value = decimalOf(written)
      const [min, max] = [decimalOf(from), decimalOf(to)]
      if (value !== null && min !== null && max !== null && value >= min && value <= max)
        return Number(written)
      context.addIssue({ code: 'custom', message: rule, input: written })
      return z.NEVER
    })
}

const RATE_RULE =
  'expected what one unit costs in the base currency, above 0 with at most twelve decimals, such as 7.12'
const rate = z.union([z.string(), z.number()], { error: RATE_RULE }).transform((written, context) => {
  const found = canonicalRate(written)
  if (found !== null) return found
  context.addIssue({ code: 'custom', message: RATE_RULE, input: written })
  return z.NEVER
})

const currency = z.string().regex(/^[A-Z]{3}$/, { error: 'expected three capitals, such as CNY' })

const inputs = z
  .record(
    z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,62}$/, { error: 'a kind of input is written as in reference_images' }),
    range,
  )
  .describe('How many inputs of each kind; a kind that is not named must be absent.')

const videoMode = z.strictObject({
  duration_seconds: range,
  resolutions: names('a resolution'),
  aspect_ratios: names('an aspect ratio'),
  generate_audio: z.boolean().default(false).describe('Can it make sound?'),
  inputs: inputs.default({}),
})

const imageMode = z.strictObject({
  sizes: names('a size'),
  qualities: z
    .union([z.array(name), name])
    .transform((written) => (Array.isArray(written) ? written : [written]))
    .default([])
    .describe('A request that names no quality fits always.'),
  count: range.describe('How many images one request may ask for.'),
  inputs: inputs.default({}),
})

const videoModes = z
  .array(videoMode, { error: 'expected a list of modes' })
  .min(1, { error: 'expected at least one mode' })
const imageModes = z
  .array(imageMode, { error: 'expected a list of modes' })
  .min(1, { error: 'expected at least one mode' })

const videoBilling = z.enum(['per_second', 'per_request'])
const imageBilling = z.literal('per_image')

const videoCondition = z.strictObject({
  resolution: names('a resolution').exactOptional(),
  generate_audio: z.boolean().exactOptional(),
  duration_seconds: range.exactOptional(),
  inputs: inputs.exactOptional(),
})
const imageCondition = z.strictObject({
  size: names('a size').exactOptional(),
  quality: names('a quality').exactOptional(),
  inputs: inputs.exactOptional(),
})

const priceRows = <C extends z.ZodType>(condition: C) =>
  z
    .array(z.strictObject({ when: condition.exactOptional(), price: money }), {
      error: 'expected a list of prices',
    })
    .min(1, { error: 'expected at least one price' })
    .describe('The first row whose condition holds counts; a row without one always holds.')

const prices = <B extends z.ZodType, C extends z.ZodType>(billing: B, condition: C) =>
  z.strictObject({
    currency: currency.optional().describe('Default: the base currency.'),
    mode: billing.optional().describe('Default: the billing mode of the capability.'),
    bills_failures: z.boolean().default(false).describe('Does the supplier charge for what failed?'),
    rows: priceRows(condition),
  })

const CREDENTIAL_RULE =
  'a secret never stands in this file: write env:NAME (a variable of the environment) or file:PATH'

const BASE_URL_RULE =
  // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what a writer writes.
  'expected http://… or https://…; ${NAME} and ${NAME:-default} stand for variables of the environment'

const channelEntry = z.strictObject({
  provider: z.string().min(1).describe('The protocol that is spoken.'),
  base_url: z
    .string()
    .regex(/^https?:\/\/\S+$/, { error: BASE_URL_RULE })
    .describe(BASE_URL_RULE),
  credential: z
    .string({ error: CREDENTIAL_RULE })
    .regex(/^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$/, { error: CREDENTIAL_RULE })
    .describe(CREDENTIAL_RULE),
  concurrency: whole(1, 1_000_000).describe('Most jobs at once on this account.'),
  options: z.record(z.string(), z.unknown()).default({}).describe("The adapter's own business."),
})

const supplyCommon = {
  channel: slug('a channel'),
  upstream_model: name.describe('What the provider calls the model.'),
  concurrency: whole(1, 1_000_000).describe('Most jobs at once on this supply.'),
}
const realPerson = z
  .enum(['allowed', 'restricted', 'denied'])
  .default(SUPPLY_DEFAULTS.realPerson)
  .describe('May a real person be shown?')

const videoSupply = z.strictObject({
  ...supplyCommon,
  media: z.literal('video'),
  real_person: realPerson,
  expected_seconds: whole(1, 86_400)
    .default(SUPPLY_DEFAULTS.expectedSeconds.video)
    .describe('How long a job usually takes.'),
  capability: z.strictObject({ billing_mode: videoBilling, modes: videoModes }),
  prices: prices(videoBilling, videoCondition).nullable().default(null),
})
const imageSupply = z.strictObject({
  ...supplyCommon,
  media: z.literal('image'),
  expected_seconds: whole(1, 86_400)
    .default(SUPPLY_DEFAULTS.expectedSeconds.image)
    .describe('How long a job usually takes.'),
  capability: z.strictObject({ billing_mode: imageBilling.default('per_image'), modes: imageModes }),
  prices: prices(imageBilling, imageCondition).nullable().default(null),
})
const supplyEntry = z.discriminatedUnion('media', [videoSupply, imageSupply])

const seconds = (max: number) => whole(0, max)
const YEAR = 31_536_000

/** Everything is optional: what is missing takes the default of a new policy. */
const policyEntry = z
  .strictObject({
    strategy: z.enum(['stable_first', 'cost_first', 'manual_priority']),
    max_attempts: whole(1, 2).describe('The first, and one change of supply.'),
    retry_window_seconds: whole(1, 1200).describe(
      'No attempt starts later than this after the task was made.',
    ),
    success_min_samples: whole(0, 100),
    assumed_success_rate: ratio('0.000001', '1'),
    stable_cost_multiplier_limit: ratio('1', '1000').nullable(),
    fallback_cost_multiplier: ratio('1', '1000').nullable(),
    absolute_cost_limit: money.nullable().describe('Most that one attempt may cost, in the base currency.'),
    task_cost_limit: money
      .nullable()
      .describe('Most that all attempts of a task may cost, in the base currency.'),
    spill_after_seconds: seconds(YEAR).nullable(),
    degrade_after_seconds: seconds(YEAR).nullable(),
    probe_interval_seconds: seconds(YEAR).nullable(),
    real_person_refusal: z.enum(['stop', 'change_supply']),
  })
  .partial()

const ruleEntry = z.strictObject({
  from_profile: name,
  to_profile: name,
  operations: z
    .array(
      z.discriminatedUnion('op', [
        z.strictObject({
          op: z.literal('drop_inputs'),
          inputs: names('a kind of input'),
        }),
        z
          .strictObject({ op: z.literal('keep_first'), inputs: name, count: whole(0, 1000) })
          .describe('Of one kind of inputs, the first so many in the customer’s order.'),
        z
          .strictObject({ op: z.literal('lower_resolution'), to: name })
          .describe('What is at it already, or below, is left as it is.'),
        z.strictObject({ op: z.literal('drop_generated_audio') }),
      ]),
      { error: 'expected a list of operations' },
    )
    .min(1, { error: 'expected at least one operation' }),
})

const AT_RULE = 'expected a day (2026-11-20) or an instant in UTC (2026-11-20T08:00:00Z)'
const instant = z.string({ error: AT_RULE }).transform((written, context) => {
  const at = parseInstant(/^\d{4}-\d{2}-\d{2}$/.test(written) ? `${written}T00:00:00Z` : written)
  if (at !== null) return printInstant(at)
  context.addIssue({ code: 'custom', message: AT_RULE, input: written })
  return z.NEVER
})

const verified = z
  .strictObject({
    by: z.string().min(1).max(200).describe('Who tried it.'),
    at: instant,
    evidence: z
      .string()
      .min(1)
      .max(MOST_TEXT)
      .describe('What shows it: a link, a ticket, the ID of a test job.'),
    capability: z
      .union([z.literal('current'), z.int().min(1)], {
        error: 'expected "current" or the number of a version',
      })
      .default('current')
      .describe('The version of the capability that was tried; "current" is the one in this file.'),
  })
  .describe('Without it the model cannot be published.')

const bindingEntry = z.strictObject({
  supply: slug('a supply'),
  tier: z.enum(['exact', 'fallback', 'degraded']).default('exact'),
  degradation_rule: slug('a degradation rule').nullable().default(null),
  priority: whole(0, 1_000_000).default(0).describe('Read by manual_priority only; the higher goes first.'),
  verified: verified.nullable().default(null),
})

/** An ID of our own beside an entry, for JSON Schema; keys are judged one by one where a file is read. */
const byId = <T extends z.ZodType>(entry: T) => z.record(z.string().regex(SLUG), entry)

const modelCommon = {
  profile: name.default(MODEL_DEFAULTS.profile).describe('What customers are told they get, such as 933.'),
  description: z.string().max(MOST_TEXT).default(MODEL_DEFAULTS.description),
  degradation: z.enum(['strict', 'best_effort']).default(MODEL_DEFAULTS.degradation),
  emergency_cost_override: z.boolean().default(false),
  allowed_groups: z
    .array(slug('a group'))
    .min(1, { error: 'a model that nobody may use: leave allowed_groups out, or name a group' })
    .nullable()
    .default(null)
    .describe('Groups of customers that may use it; null: all.'),
  policy: slug('a policy'),
  bindings: byId(bindingEntry).default({}),
}

const videoDefaults = z
  .strictObject({
    seconds: whole(1, 86_400),
    resolution: name,
    aspect_ratio: name,
    generate_audio: z.boolean(),
    billing_mode: videoBilling,
  })
  .partial()
const imageDefaults = z.strictObject({ size: name, quality: name, n: whole(1, 1000) }).partial()

const normalCost = <B extends z.ZodType, C extends z.ZodType>(billing: B, condition: C) =>
  z
    .strictObject({ mode: billing, rows: priceRows(condition) })
    .nullable()
    .default(null)
    .describe('What is normal to pay, in the base currency; null: the middle price of the exact supplies.')

const videoModel = z.strictObject({
  ...modelCommon,
  media: z.literal('video'),
  limits: videoModes.describe('What customers may ask for.'),
  defaults: videoDefaults.default({}).describe('Taken where a request says nothing.'),
  normal_cost: normalCost(videoBilling, videoCondition),
  max_run_seconds: whole(1, 86_400)
    .default(MODEL_DEFAULTS.maxRunSeconds)
    .describe('Most time for an accepted job.'),
})
const imageModel = z.strictObject({
  ...modelCommon,
  media: z.literal('image'),
  limits: imageModes.describe('What customers may ask for.'),
  defaults: imageDefaults.default({}).describe('Taken where a request says nothing.'),
  normal_cost: normalCost(imageBilling, imageCondition),
  image_timeout_seconds: whole(1, 3600)
    .default(MODEL_DEFAULTS.imageTimeoutSeconds)
    .describe('Most time for the whole request, a change of supply included.'),
})
const modelEntry = z.discriminatedUnion('media', [videoModel, imageModel])

export const ENTRY = {
  currency,
  rate,
  channel: channelEntry,
  supply: supplyEntry,
  policy: policyEntry,
  rule: ruleEntry,
  model: modelEntry,
  binding: bindingEntry,
} as const

export type ChannelEntry = z.infer<typeof channelEntry>
export type SupplyEntry = z.infer<typeof supplyEntry>
export type PolicyEntry = z.infer<typeof policyEntry>
export type RuleEntry = z.infer<typeof ruleEntry>
export type ModelEntry = z.infer<typeof modelEntry>
export type BindingEntry = z.infer<typeof bindingEntry>
export type PricesEntry = NonNullable<SupplyEntry['prices']>

/** The keys at the top of a file. `anchors` holds whatever is only there to be referred to. */
const wholeFile = z
  .strictObject({
    currency: currency.default('CNY').describe('The base currency: every cost is counted in it.'),
    exchange_rates: z
      .record(currency, rate)
      .default({})
      .describe('What one unit costs in the base currency.'),
    anchors: z.unknown().optional().describe('Not read: a place for YAML anchors.'),
    channels: byId(channelEntry).default({}),
    supplies: byId(supplyEntry).default({}),
    policies: byId(policyEntry).default({}),
    degradation_rules: byId(ruleEntry).default({}),
    models: z.record(z.string().regex(MODEL_ID), modelEntry).default({}),
  })
  .meta({ title: 'Yardmaster catalog', description: 'Channels, supplies, policies and public models.' })

export const TOP_KEYS = Object.keys(wholeFile.shape)

/** JSON Schema of a file as it is written (draft 2020-12), for completion in editors. */
export function catalogJsonSchema(): Record<string, unknown> {
  return { ...z.toJSONSchema(wholeFile, { io: 'input', unrepresentable: 'any' }) }
}
