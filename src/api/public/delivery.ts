/** DEG-3, for videos and images alike: what was asked for, what is delivered, and what was left out on the way. */
import { z } from 'zod'
import type { TaskView } from '../../store/api-reads.ts'

export const deliveryShape = {
  degraded: z.boolean().describe('True where less is delivered than the model’s profile promises.'),
  requested_profile: z.string(),
  actual_profile: z.string(),
  dropped_inputs: z
    .array(z.string())
    .describe('Kinds of inputs that the request had and of which something was left out.'),
  changes: z
    .array(
      z.object({
        field: z.string(),
        from: z.union([z.string(), z.number(), z.boolean()]),
        to: z.union([z.string(), z.number(), z.boolean()]),
      }),
    )
    .describe(
      'What was lowered by a published rule: resolution, generate_audio, or how many inputs of a kind.',
    ),
  shortfalls: z
    .array(z.string())
    .describe(
      'In what the result was measured to be less than promised: duration, resolution, aspect_ratio, audio.',
    ),
}

export function deliveryOf(task: TaskView) {
  const { degraded, profile } = task
  return {
    degraded: degraded !== null,
    requested_profile: degraded?.requested_profile ?? profile,
    actual_profile: degraded?.actual_profile ?? profile,
    dropped_inputs: [...(degraded?.dropped_inputs ?? [])],
    changes: [...(degraded?.changes ?? [])],
    shortfalls: [...task.shortfalls],
  }
}

/** µs to the whole seconds of the dialect. */
export function unixSeconds(instant: number): number {
  return Math.floor(instant / 1_000_000)
}
