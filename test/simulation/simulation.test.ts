/** Days of a misbehaving world in seconds, in one process and by a clock of its own: the rules hold at every step. */
import { describe, expect, it } from 'vitest'
import { Broken, RULES, type Rules, Yard } from './yard.ts'

/** Chosen by nothing: none has found a bug yet. One that does is put in front. */
const SEEDS = [1, 2, 3, 4, 5]

describe('a yard with a clock of its own', () => {
  const seen = new Set<string>()

  it.each(SEEDS)(
    'HLT-1 to HLT-11, HLT-14 to HLT-17, HLT-19, RTY, LAY, UNK-3, STR-11, COST-4: no rule is broken in a day and a half (seed %d)',
    (seed) => {
      const figures = new Yard({ seed, days: 1 }).run()
      for (const one of figures.seen) seen.add(one)
      expect(figures.tasks).toBeGreaterThan(1000)
      expect(figures.succeeded / figures.tasks).toBeGreaterThan(0.8)
    },
  )

  it('has been everywhere that the rules speak of', () => {
    const everywhere = [
      ...[
        'healthy to degraded',
        'degraded to healthy',
        'degraded to circuit_open',
        'circuit_open to probing',
      ],
      ...[
        'probing to recovering',
        'probing to circuit_open',
        'recovering to healthy',
        'recovering to circuit_open',
      ],
      ...[
        'healthy to disabled',
        'disabled to healthy',
        'disabled to probing',
        'late news',
        'escalated',
        'probe turn',
      ],
      ...[
        'tier exact',
        'tier fallback',
        'tier degraded',
        'restricted',
        'same supply again',
        'retry',
        'timed out',
      ],
      ...['wait capacity', 'wait health', 'supply not_sent', 'supply rejected', 'capacity rejected'],
      ...['content rejected', 'request rejected', 'unknown unknown'],
      ...['end succeeded', 'end content_refused', 'end invalid_request', 'end attempts_exhausted'],
      ...['end submission_unresolved', 'end generation_timeout'],
    ]
    expect(everywhere.filter((place) => !seen.has(place))).toEqual([])
  })
})

const BUGS: Readonly<Record<string, Partial<Rules>>> = {
  'late news counts': {
    applyNews: (kind, row, news, now, settings) =>
      RULES.applyNews(kind, row, news.epoch === null ? news : { ...news, epoch: row.epoch }, now, settings),
  },
  'content moves health': {
    newsFor: (kind, happening, attempt) =>
      happening.kind === 'fault' && happening.fault.category === 'content'
        ? { ...attempt, kind: 'failed', code: 'x', fingerprint: 'x', cause: 'ordinary' }
        : RULES.newsFor(kind, happening, attempt),
  },
  'an open circuit closes by itself': {
    coolDownOver: (row, now) => {
      const step = RULES.coolDownOver(row, now)
      return step.row === row ? step : { ...step, row: { ...row, state: 'healthy' } }
    },
  },
  'a cooldown ends early': {
    coolDownOver: (row, now) => RULES.coolDownOver(row, now + 60_000_000),
    afterPing: (row, ok, now, settings) => RULES.afterPing(row, ok, now + 3_600_000_000, settings),
  },
  'the operator’s switch keeps the epoch': {
    disable: (row) => {
      const step = RULES.disable(row)
      return { ...step, row: { ...step.row, epoch: Math.max(0, row.epoch - 1) } }
    },
  },
  'a probe does not reopen': {
    applyNews: (kind, row, news, now, settings) => {
      const step = RULES.applyNews(kind, row, news, now, settings)
      return row.state === 'probing' && step.row.state === 'circuit_open' ? { ...step, row } : step
    },
  },
  'unknown is tried again': {
    mayChangeSupply: (fault, refusal) =>
      fault.category === 'unknown' || RULES.mayChangeSupply(fault, refusal),
    classifySubmission: (evidence) => {
      const fault = RULES.classifySubmission(evidence)
      return fault.certainty === 'unknown'
        ? { ...fault, certainty: 'not_sent', category: 'supply', retryable: true }
        : fault
    },
  },
  'content is tried again': {
    afterFailure: (failed) =>
      failed.fault.category === 'content' ? { kind: 'retry', notBeforeMs: 0 } : RULES.afterFailure(failed),
    mayChangeSupply: () => true,
  },
  'a third attempt': {
    decide: (input) =>
      RULES.decide({
        ...input,
        model: { ...input.model, policy: { ...input.model.policy, maxAttempts: 3 } },
      }),
    afterFailure: (failed) => RULES.afterFailure({ ...failed, policy: { ...failed.policy, maxAttempts: 3 } }),
  },
  'holds are passed over': {
    decide: (input) =>
      RULES.decide({
        ...input,
        candidates: input.candidates.map((one) => ({
          ...one,
          supply: { ...one.supply, notBefore: null },
          channel: { ...one.channel, notBefore: null },
        })),
      }),
  },
  'limits are passed over': {
    decide: (input) =>
      RULES.decide({
        ...input,
        candidates: input.candidates.map((one) => ({
          ...one,
          supply: { ...one.supply, inUse: 0, inUseEpoch: 0 },
          channel: { ...one.channel, inUse: 0, inUseEpoch: 0 },
        })),
      }),
  },
  'probes are healthy': {
    decide: (input) =>
      RULES.decide({
        ...input,
        candidates: input.candidates.map((one) => ({
          ...one,
          supply: {
            ...one.supply,
            health: one.supply.health === 'probing' ? 'healthy' : one.supply.health,
            recoverySuccesses: 0,
          },
          channel: {
            ...one.channel,
            health: one.channel.health === 'probing' ? 'healthy' : one.channel.health,
            recoverySuccesses: 0,
          },
        })),
      }),
  },
  'the order of candidates decides': {
    decide: (input) => RULES.decide({ ...input, candidates: input.candidates.slice(0, 4) }),
  },
  'full is exhausted': {
    decide: (input) =>
      RULES.decide({
        ...input,
        candidates: input.candidates.filter(
          (one) =>
            one.tier === 'degraded' ||
            (one.supply.inUse < one.supply.concurrency && one.channel.inUse < one.channel.concurrency),
        ),
      }),
  },
  'one supply speaks for its channel': { escalates: (signs) => signs.some((sign) => sign.kind === 'failed') },
  'no turn for probes': {
    decide: (input) =>
      RULES.decide({
        ...input,
        model: { ...input.model, policy: { ...input.model.policy, probeIntervalSeconds: null } },
      }),
  },
}

describe('the yard, with a bug in it', () => {
  it.each(Object.entries(BUGS))('is found broken: %s', (_, rules) => {
    const found = SEEDS.some((seed) => {
      try {
        new Yard({ seed, days: 1, rules }).run()
        return false
      } catch (error) {
        if (error instanceof Broken) return true
        throw error
      }
    })
    expect(found).toBe(true)
  })
})
