/** What a channel's `options` may say to the Kling adapter. */
import { z } from 'zod'

export const KlingOptionsSchema = z.strictObject({
  /** Whether Kling stamps its mark on what it makes. */
  watermark: z.boolean().default(false),
  /** Fields of `settings` not to be sent, for models that refuse them: `aspect_ratio`, `sound` … */
  omit: z.array(z.string()).default([]),
  /** Fields to be sent in `settings` with every create. */
  extra_settings: z.record(z.string(), z.json()).default({}),
  /** Codes whose 5xx Kling is known to give only for what it did not accept (UNK-7). */
  refusals_5xx: z.array(z.string()).default([]),
  /**
   * After so many seconds a task that was made shows under its external_task_id for certain: then finding none proves
   * that the submission was not accepted (UNK-6). Absent: it proves nothing, since Kling does not document it.
   */
  absence_proves_after_seconds: z.int().min(60).optional(),
})

export type KlingOptions = z.infer<typeof KlingOptionsSchema>
