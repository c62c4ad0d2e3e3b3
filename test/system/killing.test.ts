/** Kills of the bench, confirmed: who is not at the moment any more when it stands still is not killed, and goes on. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { type Gateway, killAt } from '../../bench/safety/killing.ts'
import { Random } from '../../bench/safety/random.ts'

const started: Gateway[] = []

function gateway(name: string): Gateway {
  const child = spawn('sleep', ['60'], { stdio: 'ignore' })
  const one = { child, name, url: '', ended: once(child, 'exit') }
  started.push(one)
  return one
}

afterEach(async () => {
  for (const { child, ended } of started.splice(0)) {
    child.kill('SIGKILL')
    await ended
  }
})

/** 'T' where it is stopped. */
async function stateOf({ child }: Gateway): Promise<string | undefined> {
  return (await readFile(`/proc/${child.pid}/stat`, 'utf8')).split(') ')[1]?.[0]
}

const at = (name: string) => ({ gateway: name, attempt: 'a', kind: 'video' as const })

describe('a kill at a moment', () => {
  it('UNK-6: strikes who is at it, standing still', async () => {
    const [first, second] = [gateway('gateway-1'), gateway('gateway-2')]
    const states: (string | undefined)[] = []
    const rows = async () => {
      states.push(await stateOf(second))
      return [at('gateway-2')] as never[]
    }
    const killed = await killAt('settlement', [first, second], { rows, random: new Random(1) })
    expect(killed).toMatchObject({ victim: second, caught: at('gateway-2'), tries: 1 })
    expect(states).toEqual([expect.not.stringMatching('T'), 'T'])
    expect([first.child.signalCode, second.child.signalCode]).toEqual([null, 'SIGKILL'])
  })

  it('UNK-6: lets go on whose moment has passed, and tries again', async () => {
    const one = gateway('gateway-1')
    const looks = [[at('gateway-1')], [], [at('gateway-1')], [at('gateway-1')]]
    const states: (string | undefined)[] = []
    const rows = async () => {
      states.push(await stateOf(one))
      return (looks.shift() ?? []) as never[]
    }
    const killed = await killAt('settlement', [one], { rows, random: new Random(1) })
    expect(killed?.tries).toBe(2)
    expect(states.map((state) => state === 'T')).toEqual([false, true, false, true])
  })

  it('UNK-6: strikes nobody where none is at it', async () => {
    const one = gateway('gateway-1')
    const rows = async () => [at('gateway-2')] as never[]
    expect(await killAt('settlement', [one], { rows, random: new Random(1), patienceMs: 300 })).toBeNull()
    expect(one.child.signalCode).toBeNull()
  })
})
