/** /v1/videos: create, look, list, delete, download. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Caller, CancelAnswer } from '../../runtime/service.ts'
import { findTask, hideTask, listOutputs, listTasks, type TaskView } from '../../store/api-reads.ts'
import { readBody } from '../body/read-body.ts'
import { type Spool, withSpool } from '../body/spool.ts'
import { invalid, Problem } from '../problem.ts'
import { sendAsset } from './content.ts'
import type { PublicDeps } from './deps.ts'
import { parseMetadata } from './fields.ts'
import { identify } from './identity.ts'
import { checkInputs, countsOf, identityOf, keepInputs, keeping, VIDEO_INPUTS } from './inputs.ts'
import { refusalProblem, unknownModel } from './refusal.ts'
import { createVideo, deletedVideo, videoListQuery, videoPage } from './schemas.ts'
import { publicId, taskIdOf } from './task-id.ts'
import { toVideo, videoObject } from './video-object.ts'
import { parseVideoFields, videoFacts } from './video-request.ts'

const ENDPOINT = 'POST /v1/videos'
const params = z.object({ id: z.string() })
const contentQuery = z.object({ variant: z.string().optional() })

export function videoRoutes(app: FastifyInstance, deps: PublicDeps): void {
  app.post(
    '/videos',
    {
      // The body is a stream here; what it holds is checked by the very schema that is documented.
      validatorCompiler: () => (value) => ({ value }),
      schema: {
        summary: 'Ask for a video',
        tags: ['Videos'],
        consumes: ['application/json', 'multipart/form-data'],
        body: createVideo,
        response: { 200: videoObject },
      },
    },
    (request) => withSpool(deps.spoolDirectory, async (spool) => toVideo(await create(request, spool, deps))),
  )
  app.get(
    '/videos',
    {
      schema: {
        summary: 'List one’s videos',
        tags: ['Videos'],
        querystring: videoListQuery,
        response: { 200: videoPage },
      },
    },
    (request) => list(request, deps),
  )
  app.get<{ Params: z.output<typeof params> }>(
    '/videos/:id',
    { schema: { summary: 'Look at a video', tags: ['Videos'], params, response: { 200: videoObject } } },
    async (request) => toVideo(await videoOf(request.caller, request.params.id, deps)),
  )
  app.delete<{ Params: z.output<typeof params> }>(
    '/videos/:id',
    {
      schema: {
        summary: 'Cancel or remove a video',
        tags: ['Videos'],
        params,
        response: { 200: deletedVideo },
      },
    },
    (request) => remove(request.caller, request.params.id, deps),
  )
  app.route<{ Params: z.output<typeof params>; Querystring: z.output<typeof contentQuery> }>({
    method: ['GET', 'HEAD'],
    url: '/videos/:id/content',
    schema: { summary: 'Download a finished video', tags: ['Videos'], params, querystring: contentQuery },
    handler: (request, reply) => content(request, reply, deps),
  })
}

async function create(request: FastifyRequest, spool: Spool, deps: PublicDeps): Promise<TaskView> {
  const body = await readBody(request, spool)
  const fields = parseVideoFields(body)
  const metadata = parseMetadata(body.fields.metadata)
  const inputs = await checkInputs(body, VIDEO_INPUTS, spool)
  const payload = { endpoint: ENDPOINT, fields, metadata, inputs: identityOf(inputs) }
  const identity = identify(request.headers, payload)
  const release = await deps.models.find(fields.model)
  if (release === undefined) throw unknownModel(fields.model)
  const facts = videoFacts(fields, release, countsOf(inputs))
  const { caller, id: requestId } = request
  const admission = await deps.dispatching.admitVideo({
    caller,
    modelId: fields.model,
    facts,
    content: {
      prompt: fields.prompt,
      inputs: await keepInputs(inputs, keeping(deps)),
      metadata,
      echo: { size: fields.size ?? null, seconds: String(facts.durationSeconds) },
    },
    requestId,
    ...identity,
  })
  if (admission.kind !== 'admitted' && admission.kind !== 'repeated')
    throw refusalProblem(admission, {
      modelId: fields.model,
      release,
      sent: new Set(Object.keys(body.fields)),
    })
  return findOrThrow(
    await findTask(deps.sql, { taskId: admission.taskId, customerId: caller.customerId, kind: 'video' }),
  )
}

async function videoOf(caller: Caller, id: string, deps: PublicDeps): Promise<TaskView> {
  const taskId = taskIdOf('video', id)
  if (taskId === null) throw noVideo()
  const task = await findTask(deps.sql, { taskId, customerId: caller.customerId, kind: 'video' })
  // What the door refused was never a video of anybody's.
  return findOrThrow(task?.state === 'rejected' ? undefined : task)
}

function findOrThrow(task: TaskView | undefined): TaskView {
  if (task === undefined) throw noVideo()
  return task
}

function noVideo(): Problem {
  return new Problem('not_found', { param: 'id', message: 'There is no video with this ID.' })
}

async function list(request: FastifyRequest, deps: PublicDeps): Promise<z.output<typeof videoPage>> {
  const query = videoListQuery.parse(request.query)
  const after = query.after === undefined ? null : taskIdOf('video', query.after)
  if (query.after !== undefined && after === null) throw invalid('after', 'after must be the ID of a video.')
  const { customerId } = request.caller
  const { order, limit } = query
  const found = await listTasks(deps.sql, { customerId, order, after, limit: limit + 1 })
  const data = found.slice(0, limit).map(toVideo)
  return {
    object: 'list',
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: found.length > limit,
  }
}

/** Open: cancelled, or 409 with why. Ended: out of its customer's sight. */
async function remove(caller: Caller, id: string, deps: PublicDeps): Promise<z.output<typeof deletedVideo>> {
  const task = await videoOf(caller, id, deps)
  const mine = { taskId: task.id, customerId: caller.customerId, kind: 'video' } as const
  if (!(await hideTask(deps.sql, mine))) {
    const answer = await deps.dispatching.cancelTask(task.id)
    if (answer.kind === 'already_ended') await hideTask(deps.sql, mine)
    else if (answer.kind !== 'cancelled') throw cancelProblem(answer)
  }
  return { id: publicId('video', task.id), object: 'video.deleted', deleted: true }
}

const WHY_NOT: Readonly<Record<Extract<CancelAnswer, { kind: 'refused' }>['why'], string>> = {
  submitting: 'it is being submitted at this moment. Try again in a few seconds.',
  uncertain: 'it is not known yet whether its submission was accepted.',
  provider_cannot: 'work on it has begun, and where it runs it cannot be stopped.',
  provider_refused: 'work on it has begun, and stopping it was refused.',
  provider_silent: 'stopping it was asked for, and no answer came. Look at its status later.',
}

function cancelProblem(answer: Extract<CancelAnswer, { kind: 'refused' | 'not_found' }>): Problem {
  if (answer.kind === 'not_found') return noVideo()
  return new Problem('cannot_cancel', { message: `The video cannot be cancelled: ${WHY_NOT[answer.why]}` })
}

async function content(
  request: FastifyRequest<{ Params: z.output<typeof params>; Querystring: z.output<typeof contentQuery> }>,
  reply: FastifyReply,
  deps: PublicDeps,
): Promise<FastifyReply> {
  const { variant } = request.query
  if (variant !== undefined && variant !== 'video')
    throw invalid('variant', 'Only the variant "video" is made; there are no thumbnails or spritesheets.')
  const task = await videoOf(request.caller, request.params.id, deps)
  if (task.state !== 'succeeded') throw notReady(task)
  const digest = (await listOutputs(deps.sql, task.id))[0]?.digest
  if (digest == null) throw new Problem('result_expired')
  return sendAsset({ request, reply, assets: deps.assets }, { digest, name: publicId('video', task.id) })
}

function notReady(task: TaskView): Problem {
  const { status, error } = toVideo(task)
  const why = error === null ? `its status is ${status}` : `it failed: ${error.message}`
  return new Problem('not_ready', { message: `The video has no content: ${why}` })
}
