// A job as the simulated provider holds it, and what a script has in store for it.

import type { ModelSettings, Protocol } from './configuration.ts'
import type { VideoSpec } from './media/mp4.ts'

export type Failure = { code: string; message: string }

/** What a script has in store for a job. Nothing set: it runs its time and succeeds. */
export type JobPlan = {
  fails?: Failure
  expires?: boolean
  /** Ends when it is looked at for this many times, instead of by time. */
  afterPolls?: number
  /** Ends after this long, instead of the model's duration. */
  afterMs?: number
  stuck?: 'queued' | 'running'
  withoutUrl?: boolean
  /** By number of the look, from 1: the status that is shown instead of the true one. */
  shows?: Record<number, string>
  /** The first looks find nothing. */
  hiddenPolls?: number
  /** The first callback is delivered before the create is answered. */
  earlyCallback?: boolean
  /** The artefact differs from what was asked for. */
  artefact?: Partial<Omit<VideoSpec, 'seed'>>
}

export type Ending = 'succeeded' | 'failed' | 'expired' | 'cancelled'
export type JobState = 'queued' | 'running' | Ending

export type Job = {
  id: string
  protocol: Protocol
  account: string
  model: string
  kind: 'video' | 'image'
  /** From the trace header of the request that made it. */
  attempt: string | null
  prompt: string
  /** What the protocol keeps of the request, to show it again. */
  request: Record<string, unknown>
  video: Omit<VideoSpec, 'seed'>
  settings: ModelSettings
  plan: JobPlan
  /** Scheme, host and port under which the client reached the simulator. */
  origin: string
  callbackUrl: string | null
  tokens: number
  costMicros: number
  createdAt: number
  /** Not started before. */
  notBefore: number
  expiresAt: number
  startedAt: number | null
  /** When it is due to end; infinite when something else must end it. */
  endsAt: number
  endedAt: number | null
  state: JobState
  failure: Failure | null
  polls: number
  deleted: boolean
}

export function isEnded(job: Job): boolean {
  return job.endedAt !== null
}
