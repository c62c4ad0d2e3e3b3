// The control API under /control: set accounts up, script faults, read the ledger. JSON in, JSON out.

import type { IncomingMessage } from 'node:http'
import { type Answer, json } from '../answer.ts'
import { parseBody, readBody } from '../body.ts'
import { FAULT_KINDS } from '../faults/kinds.ts'
import * as f from '../fields.ts'
import { isEnded, type Job } from '../job.ts'
import type { LedgerEntry } from '../ledger.ts'
import type { World } from '../world.ts'

const LARGEST_BODY = 16 * 1024 * 1024
const PAGE = 1000

type Call = { world: World; query: URLSearchParams; input: unknown; name: string }
type Action = (call: Call) => unknown

/** By method and path; `*` stands for a name. An action returns what is answered as JSON. */
const ACTIONS: Record<string, Action> = {
  'GET /': () => ({ actions: Object.keys(ACTIONS).map((action) => action.replace(' /', ' /control/')) }),
  'POST /reset': ({ world }) => {
    world.reset()
    return { reset: true }
  },
  'GET /configuration': ({ world }) => world.configuration.show(),
  'POST /configuration': configure,
  'GET /faults': ({ world }) => ({ rules: world.rules.show() }),
  'POST /faults': ({ world, input }) => ({ ids: world.rules.add(readRules(input)) }),
  'DELETE /faults': ({ world }) => {
    world.rules.clear()
    return { rules: [] }
  },
  'DELETE /faults/*': ({ world, name }) => ({ removed: world.rules.remove(name) }),
  'GET /faults/kinds': () => ({ kinds: kinds() }),
  'GET /ledger': ({ world }) => totals(world),
  'GET /ledger/*': ({ world, name }) => world.ledger.find(name) ?? nothing(name),
  'GET /attempts': attempts,
  'GET /jobs': listJobs,
  'GET /jobs/*': ({ world, name }) => showJob(findJob(world, name)),
  'POST /jobs/*/end': endJob,
  'GET /callbacks': ({ world }) => ({ callbacks: world.callbacks.sent }),
  'POST /clock': advance,
}

/** Answers one request to the control API. `path` begins behind /control. */
export async function control(
  world: World,
  request: IncomingMessage,
  url: URL,
  path: string,
): Promise<Answer> {
  const found = findAction(request.method ?? 'GET', path)
  if (found === undefined)
    return json(404, { error: `no ${request.method} /control${path}; see GET /control/` })
  const bytes = await readBody(request, LARGEST_BODY)
  if (bytes === 'too large') return json(413, { error: `a body has at most ${LARGEST_BODY} bytes` })
  try {
    const input = await parseInput(bytes)
    return json(200, found.action({ world, query: url.searchParams, input, name: found.name }))
  } catch (error) {
    if (error instanceof NotFound) return json(404, { error: error.message })
    if (error instanceof f.ControlError) return json(400, { error: error.message })
    throw error
  }
}

class NotFound extends Error {}

function nothing(name: string): never {
  throw new NotFound(`nothing is known by the name ${name}`)
}

function findAction(method: string, path: string): { action: Action; name: string } | undefined {
  const exact = ACTIONS[`${method} ${path === '' ? '/' : path}`]
  if (exact !== undefined) return { action: exact, name: '' }
  const [, head, name, tail = ''] = /^(\/[^/]+)\/([^/]+)(\/[^/]+)?$/.exec(path) ?? []
  const action = ACTIONS[`${method} ${head}/*${tail}`]
  if (action === undefined || name === undefined) return undefined
  return { action, name: decodeURIComponent(name) }
}

// Rules may come as an array, which a body of fields is not: it is wrapped for the parser.
async function parseInput(bytes: Buffer): Promise<unknown> {
  if (bytes.length === 0) return undefined
  const wrapped = Buffer.concat([Buffer.from('{"value":'), bytes, Buffer.from('}')])
  const body = await parseBody('application/json', wrapped)
  if (body.kind === 'fields') return body.fields.value
  throw new f.ControlError('the body is not JSON')
}

function readRules(input: unknown): unknown {
  return f.isRecord(input) && input.rules !== undefined ? input.rules : input
}

function configure({ world, input }: Call): unknown {
  world.configuration.apply(input)
  world.jobs.refresh()
  world.callbacks.rearm()
  return world.configuration.show()
}

function kinds(): unknown {
  return Object.fromEntries(
    Object.entries(FAULT_KINDS).map(([name, { on, about, parameters }]) => [
      name,
      { on, about, parameters: Object.keys(parameters) },
    ]),
  )
}

function totals(world: World): unknown {
  world.jobs.refresh()
  return {
    ...world.ledger.totals(),
    cost_micros: world.jobs.costMicros,
    jobs_held: world.jobs.held,
    callbacks: world.callbacks.sent.length,
    models: world.jobs.lanes().map((lane) => ({
      ...lane.name,
      accepted: lane.accepted,
      running: lane.running,
      waiting: lane.waiting,
      max_running: lane.maxRunning,
    })),
  }
}

function attempts({ world, query }: Call): unknown {
  const least = Number(query.get('min_accepted') ?? 0)
  const skip = Number(query.get('offset') ?? 0)
  const limit = Number(query.get('limit') ?? PAGE)
  const found: LedgerEntry[] = []
  let total = 0
  for (const entry of world.ledger.entries()) {
    if (entry.accepted < least) continue
    if (total >= skip && found.length < limit) found.push(entry)
    total++
  }
  return { attempts: found, total }
}

function listJobs({ world, query }: Call): unknown {
  const skip = Number(query.get('offset') ?? 0)
  const limit = Number(query.get('limit') ?? PAGE)
  const found: Job[] = []
  let total = 0
  for (const job of world.jobs.all()) {
    const wanted = ['protocol', 'account', 'model', 'state', 'attempt', 'kind'] as const
    if (!wanted.every((name) => !query.has(name) || job[name] === query.get(name))) continue
    if (total >= skip && found.length < limit) found.push(job)
    total++
  }
  return { jobs: found.map(showJob), total }
}

function showJob(job: Job): unknown {
  const time = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString())
  return {
    id: job.id,
    protocol: job.protocol,
    account: job.account,
    model: job.model,
    kind: job.kind,
    attempt: job.attempt,
    state: job.state,
    failure: job.failure,
    prompt: job.prompt,
    video: job.video,
    tokens: job.tokens,
    cost_micros: job.costMicros,
    polls: job.polls,
    deleted: job.deleted,
    created_at: time(job.createdAt),
    started_at: time(job.startedAt),
    ended_at: time(job.endedAt),
  }
}

function findJob(world: World, id: string): Job {
  return world.jobs.find(id) ?? nothing(id)
}

function endJob({ world, input, name }: Call): unknown {
  const job = findJob(world, name)
  const given = f.record(input ?? {}, 'body', ['state', 'code', 'message'])
  const state = f.oneOf(
    'succeeded',
    'failed',
    'expired',
    'cancelled',
  )(given.state ?? 'succeeded', 'body.state')
  if (isEnded(job)) throw new f.ControlError(`job ${name} has already ended: ${job.state}`)
  if (state === 'failed')
    job.plan = {
      ...job.plan,
      fails: {
        code: f.optional(given.code, 'body.code', f.text) ?? 'InternalServiceError',
        message: f.optional(given.message, 'body.message', f.text) ?? 'Ended by the control API.',
      },
    }
  world.jobs.end(job, state)
  return showJob(job)
}

function advance({ world, input }: Call): unknown {
  const given = f.record(input, 'body', ['advance_ms'])
  world.clock.advance(f.amount(given.advance_ms, 'body.advance_ms'))
  world.jobs.refresh()
  world.callbacks.rearm()
  return { now: new Date(world.clock.now()).toISOString() }
}
