import { describe, expect, it } from 'vitest'
import { byClientId, byHint, byTime, type FoundJob, fits, type Known, type Suspect } from './resolution.ts'

const SENT = 1_800_000_000_000
const SUSPECT: Suspect = {
  attemptId: 'a1',
  upstreamModel: 'm',
  from: SENT,
  until: SENT + 60_000,
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  prompt: 'a yard at night',
}
const JOB: FoundJob = {
  providerTaskId: 'job-1',
  createdAtMs: SENT + 500,
  clientId: null,
  upstreamModel: 'm',
  durationSeconds: 5,
  resolution: '720p',
  aspectRatio: '16:9',
  prompt: 'a yard at night',
}
const UNTOLD: FoundJob = {
  providerTaskId: 'job-1',
  createdAtMs: null,
  clientId: null,
  upstreamModel: null,
  durationSeconds: null,
  resolution: null,
  aspectRatio: null,
  prompt: null,
}
const NOBODY: Known = { taken: new Set(), rivals: [], allRivals: true }
const rival = (more: Partial<Suspect> = {}): Suspect => ({ ...SUSPECT, attemptId: 'a2', ...more })
const list = (...jobs: FoundJob[]) => ({ jobs, complete: true })

describe('a job that fits', () => {
  it('UNK-9: what is not told speaks neither for nor against', () => {
    expect(fits(SUSPECT, UNTOLD)).toBe(true)
  })

  it.each([
    ['another client’s ID', { clientId: 'a2' }],
    ['another model', { upstreamModel: 'n' }],
    ['another duration', { durationSeconds: 6 }],
    ['another resolution', { resolution: '480p' }],
    ['another ratio', { aspectRatio: '9:16' }],
    ['another prompt', { prompt: 'a yard by day' }],
    ['made a minute and more before', { createdAtMs: SENT - 60_001 }],
    ['made a minute and more after', { createdAtMs: SENT + 120_001 }],
  ])('UNK-9: %s does not fit', (_, other) => {
    expect(fits(SUSPECT, { ...JOB, ...other })).toBe(false)
  })

  it('UNK-9: a ratio that was left to the provider fits any', () => {
    for (const left of ['adaptive', 'auto'])
      expect(fits({ ...SUSPECT, aspectRatio: left }, { ...JOB, aspectRatio: '21:9' })).toBe(true)
  })

  it.each([SENT - 60_000, SENT + 120_000])('UNK-9: clocks may differ by a minute (%d)', (createdAtMs) => {
    expect(fits(SUSPECT, { ...JOB, createdAtMs })).toBe(true)
  })
})

describe('by callback', () => {
  it('UNK-9: a hint that the account confirms is ours', () => {
    expect(byHint(SUSPECT, UNTOLD, NOBODY)).toEqual({
      kind: 'accepted',
      providerTaskId: 'job-1',
      by: 'callback',
    })
  })

  it.each([
    ['the account has no such job', undefined, NOBODY],
    ['another attempt has it', JOB, { ...NOBODY, taken: new Set(['job-1']) }],
    ['it is not what was ordered', { ...JOB, durationSeconds: 10 }, NOBODY],
  ])('UNK-9: a hint proves nothing where %s', (_, job, known) => {
    expect(byHint(SUSPECT, job, known)).toMatchObject({ kind: 'open' })
  })
})

describe('by client ID', () => {
  const known = (absenceProves = false, taken: string[] = []) => ({
    ...NOBODY,
    taken: new Set(taken),
    absenceProves,
  })

  it('UNK-9: the one job with our ID is ours, among whatever else is listed', () => {
    const jobs = list({ ...JOB, providerTaskId: 'x', clientId: null }, { ...JOB, clientId: 'a1' })
    expect(byClientId(SUSPECT, jobs, known())).toEqual({
      kind: 'accepted',
      providerTaskId: 'job-1',
      by: 'client_id',
    })
  })

  it.each([
    ['none has it', list(), known()],
    ['a job without an ID is not ours', list(JOB), known()],
    [
      'two have it',
      list({ ...JOB, clientId: 'a1' }, { ...JOB, clientId: 'a1', providerTaskId: 'job-2' }),
      known(),
    ],
    ['another attempt has the job', list({ ...JOB, clientId: 'a1' }), known(false, ['job-1'])],
    [
      'two have it, though absence would prove',
      list({ ...JOB, clientId: 'a1' }, { ...JOB, clientId: 'a1' }),
      known(true),
    ],
  ])('UNK-6: nothing is proved where %s', (_, jobs, what) => {
    expect(byClientId(SUSPECT, jobs, what)).toMatchObject({ kind: 'open' })
  })

  it('UNK-6: absence proves only where it was declared to, and the list is whole', () => {
    expect(byClientId(SUSPECT, list(), known(true))).toEqual({ kind: 'not_accepted', by: 'client_id' })
    expect(byClientId(SUSPECT, { jobs: [], complete: false }, known(true))).toMatchObject({ kind: 'open' })
  })
})

describe('by time and parameters', () => {
  const known = (more: Partial<Known & { soleUser: boolean }> = {}) => ({
    ...NOBODY,
    soleUser: false,
    ...more,
  })

  it('UNK-9: the only job that fits is ours', () => {
    const other = { ...JOB, providerTaskId: 'x', durationSeconds: 10 }
    expect(byTime(SUSPECT, list(other, JOB), known())).toEqual({
      kind: 'accepted',
      providerTaskId: 'job-1',
      by: 'time',
    })
  })

  it('UNK-9: jobs that other attempts have do not count', () => {
    const taken = new Set(['x'])
    expect(byTime(SUSPECT, list({ ...JOB, providerTaskId: 'x' }, JOB), known({ taken }))).toMatchObject({
      kind: 'accepted',
    })
  })

  it.each([
    ['none fits', list(), known()],
    ['two fit', list(JOB, { ...JOB, providerTaskId: 'job-2' }), known()],
    ['the list is not whole', { jobs: [JOB], complete: false }, known()],
    ['another attempt could have made it', list(JOB), known({ rivals: [rival()] })],
    ['its time is not told', list({ ...JOB, createdAtMs: null }), known()],
    ['its model is not told', list({ ...JOB, upstreamModel: null }), known()],
    ['its duration is not told', list({ ...JOB, durationSeconds: null }), known()],
    ['not all other attempts are known', list(JOB), known({ allRivals: false })],
    ['nobody tells whose it is', list({ ...JOB, prompt: null }), known()],
  ])('UNK-9: nothing is proved where %s', (_, jobs, what) => {
    expect(byTime(SUSPECT, jobs, what)).toMatchObject({ kind: 'open' })
  })

  it('UNK-9: a job with our own ID in it needs no other sign', () => {
    const job = { ...UNTOLD, clientId: 'a1' }
    expect(
      byTime(SUSPECT, list(job, { ...UNTOLD, providerTaskId: 'x' }), known({ rivals: [rival()] })),
    ).toMatchObject({
      kind: 'accepted',
      providerTaskId: 'job-1',
    })
  })

  it('UNK-9: a rival that could not have made it does not matter', () => {
    const rivals = [rival({ durationSeconds: 10 }), rival({ from: SENT + 600_000, until: SENT + 660_000 })]
    expect(byTime(SUSPECT, list(JOB), known({ rivals }))).toMatchObject({ kind: 'accepted' })
  })

  it('UNK-9: without a prompt, only an account that is ours alone tells whose it is', () => {
    expect(byTime(SUSPECT, list({ ...JOB, prompt: null }), known({ soleUser: true }))).toMatchObject({
      kind: 'accepted',
    })
  })
})
