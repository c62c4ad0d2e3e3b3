/**
 * `npm run bench`: our figures beside our peers', measured in one run on the same PostgreSQL and machine, as one table.
 * Ends with status 1 where a demanded figure does not hold. docs/performance.md says how each is measured.
 */
import { cpus, loadavg, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { startCluster } from './speed/cluster.ts'
import { processes, snapshot } from './speed/company.ts'
import { memory, waiting } from './speed/crowd.ts'
import { decisions } from './speed/decisions.ts'
import { type Bench, type Figure, holds, type Line } from './speed/figure.ts'
import { images } from './speed/images.ts'
import { lifecycles, storage } from './speed/lifecycles.ts'
import { installPeers } from './speed/peers.ts'
import { poller } from './speed/poller.ts'
import { profileLifecycles } from './speed/profile.ts'
import { queueOnly } from './speed/queue-only.ts'
import { soak } from './speed/soak.ts'
import { start } from './speed/start.ts'
import { statements } from './speed/statements.ts'
import { tableOf } from './speed/table.ts'
import { wake } from './speed/wake.ts'

const FIGURES: readonly Figure[] = [
  {
    name: 'lifecycles',
    about: 'full lifecycles a second, and what each costs',
    needsPeers: true,
    run: lifecycles,
  },
  { name: 'statements', about: 'full lifecycles beside pgbench with their statements', run: statements },
  { name: 'queue', about: 'claim and completion alone', needsPeers: true, run: queueOnly },
  { name: 'decisions', about: 'decisions without a database', run: decisions },
  { name: 'images', about: 'images over HTTP, beside another gateway', needsPeers: true, run: images },
  { name: 'waiting', about: 'lifecycles beside a million waiting tasks of another model', run: waiting },
  { name: 'wake', about: 'from a freed slot to the next submission', run: wake },
  { name: 'snapshot', about: 'lifecycles while a session holds a snapshot', run: snapshot },
  { name: 'processes', about: 'lifecycles of four processes beside one', run: processes },
  { name: 'memory', about: 'memory with a million queued and ten thousand running', run: memory },
  { name: 'poller', about: 'ten thousand running jobs, looked after', run: poller },
  { name: 'start', about: 'npm start to ready', run: start },
  { name: 'storage', about: 'bytes that a finished task leaves', run: storage },
  { name: 'soak', about: 'at 80 % of the top rate, for --minutes', onlyNamed: true, run: soak },
]

const HELP = `npm run bench -- [options]

  --only FIGURE     one figure; may be repeated, or hold several, separated by commas
  --rounds N        rounds of each figure (5)
  --short           small sizes, one round: shows that the bench works, judges nothing
  --no-peers        ours alone, without installing what we are compared with
  --minutes N       of the soak (30), which runs only where it is named
  --profile DIR     instead of figures: profiles of the lifecycle, into that folder

Figures:
${FIGURES.map(({ name, about }) => `  ${name.padEnd(16)}  ${about}`).join('\n')}
`

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    rounds: { type: 'string' },
    minutes: { type: 'string' },
    short: { type: 'boolean' },
    'no-peers': { type: 'boolean' },
    profile: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
})

if (values.help) process.stdout.write(HELP)
else process.exitCode = await main()

async function main(): Promise<number> {
  const short = values.short ?? false
  const chosen = choose(
    (values.only ?? []).flatMap((names) => names.split(',')),
    short,
  )
  const peers = !short && !values['no-peers']
  if (peers && chosen.some((figure) => figure.needsPeers)) await installPeers(say)
  const cluster = await startCluster()
  const bench: Bench = {
    cluster,
    rounds: whole('rounds', values.rounds, short ? 1 : 5),
    minutes: whole('minutes', values.minutes, 30),
    short,
    peers,
    say,
  }
  const lines: Line[] = []
  let failed = false
  try {
    if (values.profile !== undefined) {
      process.stdout.write(`${await profileLifecycles(bench, values.profile)}\n`)
      return 0
    }
    for (const figure of chosen) {
      say(`${figure.name}: ${figure.about} …`)
      try {
        lines.push(...(await figure.run(bench)))
      } catch (error) {
        failed = true
        lines.push({
          what: figure.name,
          unit: '',
          ours: null,
          note: `**failed**: ${(error as Error).message}`,
        })
      }
    }
    process.stdout.write(`${machine(cluster.version)}\n\n${tableOf(lines, !short)}\n`)
  } finally {
    await cluster.stop()
  }
  return failed || (!short && lines.some((line) => holds(line) === false)) ? 1 : 0
}

function choose(names: readonly string[], short: boolean): readonly Figure[] {
  const unknown = names.find((name) => !FIGURES.some((figure) => figure.name === name))
  if (unknown !== undefined)
    throw new Error(`--only has "${unknown}", but knows ${FIGURES.map((figure) => figure.name).join(', ')}`)
  return FIGURES.filter(({ name, onlyNamed }) =>
    names.length === 0 ? short || !onlyNamed : names.includes(name),
  )
}

function whole(name: string, value: string | undefined, otherwise: number): number {
  if (value === undefined) return otherwise
  const number = Number(value)
  if (!/^\d+$/.test(value) || number < 1)
    throw new Error(`--${name} is "${value}", but must be a whole number from 1`)
  return number
}

function machine(postgres: string): string {
  const [cpu] = cpus()
  const load = loadavg().map((value) => value.toFixed(1))
  const gib = Math.round(totalmem() / 2 ** 30)
  return `${new Date().toISOString()}; ${cpus().length} × ${cpu?.model}, ${gib} GiB; Linux load ${load.join(' ')}; Node ${process.version}; PostgreSQL ${postgres}. Median (least–greatest) of the rounds; ratios are of the same round.`
}

function say(line: string): void {
  process.stderr.write(`${line}\n`)
}
