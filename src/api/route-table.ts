/** Which paths exist with which methods: what tells an unknown path (404) from a wrong method (405). */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Problem } from './problem.ts'

interface Known {
  readonly path: RegExp
  readonly methods: readonly string[]
}

export class RouteTable {
  readonly #known: Known[] = []

  /** To be made before the routes are. */
  constructor(app: FastifyInstance) {
    app.addHook('onRoute', ({ url, method }) => {
      const source = url
        .replace(/[.+^$()|\\]/g, '\\$&')
        .replace(/\*/g, '.+')
        .replace(/:[^/]+/g, '[^/]+')
      this.#known.push({ path: new RegExp(`^${source}/?$`), methods: [method].flat() })
    })
  }

  /** The problem of a request that no route takes. */
  missing(request: FastifyRequest): Problem {
    const path = request.url.split('?', 1)[0] ?? ''
    const methods = this.methodsOf(path)
    if (methods.length === 0)
      return new Problem('not_found', {
        message: 'There is no such path. See /openapi.json for those that exist.',
      })
    return new Problem('method_not_allowed', {
      message: `${request.method} is not allowed here; ${methods.join(', ')} ${methods.length === 1 ? 'is' : 'are'}.`,
      headers: { allow: methods.join(', ') },
    })
  }

  methodsOf(path: string): readonly string[] {
    return [
      ...new Set(this.#known.filter((known) => known.path.test(path)).flatMap((known) => known.methods)),
    ].sort()
  }
}
