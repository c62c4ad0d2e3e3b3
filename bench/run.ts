/**
 * `npm run bench`: our figures beside our peers', measured in one run on the same PostgreSQL and machine, as one table.
 * Ends with status 1 where a demanded figure does not hold. docs/performance.md says how each is measured.
 */
import { cpus, loadavg, totalmem } from 'node:os'
import { parseArgs } from 'node:util'
import { startCluster } from './speed/cluster.ts'
import { decisions } from './speed/decisions.ts'
import { type Bench, type Figure, holds, type Line } from './speed/figure.ts'
import { images } from './speed/images.ts'
import { lifecycles, storage } from './speed/lifecycles.ts'
import { installPeers } from './speed/peers.ts'
import { profileLifecycles } from './speed/profile.ts'
import { queueOnly } from './speed/queue-only.ts'
import { statements } from './speed/statements.ts'
import { tableOf } from './speed/table.ts'

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
  { name: 'storage', about: 'bytes that a finished task leaves', run: storage },
]

const HELP = `npm run bench -- [options]

  --only FIGURE     one figure; may be repeated, or hold several, separated by commas
  --rounds N        rounds of each figure (5)
  --short           small sizes, one round: shows that the bench works, judges nothing
  --no-peers        ours alone, without installing what we are compared with
  --profile DIR     instead of figures: profiles of the lifecycle, into that folder

Figures:
${FIGURES.map(({ name, about }) => `  ${name.padEnd(16)}  ${about}`).join('\n')}
`

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    rounds: { type: 'string' },
    short: { type: 'boolean' },
    'no-peers': { type: 'boolean' },
    profile: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  },
})

if (values.help) process.stdout.write(HELP)
else process.exitCode = await main()

async function main(): Promise<number> {
  const chosen = choose((values.only ?? []).flatMap((names) => names.split(',')))
  const short = values.short ?? false
  const peers = !short && !values['no-peers']
  if (peers && chosen.some((figure) => figure.needsPeers)) await installPeers(say)
  const cluster = await startCluster()
  const bench: Bench = {
    cluster,
    rounds: whole('rounds', values.rounds, short ? 1 : 5),
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

function choose(names: readonly string[]): readonly Figure[] {
  const unknown = names.find((name) => !FIGURES.some((figure) => figure.name === name))
  if (unknown !== undefined)
    throw new Error(`--only has "${unknown}", but knows ${FIGURES.map((figure) => figure.name).join(', ')}`)
  return names.length === 0 ? FIGURES : FIGURES.filter((figure) => names.includes(figure.name))
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
