// Seedream: pictures in the answer to the request. A picture of a batch that fails is named inside the 200.

import { type Answer, json } from '../answer.ts'
import { pictureOf, signedUrl } from '../artefact.ts'
import type { Exchange } from '../exchange.ts'
import { isRecord } from '../fields.ts'
import type { Job } from '../job.ts'
import { acceptPictures, whenDone } from '../sync-image.ts'
import { type ArkProblem, arkError, arkNamed, invalid, missing, unsupported } from './errors.ts'
import { isProblem } from './parameters.ts'

type Asked = {
  model: string
  prompt: string
  count: number
  width: number
  height: number
  format: 'png' | 'jpeg'
  inline: boolean
}

const NAMED_SIZES: Record<string, number> = { '1K': 1024, '2K': 2048, '3K': 3072, '4K': 4096, auto: 2048 }
const MOST_PICTURES = 15
const LONGEST_SIDE = 16_384
const MOST_PIXELS = 4096 * 4096
const KNOWN = [
  'model',
  'prompt',
  'image',
  'size',
  'seed',
  'guidance_scale',
  'watermark',
  'output_format',
  'response_format',
  'sequential_image_generation',
  'sequential_image_generation_options',
  'optimize_prompt',
  'optimize_prompt_options',
  'tools',
  'stream',
  'layer_decomposition',
  'safety_identifier',
]

export async function createImages(exchange: Exchange): Promise<Answer> {
  const { world, body, requestId } = exchange
  if (body.kind !== 'fields')
    return arkError(invalid('body', body.kind === 'invalid' ? body.problem : 'empty'), requestId)
  const asked = readRequest(body.fields)
  if (isProblem(asked)) return arkError(asked, requestId)
  if (!world.configuration.knows('ark', exchange.account, asked.model))
    return arkNamed('model_missing', requestId)
  const job = acceptPictures(exchange, asked)
  if (job === 'full') return arkNamed('concurrency', requestId)
  return whenDone(exchange, job, () => answer(exchange, job, asked))
}

function readRequest(body: Record<string, unknown>): Asked | ArkProblem {
  const { model, prompt } = body
  if (typeof model !== 'string' || model === '') return missing('model')
  if (typeof prompt !== 'string' || prompt.trim() === '') return missing('prompt')
  const unknown = Object.keys(body).find((name) => !KNOWN.includes(name))
  if (unknown !== undefined) return unsupported(unknown, model)
  if (body.stream === true) return unsupported('stream', model)
  const size = readSize(body.size ?? '2K')
  if (isProblem(size)) return size
  const format = body.output_format ?? 'jpeg'
  if (format !== 'jpeg' && format !== 'png') return invalid('output_format', 'expected jpeg or png')
  const response = body.response_format ?? 'url'
  if (response !== 'url' && response !== 'b64_json')
    return invalid('response_format', 'expected url or b64_json')
  const count = readCount(body)
  if (typeof count !== 'number') return count
  return { model, prompt, count, ...size, format, inline: response === 'b64_json' }
}

function readSize(value: unknown): { width: number; height: number } | ArkProblem {
  const side = typeof value === 'string' ? NAMED_SIZES[value] : undefined
  if (side !== undefined) return { width: side, height: side }
  const [, w, h] = (typeof value === 'string' ? /^(\d{1,5})x(\d{1,5})$/.exec(value) : null) ?? []
  const [width, height] = [Number(w), Number(h)]
  if (w === undefined || !(width >= 1 && height >= 1))
    return invalid('size', 'expected 1K, 2K, 4K, auto or <width>x<height>')
  if (width > LONGEST_SIDE || height > LONGEST_SIDE || width * height > MOST_PIXELS)
    return invalid('size', `at most ${MOST_PIXELS} pixels`)
  if (Math.max(width / height, height / width) > 16) return invalid('size', 'ratio from 1:16 to 16:1')
  return { width, height }
}

function readCount(body: Record<string, unknown>): number | ArkProblem {
  const images = body.image === undefined ? [] : [body.image].flat()
  if (!images.every((image) => typeof image === 'string' && /^(https?:|data:image\/)/.test(image)))
    return invalid('image', 'expected addresses or data URLs of images')
  if (images.length > 14) return invalid('image', 'at most 14 images')
  const mode = body.sequential_image_generation ?? 'disabled'
  if (mode !== 'auto' && mode !== 'disabled')
    return invalid('sequential_image_generation', 'expected auto or disabled')
  if (mode === 'disabled') return 1
  const options = body.sequential_image_generation_options
  const count = isRecord(options) ? (options.max_images ?? MOST_PICTURES) : MOST_PICTURES
  if (!Number.isInteger(count) || Number(count) < 1 || Number(count) + images.length > MOST_PICTURES)
    return invalid(
      'sequential_image_generation_options.max_images',
      'expected 1 to 15, with the input images',
    )
  return Number(count)
}

function answer(exchange: Exchange, job: Job, asked: Asked): Answer {
  const { effect, world } = exchange
  const good = Math.max(0, asked.count - (effect.failedPictures ?? 0))
  const data = Array.from({ length: asked.count }, (_, i) =>
    i < good ? picture(exchange, job, i, asked) : { error: effect.pictureError },
  )
  return json(200, {
    model: asked.model,
    created: Math.floor(world.clock.now() / 1000),
    data,
    usage: { generated_images: good, output_tokens: job.tokens, total_tokens: job.tokens },
  })
}

function picture(exchange: Exchange, job: Job, index: number, asked: Asked): Record<string, unknown> {
  const { width, height } = { ...asked, ...job.plan.artefact }
  const size = `${width}x${height}`
  if (asked.inline)
    return {
      b64_json: pictureOf(job, index, { width, height, format: asked.format }).toString('base64'),
      size,
    }
  if (job.plan.withoutUrl === true) return { size }
  return { url: signedUrl(exchange.world, job, `${index}-${size}.${asked.format}`), size }
}
