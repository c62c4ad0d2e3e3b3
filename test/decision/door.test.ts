import { describe, expect, it } from 'vitest'
import { candidate, end, failed, imageCandidate, imageInput, input, NOW, verdict } from './build.ts'

const at = (candidates = [candidate('a')]) => candidates
const rejected = (code: string) => `rejected/${code}`

describe('before any candidate is looked at', () => {
  const door = { admitted: false }
  it.each([
    ['user inactive', { caller: { user_active: false } }, 'access_denied'],
    [
      'user inactive, admitted',
      { caller: { user_active: false }, task: { admitted: true } },
      'access_denied',
    ],
    ['key inactive', { caller: { key_active: false }, task: door }, 'access_denied'],
    ['no group allowed', { model: { allowed_groups: ['vip'] }, task: door }, 'access_denied'],
    [
      'no group at all',
      { caller: { groups: [] }, model: { allowed_groups: ['default'] }, task: door },
      'access_denied',
    ],
    ['not enabled', { model: { enabled: false }, task: door }, 'model_not_available'],
    ['not published', { model: { published: false }, task: door }, 'model_not_available'],
    ['outside the limits', { request: { duration_seconds: 16 }, task: door }, 'invalid_request'],
    ['attempt active', { task: { attempts: [failed('z', { outcome: 'active' })] } }, 'attempt_open'],
    ['attempt uncertain', { task: { attempts: [failed('z', { outcome: 'uncertain' })] } }, 'attempt_open'],
    [
      'may not change supply',
      { task: { attempts: [failed('z', { may_change_supply: false })] } },
      'not_retryable',
    ],
    ['two failed', { task: { attempts: [failed('z'), failed('y')] } }, 'attempts_exhausted'],
    ['a second too late', { task: { created_at: '2026-12-01T07:40:59.000Z' } }, 'retry_window_expired'],
  ])('ORD-1, ORD-2, RTY-1, RTY-2, RTY-3, UNK-3: %s', (_, parts, code) => {
    const found = verdict(input(at(), parts))
    expect(found).toMatchObject({ result: 'rejected', code })
    expect(found).not.toHaveProperty('excluded')
    expect(found).not.toHaveProperty('alerts')
  })

  it.each([
    [
      'access before model',
      { caller: { key_active: false }, model: { published: false }, task: door },
      'access_denied',
    ],
    [
      'model before limits',
      { model: { enabled: false }, request: { duration_seconds: 99 }, task: door },
      'model_not_available',
    ],
    [
      'limits before attempts',
      {
        request: { duration_seconds: 99 },
        task: { ...door, attempts: [failed('z', { outcome: 'active' })] },
      },
      'invalid_request',
    ],
    [
      'open before not retryable',
      { task: { attempts: [failed('z', { may_change_supply: false }), failed('y', { outcome: 'active' })] } },
      'attempt_open',
    ],
    [
      'not retryable before exhausted',
      { task: { attempts: [failed('z', { may_change_supply: false }), failed('y')] } },
      'not_retryable',
    ],
    [
      'exhausted before window',
      { task: { created_at: '2026-12-01T07:00:00Z', attempts: [failed('z'), failed('y')] } },
      'attempts_exhausted',
    ],
    [
      'user before all',
      { caller: { user_active: false }, task: { attempts: [failed('z', { outcome: 'active' })] } },
      'access_denied',
    ],
  ])('ORD-1: in this order: %s', (_, parts, code) => {
    expect(end(input(at(), parts))).toBe(rejected(code))
  })

  it.each([
    ['key', { caller: { key_active: false } }],
    ['group', { model: { allowed_groups: ['vip'] } }],
    ['enabled', { model: { enabled: false } }],
    ['published', { model: { published: false } }],
  ])('ORD-19: an admitted task is not judged by %s again', (_, parts) => {
    expect(end(input(at(), parts))).toBe('b_a')
  })

  it('ORD-1: one group of several is enough, and null lets everyone in', () => {
    const task = { admitted: false }
    expect(
      end(input(at(), { task, caller: { groups: ['x', 'vip'] }, model: { allowed_groups: ['vip', 'y'] } })),
    ).toBe('b_a')
    expect(end(input(at(), { task, caller: { groups: [] } }))).toBe('b_a')
  })

  it.each([
    [{ inputs: { reference_images: 10 } }, 'inputs'],
    [{ inputs: { first_frame: 1 } }, 'inputs'],
    [{ inputs: { reference_images: 10 }, duration_seconds: 99 }, 'inputs'],
    [{ duration_seconds: 3, resolution: '4k' }, 'duration_seconds'],
    [{ resolution: '4k', aspect_ratio: '1:1' }, 'resolution'],
    [{ aspect_ratio: '1:1' }, 'aspect_ratio'],
  ])('ORD-2: %j names %s', (request, param) => {
    expect(verdict(input(at(), { request, task: door }))).toMatchObject({ code: 'invalid_request', param })
  })

  it('ORD-2: sound that the model does not make', () => {
    const limits = { modes: [{ ...modeOf(), generate_audio: false }] }
    const asked = { request: { generate_audio: true }, model: { limits }, task: door }
    expect(verdict(input(at(), asked))).toMatchObject({ param: 'generate_audio' })
    expect(end(input(at(), { ...asked, request: { generate_audio: false } }))).toBe('b_a')
  })

  it('ORD-2: the first mode whose inputs fit names the parameter, and any mode that fits will do', () => {
    const modes = [{ ...modeOf(), resolutions: ['480p'] }, { ...modeOf(), aspect_ratios: ['1:1'] }, modeOf()]
    expect(end(input(at(), { task: door, model: { limits: { modes } } }))).toBe('b_a')
    expect(
      verdict(input(at(), { task: door, model: { limits: { modes: modes.slice(0, 2) } } })),
    ).toMatchObject({ param: 'resolution' })
  })

  it.each([
    [{ size: '1x1', quality: 'ultra' }, 'size'],
    [{ quality: 'ultra', count: 9 }, 'quality'],
    [{ count: 5 }, 'count'],
  ])('ORD-2: of an image, %j names %s', (request, param) => {
    expect(verdict(imageInput([imageCandidate('a')], { request, task: door }))).toMatchObject({
      code: 'invalid_request',
      param,
    })
  })

  it('ORD-2: a null quality fits every mode; another media is named as such', () => {
    expect(end(imageInput([imageCandidate('a')], { task: door }))).toBe('b_a')
    const asked = { ...input([imageCandidate('a')], { task: door }), model: imageInput([]).model }
    expect(verdict(asked)).toMatchObject({ code: 'invalid_request', param: 'media' })
  })

  it('RTY-3: the window ends after its last second, a clock that went back is no age, and an image has none', () => {
    expect(end(input(at(), { task: { created_at: '2026-12-01T07:41:00.000Z' } }))).toBe('b_a')
    expect(end(input(at(), { task: { created_at: '2026-12-01T07:40:59.999Z' } }))).toBe(
      rejected('retry_window_expired'),
    )
    expect(end(input(at(), { now: NOW, task: { created_at: '2026-12-01T09:00:00.000Z' } }))).toBe('b_a')
    expect(end(imageInput([imageCandidate('a')], { task: { created_at: '2026-11-01T00:00:00Z' } }))).toBe(
      'b_a',
    )
  })
})

function modeOf() {
  return {
    duration_seconds: { min: 4, max: 15 },
    resolutions: ['480p', '720p'],
    aspect_ratios: ['16:9'],
    generate_audio: true,
    inputs: {},
  }
}
