/** Health as the yard stores it: news told to both levels, cooldowns ended, every move of a row looked at. */
import { escalated, type Happening, type NewsKind } from '../../src/core/health-news.ts'
import { type HealthRow, recoverySuccesses } from '../../src/core/health-row.ts'
import type { Fault } from '../../src/core/outcome.ts'
import { type Attempt, type Books, epochOf, type Level } from './books.ts'

export class Health {
  readonly #books: Books
  /** What counted, by the yard's own list: attempt, level, kinds of news. */
  readonly #counted = new Map<Attempt, { channel: NewsKind[]; supply: NewsKind[] }>()

  constructor(books: Books) {
    this.#books = books
  }

  tell(attempt: Attempt, happening: Happening): void {
    const { supply } = attempt
    const fault = 'fault' in happening ? happening.fault : null
    const before = [supply.row, supply.channel.row]
    const failedHere = this.#tellLevel(attempt, supply, happening)
    this.#tellLevel(attempt, supply.channel, happening)
    if (fault && failedHere) this.#escalate(attempt, fault)
    if (fault && (fault.category === 'content' || fault.category === 'request'))
      this.#books.insist(
        before[0] === supply.row && before[1] === supply.channel.row,
        'INV-21, HLT-9: content and request never move health',
      )
  }

  /** Whether it was news of a failure. */
  #tellLevel(attempt: Attempt, level: Level, happening: Happening): boolean {
    const { rules, now } = this.#books
    const epoch = epochOf(attempt, level)
    const calledAt = attempt.submittingAt ?? attempt.grantedAt
    const news = rules.newsFor(level.kind, happening, { epoch, calledAt })
    if (!news || !rules.mayGive(news.kind, attempt.told[level.kind])) return false
    attempt.told[level.kind].add(news.kind)
    const before = level.row
    const step = rules.applyNews(level.kind, before, news, now)
    if (epoch !== before.epoch) {
      this.#books.see('late news')
      this.#books.insist(step.row === before, 'INV-5, HLT-10: late news changes nothing')
    }
    if (step.applied) this.#once(attempt, level, news.kind)
    this.change(level, step.row, step.why)
    const isFailure = news.kind === 'failed' || news.kind === 'uncertain'
    if (isFailure && step.applied && (before.state === 'probing' || before.state === 'recovering'))
      this.#books.insist(
        level.row.state === 'circuit_open',
        'INV-7, HLT-8: a failure in recovery reopens at once',
      )
    return isFailure && level.kind === 'supply'
  }

  #once(attempt: Attempt, level: Level, kind: NewsKind): void {
    const counted = this.#counted.get(attempt) ?? { channel: [], supply: [] }
    this.#counted.set(attempt, counted)
    const given = counted[level.kind]
    this.#books.insist(!given.includes(kind), 'HLT-19: one attempt gives a level one news of each kind')
    this.#books.insist(
      !(given.includes('uncertain') && (kind === 'accepted' || kind === 'finished')),
      'HLT-19: no success after it counted as an uncertain failure',
    )
    given.push(kind)
  }

  #escalate(attempt: Attempt, fault: Fault): void {
    const { rules, tasks, now } = this.#books
    const { channel } = attempt.supply
    const signs = tasks
      .slice(Math.max(0, tasks.length - 200))
      .flatMap((task) => task.attempts)
      .filter((one) => one.supply.channel === channel && one.channelEpoch === channel.row.epoch)
      .flatMap((one) => one.signs)
    if (attempt.channelEpoch !== channel.row.epoch || !rules.escalates(signs, fault.fingerprint, now)) return
    const causes = new Set(
      signs.flatMap((sign) =>
        sign.kind === 'failed' && sign.fingerprint === fault.fingerprint ? [sign.supplyId] : [],
      ),
    )
    this.#books.insist(causes.size >= 2, 'INV-22, HLT-16: one supply alone never speaks for its channel')
    const news = escalated(fault, { epoch: channel.row.epoch, calledAt: now })
    if (channel.row.state !== 'circuit_open') this.#books.see('escalated')
    this.change(channel, rules.applyNews('channel', channel.row, news, now).row, 'escalated')
  }

  coolDown(isBroken: (level: Level) => boolean): void {
    const { rules, now } = this.#books
    for (const level of this.#books.levels) {
      const { row } = level
      if (row.state !== 'circuit_open') continue
      const step = row.pingFirst ? rules.afterPing(row, !isBroken(level), now) : rules.coolDownOver(row, now)
      this.change(level, step.row, 'reconciled')
    }
  }

  change(level: Level, after: HealthRow, why: string): void {
    const before = level.row
    if (after === before) return
    this.#checkEpoch(before, after)
    this.#checkMove(before, after, why)
    if (before.state !== after.state) this.#books.see(`${before.state} to ${after.state}`)
    level.row = after
  }

  #checkEpoch(before: HealthRow, after: HealthRow): void {
    const mayRaise =
      ['circuit_open', 'probing', 'disabled'].includes(after.state) || before.state === 'disabled'
    this.#books.insist(
      after.epoch >= before.epoch && after.epoch <= before.epoch + 1,
      'INV-12: an epoch is raised by one, and never lowered',
    )
    const mustRaise =
      after.state !== before.state &&
      (['circuit_open', 'disabled'].includes(after.state) ||
        ['circuit_open', 'disabled'].includes(before.state))
    this.#books.insist(
      !mustRaise || after.epoch === before.epoch + 1,
      'INV-12, HLT-10: opening, probing, disabling and enabling raise it',
    )
    this.#books.insist(
      after.epoch === before.epoch || mayRaise,
      'INV-12: only opening, probing, disabling and enabling raise it',
    )
  }

  #checkMove(before: HealthRow, after: HealthRow, why: string): void {
    const { insist } = this.#books
    if (before.state === 'circuit_open' && after.state === 'circuit_open')
      insist(
        why === 'reconciled' || after.openUntil === before.openUntil,
        'INV-13: nothing but a failed free call moves the end of a cooldown',
      )
    if (before.state === 'circuit_open' && after.state !== 'circuit_open') {
      insist(
        after.state === 'probing' || after.state === 'disabled',
        'INV-9, HLT-5: from an open circuit only to probing',
      )
      if (after.state === 'probing')
        insist(before.openUntil <= this.#books.now, 'INV-9: not before the cooldown is over')
    }
    if (after.state === 'healthy' && !['healthy', 'degraded', 'disabled'].includes(before.state))
      insist(
        before.state === 'recovering' && recoverySuccesses(before) === 4,
        'INV-8, HLT-6: healthy only by the fifth success',
      )
    const [was, is] = [recoverySuccesses(before), recoverySuccesses(after)]
    if (before.state === 'probing' || before.state === 'recovering')
      if (is > was) insist(is === was + 1, 'HLT-6: one rung at a time')
  }
}
