/** /v1/models: what can be asked for, what it takes, and what may be lost on the way (DEG-5). */
import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { DegradationOperation, ImageMode, NumberRange, VideoMode } from '../../core/catalog.ts'
import type { Release } from '../../core/frozen.ts'
import type { Caller } from '../../runtime/service.ts'
import { modelCreations } from '../../store/api-reads.ts'
import { unixSeconds } from './delivery.ts'
import type { PublicDeps } from './deps.ts'
import { unknownModel } from './refusal.ts'

const range = z.union([
  z.object({ min: z.number().optional(), max: z.number().optional() }),
  z.object({ values: z.array(z.number()) }),
])
const inputs = z.record(z.string(), range).describe('By kind; a kind that is not named is not taken.')
const mode = z.union([
  z.object({
    seconds: range,
    resolutions: z.array(z.string()),
    aspect_ratios: z.array(z.string()),
    generate_audio: z.boolean(),
    inputs,
  }),
  z.object({ sizes: z.array(z.string()), qualities: z.array(z.string()), n: range, inputs }),
])
const modelObject = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    description: z.string(),
    media: z.enum(['video', 'image']),
    profile: z.string(),
    capabilities: z
      .object({ modes: z.array(mode) })
      .describe('A request must fit one of the modes in everything.'),
    defaults: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
    degradation: z.enum(['strict', 'best_effort']),
    possible_degradations: z
      .array(
        z.object({
          from_profile: z.string(),
          to_profile: z.string(),
          dropped_inputs: z.array(z.string()),
          changes: z.array(
            z.object({ field: z.string(), to: z.union([z.string(), z.number(), z.boolean()]) }),
          ),
        }),
      )
      .describe('What may be lost where a request does not say degradation: strict.'),
  })
  .meta({ id: 'Model' })
const modelPage = z
  .object({ object: z.literal('list'), data: z.array(modelObject) })
  .meta({ id: 'ModelList' })

type ModelObject = z.output<typeof modelObject>

export function modelRoutes(app: FastifyInstance, deps: PublicDeps): void {
  app.get(
    '/models',
    { schema: { summary: 'List the models', tags: ['Models'], response: { 200: modelPage } } },
    async (request) => ({ object: 'list' as const, data: await usable(request.caller, deps) }),
  )
  // IDs may hold slashes, which the SDK escapes and others do not.
  app.get<{ Params: { '*': string } }>(
    '/models/*',
    {
      schema: {
        summary: 'Look at a model',
        tags: ['Models'],
        params: z.object({ '*': z.string().describe('The model’s ID.') }),
        response: { 200: modelObject },
      },
    },
    async (request) => {
      const id = request.params['*']
      const model = (await usable(request.caller, deps)).find((each) => each.id === id)
      if (model === undefined) throw unknownModel(id.slice(0, 128))
      return model
    },
  )
}

async function usable(caller: Caller, deps: PublicDeps): Promise<ModelObject[]> {
  const [releases, created] = await Promise.all([deps.models.list(), modelCreations(deps.sql)])
  return releases
    .filter(
      ({ allowedGroups: allowed }) =>
        allowed === null || allowed.some((group) => caller.groups.includes(group)),
    )
    .map((release) => toModel(release, created.get(release.modelId) ?? 0))
}

function toModel(release: Release, created: number): ModelObject {
  const { limits } = release
  const modes = limits.media === 'video' ? limits.modes.map(toVideoMode) : limits.modes.map(toImageMode)
  return {
    id: release.modelId,
    object: 'model',
    created: unixSeconds(created),
    owned_by: 'yardmaster',
    description: release.description,
    media: release.media,
    profile: release.profile,
    capabilities: { modes },
    defaults: { ...release.defaults },
    degradation: release.degradation,
    possible_degradations: release.degradation === 'strict' ? [] : release.rules.map(toLoss),
  }
}

function toLoss(rule: Release['rules'][number]): ModelObject['possible_degradations'][number] {
  const dropped = rule.operations.flatMap((operation) => ('inputs' in operation ? operation.inputs : []))
  return {
    from_profile: rule.fromProfile,
    to_profile: rule.toProfile,
    dropped_inputs: [...new Set(dropped)],
    changes: rule.operations.flatMap(loweredBy),
  }
}

function loweredBy(operation: DegradationOperation): { field: string; to: string | number | boolean }[] {
  switch (operation.op) {
    case 'drop_inputs':
      return []
    case 'keep_first':
      return [{ field: operation.inputs, to: operation.count }]
    case 'lower_resolution':
      return [{ field: 'resolution', to: operation.to }]
    case 'drop_generated_audio':
      return [{ field: 'generate_audio', to: false }]
  }
}

function toVideoMode(of: VideoMode) {
  return {
    seconds: toRange(of.durationSeconds),
    resolutions: [...of.resolutions],
    aspect_ratios: [...of.aspectRatios],
    generate_audio: of.generateAudio,
    inputs: toRanges(of.inputs),
  }
}

function toImageMode(of: ImageMode) {
  return {
    sizes: [...of.sizes],
    qualities: [...of.qualities],
    n: toRange(of.count),
    inputs: toRanges(of.inputs),
  }
}

function toRanges(of: Readonly<Record<string, NumberRange>>) {
  return Object.fromEntries(Object.entries(of).map(([kind, one]) => [kind, toRange(one)]))
}

function toRange(of: NumberRange) {
  if (of.kind === 'values') return { values: [...of.values] }
  return {
    ...(of.min === undefined ? {} : { min: of.min }),
    ...(of.max === undefined ? {} : { max: of.max }),
  }
}
