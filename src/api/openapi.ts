/** /openapi.json: OpenAPI 3.1, made from the very schemas that requests and answers go through. */
import swagger from '@fastify/swagger'
import type { FastifyInstance, FastifySchema } from 'fastify'
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod'
import { z } from 'zod'
import { errorObject } from './public/schemas.ts'

const description = `AI video and image generation in OpenAI's dialect. Fields that OpenAI's API does not have are marked
in docs/api.md. Every answer carries x-request-id; every error has the shape of the schema Error.`

export function describeApi(app: FastifyInstance, version: string): void {
  app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Yardmaster',
        version,
        description,
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: '/' }],
      tags: ['Videos', 'Images', 'Models', 'Operation'].map((name) => ({ name })),
      components: { securitySchemes: { key: { type: 'http', scheme: 'bearer', description: 'ym_…' } } },
      security: [{ key: [] }],
    },
    // Admin routes speak to the operator's own tools.
    transform: (route) => {
      if (route.url.startsWith('/admin')) return { schema: { hide: true }, url: route.url }
      return route.url.endsWith('/*') ? withNamedRest(jsonSchemaTransform(route)) : jsonSchemaTransform(route)
    },
    transformObject: (document) => withErrors(withoutUnused(jsonSchemaTransformObject(document))),
  })
  app.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) =>
    reply.serializer(JSON.stringify).type('application/json; charset=utf-8').send(app.swagger()),
  )
}

/** The only wildcard is a model's ID, which may hold slashes: its readers want a name for it. */
function withNamedRest<R extends { url: string; schema: FastifySchema }>(described: R): R {
  const rest = z.object({ model: z.string() })
  const params = z.toJSONSchema(rest, { target: 'draft-2020-12' })
  return { ...described, url: described.url.replace('*', ':model'), schema: { ...described.schema, params } }
}

interface Document {
  readonly paths?: object
  readonly components?: { readonly schemas?: Readonly<Record<string, unknown>> }
}

/** The generator makes a twin of every schema for the other direction; only those that are referred to stay. */
function withoutUnused<D extends Document>(document: D): D {
  const all = document.components?.schemas ?? {}
  const used = new Set<string>(['Error'])
  for (let grown = true; grown; ) {
    const text = JSON.stringify([document.paths, ...[...used].map((name) => all[name])])
    const found = [...text.matchAll(/"#\/components\/schemas\/([^"]+)"/g)].flatMap(([, name]) => name ?? [])
    grown = found.some((name) => !used.has(name))
    for (const name of found) used.add(name)
  }
  const schemas = Object.fromEntries(Object.entries(all).filter(([name]) => used.has(name)))
  return withPlainNames({ ...document, components: { ...document.components, schemas } })
}

/** A twin that is alone now takes the name of both. */
function withPlainNames<D extends Document>(document: D): D {
  const names = Object.keys(document.components?.schemas ?? {})
  const plain = (name: string) => {
    const stem = name.replace(/Input$/, '')
    return names.includes(stem) ? name : stem
  }
  const renamed = Object.fromEntries(
    Object.entries(document.components?.schemas ?? {}).map(([name, schema]) => [plain(name), schema]),
  )
  return JSON.parse(
    JSON.stringify({ ...document, components: { ...document.components, schemas: renamed } }).replace(
      /"#\/components\/schemas\/([^"]+)"/g,
      (_, name: string) => `"#/components/schemas/${plain(name)}"`,
    ),
  )
}

/** Every operation that asks for a key may answer with an error of the one shape. */
function withErrors<D extends Document>(document: D): D {
  const schemas = {
    ...document.components?.schemas,
    Error: errorSchema(),
  }
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } }
  const error = (text: string) => ({ description: text, content })
  const paths = Object.entries(document.paths ?? {}).map(([path, operations]) => [
    path,
    path.startsWith('/v1/')
      ? mapOperations(operations, {
          '4XX': error('The request’s fault.'),
          '5XX': error('Not the request’s fault.'),
        })
      : operations,
  ])
  return { ...document, paths: Object.fromEntries(paths), components: { ...document.components, schemas } }
}

function errorSchema(): object {
  const { $schema, ...schema } = z.toJSONSchema(errorObject, { target: 'draft-2020-12' })
  return schema
}

function mapOperations(operations: object, errors: object): object {
  return Object.fromEntries(
    Object.entries(operations).map(([method, operation]) => [
      method,
      { ...operation, responses: { ...operation.responses, ...errors } },
    ]),
  )
}
