/** A refusal by the door, as the customer hears it: our parameter's name becomes the field that was sent. */
import type { Modes, NumberRange } from '../../core/catalog.ts'
import type { Release } from '../../core/frozen.ts'
import type { Refusal } from '../../runtime/service.ts'
import { Problem, publicCode } from '../problem.ts'

export interface Asked {
  readonly modelId: string
  /** undefined: never published. */
  readonly release: Release | undefined
  /** Fields that the customer sent. */
  readonly sent: ReadonlySet<string>
}

export function refusalProblem(refusal: Refusal, asked: Asked): Problem {
  switch (refusal.kind) {
    case 'key_reused':
      return new Problem('idempotency_key_reused', { param: 'Idempotency-Key' })
    case 'key_in_flight':
      return new Problem('idempotency_key_in_use', { param: 'Idempotency-Key' })
    case 'rejected':
      return rejectionProblem(refusal, asked)
  }
}

function rejectionProblem(refusal: Extract<Refusal, { kind: 'rejected' }>, asked: Asked): Problem {
  switch (refusal.code) {
    case 'access_denied':
      return new Problem('access_denied', {
        message: `This customer may not use the model ${asked.modelId}.`,
        param: 'model',
      })
    case 'model_not_available':
      return unknownModel(asked.modelId)
    case 'invalid_request':
      return misfitProblem(refusal.param, asked)
    default:
      return new Problem(publicCode(refusal.code))
  }
}

export function unknownModel(modelId: string): Problem {
  return new Problem('model_not_available', {
    param: 'model',
    message: `The model ${JSON.stringify(modelId)} does not exist or is not available. GET /v1/models lists those that are.`,
  })
}

function misfitProblem(param: string | null, asked: Asked): Problem {
  const field = fieldOf(param, asked.sent)
  const allowed = asked.release && param !== null ? allowedText(param, asked.release.limits) : null
  const what = param === 'inputs' ? 'this combination of inputs' : `this ${field ?? 'request'}`
  const message = `The model ${asked.modelId} does not take ${what}${allowed === null ? '' : `; it takes ${allowed}`}.`
  return new Problem('invalid_request', { param: field, message })
}

const INPUT_FIELDS = [
  'input_reference',
  'first_frame',
  'last_frame',
  'reference_images',
  'reference_videos',
  'reference_audios',
]

function fieldOf(param: string | null, sent: ReadonlySet<string>): string | null {
  switch (param) {
    case 'duration_seconds':
      return 'seconds'
    case 'resolution':
    case 'aspect_ratio':
      return sent.has('size') ? 'size' : param
    case 'count':
      return 'n'
    case 'media':
      return 'model'
    case 'inputs': {
      const inputs = INPUT_FIELDS.filter((field) => sent.has(field))
      return inputs.length === 1 ? (inputs[0] ?? param) : param
    }
    default:
      return param
  }
}

/** What the model takes of that parameter, over all its modes. */
function allowedText(param: string, limits: Modes): string | null {
  if (param === 'media') return `${limits.media} requests only`
  const texts =
    limits.media === 'video'
      ? limits.modes.map((mode) => videoText(param, mode))
      : limits.modes.map((mode) => imageText(param, mode))
  const known = [...new Set(texts.filter((text) => text !== ''))]
  return known.length === 0 ? null : known.join('; or ')
}

type VideoModeOf = Extract<Modes, { media: 'video' }>['modes'][number]
type ImageModeOf = Extract<Modes, { media: 'image' }>['modes'][number]

function videoText(param: string, mode: VideoModeOf): string {
  switch (param) {
    case 'duration_seconds':
      return `${rangeText(mode.durationSeconds)} seconds`
    case 'resolution':
      return mode.resolutions.join(', ')
    case 'aspect_ratio':
      return mode.aspectRatios.join(', ')
    case 'generate_audio':
      return mode.generateAudio ? 'sound' : 'no sound'
    default:
      return inputsText(mode.inputs)
  }
}

function imageText(param: string, mode: ImageModeOf): string {
  switch (param) {
    case 'size':
      return mode.sizes.join(', ')
    case 'quality':
      return mode.qualities.join(', ')
    case 'count':
      return rangeText(mode.count)
    default:
      return inputsText(mode.inputs)
  }
}

function inputsText(inputs: Readonly<Record<string, NumberRange>>): string {
  const kinds = Object.entries(inputs).map(([kind, range]) => `${kind} ${rangeText(range)}`)
  return kinds.length === 0 ? 'no inputs' : kinds.join(', ')
}

export function rangeText(range: NumberRange): string {
  if (range.kind === 'values') return range.values.join(', ')
  if (range.min === range.max && range.min !== undefined) return String(range.min)
  if (range.min === undefined) return range.max === undefined ? 'any number' : `up to ${range.max}`
  return range.max === undefined ? `${range.min} or more` : `${range.min} to ${range.max}`
}
