/** Jobs that run for long, looked after at their proper pace: what that takes, and whether it comes in bursts. */
import { stay } from './contestant.ts'
import { allRunning, endlessYard } from './crowd.ts'
import type { Bench, Line } from './figure.ts'
import { SETTINGS } from './lifecycles.ts'
import { spreadOf } from './rounds.ts'

/** The poller's own limit of calls to one channel at a time (src/runtime/poller.ts). */
const CALLS_PER_CHANNEL = 16

export async function poller(bench: Bench): Promise<Line[]> {
  const running = bench.short ? 100 : 10_000
  const seconds = bench.short ? 15 : 60
  const database = await endlessYard(bench, { queued: 0, running })
  try {
    const { cpuSeconds, figures, faults } = await stay(database, {
      contestant: 'yardmaster',
      options: { ...SETTINGS, pollMs: 50 },
      ready: allRunning(running),
      // The first look comes at the same age for all; from the second on they are spread.
      settleSeconds: bench.short ? 0 : 60,
      seconds,
    })
    for (const fault of faults) bench.say(`  fault: ${fault}`)
    const { looks = 0, busiestSecond = 0, mostAtOnce = 0 } = figures
    const [row] = await database.rows<{ lost: string }>(
      `select count(*) as lost from attempt where state <> 'accepted' or next_poll_at < clock_timestamp() - interval '1 minute'`,
    )
    if (looks === 0 || row?.lost !== '0')
      throw new Error(`${row?.lost} of ${running} jobs are not looked after`)
    const of = `${running.toLocaleString('en-GB')} running jobs`
    const line = (what: string, unit: string, value: number): Line => ({
      what: `  ${what}`,
      unit,
      ours: spreadOf([value]),
    })
    return [
      { what: `${of}: looks`, unit: '1/s', ours: spreadOf([looks / seconds]) },
      line('share of one processor that our process takes', '', cpuSeconds / seconds),
      {
        ...line('the busiest second, by the mean', '', (busiestSecond * seconds) / looks),
        demanded: { most: 2 },
      },
      {
        ...line('calls to one channel at a time, at most', '', mostAtOnce),
        demanded: { most: CALLS_PER_CHANNEL },
      },
    ]
  } finally {
    await database.drop()
  }
}
