// OpenAI's pictures, in the answer to the request.

import { type Answer, json } from '../answer.ts'
import { pictureOf, signedUrl } from '../artefact.ts'
import type { Exchange } from '../exchange.ts'
import type { Job } from '../job.ts'
import { acceptPictures, whenDone } from '../sync-image.ts'
import {
  invalidValue,
  isOpenAiProblem,
  missingField,
  type OpenAiProblem,
  openAiError,
  openAiNamed,
} from './errors.ts'

type Asked = {
  model: string
  prompt: string
  count: number
  width: number
  height: number
  size: string
  format: 'png' | 'jpeg' | 'webp'
  inline: boolean
}

const DEFAULT_MODEL = 'gpt-image-2'
const LONGEST_PROMPT = 32_000
const LONGEST_SIDE = 4096

export async function createImages(exchange: Exchange): Promise<Answer> {
  const asked = readRequest(exchange)
  if (isOpenAiProblem(asked)) return openAiError(asked)
  const { world, account } = exchange
  if (!world.configuration.knows('openai', account, asked.model)) return openAiNamed('model_missing')
  const job = acceptPictures(exchange, asked)
  if (job === 'full') return openAiNamed('concurrency')
  return whenDone(exchange, job, () => answer(exchange, job, asked))
}

function readRequest({ body }: Exchange): Asked | OpenAiProblem {
  if (body.kind === 'invalid')
    return { ...invalidValue('', `We could not parse your body: ${body.problem}`), code: null }
  const fields = body.kind === 'fields' ? body.fields : {}
  const { prompt } = fields
  if (prompt === undefined || prompt === '') return missingField('prompt')
  if (typeof prompt !== 'string')
    return invalidValue('prompt', "Invalid type for 'prompt': expected a string.")
  if (prompt.length > LONGEST_PROMPT)
    return invalidValue('prompt', `Invalid 'prompt': at most ${LONGEST_PROMPT}.`)
  const model = fields.model ?? DEFAULT_MODEL
  if (typeof model !== 'string' || model === '') return invalidValue('model', "Invalid 'model'.")
  const count = fields.n ?? 1
  if (!Number.isInteger(count) || Number(count) < 1 || Number(count) > 10)
    return invalidValue('n', "Invalid 'n': expected 1 to 10.")
  const size = fields.size === undefined || fields.size === 'auto' ? '1024x1024' : fields.size
  const [, w, h] = /^(\d{1,4})x(\d{1,4})$/.exec(String(size)) ?? []
  const [width, height] = [Number(w), Number(h)]
  if (!(width >= 16 && height >= 16 && width <= LONGEST_SIDE && height <= LONGEST_SIDE))
    return invalidValue('size', `Invalid value: '${size}'. Expected auto or <width>x<height>.`)
  if (model.startsWith('gpt-image-') && sizeIsOdd(width, height))
    return invalidValue('size', `Invalid value: '${size}'. Sides are multiples of 16, from 1:3 to 3:1.`)
  const format = fields.output_format ?? 'png'
  if (format !== 'png' && format !== 'jpeg' && format !== 'webp')
    return invalidValue('output_format', `Invalid value: '${format}'. Supported: png, jpeg, webp.`)
  const response = fields.response_format ?? 'b64_json'
  if (response !== 'url' && response !== 'b64_json')
    return invalidValue('response_format', `Invalid value: '${response}'. Supported: url, b64_json.`)
  return {
    model,
    prompt,
    count: Number(count),
    width,
    height,
    size: String(size),
    format,
    inline: response === 'b64_json',
  }
}

function sizeIsOdd(width: number, height: number): boolean {
  return width % 16 !== 0 || height % 16 !== 0 || width > 3 * height || height > 3 * width
}

function answer(exchange: Exchange, job: Job, asked: Asked): Answer {
  const { effect, world } = exchange
  const good = Math.max(0, asked.count - (effect.failedPictures ?? 0))
  if (good === 0) return openAiNamed('content_refused')
  const inputTokens = Math.ceil(asked.prompt.length / 4)
  return json(200, {
    created: Math.floor(world.clock.now() / 1000),
    data: Array.from({ length: good }, (_, i) => picture(exchange, job, i, asked)),
    size: asked.size,
    quality: 'medium',
    output_format: asked.format,
    background: 'opaque',
    usage: {
      input_tokens: inputTokens,
      output_tokens: job.tokens,
      total_tokens: inputTokens + job.tokens,
      input_tokens_details: { text_tokens: inputTokens, image_tokens: 0 },
    },
  })
}

function picture(exchange: Exchange, job: Job, index: number, asked: Asked): Record<string, unknown> {
  const { width, height } = { ...asked, ...job.plan.artefact }
  if (asked.inline)
    return { b64_json: pictureOf(job, index, { width, height, format: asked.format }).toString('base64') }
  if (job.plan.withoutUrl === true) return {}
  return { url: signedUrl(exchange.world, job, `${index}-${width}x${height}.${asked.format}`) }
}
