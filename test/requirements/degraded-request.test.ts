/** DEG-6: of a degraded delivery both requests are kept, the one that was asked for and the one that was sent. */
import { afterEach, expect, it } from 'vitest'
import { admitted, attemptsOf, ended, leaveOnly } from '../runtime/facts.ts'
import { rowsOf, type System, startSystem, VIDEO } from '../system/kit.ts'

let system: System
afterEach(() => system?.stop())

const urls = (kind: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ url: `https://example.com/${kind}-${n + 1}` }))
const INPUTS = { reference_images: 9, reference_videos: 2, reference_audios: 1 }
const asked = {
  facts: { ...VIDEO, inputs: INPUTS },
  content: {
    prompt: 'a yard at night',
    inputs: {
      reference_images: urls('image', 9),
      reference_videos: urls('video', 2),
      reference_audios: urls('audio', 1),
    },
    metadata: {},
    echo: {},
  },
}

async function delivered(only: string) {
  system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
  await leaveOnly(system, [only])
  const engine = system.engine()
  await engine.start()
  const task = await admitted(system, engine, asked)
  expect(await ended(system, task)).toMatchObject({ state: 'succeeded' })
  const [attempt] = await attemptsOf(system, task)
  const [stored] = await rowsOf<{ facts: object }>(system.db, 'select facts from task where id = $1::uuid', [
    task,
  ])
  return { attempt, stored }
}

it('DEG-6: the request is stored before and after the transform', async () => {
  const { attempt, stored } = await delivered('seedance-mini-south')
  expect(stored?.facts).toMatchObject({ inputs: INPUTS })
  expect(attempt?.degraded).toMatchObject({
    requested_profile: '933',
    actual_profile: '900',
    dropped_inputs: ['reference_videos', 'reference_audios'],
  })
  // Nothing but what was dropped differs between the two.
  expect(attempt?.degraded).toHaveProperty('sent', { ...stored?.facts, inputs: { reference_images: 9 } })
})

it('DEG-6, DEG-7: an exact delivery has no second request', async () => {
  const { attempt, stored } = await delivered('seedance-north')
  expect(stored?.facts).toMatchObject({ inputs: INPUTS })
  expect(attempt?.degraded).toBeNull()
})
