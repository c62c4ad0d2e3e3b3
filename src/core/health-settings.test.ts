import { describe, expect, it } from 'vitest'
import { HEALTH_DEFAULTS } from './health-row.ts'
import { healthSettingsFrom } from './health-settings.ts'

describe('settings of health', () => {
  it('HLT-14: what is named is changed, the rest keeps its default', () => {
    expect(healthSettingsFrom({ window_size: 1 })).toMatchObject({ ok: true, settings: { windowSize: 1 } })
    expect(healthSettingsFrom({ cool_down_ms: 500 })).toEqual({
      ok: true,
      settings: { ...HEALTH_DEFAULTS, coolDownMs: 500 },
    })
  })

  it.each([
    [{ cooldown: 1 }, 'has cooldown, but knows window_size,'],
    [{ cool_down_ms: 0 }, 'has cool_down_ms 0, which must be a whole number of at least 1'],
    [{ cool_down_ms: '5' }, 'has cool_down_ms "5", which must be'],
    [[], 'must be an object'],
    [null, 'must be an object'],
  ])('HLT-14: %j is refused with what would be right', (given, problem) => {
    expect(healthSettingsFrom(given)).toMatchObject({ ok: false, problem: expect.stringContaining(problem) })
  })

  it('HLT-14: every setting can be named', () => {
    const names = Object.keys(HEALTH_DEFAULTS).map((key) =>
      key.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`),
    )
    const all = Object.fromEntries(names.map((name) => [name, 7]))
    const read = healthSettingsFrom(all)
    expect(read).toEqual({
      ok: true,
      settings: Object.fromEntries(Object.keys(HEALTH_DEFAULTS).map((key) => [key, 7])),
    })
  })
})
