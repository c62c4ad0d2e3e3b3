/**
 * Which processes really work in a cluster's folder. A process ID alone proves nothing, since the kernel gives it to
 * another after a restart; every process of PostgreSQL has the cluster as its working directory, and that it keeps.
 */
import { readdir, readFile, readlink } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

/** Process IDs of the postmaster and its children, as far as we may see them. */
export async function processesIn(cluster: string): Promise<number[]> {
  const pids = (await readdir('/proc')).map(Number).filter(Number.isInteger)
  const directories = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => null)))
  return pids.filter((_, at) => directories[at] === cluster)
}

/** A process as the kernel knows it: its ID together with when it started, in clock ticks since boot. */
export interface ProcessMark {
  readonly pid: number
  readonly startTicks: string
}

export async function markProcess(pid: number): Promise<ProcessMark | null> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null)
  // The name in parentheses may itself hold spaces and parentheses; the 22nd field counts from behind it.
  const fields = text?.slice(text.lastIndexOf(')') + 2).split(' ')
  const startTicks = fields?.[19]
  // A zombie has ended, and only waits to be reaped.
  return startTicks === undefined || fields?.[0] === 'Z' ? null : { pid, startTicks }
}

export async function isRunning(mark: ProcessMark): Promise<boolean> {
  return (await markProcess(mark.pid))?.startTicks === mark.startTicks
}

/** Asks until it holds or the time in milliseconds is over; answers whether it held. */
export async function holdsWithin(time: number, holds: () => Promise<boolean>): Promise<boolean> {
  const until = performance.now() + time
  for (let pause = 5; ; pause = Math.min(pause * 2, 100)) {
    if (await holds()) return true
    if (performance.now() > until) return false
    await sleep(pause)
  }
}
