/**
 * Mutants of settle, made by hand: each takes away one thing that settle promises, and some test must fail. Not part of the
 * test command, since each starts PostgreSQL and runs whole systems:
 *
 *     node test/mutation/settle.ts [number…]     all of them where none is named
 *
 * Works on a copy. The text that is replaced must stand in its file exactly once, so that a mutant cannot quietly become
 * none. Ends with status 1 where one survives.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

interface Mutant {
  /** What it no longer does. */
  readonly loses: string
  readonly file: string
  readonly from: string
  readonly to: string
  readonly tests: readonly string[]
}

const SETTLE = 'src/runtime/settle.ts'
const WELL = 'src/runtime/settle-well.ts'
const ATTEMPTS = 'src/store/attempts.ts'
const HEALTH = 'src/store/health.ts'
const USAGE = 'src/store/usage.ts'

const MUTANTS: readonly Mutant[] = [
  {
    loses: 'the slots of an attempt that ended',
    file: ATTEMPTS,
    from: 'tx.query(RELEASE_LEASES, [JSON.stringify(freed), hintFrom]),',
    to: '',
    tests: ['settle-together'],
  },
  {
    loses: 'the fence, of what settles by itself',
    file: SETTLE,
    from: "if (attempt.fence !== which.fence) return { kind: 'stale' }",
    to: '',
    tests: ['fences'],
  },
  {
    loses: 'the fence, of what settles together',
    file: SETTLE,
    from: 'attempt.fence === item.fence && EXPECTED',
    to: 'EXPECTED',
    tests: ['settle-together'],
  },
  {
    loses: 'the state that an outcome must find',
    file: SETTLE,
    from: "  not_begun: ['reserved'],",
    to: "  not_begun: ['reserved', 'submitting'],",
    tests: ['fences'],
  },
  {
    loses: 'that an ended attempt stays ended',
    file: SETTLE,
    from: "  finished: ['submitting', 'submission_uncertain', 'accepted'],",
    to: "  finished: ['submitting', 'submission_uncertain', 'accepted', 'succeeded'],",
    tests: ['settle-together'],
  },
  {
    loses: 'that an unknown submission holds its task and its leases',
    file: SETTLE,
    from: "return this.#uncertain(at, { kind: 'fault', fault: outcome.fault }, outcome)",
    to: 'return this.#failed(at, { ...outcome, fault: { ...outcome.fault, retryable: true } }, null)',
    tests: ['uncertain'],
  },
  {
    loses: 'that a dead process leaves its submission uncertain',
    file: SETTLE,
    from: "return this.#uncertain(at, { kind: 'lost' }, null)",
    to: 'return this.#notStarted(at)',
    tests: ['uncertain', 'own-orphans'],
  },
  {
    loses: 'that a late result is not delivered',
    file: SETTLE,
    from: 'if (at.mine) return this.#well(at, outcome)',
    to: 'return this.#well(at, outcome)',
    tests: ['settle'],
  },
  {
    loses: 'the cost of an orphan',
    file: SETTLE,
    from: 'if (cost > 0n) await recordLateEnd(',
    to: 'if (cost < 0n) await recordLateEnd(',
    tests: ['settle'],
  },
  {
    loses: 'the charge for a second job, where its attempt ends later',
    file: ATTEMPTS,
    from: 'cost_micros = w.cost + a.orphan_cost_micros,',
    to: 'cost_micros = w.cost,',
    tests: ['../api/second-job'],
  },
  {
    loses: 'that a job that was charged is not charged again',
    file: 'src/runtime/orphans.ts',
    from: 'if (!isOwn) return quote',
    to: 'if (Date.now() > 0) return quote',
    tests: ['../api/second-job'],
  },
  {
    loses: 'that a job is told once',
    file: 'src/runtime/orphans.ts',
    from: 'if (await recordOrphan(tx, orphan)) await raiseAlerts',
    to: 'if ((await recordOrphan(tx, orphan)) || Date.now() > 0) await raiseAlerts',
    tests: ['../api/second-job'],
  },
  {
    loses: 'what a cancelled job cost, where failures are billed',
    file: SETTLE,
    from: 'const cost = costOfFailure(at.attempt, null)',
    to: 'const cost = 0n',
    tests: ['cancel'],
  },
  {
    loses: 'what health is told of a failure',
    file: SETTLE,
    from: "await this.#tell(at, { kind: 'fault', fault: outcome.fault })\n    await raiseAlerts(at.tx, await refusalAlerts",
    to: 'await raiseAlerts(at.tx, await refusalAlerts',
    tests: ['health'],
  },
  {
    loses: 'what health is told of a success',
    file: WELL,
    from: 'await Promise.all([storeTold(tx, heard), deliver(tx, finished)])',
    to: 'await deliver(tx, finished.slice(heard.length * 0))',
    tests: ['settle-together'],
  },
  {
    loses: 'that an attempt tells a level the same thing once',
    file: HEALTH,
    from: 'if (!mayGive(row.kind,',
    to: 'if (Date.now() < 0 && !mayGive(row.kind,',
    tests: ['uncertain', 'settle-together'],
  },
  {
    loses: 'a wish to cancel, where the attempt failed',
    file: SETTLE,
    from: "if (!at.mine) return this.#afterEnd(at, 'failed', past.cost)\n    if (at.task.cancel_requested_at !== null) return this.#endCancelled(at)",
    to: "if (!at.mine) return this.#afterEnd(at, 'failed', past.cost)",
    tests: ['settle'],
  },
  {
    loses: 'the count of attempts, where nothing was sent',
    file: SETTLE,
    from: 'at.attempt.number === null ? at.task.attempts : at.task.attempts - 1',
    to: 'at.task.attempts',
    tests: ['fences'],
  },
  {
    loses: 'what earlier attempts cost, in the usage record',
    file: USAGE,
    from: 'coalesce((select sum(a.cost_micros) from attempt a where a.task_id = t.id), 0),',
    to: 'coalesce((select max(a.cost_micros) from attempt a where a.task_id = t.id), 0),',
    tests: ['money'],
  },
  {
    loses: 'whose result is whose, in a transaction of many',
    file: WELL,
    from: 'of.map((output) => ({ ...output, task_id: at.task.id }))',
    to: 'of.map((output) => ({ ...output, task_id: finished.at(-1)?.at.task.id ?? at.task.id, place: finished.findIndex((one) => one.at === at) }))',
    tests: ['settle-together'],
  },
  {
    loses: 'the neighbours of one that the database refuses',
    file: 'src/runtime/batches.ts',
    from: 'if (batch.length > 1) for (const waiting of batch) await this.#one([waiting])\n      else for',
    to: 'for',
    tests: ['batches'],
  },
  {
    loses: 'that nobody else has the job that was found again',
    file: SETTLE,
    from: "if (!(await mayTakeJob(at.tx, at.attempt, outcome.providerTaskId))) return { kind: 'stale' }\n      await markResolved(at.tx",
    to: 'await markResolved(at.tx',
    tests: ['uncertain'],
  },
  {
    loses: 'that a callback outweighs an absence',
    file: SETTLE,
    from: "if (outcome.found.resolver === 'client_id' && at.attempt.called_back_at !== null)\n        return { kind: 'stale' }",
    to: '',
    tests: ['uncertain'],
  },
  {
    loses: 'that leases are held while a job may run on past its time',
    file: SETTLE,
    from: "    await this.#endFailed(at, 'generation_timeout')\n    return { kind: 'ended'",
    to: "    await this.#end(at, abandoned('over'))\n    await this.#endFailed(at, 'generation_timeout')\n    return { kind: 'ended'",
    tests: ['settle'],
  },
  {
    loses: 'the alert of a submission that stays unknown',
    file: SETTLE,
    from: "await raiseAlerts(at.tx, attemptAlerts(code, at.attempt, 'its leases are released now'))",
    to: '',
    tests: ['uncertain'],
  },
  {
    loses: 'the hint for other processes',
    file: ATTEMPTS,
    from: 'select distinct $2::uuid, channel_id, supply_id from freed where $2::uuid is not null`',
    to: 'select distinct $2::uuid, channel_id, supply_id from freed where $2::uuid is null and $2::uuid is not null`',
    tests: ['wake'],
  },
]

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const COPIED = ['src', 'test', 'demo', 'docs', 'bin', 'package.json', 'tsconfig.json', 'vitest.config.ts']

const chosen = process.argv.slice(2).map(Number)
const copy = mkdtempSync(join(tmpdir(), 'settle-mutants-'))
let survivors = 0
try {
  for (const name of [...COPIED, 'bench']) cpSync(join(ROOT, name), join(copy, name), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  for (const [at, mutant] of MUTANTS.entries())
    if (chosen.length === 0 || chosen.includes(at + 1)) judge(at + 1, mutant)
} finally {
  rmSync(copy, { recursive: true, force: true })
}
console.log(`${chosen.length || MUTANTS.length} mutants, ${survivors} survived`)
process.exit(survivors === 0 ? 0 : 1)

function judge(number: number, mutant: Mutant): void {
  const path = join(copy, mutant.file)
  const source = readFileSync(path, 'utf8')
  const parts = source.split(mutant.from)
  if (parts.length !== 2)
    throw new Error(`mutant ${number}: its text stands ${parts.length - 1} times in ${mutant.file}`)
  writeFileSync(path, parts.join(mutant.to))
  const killer = mutant.tests.find((name) => fails(name))
  writeFileSync(path, source)
  if (killer === undefined) survivors += 1
  const fate = killer === undefined ? 'SURVIVED' : `killed by ${killer}`
  console.log(`${String(number).padStart(2)} loses ${mutant.loses}: ${fate}`)
}

function fails(name: string): boolean {
  const file = join('test/runtime', `${name}.test.ts`)
  const vitest = join('node_modules', 'vitest', 'vitest.mjs')
  const run = spawnSync(process.execPath, [vitest, 'run', '--bail=1', file], { cwd: copy, encoding: 'utf8' })
  if (!/Tests +/.test(run.stdout)) throw new Error(`${file} did not run: ${run.stdout}${run.stderr}`)
  return run.status !== 0
}
