/** Where providers call back. Whoever holds an address may call it as often as they like: it makes us look, and no more. */
import type { FastifyInstance } from 'fastify'
import { Problem } from './problem.ts'

/** True where the address is one of ours. */
export type TakeCallback = (called: { attemptId: string; mac: string; body: Uint8Array }) => Promise<boolean>

/** No provider needs more to say which task it means. */
const LARGEST_BODY = 256 * 1024

export function callbackRoutes(app: FastifyInstance, take: TakeCallback): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'buffer', bodyLimit: LARGEST_BODY }, (_request, body, done) =>
    done(null, body),
  )
  app.post<{ Params: { attempt: string; mac: string } }>(
    '/callbacks/:attempt/:mac',
    { schema: { hide: true } },
    async (request, reply) => {
      const { attempt, mac } = request.params
      const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0)
      if (!(await take({ attemptId: attempt, mac, body })))
        throw new Problem('not_found', { message: 'There is no such address.' })
      return reply.code(204).send()
    },
  )
}
