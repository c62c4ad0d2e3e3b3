/**
 * A contestant: a Node process of its own, ours and the peers' alike, that works off what is stored in its database until
 * it is told to stop. What it reached is counted in the database, by rows that are durably over.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { BenchDatabase, Counters } from './cluster.ts'

export interface Course {
  readonly contestant: string
  /** Several: of each process its own. */
  readonly options?: object | readonly object[]
  /** Gives `done`, the number of durably finished ones; and `at`, in seconds, when that was so. */
  readonly done: string
  /** How many processes run at once. */
  readonly processes?: number
  readonly warmUpSeconds: number
  readonly seconds: number
  /** Stored beforehand. Where as many are done, the time is over. */
  readonly waiting: number
  readonly nodeOptions?: readonly string[]
}

export interface Reached {
  readonly perSecond: number
  /** Done over the whole life of the process, and what it used for that. */
  readonly done: number
  readonly cpuSeconds: number
  readonly wallSeconds: number
  /** Queries that were sent, where the contestant counts them. */
  readonly queries: number
  readonly spent: Counters
  readonly faults: readonly string[]
}

export interface Report {
  /** Since the mark, where there was one. */
  readonly cpuSeconds: number
  readonly queries: number
  /** The middle of what was seen once a second. */
  readonly residentBytes: number
  readonly figures: Readonly<Record<string, number>>
  readonly faults: readonly string[]
}

const RUNNER = fileURLToPath(new URL('contestants/process.ts', import.meta.url))

export async function race(database: BenchDatabase, course: Course): Promise<Reached> {
  const before = await database.counters()
  const processes = await startProcesses(database, course)
  const began = performance.now()
  for (const process of processes) process.go()
  let reports: Report[]
  let perSecond: number
  try {
    perSecond = await speed(database, course)
  } finally {
    reports = await Promise.all(processes.map((process) => process.stop()))
  }
  const { done } = await count(database, course)
  const wallSeconds = (performance.now() - began) / 1000
  const after = await database.counters()
  return {
    perSecond,
    done,
    wallSeconds,
    cpuSeconds: reports.reduce((sum, report) => sum + report.cpuSeconds, 0),
    queries: reports.reduce((sum, report) => sum + report.queries, 0),
    faults: reports.flatMap((report) => report.faults),
    spent: {
      wal: after.wal - before.wal,
      fullPages: after.fullPages - before.fullPages,
      commits: after.commits - before.commits,
    },
  }
}

/** Let one work until `ready` gives true, and then for a span of time, of which its report is. */
export async function stay(
  database: BenchDatabase,
  course: Pick<Course, 'contestant' | 'options'> & { ready: string; settleSeconds: number; seconds: number },
): Promise<Report> {
  const [process] = await startProcesses(database, course)
  if (!process) throw new Error('no process was started')
  let isReady = false
  process.go()
  try {
    for (const until = performance.now() + 600_000; !isReady && performance.now() < until; await sleep(500))
      isReady = (await database.rows<{ ready: boolean }>(course.ready))[0]?.ready === true
    if (!isReady) throw new Error(`${course.contestant} does not get so far`)
    await sleep(course.settleSeconds * 1000)
    process.mark()
    await sleep(course.seconds * 1000)
  } catch (error) {
    await process.stop()
    throw error
  }
  return process.stop()
}

function startProcesses(
  database: BenchDatabase,
  course: Pick<Course, 'contestant' | 'options' | 'processes' | 'nodeOptions'>,
) {
  const { options = {} } = course
  const each = Array.isArray(options) ? options : Array.from({ length: course.processes ?? 1 }, () => options)
  return Promise.all(each.map((own) => startProcess(database, { ...course, options: own })))
}

async function startProcess(
  database: BenchDatabase,
  course: Pick<Course, 'contestant' | 'nodeOptions'> & { options: object },
) {
  const { contestant, options, nodeOptions = [] } = course
  const child = fork(RUNNER, [contestant, database.url, JSON.stringify(options)], {
    execArgv: [...nodeOptions],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const gone = once(child, 'exit')
  const first = await Promise.race([once(child, 'message'), gone])
  if (first[0] !== 'ready') throw new Error(`${contestant} ended before it was ready`)
  return {
    go: () => child.send('go'),
    mark: () => child.send('mark'),
    stop: async (): Promise<Report> => {
      const report = once(child, 'message')
      child.send('stop')
      const [message] = await Promise.race([report, gone])
      await gone
      if (typeof message !== 'object' || message === null) throw new Error(`${contestant} ended early`)
      return message
    },
  }
}

/** After warming up, over a span of time, or until everything is done. */
async function speed(database: BenchDatabase, course: Course): Promise<number> {
  const began = performance.now()
  const patience = course.warmUpSeconds * 1000 + 60_000
  let from = await count(database, course)
  while (from.done === 0 || performance.now() - began < course.warmUpSeconds * 1000) {
    if (performance.now() - began > patience) throw new Error(`${course.contestant} finishes nothing`)
    await sleep(50)
    from = await count(database, course)
  }
  const until = performance.now() + course.seconds * 1000
  let to = from
  while (performance.now() < until && to.done < course.waiting) {
    await sleep(Math.min(500, Math.max(0, until - performance.now())))
    to = await count(database, course)
  }
  if (to.at <= from.at || to.done === from.done)
    throw new Error(`${course.contestant} was through before it could be measured, or stopped; store more`)
  return (to.done - from.done) / (to.at - from.at)
}

async function count(database: BenchDatabase, course: Course): Promise<{ done: number; at: number }> {
  const [row] = await database.rows<{ done: string; at: string }>(course.done)
  return { done: Number(row?.done), at: Number(row?.at) }
}
