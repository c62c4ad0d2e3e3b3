/** POST /v1/images/generations, and the signed links to what it made. */
import { buffer } from 'node:stream/consumers'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { ImageAnswer } from '../../runtime/service.ts'
import {
  findLinkedOutput,
  findTask,
  listOutputs,
  type OutputView,
  type TaskView,
} from '../../store/api-reads.ts'
import { readBody } from '../body/read-body.ts'
import { type Spool, withSpool } from '../body/spool.ts'
import { markRunning } from '../errors.ts'
import { explainCode, Problem, publicCode } from '../problem.ts'
import { sendAsset } from './content.ts'
import { deliveryOf, deliveryShape, unixSeconds } from './delivery.ts'
import type { PublicDeps } from './deps.ts'
import { parseMetadata } from './fields.ts'
import { identify } from './identity.ts'
import { imageFacts, parseImageFields } from './image-request.ts'
import { checkInputs, countsOf, IMAGE_INPUTS, identityOf, keepInputs, keeping } from './inputs.ts'
import { type Asked, refusalProblem, unknownModel } from './refusal.ts'
import { createImage } from './schemas.ts'
import { publicId, uuidOfHex } from './task-id.ts'

const ENDPOINT = 'POST /v1/images/generations'

const imagesObject = z
  .object({
    id: z.string(),
    created: z.int(),
    data: z.array(z.object({ b64_json: z.string().optional(), url: z.string().optional() })),
    size: z.string(),
    quality: z.string().optional(),
    output_format: z.string().optional(),
    failed: z
      .array(z.object({ index: z.int(), code: z.string(), message: z.string() }))
      .optional()
      .describe('Images of the batch that could not be made. They are not billed.'),
    ...deliveryShape,
  })
  .meta({ id: 'Images' })

type ImagesObject = z.output<typeof imagesObject>

export function imageRoutes(app: FastifyInstance, deps: PublicDeps): void {
  app.post(
    '/images/generations',
    {
      validatorCompiler: () => (value) => ({ value }),
      schema: {
        summary: 'Make images',
        tags: ['Images'],
        consumes: ['application/json', 'multipart/form-data'],
        body: createImage,
        response: { 200: imagesObject },
      },
    },
    (request) => withSpool(deps.spoolDirectory, (spool) => generate(request, spool, deps)),
  )
}

/** A client that hangs up does not stop the work: nothing here waits for its socket (CUS-5). */
async function generate(request: FastifyRequest, spool: Spool, deps: PublicDeps): Promise<ImagesObject> {
  const body = await readBody(request, spool)
  const fields = parseImageFields(body)
  const metadata = parseMetadata(body.fields.metadata)
  const inputs = await checkInputs(body, IMAGE_INPUTS, spool)
  const payload = { endpoint: ENDPOINT, fields, metadata, inputs: identityOf(inputs) }
  const identity = identify(request.headers, payload)
  const release = await deps.models.find(fields.model)
  if (release === undefined) throw unknownModel(fields.model)
  const { caller, id: requestId } = request
  const kept = await keepInputs(inputs, keeping(deps))
  const incoming = {
    caller,
    modelId: fields.model,
    facts: imageFacts(fields, release, countsOf(inputs)),
    content: {
      prompt: fields.prompt,
      inputs: kept,
      metadata,
      echo: { response_format: fields.response_format ?? 'b64_json' },
    },
    requestId,
    ...identity,
  }
  const answer = await deps.dispatching.runImage(incoming, () => markRunning(request))
  const sent = new Set(Object.keys(body.fields))
  const taskId = finishedTask(answer, { modelId: fields.model, release, sent })
  return answerOf(request, { taskId, asLinks: fields.response_format === 'url' }, deps)
}

function finishedTask(answer: ImageAnswer, asked: Asked): string {
  switch (answer.kind) {
    case 'finished':
      return answer.taskId
    case 'wait':
      throw new Problem(answer.reason === 'capacity' ? 'capacity' : 'temporarily_unavailable', {
        retryAfterSeconds: answer.retryAfterSeconds,
      })
    case 'failed':
      throw new Problem(publicCode(answer.code), { submitted: answer.submitted })
    default:
      throw refusalProblem(answer, asked)
  }
}

interface Finished {
  readonly taskId: string
  readonly asLinks: boolean
}

async function answerOf(
  request: FastifyRequest,
  finished: Finished,
  deps: PublicDeps,
): Promise<ImagesObject> {
  const { customerId } = request.caller
  const task = await findTask(deps.sql, { taskId: finished.taskId, customerId, kind: 'image' })
  // Made, and paid for: a repeat would be paid for again.
  if (task === undefined) throw new Problem('result_expired', { submitted: true })
  const outputs = await listOutputs(deps.sql, task.id)
  const made = outputs.filter((output) => output.digest !== null)
  const data: ImagesObject['data'] = []
  for (const output of made)
    data.push(
      finished.asLinks
        ? { url: linkTo(request, { task, output }, deps) }
        : { b64_json: await base64Of(output, deps) },
    )
  const failed = outputs.filter((output) => output.error !== null).map(failedPlace)
  const { size, quality } = task.facts
  const format = made[0]?.contentType?.replace('image/', '')
  return {
    id: publicId('image', task.id),
    created: unixSeconds(task.endedAt ?? task.createdAt),
    data,
    size: size ?? '',
    ...(quality == null ? {} : { quality }),
    ...(format === undefined ? {} : { output_format: format }),
    ...(failed.length === 0 ? {} : { failed }),
    ...deliveryOf(task),
  }
}

function failedPlace(output: OutputView): { index: number; code: string; message: string } {
  const stored = output.error?.code
  return { index: output.place, ...explainCode(typeof stored === 'string' ? stored : 'generation_failed') }
}

async function base64Of(output: OutputView, deps: PublicDeps): Promise<string> {
  const opened = output.digest === null ? null : await deps.assets.open(output.digest)
  if (opened === null) throw new Problem('result_expired', { submitted: true })
  return (await buffer(opened.stream)).toString('base64')
}

function linkTo(
  request: FastifyRequest,
  to: { task: TaskView; output: OutputView },
  deps: PublicDeps,
): string {
  const expires = Math.floor(Date.now() / 1000) + deps.linkSeconds
  const path = deps.links.path({ taskId: to.task.id, place: to.output.place, expires })
  return (deps.publicUrl ?? `${request.protocol}://${request.host}`) + path
}

const linkParams = z.object({ task: z.string(), place: z.string() })
const linkQuery = z.object({ expires: z.string().optional(), signature: z.string().optional() })

/** Needs no key: the link's signature stands for it. */
export function linkRoutes(app: FastifyInstance, deps: PublicDeps): void {
  app.route<{ Params: z.output<typeof linkParams>; Querystring: z.output<typeof linkQuery> }>({
    method: ['GET', 'HEAD'],
    url: '/assets/:task/:place',
    schema: {
      summary: 'Fetch an image by its signed link',
      tags: ['Images'],
      params: linkParams,
      querystring: linkQuery,
      security: [],
    },
    handler: (request, reply) => followLink(request, reply, deps),
  })
}

async function followLink(
  request: FastifyRequest<{ Params: z.output<typeof linkParams>; Querystring: z.output<typeof linkQuery> }>,
  reply: FastifyReply,
  deps: PublicDeps,
): Promise<FastifyReply> {
  const { task, place } = request.params
  const { expires, signature } = request.query
  if (!/^[0-9a-f]{32}$/.test(task) || !/^\d{1,4}$/.test(place) || !/^\d{1,12}$/.test(expires ?? ''))
    throw new Problem('link_refused')
  const target = { taskId: uuidOfHex(task), place: Number(place), expires: Number(expires) }
  if (!deps.links.isSignedFor(signature ?? '', target)) throw new Problem('link_refused')
  if (target.expires * 1000 <= Date.now())
    throw new Problem('link_refused', {
      message: 'The link has expired. Links are good for a limited time only.',
    })
  const output = await findLinkedOutput(deps.sql, target.taskId, target.place)
  if (!output?.digest) throw new Problem('result_expired')
  return sendAsset(
    { request, reply, assets: deps.assets },
    { digest: output.digest, name: `image_${task}_${place}` },
  )
}
