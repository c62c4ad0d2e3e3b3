/** Shapes that /openapi.json shows beside the objects themselves. */
import { z } from 'zod'
import { LIMITS } from '../limits.ts'
import { imageFields } from './image-request.ts'
import { videoObject } from './video-object.ts'
import { videoFields } from './video-request.ts'

const link = z.string().describe('An http, https or data URL; in a form also a file.')
const reference = z.union([link, z.object({ image_url: z.string() })])
const references = (what: string) =>
  z.array(link).max(LIMITS.inputsOfOneKind).optional().describe(`${what}, in order.`)
const metadata = z
  .record(z.string().max(LIMITS.metadataKeyCharacters), z.string().max(LIMITS.metadataValueCharacters))
  .optional()
  .describe(
    `Up to ${LIMITS.metadataKeys} texts of your own; given back with the video. In a form also as JSON text.`,
  )

export const createVideo = videoFields
  .extend({
    seconds: z
      .union([z.int().min(1).max(LIMITS.durationSeconds), z.string().regex(/^[1-9]\d{0,4}$/)])
      .optional()
      .describe('Length of the video in whole seconds, as a number or text.'),
    input_reference: reference.optional().describe('The first frame.'),
    first_frame: reference.optional(),
    last_frame: reference.optional(),
    reference_images: references('Images to refer to'),
    reference_videos: references('Videos to refer to'),
    reference_audios: references('Sounds to refer to'),
    metadata,
  })
  .meta({ id: 'CreateVideo' })

export const createImage = imageFields
  .extend({ reference_images: references('Images to refer to'), metadata })
  .meta({ id: 'CreateImage' })

export const videoListQuery = z.object({
  limit: z.coerce.number().pipe(z.int().min(0).max(LIMITS.pageSize)).default(20),
  order: z.enum(['asc', 'desc']).default('desc'),
  after: z.string().optional().describe('The last ID of the page before.'),
})

export const videoPage = z
  .object({
    object: z.literal('list'),
    data: z.array(videoObject),
    first_id: z.string().nullable(),
    last_id: z.string().nullable(),
    has_more: z.boolean(),
  })
  .meta({ id: 'VideoPage' })

export const deletedVideo = z
  .object({ id: z.string(), object: z.literal('video.deleted'), deleted: z.boolean() })
  .meta({ id: 'DeletedVideo' })

export const errorObject = z.object({
  error: z.object({
    message: z.string(),
    type: z.string(),
    param: z.string().nullable(),
    code: z.string(),
  }),
})
