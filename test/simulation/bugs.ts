/** Bugs to plant: each breaks one rule, and the yard must be found broken. A bug in the decider bends what it is shown. */
import type { Candidate, Level } from '../../src/core/catalog.ts'
import type { DecisionInput } from '../../src/core/verdict.ts'
import { RULES, type Rules } from './rules.ts'

let calls = 0

type Bend = (candidate: Candidate) => Candidate

function shown(bend: Bend): Partial<Rules> {
  return {
    decide: (input) => RULES.decide({ ...input, candidates: input.candidates.map(bend) }),
  }
}

function levels(bend: (level: Level) => Partial<Level>): Bend {
  return (one) => ({
    ...one,
    supply: { ...one.supply, ...bend(one.supply) },
    channel: { ...one.channel, ...bend(one.channel) },
  })
}

function policy(change: Partial<DecisionInput['model']['policy']>): Partial<Rules> {
  return {
    decide: (input) =>
      RULES.decide({
        ...input,
        model: { ...input.model, policy: { ...input.model.policy, ...change } },
      }),
  }
}

/** A rung that is not its own, for decision and grant alike. */
function rung(from: number, to: number): Partial<Rules> {
  const bend = (level: Level): Partial<Level> =>
    level.health === 'recovering' && level.recoverySuccesses === from ? { recoverySuccesses: to } : {}
  return {
    ...shown(levels(bend)),
    freeCapacity: (level) => RULES.freeCapacity({ ...level, ...bend(level) }),
  }
}

const ALL_OPEN = (level: Level): Partial<Level> =>
  level.health === 'recovering' ? { health: 'degraded', recoverySuccesses: 0 } : {}
const DISABLED_IS_OPEN = (level: Level): Partial<Level> =>
  level.health === 'disabled' ? { health: 'circuit_open', adminState: 'enabled' } : {}

const HEALTH: Readonly<Record<string, Partial<Rules>>> = {
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
  'one supply speaks for its channel': { escalates: (signs) => signs.some((sign) => sign.kind === 'failed') },
  'what was told is forgotten': { mayGive: () => true },
}

const RETRY: Readonly<Record<string, Partial<Rules>>> = {
  'unknown is called refused': {
    mayChangeSupply: (fault, refusal) =>
      fault.category === 'unknown' || RULES.mayChangeSupply(fault, refusal),
    classifySubmission: (evidence) => {
      const fault = RULES.classifySubmission(evidence)
      return fault.certainty === 'unknown'
        ? { ...fault, certainty: 'not_sent', category: 'supply', retryable: true }
        : fault
    },
  },
  'an unknown outcome counts as refused': {
    classifySubmission: (evidence) => {
      const fault = RULES.classifySubmission(evidence)
      return fault.certainty === 'unknown'
        ? { ...fault, certainty: 'rejected', category: 'supply', retryable: true }
        : fault
    },
  },
  'content is tried again': {
    afterFailure: (failed) =>
      failed.fault.category === 'content' ? { kind: 'retry', notBeforeMs: 0 } : RULES.afterFailure(failed),
    mayChangeSupply: () => true,
  },
  'a third attempt': {
    ...policy({ maxAttempts: 3 }),
    afterFailure: (failed) => RULES.afterFailure({ ...failed, policy: { ...failed.policy, maxAttempts: 3 } }),
  },
  'a failure that is billed is free': { costOfAttempt: () => 0n },
  'the task’s limit is forgotten': policy({ taskCostLimit: null }),
  'the window never closes': policy({ retryWindowSeconds: 100_000 }),
}

const ENGINE: Readonly<Record<string, Partial<Rules>>> = {
  'what a dead process submitted is given back': { lostBy: () => 'not_started' },
  'nobody looks again at the grant': { freeCapacity: () => 1 },
  'a turn may be taken twice': { isSameTurn: () => true },
  'a process sends however long it stood still': {
    mayStillSend: () => true,
    lostBy: (state) => (state === 'submitting' ? 'not_started' : RULES.lostBy(state)),
  },
  'a doubt frees its slot': {
    isAlive: (state) => state !== 'submission_uncertain' && RULES.isAlive(state),
  },
  'a lease outlives its attempt': { isAlive: (state) => state === 'failed' || RULES.isAlive(state) },
  'an image in doubt is tried again': { unknownEndsImage: false },
  'a job may run on': { maxRunSeconds: 5000 },
  'a doubt lasts': { doubtSeconds: 5000 },
  'an image’s doubt lasts': { imageDoubtSeconds: 600 },
  'a dead request’s image stays': { imageSeconds: 100_000 },
}

const ROUNDS: Readonly<Record<string, Partial<Rules>>> = {
  'a decision remembers': {
    decide: (input) => {
      calls += 1
      const [first, ...rest] = input.candidates
      return RULES.decide(calls % 2 === 0 && first ? { ...input, candidates: rest } : input)
    },
  },
  'a round forgets who was granted when': {
    keep: (round) => RULES.keep(round).replaceAll(/"u":\d+/g, '"u":0'),
  },
  'a record depends on more than its round': {
    recordOf: (decision, input) => {
      const record = RULES.recordOf(decision, input)
      return { ...record, figures: { ...record.figures, cost_so_far: String(++calls) } }
    },
  },
}

const LAYERS: Readonly<Record<string, Partial<Rules>>> = {
  'holds are passed over': shown(levels(() => ({ notBefore: null }))),
  'limits are passed over': shown(levels(() => ({ inUse: 0, inUseEpoch: 0 }))),
  'probes are healthy': shown(
    levels(({ health }) => (health === 'probing' ? { health: 'healthy', recoverySuccesses: 0 } : {})),
  ),
  '25 % is 50 %': rung(2, 3),
  '50 % is 75 %': rung(3, 4),
  '50 % is 25 %': rung(3, 2),
  '75 % is 50 %': rung(4, 3),
  'a rung is all of it': {
    ...shown(levels(ALL_OPEN)),
    freeCapacity: (level) => RULES.freeCapacity({ ...level, ...ALL_OPEN(level) }),
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
  'what was tried is forgotten': {
    decide: (input) =>
      RULES.decide({
        ...input,
        task: {
          ...input.task,
          attempts: input.task.attempts.map((past) => ({ ...past, supplyId: 'x', channelId: 'x' })),
        },
      }),
  },
  'fallback is exact': shown((one) => (one.tier === 'fallback' ? { ...one, tier: 'exact' } : one)),
  'restricted is allowed': shown((one) => ({
    ...one,
    supply: {
      ...one.supply,
      realPerson: one.supply.realPerson === 'restricted' ? 'allowed' : one.supply.realPerson,
    },
  })),
  'strict is forgotten': {
    decide: (input) => RULES.decide({ ...input, request: { ...input.request, degradation: null } }),
  },
  'no limit on prices': policy({ stableCostMultiplierLimit: null, fallbackCostMultiplier: null }),
  'what is switched off is only open': shown(levels(DISABLED_IS_OPEN)),
  'no turn for probes': policy({ probeIntervalSeconds: null }),
}

export const BUGS = { ...HEALTH, ...RETRY, ...ENGINE, ...ROUNDS, ...LAYERS }
