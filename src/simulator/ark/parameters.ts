// The other parameters of an Ark video request. In the body they are strongly validated; the old way of
// writing them behind the text (`--rs 720p --dur 5`) is weakly validated, so a bad value there is ignored.

import { isRecord } from '../fields.ts'
import { type ArkProblem, invalid, unsupported } from './errors.ts'
import { type Family, RATIOS } from './families.ts'

export type Parameters = {
  resolution: string
  ratio: string
  seconds: number
  generateAudio: boolean
  returnLastFrame: boolean
  callbackUrl: string | null
  safetyIdentifier: string | null
  serviceTier: string
  draft: boolean
  seed: number
  expiresAfterS: number
}

type Check = (value: unknown) => string | undefined

const FRAMES_PER_SECOND = 24
const DEFAULT_SECONDS = 5

const oneOf =
  (...allowed: string[]): Check =>
  (value) =>
    typeof value === 'string' && allowed.includes(value) ? undefined : `expected ${allowed.join(', ')}`
const whole =
  (least: number, most: number): Check =>
  (value) =>
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
      ? undefined
      : `expected a whole number from ${least} to ${most}`
const flag: Check = (value) => (typeof value === 'boolean' ? undefined : 'expected true or false')
const words =
  (most: number): Check =>
  (value) =>
    typeof value === 'string' && value.length <= most ? undefined : `expected a string of at most ${most}`
const address: Check = (value) =>
  typeof value === 'string' && /^https?:\/\/./.test(value) ? undefined : 'expected an http(s) address'
const anything: Check = () => undefined

function checks(family: Family): Record<string, Check> {
  const [least, most] = family.seconds
  const seconds = whole(least, most)
  return {
    model: anything,
    content: anything,
    resolution: oneOf(...family.resolutions),
    ratio: oneOf(...RATIOS),
    duration: (value) => (family.ownDuration && value === -1 ? undefined : seconds(value)),
    frames: whole(25, 29 + most * FRAMES_PER_SECOND),
    seed: whole(-1, 2 ** 32 - 1),
    camera_fixed: flag,
    watermark: flag,
    generate_audio: flag,
    return_last_frame: flag,
    draft: flag,
    service_tier: oneOf('default', 'flex'),
    priority: whole(0, 9),
    execution_expires_after: whole(3600, 259_200),
    callback_url: address,
    safety_identifier: words(64),
    tools: (value) => (Array.isArray(value) ? undefined : 'expected an array'),
    subdivision_level: words(64),
    file_format: words(64),
    optimize_prompt: anything,
    reasoning_effort: words(64),
    human_face_mode: words(64),
    omni_reference_task_type: oneOf('auto', 'reference', 'edit', 'extend'),
    output_format: oneOf('mp4', 'mov'),
  }
}

/** Reads the parameters beside model and content, or says which is wrong. */
export function readParameters(
  body: Record<string, unknown>,
  prompt: string,
  { family, model }: { family: Family; model: string },
): Parameters | ArkProblem {
  const known = checks(family)
  for (const [name, value] of Object.entries(body)) {
    const check = known[name]
    if (check === undefined) return unsupported(name, model)
    if (value === null || value === undefined) continue
    if (family.refuses.includes(name)) return invalid(name, `not supported by ${model}`)
    const wrong = check(value)
    if (wrong !== undefined) return invalid(name, wrong)
  }
  if (isSet(body.duration) && isSet(body.frames)) return invalid('frames', 'cannot be given with duration')
  return collect({ ...suffix(prompt, known), ...body })
}

const isSet = (value: unknown) => value !== undefined && value !== null

// A bad value behind the text is dropped here and the default holds.
function suffix(prompt: string, known: Record<string, Check>): Record<string, unknown> {
  const names: Record<string, string> = { rs: 'resolution', rt: 'ratio', dur: 'duration' }
  const found: Record<string, unknown> = {}
  for (const [, short = '', word = ''] of prompt.matchAll(/--(rs|rt|dur)\s+(\S+)/g)) {
    const name = names[short] ?? short
    const value = name === 'duration' ? Number(word) : word
    if (known[name]?.(value) === undefined) found[name] = value
  }
  return found
}

function collect(given: Record<string, unknown>): Parameters {
  const text = (name: string) => (typeof given[name] === 'string' ? given[name] : null)
  const number = (name: string) => (typeof given[name] === 'number' ? given[name] : null)
  const frames = number('frames')
  const duration = frames === null ? number('duration') : frames / FRAMES_PER_SECOND
  return {
    resolution: text('resolution') ?? '720p',
    ratio: text('ratio') ?? 'adaptive',
    seconds: duration === null || duration === -1 ? DEFAULT_SECONDS : duration,
    generateAudio: given.generate_audio !== false,
    returnLastFrame: given.return_last_frame === true,
    callbackUrl: text('callback_url'),
    safetyIdentifier: text('safety_identifier'),
    serviceTier: text('service_tier') ?? 'default',
    draft: given.draft === true,
    seed: number('seed') ?? -1,
    expiresAfterS: number('execution_expires_after') ?? 172_800,
  }
}

/** Whether a value is an object with these parameters rather than a problem. */
export function isProblem(value: object): value is ArkProblem {
  return isRecord(value) && 'code' in value && 'status' in value
}
