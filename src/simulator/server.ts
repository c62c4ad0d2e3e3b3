// The simulated providers as one HTTP server.
//
//   /ark/<account>/api/v3/…      Volcengine Ark
//   /openai/<account>/v1/…       OpenAI's dialect
//   /kling/<account>/…           Kling's new standard
//   /files/<protocol>/<account>/<job>/<file>   results, by signed address
//   /control/…                   scripts, configuration, ledger
//
// It shares no code with what it checks, so that both cannot make the same mistake.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Answer, json } from './answer.ts'
import { ark } from './ark/server.ts'
import { showTask as showArkTask } from './ark/videos.ts'
import { download } from './artefact.ts'
import { type Body, digestBody, parseBody, readBody } from './body.ts'
import { control } from './control/server.ts'
import type { Exchange, ProtocolServer, Route } from './exchange.ts'
import type { Effect } from './faults/effect.ts'
import type { Played, Subject } from './faults/rules.ts'
import { kling } from './kling/server.ts'
import { showTask as showKlingTask } from './kling/videos.ts'
import { type AnswerNote, TRACE_HEADER } from './ledger.ts'
import { openai } from './openai/server.ts'
import { play } from './play.ts'
import { World } from './world.ts'

export type SimulatorOptions = {
  /** Default 127.0.0.1. */
  host?: string
  /** Default 0: any free port. */
  port?: number
  /** Of the chances that are drawn. Default 1. */
  seed?: number
  /** How many jobs and attempts are held before the oldest are forgotten. Default 200,000. */
  capacity?: number
}

export type Simulator = {
  /** Scheme, host and port, without a slash at the end. */
  url: string
  /** Ends at once, also what is under way. */
  close: () => Promise<void>
}

type Place = { server: ProtocolServer; account: string; path: string; route: Route; file: boolean }

const LARGEST_BODY = 64 * 1024 * 1024
const SERVERS: Record<string, { server: ProtocolServer; base: string }> = {
  ark: { server: ark, base: '/api/v3' },
  openai: { server: openai, base: '/v1' },
  kling: { server: kling, base: '' },
}

/** Starts a simulator. Rejects with the socket's error when the address cannot be used. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const world = new World({ seed: options.seed ?? 1, capacity: options.capacity ?? 200_000 })
  world.callbacks.show = (job) =>
    job.protocol === 'kling' ? showKlingTask(world, job) : showArkTask(world, job)
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    handle(world, request, response).catch((error: unknown) => fail(response, error))
  })
  const host = options.host ?? '127.0.0.1'
  const port = await listen(server, host, options.port ?? 0)
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    close: () => close(server, world),
  }
}

function listen(server: Server, host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })
}

function close(server: Server, world: World): Promise<void> {
  world.reset()
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}

async function handle(world: World, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://simulator')
  const path = url.pathname
  if (path.startsWith('/control')) {
    const answer = await control(world, request, url, path.slice('/control'.length))
    return play(request, response, { answer: () => answer, effect: {}, headers: {} }).then(() => undefined)
  }
  const place = find(request.method ?? 'GET', url)
  if ('status' in place)
    return void (await play(request, response, { answer: () => place, effect: {}, headers: {} }))
  await serve(world, { request, response, url, place })
}

function find(method: string, url: URL): Place | Answer {
  const path = url.pathname
  const file = /^\/files\/(ark|openai|kling)\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path)
  if (file !== null) {
    const [, protocol = '', account = '', jobId = '', variant = ''] = file
    const known = SERVERS[protocol]
    if (known !== undefined)
      return {
        server: known.server,
        account,
        path,
        file: true,
        route: { operation: 'download', jobId, variant },
      }
  }
  const [, protocol = '', account = '', rest = ''] = /^\/(ark|openai|kling)\/([^/]+)(\/.*)$/.exec(path) ?? []
  const known = SERVERS[protocol]
  if (known === undefined || !rest.startsWith(`${known.base}/`))
    return json(404, {
      error:
        'expected /ark/<account>/api/v3/…, /openai/<account>/v1/…, /kling/<account>/…, /files/… or /control/…',
    })
  const below = rest.slice(known.base.length)
  const route = known.server.route(method, below, url.searchParams)
  if (route === undefined) return known.server.noRoute(method, below, '')
  return { server: known.server, account: decodeURIComponent(account), path: below, route, file: false }
}

type Call = { request: IncomingMessage; response: ServerResponse; url: URL; place: Place }

async function serve(world: World, { request, response, url, place }: Call): Promise<void> {
  const { server, account, route } = place
  const { protocol } = server
  const requestId = world.newRequestId()
  const job = route.jobId === undefined ? undefined : world.jobs.find(route.jobId, protocol, account)
  const attempt = header(request, TRACE_HEADER)
  const posts = route.operation === 'create' || route.operation === 'image'
  const entry = posts
    ? world.ledger.post(attempt, { protocol, account, operation: route.operation })
    : undefined
  const note = (what: AnswerNote) => entry?.statuses.push(what)
  const faulty = (played: Played) => entry?.faults.push(...played.kinds)

  const subject: Subject | undefined =
    route.operation === 'models'
      ? undefined
      : {
          operation: route.operation,
          protocol,
          account,
          model: job?.model ?? null,
          prompt: job?.prompt ?? '',
          attempt: job?.attempt ?? attempt,
        }
  const headFaults = subject === undefined ? undefined : world.rules.atHead(subject)
  if (headFaults?.effect.dropUnread === true) {
    faulty(headFaults)
    note('dropped')
    request.socket.destroy()
    return
  }

  const brings = posts || request.method === 'POST'
  const bytes = brings ? await readBody(request, LARGEST_BODY) : Buffer.alloc(0)
  const headers = { [server.requestIdHeader]: requestId }
  if (bytes === 'too large')
    return void note(
      await play(request, response, { answer: () => server.tooLarge(requestId), effect: {}, headers }),
    )
  const body: Body = brings
    ? await parseBody(header(request, 'content-type') ?? '', bytes)
    : { kind: 'empty' }
  const asked = subjectOf(body, route)
  if (entry !== undefined) {
    entry.model ??= asked.model
    entry.request ??= digestBody(body)
  }
  const played =
    subject === undefined ? undefined : world.rules.atBody(posts ? { ...subject, ...asked } : subject)
  if (played !== undefined) faulty(played)
  const effect: Effect = played?.effect ?? {}
  const exchange: Exchange = {
    ...route,
    world,
    protocol,
    account,
    method: request.method ?? 'GET',
    query: url.searchParams,
    headers: request.headers,
    body,
    job,
    origin: `http://${request.headers.host ?? 'localhost'}`,
    requestId,
    attempt,
    entry,
    effect,
  }
  note(
    await play(request, response, {
      answer: () =>
        place.file ? download(exchange, request.method ?? '', place.path) : server.act(exchange),
      named: (name) => server.named(name, requestId),
      effect,
      headers,
    }),
  )
}

/** The model and the prompt of a create request, as far as they can be seen before it is validated. */
function subjectOf(body: Body, { operation, model: named }: Route): { model: string | null; prompt: string } {
  if (body.kind !== 'fields') return { model: named ?? null, prompt: '' }
  const { model = named, prompt, content, contents = content } = body.fields
  const texts =
    operation === 'create' && Array.isArray(contents) ? contents.map((item) => item?.text ?? '') : []
  return {
    model: typeof model === 'string' ? model : null,
    prompt: typeof prompt === 'string' ? prompt : texts.join('\n'),
  }
}

function header(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name]
  return typeof value === 'string' ? value : null
}

function fail(response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) return void response.destroy()
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error)
  response.writeHead(500, { 'content-type': 'text/plain' }).end(`the simulator itself failed: ${text}\n`)
}
