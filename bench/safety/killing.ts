/**
 * Kills that are confirmed: a gateway is looked for that is at the moment wanted, stopped, looked at again while it cannot
 * move, and killed only if it is still there. Whatever else it is at, it goes on, and the search too.
 */
import type { ChildProcess } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from './random.ts'

export interface Gateway {
  readonly child: ChildProcess
  /** As its connections are named in the database. */
  readonly name: string
  readonly url: string
  readonly ended: Promise<unknown>
}

export type Moment = 'submission' | 'settlement'

/** What a gateway was at when it was killed. */
export interface Caught {
  readonly gateway: string
  readonly attempt: string
  readonly kind: 'video' | 'image'
}

export interface KillerPorts {
  readonly rows: <Row extends Record<string, unknown>>(sql: string) => Promise<Row[]>
  readonly random: Random
  /** How long is looked for one, in ms; a minute where absent. */
  readonly patienceMs?: number
}

const PATIENCE_MS = 60_000
/** For statements that were under way when their client was stopped. */
const SETTLING_DOWN_MS = 25
const LONGEST_PAUSE_MS = 60

/**
 * submission: an attempt of its own is committed as `submitting`, so that its POST is about to leave, or is out, or has an
 * answer that is not committed.
 *
 * settlement: a transaction of its own is open that has locked or changed a task and its attempt, which was accepted, or is
 * an image's: the end of it is being written, and not committed. xmax names the transaction that did so. Statements
 * of their own (claims of polls) touch no task's row, and the grant makes an attempt that nobody else sees yet.
 */
const LOOKS: Readonly<Record<Moment, string>> = {
  submission: `
    select 'gateway-' || p.pid as gateway, a.id::text as attempt, a.kind from attempt a join process p on p.id = a.owner
    where a.state = 'submitting' and p.stopped_at is null and p.alive_until > clock_timestamp()`,
  settlement: `
    select s.application_name as gateway, a.id::text as attempt, a.kind from pg_stat_activity s
    join attempt a on a.xmax = s.backend_xid join task t on t.id = a.task_id and t.xmax = s.backend_xid
    where s.datname = current_database() and s.application_name like 'gateway-%' and s.xact_start is not null
      and a.ended_at is null and (a.state = 'accepted' or (a.state = 'submitting' and a.kind = 'image'))`,
}

/** All that stand at that moment now, whatever they are called. */
export function thoseAt(moment: Moment, rows: KillerPorts['rows']): Promise<Caught[]> {
  return rows<Caught & Record<string, unknown>>(LOOKS[moment])
}

/** Kills one of the gateways at that moment. null: within that time none could be caught there, and none was killed. */
export async function killAt(
  moment: Moment,
  gateways: readonly Gateway[],
  ports: KillerPorts,
): Promise<{ victim: Gateway; caught: Caught; tries: number } | null> {
  const look = () => thoseAt(moment, ports.rows)
  const end = performance.now() + (ports.patienceMs ?? PATIENCE_MS)
  for (let tries = 1; performance.now() < end; ) {
    const victim = gatewayOf(ports.random.shuffled(await look()), { moment, gateways })
    if (victim) {
      const name = nameOf(victim, moment)
      const caught = await stopAndLook(victim, async () =>
        ports.random.shuffled(await look()).find((row) => row.gateway === name),
      )
      if (caught) return { victim, caught, tries }
      tries += 1
    }
    await sleep(ports.random.below(LONGEST_PAUSE_MS))
  }
  return null
}

function gatewayOf(
  caught: readonly Caught[],
  { moment, gateways }: { moment: Moment; gateways: readonly Gateway[] },
): Gateway | undefined {
  const names = new Map(gateways.map((gateway) => [nameOf(gateway, moment), gateway]))
  return caught.map((one) => names.get(one.gateway)).find((gateway) => gateway !== undefined)
}

/** Rows of `process` know the PID, connections the name that they were given. */
function nameOf(gateway: Gateway, moment: Moment): string {
  return moment === 'submission' ? `gateway-${gateway.child.pid}` : gateway.name
}

/** -9 if `look` finds something while it stands still; else it goes on. */
async function stopAndLook<T>(
  { child, ended }: Gateway,
  look: () => Promise<T | undefined>,
): Promise<T | undefined> {
  child.kill('SIGSTOP')
  let found: T | undefined
  try {
    await stoodStill(child.pid ?? 0)
    await sleep(SETTLING_DOWN_MS)
    found = await look()
  } finally {
    child.kill(found === undefined ? 'SIGCONT' : 'SIGKILL')
  }
  if (found !== undefined) await ended
  return found
}

/** A signal is sent before it has its effect. */
async function stoodStill(pid: number): Promise<void> {
  const end = performance.now() + 5000
  while (performance.now() < end) {
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
    // After the name in parentheses, which may hold anything.
    if (stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) === 'T') return
    await sleep(1)
  }
  throw new Error(`process ${pid} does not stop`)
}
