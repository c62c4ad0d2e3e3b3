/** `yardmaster simulator`: the pretend providers as a program of their own. */
import type { Command } from 'commander'
import { startSimulator } from '../simulator/server.ts'
import type { CliContext } from './context.ts'

interface Options {
  readonly host: string
  readonly port: string
  readonly seed: string
  readonly json?: boolean
  readonly untilStdinEnds?: boolean
}

export function register(program: Command, context: CliContext): void {
  program
    .command('simulator')
    .description('pretend to be providers, with scripts of faults (docs/simulator.md)')
    .option('--host <host>', 'where to listen', '127.0.0.1')
    .option('--port <port>', '0 for any free port', '8090')
    .option('--seed <number>', 'of the chances that are drawn', '1')
    .option('--json', 'print the ready line as JSON')
    .option('--until-stdin-ends', 'stop when standard input is closed')
    .addHelpText(
      'after',
      `
Examples:
  yardmaster simulator --port 8090
  curl -s http://127.0.0.1:8090/control/faults/kinds
`,
    )
    .action(async (options: Options) => {
      const port = whole(context, '--port', options.port, 65_535)
      const seed = whole(context, '--seed', options.seed, 2 ** 32 - 1)
      const simulator = await startSimulator({ host: options.host, port, seed })
      context.stdout.write(
        `${options.json ? JSON.stringify({ url: simulator.url }) : `simulator ready on ${simulator.url}`}\n`,
      )
      await stopAsked(options.untilStdinEnds ?? false)
      await simulator.close()
    })
}

function stopAsked(untilStdinEnds: boolean): Promise<void> {
  return new Promise((resolve) => {
    process.once('SIGTERM', resolve).once('SIGINT', resolve)
    if (untilStdinEnds)
      process.stdin.resume().once('end', resolve).once('close', resolve).once('error', resolve)
  })
}

function whole(context: CliContext, name: string, text: string, most: number): number {
  const value = Number(text)
  if (/^\d+$/.test(text) && value <= most) return value
  return context.fail(2, `${name} is "${text}", but must be a whole number from 0 to ${most}`)
}
