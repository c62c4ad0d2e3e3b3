/** What a channel's `options` may say to the Ark adapter. Each has a default that suits Seedance 2.0 and Seedream. */
import { z } from 'zod'

export const ArkOptionsSchema = z.strictObject({
  /** Whether the provider stamps its mark on what it makes. */
  watermark: z.boolean().default(false),
  /** Fields not to be sent, for older models that refuse them: `generate_audio`, `ratio` … */
  omit: z.array(z.string()).default([]),
  /** Fields to be sent with every create: `service_tier`, `priority` … */
  extra_body: z.record(z.string(), z.json()).default({}),
  /** Our image sizes as this channel wants them: `{"1024x1024": "2K"}`; one that is not named is sent as it is. */
  sizes: z.record(z.string(), z.string()).default({}),
  /** `b64_json` brings the image with the answer: no download that could fail after it is paid. */
  response_format: z.enum(['b64_json', 'url']).default('b64_json'),
  /** Codes whose 5xx this provider is known to give only for what it did not accept (UNK-7). */
  refusals_5xx: z.array(z.string()).default([]),
  /**
   * Nobody else makes tasks with this account: then a lost submission may be found again by time and parameters alone
   * (UNK-9), since Ark's list does not tell the prompt.
   */
  sole_user: z.boolean().default(false),
})

export type ArkOptions = z.infer<typeof ArkOptionsSchema>
