// The simulator as a program: `node src/simulator/main.ts --port 8090`.
//
// Prints one line when it is ready and stops at once on SIGTERM or SIGINT.

import { parseArgs } from 'node:util'
import { type SimulatorOptions, startSimulator } from './server.ts'

const HELP = `Usage: simulator [--host HOST] [--port PORT] [--seed NUMBER] [--capacity NUMBER] [--json]

Pretends to be providers of generated media, over HTTP, with scripts of faults.

  --host HOST        where to listen (127.0.0.1)
  --port PORT        0 for any free port (0)
  --seed NUMBER      of the chances that are drawn (1)
  --capacity NUMBER  jobs and attempts held before the oldest are forgotten (200000)
  --json             print the ready line as JSON: {"url":"http://…"}
  --help             this text

Examples:
  simulator --port 8090
  curl -s http://127.0.0.1:8090/control/faults/kinds
`

const MISUSE = 2

class Misuse extends Error {}

await main(process.argv.slice(2))

async function main(args: string[]): Promise<void> {
  try {
    const { json, help, ...options } = readOptions(args)
    if (help) return void process.stdout.write(HELP)
    const simulator = await startSimulator(options)
    const stop = () => void simulator.close().then(() => process.exit(0))
    process.once('SIGTERM', stop).once('SIGINT', stop)
    const ready = json ? JSON.stringify({ url: simulator.url }) : `simulator ready on ${simulator.url}`
    process.stdout.write(`${ready}\n`)
  } catch (error) {
    process.stderr.write(`simulator: ${error instanceof Error ? error.message : String(error)}\n`)
    process.exitCode = error instanceof Misuse ? MISUSE : 1
  }
}

function readOptions(args: string[]): SimulatorOptions & { json: boolean; help: boolean } {
  const values = parse(args)
  return {
    host: values.host,
    port: whole('--port', values.port, 65_535),
    seed: whole('--seed', values.seed, 2 ** 32 - 1),
    capacity: Math.max(1, whole('--capacity', values.capacity, 10_000_000)),
    json: values.json,
    help: values.help,
  }
}

function parse(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        host: { type: 'string', default: '127.0.0.1' },
        port: { type: 'string', default: '0' },
        seed: { type: 'string', default: '1' },
        capacity: { type: 'string', default: '200000' },
        json: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    }).values
  } catch (error) {
    throw new Misuse(`${error instanceof Error ? error.message : String(error)}\nTry --help.`)
  }
}

function whole(name: string, text: string, most: number): number {
  if (/^\d{1,10}$/.test(text) && Number(text) <= most) return Number(text)
  throw new Misuse(`${name}: expected a whole number from 0 to ${most}, got ${JSON.stringify(text)}`)
}
