/**
 * What must hold of every decision, said once more from the requirements and in other words than the decider's: which
 * candidate could take the task now, and which verdict that allows. Judged against what the decision saw.
 */
import type { Candidate, Level } from '../../src/core/catalog.ts'
import type { Decision, DecisionInput, PastAttempt, Selected } from '../../src/core/verdict.ts'
import type { Attempt, Books } from './books.ts'
import { FALLBACK_TIMES, NORMAL, SPILL_SECONDS, STABLE_TIMES, WINDOW_SECONDS } from './catalog.ts'
import { SECOND } from './clock.ts'

/** HLT-6, HLT-7: slots for attempts of the present epoch, counted up and not computed. */
export function allowance(level: Pick<Level, 'health' | 'recoverySuccesses' | 'concurrency'>): number {
  const { health, recoverySuccesses, concurrency } = level
  if (health === 'healthy' || health === 'degraded') return concurrency
  if (health === 'probing') return 1
  if (health !== 'recovering') return 0
  if (concurrency === 1) return 1
  const percent = { 2: 25, 3: 50, 4: 75 }[recoverySuccesses] ?? 0
  let slots = 1
  while (slots * 100 < concurrency * percent) slots += 1
  return slots === concurrency ? slots - 1 : slots
}

interface Seen {
  readonly candidate: Candidate
  readonly isSteady: boolean
  /** Seconds; 0: not held. */
  readonly heldFor: number
  readonly isClosed: boolean
  readonly hasRoom: boolean
  readonly isTried: boolean
  readonly isPayable: boolean
  readonly mayTake: boolean
}

interface Asked {
  readonly input: DecisionInput
  readonly decision: Decision
  /** Those that count. */
  readonly attempts: readonly Attempt[]
}

export function checkDecision(books: Books, asked: Asked): void {
  const { input, decision } = asked
  const { verdict } = decision
  const seen = input.candidates.map((candidate) => look(input, candidate))
  if (verdict.result !== 'selected') return void checkUnserved(books, asked, seen)
  const chosen = seen.find((one) => one.candidate.bindingId === verdict.bindingId)
  if (!chosen) return void books.insist(false, 'ORD: chosen is one of the candidates')
  checkTask(books, asked)
  checkChosen(books, chosen, verdict)
  checkQuote(books, chosen, { input, verdict })
  if (chosen.candidate.tier === 'degraded') checkDegraded(books, input, seen)
  else checkLayer(books, { input, chosen }, seen)
}

function look(input: DecisionInput, candidate: Candidate): Seen {
  const { supply, channel } = candidate
  const levels: readonly Level[] = [supply, channel]
  const held = Math.max(...levels.map((level) => (level.notBefore ?? 0) - input.now), 0) / SECOND
  const spent = input.task.attempts.reduce((sum, past) => sum + past.cost, 0n)
  const limit = input.model.policy.taskCostLimit
  const quote = quoteOf(input, candidate)
  const times = candidate.tier === 'exact' ? STABLE_TIMES : FALLBACK_TIMES
  const person = isRealPerson(input)
  return {
    candidate,
    isSteady: levels.every((level) => level.health === 'healthy' || level.health === 'degraded'),
    heldFor: held,
    isClosed: levels.some((level) => level.health === 'circuit_open' || level.health === 'disabled'),
    hasRoom: levels.every((level) => level.inUse < level.concurrency && level.inUseEpoch < allowance(level)),
    isTried: input.task.attempts.some((past) => isTriedBy(past, candidate)),
    isPayable: quote <= NORMAL * times * units(input) && (limit === null || spent + quote <= limit),
    mayTake: !(person && supply.realPerson === 'denied'),
  }
}

function isTriedBy(past: PastAttempt, { supply, channel }: Candidate): boolean {
  return past.supplyId === supply.id || (past.scope === 'channel' && past.channelId === channel.id)
}

function units({ request }: DecisionInput): bigint {
  return BigInt(request.media === 'video' ? request.durationSeconds : request.count)
}

function quoteOf(input: DecisionInput, candidate: Candidate): bigint {
  return (candidate.costRule?.prices[0]?.price ?? 0n) * units(input)
}

function isRealPerson({ request }: DecisionInput): boolean {
  return request.media === 'video' && request.realPerson
}

function isUsable(one: Seen): boolean {
  return one.mayTake && one.isPayable && !one.isClosed && one.heldFor === 0 && one.hasRoom
}

/** Healthy, not held, and full: worth waiting for until the spill time (LAY-2). */
function isFull(one: Seen): boolean {
  return one.mayTake && one.isPayable && one.isSteady && one.heldFor === 0 && !one.hasRoom
}

/** LAY-3: for a real person, `restricted` supplies may be shut off where an `allowed` one is worth waiting for. */
function first(input: DecisionInput, seen: readonly Seen[]): readonly Seen[] {
  return isRealPerson(input) ? seen.filter((one) => one.candidate.supply.realPerson === 'allowed') : seen
}

function ageOf(input: DecisionInput): number {
  return (input.now - input.task.createdAt) / SECOND
}

function mayPass(input: DecisionInput): boolean {
  return input.request.media === 'image' || ageOf(input) >= SPILL_SECONDS
}

function checkTask(books: Books, { input, attempts }: Asked): void {
  books.insist(
    attempts.every((attempt) => attempt.state === 'failed'),
    'STR-8: never two open attempts of a task',
  )
  books.insist(attempts.length < 2, 'RTY-1: at most two attempts')
  for (const { fault } of attempts) {
    books.insist(fault?.certainty !== 'unknown', 'UNK-3: no attempt follows an unknown one')
    books.insist(
      fault?.category === 'supply' || fault?.category === 'capacity',
      'RTY-2, GOAL-2: only supply and capacity errors are tried again',
    )
  }
  if (input.request.media === 'video')
    books.insist(ageOf(input) <= WINDOW_SECONDS, 'RTY-3: no attempt later than the window')
}

function checkChosen(books: Books, chosen: Seen, verdict: Selected): void {
  books.insist(chosen.mayTake, 'ORD-6: no real person to who denies them')
  books.insist(!chosen.isClosed, 'INV-3: nothing is chosen that is open or disabled')
  books.insist(chosen.heldFor === 0, 'HLT-15: nothing is chosen before a hold is over')
  books.insist(chosen.hasRoom, 'ORD-9, HLT-7: nothing is chosen that has no room on its rung')
  books.insist(chosen.isPayable, 'COST-4, COST-5: within the limits')
  books.insist(verdict.tier === chosen.candidate.tier, 'LAY-1: the tier is that of the candidate')
}

function checkQuote(
  books: Books,
  chosen: Seen,
  { input, verdict }: { input: DecisionInput; verdict: Selected },
): void {
  books.insist(
    verdict.quote === quoteOf(input, chosen.candidate),
    'COST-1: quoted by the price of the moment',
  )
}

/** DEG-1, LAY-4: never strict; and only where no full capability could serve, would soon, or is merely full. */
function checkDegraded(books: Books, input: DecisionInput, seen: readonly Seen[]): void {
  books.insist(input.request.degradation !== 'strict', 'DEG-1: strict is never degraded')
  const full = seen.filter((one) => one.candidate.tier !== 'degraded')
  books.insist(!first(input, full).some(isUsable), 'LAY-4: nothing is degraded while another could serve')
  books.insist(
    !first(input, full).some(isFull),
    'LAY-2: nothing is degraded while a healthy supply is merely full',
  )
  books.insist(
    !full.some((one) => one.mayTake && one.isPayable && one.isSteady && one.heldFor > 0 && one.heldFor <= 60),
    'LAY-4: nothing is degraded while a healthy supply is held for a moment',
  )
}

/** LAY-2 to LAY-4 for full capability: what stands before the chosen one, in the order of the passes. */
function checkLayer(
  books: Books,
  { input, chosen }: { input: DecisionInput; chosen: Seen },
  seen: readonly Seen[],
): void {
  const full = first(
    input,
    seen.filter((one) => one.candidate.tier !== 'degraded' && one !== chosen),
  )
  const rank = rankOf(input, chosen)
  const before = full.filter((one) => rankOf(input, one) < rank)
  if (chosen.isTried) books.see('same supply again')
  books.insist(!before.some(isUsable), 'LAY-2, LAY-4: the first layer that can serve is chosen')
  books.insist(
    mayPass(input) || !before.some(isFull),
    'LAY-2: a layer that is merely full is waited for until the spill time',
  )
  if (!isRealPerson(input) || chosen.candidate.supply.realPerson !== 'restricted') return
  books.see('restricted')
  const waitedFor = full.filter(
    (one) => one.isPayable && one.isSteady && (one.heldFor > 0 || !one.hasRoom) && one.heldFor <= 60,
  )
  books.insist(
    mayPass(input) || !waitedFor.some((one) => rankOf(input, one) <= rank),
    'LAY-3: a restricted supply only where no allowed one will soon be free',
  )
}

/** Lower comes first: untried before tried, for a second attempt steady before recovering, exact before fallback. */
function rankOf(input: DecisionInput, one: Seen): number {
  const isLater = input.task.attempts.length > 0 && !one.isSteady
  const pass = one.isTried ? 2 : isLater ? 1 : 0
  const tier = one.candidate.tier === 'exact' ? 0 : 1
  const person = isRealPerson(input) && one.candidate.supply.realPerson !== 'allowed' ? 1 : 0
  return 4 * pass + 2 * tier + person
}

/** LAY-5: nobody waits, or is sent away, while a supply that may take the task is free. */
function checkUnserved(books: Books, { input, decision }: Asked, seen: readonly Seen[]): void {
  const { verdict } = decision
  if (verdict.result === 'wait') books.see(`wait ${verdict.reason}`)
  if (verdict.result === 'rejected') books.see(`rejected ${verdict.code}`)
  const isAboutSupplies =
    verdict.result !== 'rejected' ||
    verdict.code === 'no_capable_supply' ||
    verdict.code === 'cost_limit_exceeded'
  if (!isAboutSupplies) return
  const isSecond = input.task.attempts.length > 0
  const exact = first(input, seen).filter((one) => one.candidate.tier === 'exact' && !one.isTried)
  const could = exact.filter((one) => isUsable(one) && (!isSecond || one.isSteady))
  books.insist(could.length === 0, 'LAY-5: nobody waits while a supply that may serve is free')
  const isOff = ({ candidate }: Seen) =>
    candidate.supply.health === 'disabled' || candidate.channel.health === 'disabled'
  const able = seen.filter((one) => one.mayTake && one.candidate.tier !== 'degraded')
  if (verdict.result === 'wait' && verdict.reason === 'disabled')
    books.insist(
      able.some((one) => isOff(one) && one.isPayable),
      'LAY-5: waits for the operator’s switch',
    )
  if (verdict.result === 'wait' && verdict.reason === 'health')
    books.insist(
      seen.some((one) => one.mayTake && one.isPayable && one.isClosed && !isOff(one)),
      'LAY-5, HLT-11: waits for a circuit that will be tried, not for a switch',
    )
  if (verdict.result === 'wait' && verdict.reason === 'capacity')
    books.insist(
      seen.some((one) => one.mayTake && one.isPayable && !one.isClosed && !isUsable(one)),
      'LAY-5: waits for room, or the end of a hold',
    )
  if (verdict.result === 'wait' && verdict.reason === 'cost')
    books.insist(
      seen.some((one) => !one.isPayable),
      'LAY-5: waits for a price',
    )
  if (verdict.result === 'rejected' && verdict.code === 'cost_limit_exceeded')
    books.insist(
      seen.some((one) => !one.isPayable),
      'COST-5: sent away for its cost only where one is too dear',
    )
}
