/** `npm run bench:safety`: the fault mix at full size, as a table of what must be zero and of how everything ended. */
import { parseArgs } from 'node:util'
import type { MixReport } from './report.ts'
import { runMix } from './yard.ts'

/** From this size on everything that may happen has to. */
const FULL_SIZE = 10_000

const { values } = parseArgs({
  options: {
    tasks: { type: 'string', default: '10000' },
    seed: { type: 'string', default: '1' },
    kills: { type: 'string', default: '20' },
    'database-kills': { type: 'string', default: '5' },
    processes: { type: 'string', default: '4' },
    log: { type: 'string' },
    quiet: { type: 'boolean', default: false },
  },
})

function whole(name: string, text: string, least: number): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= least) return value
  console.error(`--${name} must be a whole number of at least ${least}, not "${text}"`)
  process.exit(2)
}

const tasks = whole('tasks', values.tasks, 1)
const report = await runMix({
  tasks,
  inFull: tasks >= FULL_SIZE,
  seed: whole('seed', values.seed, 0),
  kills: whole('kills', values.kills, 0),
  databaseKills: whole('database-kills', values['database-kills'], 0),
  processes: whole('processes', values.processes, 1),
  patience: 600,
  ...(values.log === undefined ? {} : { log: values.log }),
  ...(values.quiet ? {} : { say: (line: string) => console.error(line) }),
})
console.log(table(report))
process.exit(report.findings.length === 0 ? 0 : 1)

function table(of: MixReport): string {
  const zero = [
    ['duplicate jobs', of.duplicateJobs],
    ['lost tasks', of.lostTasks],
    ['leaked leases', of.leakedLeases],
    ['over-admissions', of.overAdmissions],
    ['replay differences', of.replayDifferences],
    ['leaked secrets', of.leakedSecrets],
    ['findings in all', of.findings.length],
  ] as const
  const facts = [
    ['seed', of.seed],
    ['requests', of.asked],
    ['tasks', of.tasks],
    ['attempts', of.attempts],
    ['rounds replayed', of.rounds],
    ['uncertain submissions', of.uncertain],
    ...Object.entries(of.resolvedBy).map(([by, n]) => [`  found again by ${by}`, n] as const),
    ['gateways killed at a submission, confirmed', of.killed.submission],
    ['  whose request the provider had', of.killed.submissionAtProvider],
    ['gateways killed at a settlement, confirmed', of.killed.settlement],
    ['PostgreSQL killed', of.killed.database],
    ['gateways paused past their claims', of.killed.pauses],
    ['times that the sound account was isolated', of.soundIsolated],
    ['videos looked at by their customers', of.videosLookedAt],
    ['succeeded, of those whose content was not refused', `${(100 * of.succeededShare).toFixed(1)} %`],
    ['seconds', Math.round(of.seconds)],
  ] as const
  return [
    rows('must be 0', zero),
    rows('the run', facts),
    rows('how requests were answered', Object.entries(of.requests)),
    rows(
      'how tasks ended',
      of.ends.map(({ kind, end, count }) => [`${kind}: ${end}`, count] as const),
    ),
    ...(of.overdue.length > 0 ? [['ran out of time', ...of.overdue].join('\n  ')] : []),
    rows(
      'faults played',
      Object.entries(of.faultsPlayed).sort(([a], [b]) => a.localeCompare(b)),
    ),
    ...(of.findings.length > 0 ? [['findings', ...of.findings.slice(0, 50)].join('\n  ')] : []),
  ].join('\n\n')
}

function rows(title: string, lines: readonly (readonly [string, string | number])[]): string {
  const width = Math.max(...lines.map(([name]) => name.length))
  return [title, ...lines.map(([name, value]) => `  ${name.padEnd(width)}  ${value}`)].join('\n')
}
