// What both protocols' synchronous pictures have in common: the job runs while the client waits, and is
// paid for whether the client still waits or not.

import type { Answer } from './answer.ts'
import type { Exchange } from './exchange.ts'
import type { Job } from './job.ts'

export type Pictures = { model: string; prompt: string; count: number; width: number; height: number }

/** Accepts the job, or says that there is no room. */
export function acceptPictures(exchange: Exchange, asked: Pictures): Job | 'full' {
  const { world, protocol, account, effect } = exchange
  const name = { protocol, account, model: asked.model, kind: 'image' as const }
  if (world.jobs.lane(name).isFull(world.clock.now())) return 'full'
  const made = Math.max(0, asked.count - (effect.failedPictures ?? 0))
  const job = world.jobs.add({
    ...name,
    attempt: exchange.attempt,
    prompt: asked.prompt,
    request: { count: asked.count, width: asked.width, height: asked.height },
    video: { width: asked.width, height: asked.height, seconds: 0, audio: false },
    plan: effect.plan ?? {},
    origin: exchange.origin,
    callbackUrl: null,
    tokens: Math.ceil((asked.width * asked.height) / 256) * made,
    images: made,
    expiresAfterMs: Infinity,
  })
  world.ledger.accept(exchange.entry, [job.id])
  return job
}

/** Waits until the pictures are done, then answers with what `answer` makes of them. */
export async function whenDone(exchange: Exchange, job: Job, answer: () => Answer): Promise<Answer> {
  const { world } = exchange
  while (job.endedAt === null) {
    const wait = Math.max(1, (Number.isFinite(job.endsAt) ? job.endsAt : 0) - world.clock.now())
    await new Promise((resolve) => setTimeout(resolve, Math.min(wait, 1000)).unref())
    if (world.jobs.find(job.id) === undefined) break
  }
  return answer()
}
