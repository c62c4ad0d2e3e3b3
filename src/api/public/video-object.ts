/** The video object of the dialect: every key that its schema requires, its four states only, and our own fields. */
import { z } from 'zod'
import type { TaskView } from '../../store/api-reads.ts'
import { explainCode } from '../problem.ts'
import { deliveryOf, deliveryShape, unixSeconds } from './delivery.ts'
import { sizeOfFrame } from './size.ts'
import { publicId } from './task-id.ts'

export const videoObject = z
  .object({
    id: z.string(),
    object: z.literal('video'),
    model: z.string(),
    status: z.enum(['queued', 'in_progress', 'completed', 'failed']),
    progress: z.int().describe('Percent.'),
    created_at: z.int().describe('Seconds since 1970, as all times here.'),
    completed_at: z.int().nullable(),
    expires_at: z.int().nullable().describe('When the result will no longer be kept.'),
    prompt: z.string().nullable(),
    size: z.string(),
    seconds: z.string(),
    remixed_from_video_id: z.string().nullable(),
    error: z.object({ code: z.string(), message: z.string() }).nullable(),
    resolution: z.string(),
    aspect_ratio: z.string(),
    generate_audio: z.boolean(),
    metadata: z.record(z.string(), z.string()),
    measured: z
      .object({
        seconds: z.number().nullable(),
        width: z.number().nullable(),
        height: z.number().nullable(),
        audio: z.boolean().nullable(),
      })
      .nullable()
      .describe('What the finished file was found to be; null where it could not be read.'),
    ...deliveryShape,
  })
  .meta({ id: 'Video' })

export type VideoObject = z.output<typeof videoObject>

export function toVideo(task: TaskView): VideoObject {
  const { facts } = task
  const status = statusOf(task)
  return {
    id: publicId('video', task.id),
    object: 'video',
    model: task.model,
    status,
    progress: status === 'completed' ? 100 : task.progress,
    created_at: unixSeconds(task.createdAt),
    completed_at: status === 'completed' && task.endedAt !== null ? unixSeconds(task.endedAt) : null,
    expires_at: task.expiresAt === null ? null : unixSeconds(task.expiresAt),
    prompt: task.prompt,
    size: sizeOf(task),
    seconds: String(facts.duration_seconds ?? ''),
    remixed_from_video_id: null,
    error: errorOf(task),
    resolution: facts.resolution ?? '',
    aspect_ratio: facts.aspect_ratio ?? '',
    generate_audio: facts.generate_audio ?? false,
    metadata: { ...task.metadata },
    measured: task.measured,
    ...deliveryOf(task),
  }
}

/** A task between its attempts stands in the queue, but its customer has seen it begin; uncertain is in progress (UNK-6). */
function statusOf(task: TaskView): VideoObject['status'] {
  switch (task.state) {
    case 'queued':
      return task.attempts > 0 ? 'in_progress' : 'queued'
    case 'running':
      return 'in_progress'
    case 'succeeded':
      return 'completed'
    case 'failed':
    case 'cancelled':
    case 'rejected':
      return 'failed'
  }
}

function sizeOf(task: TaskView): string {
  const asked = task.echo?.size
  if (typeof asked === 'string') return asked
  return sizeOfFrame({ resolution: task.facts.resolution ?? '', aspectRatio: task.facts.aspect_ratio ?? '' })
}

function errorOf(task: TaskView): VideoObject['error'] {
  if (statusOf(task) !== 'failed') return null
  return explainCode(task.errorCode ?? (task.state === 'cancelled' ? 'cancelled' : 'generation_failed'))
}
