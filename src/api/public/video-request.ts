/** POST /v1/videos, as the SDK sends it (a form) or as JSON: from fields to the facts that a decision reads. */
import { z } from 'zod'
import type { Release } from '../../core/frozen.ts'
import type { VideoFacts } from '../../core/request.ts'
import type { Body } from '../body/read-body.ts'
import { LIMITS } from '../limits.ts'
import { invalid } from '../problem.ts'
import { type FieldRules, parseFields } from './fields.ts'
import { VIDEO_INPUTS } from './inputs.ts'
import { frameOfSize } from './size.ts'

const word = z.string().regex(/^[A-Za-z0-9:._-]{1,32}$/, 'must be 1 to 32 letters, digits, and ": . _ -"')

/** Accepted and not used: they say who the customer's own user is. */
export const USER_FIELDS = {
  user: z.string().max(512).optional().describe('Accepted and not used.'),
  safety_identifier: z.string().max(512).optional().describe('Accepted and not used.'),
}

export const PROMPT = z
  .string()
  .min(1, 'must not be empty')
  .max(LIMITS.promptCharacters)
  .describe('What to generate.')
export const MODEL = z
  .string()
  .min(1, 'must not be empty')
  .max(LIMITS.modelCharacters)
  .describe('A public model, as GET /v1/models lists it.')
export const DEGRADATION = z
  .enum(['strict', 'best_effort'])
  .describe('strict: never deliver less than was asked for. Strict wins, whichever side says it.')

export const videoFields = z.strictObject({
  prompt: PROMPT,
  model: MODEL,
  seconds: z
    .union(
      [
        z.int(),
        z
          .string()
          .regex(/^(0|[1-9]\d{0,5})$/, 'must be a whole number of seconds')
          .transform(Number),
      ],
      {
        error: 'must be a whole number of seconds, such as 5 or "5"',
      },
    )
    .pipe(z.int().min(1).max(LIMITS.durationSeconds))
    .optional()
    .describe('Length of the video in whole seconds, as a number or text.'),
  size: z
    .string()
    .max(16)
    .optional()
    .describe('Width x height, such as 1280x720; the same as resolution and aspect_ratio together.'),
  resolution: word.optional().describe('Such as 720p.'),
  aspect_ratio: word.optional().describe('Such as 16:9.'),
  generate_audio: z.boolean().optional().describe('Whether the video has sound.'),
  billing_mode: z
    .enum(['per_second', 'per_request'])
    .optional()
    .describe('per_second where nothing is said.'),
  degradation: DEGRADATION.optional(),
  real_person: z
    .boolean()
    .optional()
    .describe('Whether the inputs show a real person. False where nothing is said.'),
  ...USER_FIELDS,
})

export type VideoFields = z.output<typeof videoFields>

const RULES: FieldRules<typeof videoFields> = {
  schema: videoFields,
  apart: [...VIDEO_INPUTS.map((input) => input.field), 'metadata'],
  booleans: ['generate_audio', 'real_person'],
  integers: [],
  unsupported: new Map([
    ['n', 'each request makes one video.'],
    ['duration', 'the length is given as seconds.'],
    ['duration_seconds', 'the length is given as seconds.'],
    ['remix_video_id', 'remixes are not made.'],
    ['characters', 'characters are not kept here; use reference_images.'],
  ]),
}

export function parseVideoFields(body: Body): VideoFields {
  return parseFields(body, RULES)
}

/** Fields that were left out come from the model (CUS-5). Throws Problem `invalid_request`. */
export function videoFacts(
  fields: VideoFields,
  release: Release,
  inputs: Record<string, number>,
): VideoFacts {
  const { defaults } = release
  return {
    media: 'video',
    billingMode: fields.billing_mode ?? billingDefault(defaults.billing_mode),
    degradation: fields.degradation ?? null,
    realPerson: fields.real_person ?? false,
    durationSeconds: fields.seconds ?? numberOf(defaults.seconds) ?? required('seconds', release),
    ...frame(fields, release),
    generateAudio: fields.generate_audio ?? defaults.generate_audio === true,
    inputs,
  }
}

function billingDefault(value: unknown): VideoFacts['billingMode'] {
  return value === 'per_request' || value === 'per_second' ? value : null
}

function frame(fields: VideoFields, release: Release): Pick<VideoFacts, 'resolution' | 'aspectRatio'> {
  const { defaults } = release
  if (fields.size === undefined)
    return {
      resolution: fields.resolution ?? textOf(defaults.resolution) ?? required('resolution', release),
      aspectRatio: fields.aspect_ratio ?? textOf(defaults.aspect_ratio) ?? required('aspect_ratio', release),
    }
  const sized = frameOfSize(fields.size)
  refuseContradiction('resolution', { size: fields.size, sized: sized.resolution, given: fields.resolution })
  refuseContradiction('aspect_ratio', {
    size: fields.size,
    sized: sized.aspectRatio,
    given: fields.aspect_ratio,
  })
  return sized
}

function refuseContradiction(
  field: string,
  of: { size: string; sized: string; given: string | undefined },
): void {
  if (of.given === undefined || of.given === of.sized) return
  throw invalid(
    field,
    `${field} ${of.given} contradicts size ${of.size}, which is ${of.sized}. Give one of them.`,
  )
}

export function required(field: string, release: Release): never {
  throw invalid(field, `${field} is required: the model ${release.modelId} has no default for it.`)
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
