/** POST /v1/images/generations: from fields to the facts that a decision reads. */
import { z } from 'zod'
import type { Release } from '../../core/frozen.ts'
import type { ImageFacts } from '../../core/request.ts'
import type { Body } from '../body/read-body.ts'
import { LIMITS } from '../limits.ts'
import { type FieldRules, parseFields } from './fields.ts'
import { IMAGE_INPUTS } from './inputs.ts'
import { DEGRADATION, MODEL, numberOf, PROMPT, required, textOf, USER_FIELDS } from './video-request.ts'

export const imageFields = z.strictObject({
  prompt: PROMPT,
  model: MODEL,
  n: z.int().min(1).max(LIMITS.images).optional().describe('How many images.'),
  size: z
    .string()
    .regex(/^([A-Za-z0-9:._-]{1,32})$/, 'must be like "1024x1024", or a size that the model names')
    .optional()
    .describe('Width x height, or a size that the model names; auto means the model’s default.'),
  quality: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,32}$/, 'must be a quality that the model names')
    .optional()
    .describe('A quality that the model names; auto leaves it to the supplier.'),
  response_format: z
    .enum(['b64_json', 'url'])
    .optional()
    .describe('b64_json where nothing is said; url gives signed links that expire.'),
  degradation: DEGRADATION.optional(),
  background: z.literal('auto', 'only "auto" is supported').optional().describe('Only auto.'),
  moderation: z
    .enum(['auto', 'low'])
    .optional()
    .describe('Accepted and not used: what is checked is the supplier’s matter.'),
  stream: z.literal(false, 'streaming is not supported').optional().describe('Only false.'),
  partial_images: z.literal(0, 'streaming is not supported').optional().describe('Only 0.'),
  ...USER_FIELDS,
})

export type ImageFields = z.output<typeof imageFields>

const RULES: FieldRules<typeof imageFields> = {
  schema: imageFields,
  apart: [...IMAGE_INPUTS.map((input) => input.field), 'metadata'],
  booleans: ['stream'],
  integers: ['n', 'partial_images'],
  unsupported: new Map([
    ['output_format', 'images come in the format that the model makes; the answer names it.'],
    ['output_compression', 'images come as the model makes them.'],
    ['style', 'describe the style in the prompt.'],
    ['image', 'edits are not made here; use reference_images.'],
    ['mask', 'edits are not made here.'],
  ]),
}

export function parseImageFields(body: Body): ImageFields {
  return parseFields(body, RULES)
}

/** Fields that were left out come from the model (CUS-5). Throws Problem `invalid_request`. */
export function imageFacts(
  fields: ImageFields,
  release: Release,
  inputs: Record<string, number>,
): ImageFacts {
  const { defaults } = release
  return {
    media: 'image',
    billingMode: null,
    degradation: fields.degradation ?? null,
    size: unlessAuto(fields.size) ?? textOf(defaults.size) ?? required('size', release),
    quality:
      unlessAuto(fields.quality) ?? (fields.quality === 'auto' ? null : (textOf(defaults.quality) ?? null)),
    count: fields.n ?? numberOf(defaults.n) ?? 1,
    inputs,
  }
}

function unlessAuto(value: string | undefined): string | undefined {
  return value === 'auto' ? undefined : value
}
