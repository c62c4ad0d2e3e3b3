/** What a channel's `options` may say to the OpenAI-compatible adapter: resellers and gateways differ in these. */
import { z } from 'zod'

export const OpenAiOptionsSchema = z.strictObject({
  /** How `POST /videos` is sent: as the SDK does it, or as JSON. */
  request_format: z.enum(['multipart', 'json']).default('multipart'),
  /** Whether the other side knows Yardmaster's fields (`aspect_ratio`, `reference_images` …) beside OpenAI's own. */
  extensions: z.boolean().default(false),
  /** `litellm`: its own retries and fallbacks are switched off in the body too (UNK-10). */
  gateway: z.enum(['plain', 'litellm']).default('plain'),
  /** Whether `DELETE /videos/{id}` really cancels there. */
  cancel: z.boolean().default(false),
  /** Where a finished film is fetched: `/videos/{id}/content`, or the link in the object, where one is given. */
  result_from: z.enum(['content', 'url']).default('content'),
  /** Sent as `response_format` of images; null: not sent, as GPT image models want it. */
  image_response_format: z.enum(['b64_json', 'url']).nullable().default(null),
  /** Our sizes as this channel wants them: `{"720p 16:9": "1280x720"}` for video, `{"1024x1024": "auto"}` for images. */
  sizes: z.record(z.string(), z.string()).default({}),
  /** Fields not to be sent. */
  omit: z.array(z.string()).default([]),
  /** Fields to be sent with every create. */
  extra_body: z.record(z.string(), z.json()).default({}),
  /** Codes whose 5xx this gateway is known to give only for what it did not accept (UNK-7). */
  refusals_5xx: z.array(z.string()).default([]),
})

export type OpenAiOptions = z.infer<typeof OpenAiOptionsSchema>
