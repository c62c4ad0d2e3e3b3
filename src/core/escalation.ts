/**
 * What several levels say together (HLT-2, HLT-16): the same infrastructure error on several supplies is the channel's
 * trouble; most channels out of reach at once is our own network's.
 */
import type { Instant } from './time.ts'

const MICROS_PER_MILLI = 1000
export const ESCALATION_WINDOW_MS = 60_000
const LEAST_SUPPLIES = 2
const LEAST_FAILURES = 3

/** What a channel's attempts have shown lately. Content, request and capacity errors are none of it. */
export type Sign =
  /** An infrastructure failure of a supply, or a submission of unknown fate, of an attempt of the present epoch. */
  | { readonly kind: 'failed'; readonly supplyId: string; readonly at: Instant; readonly fingerprint: string }
  /** A finished result. */
  | { readonly kind: 'finished'; readonly supplyId: string; readonly at: Instant }
  /** An accepted submission: the channel's success. */
  | { readonly kind: 'accepted'; readonly supplyId: string; readonly at: Instant }

/**
 * At least two supplies and half of the active ones failed by the same cause within the window, three times in all,
 * and nothing was accepted on the channel since the first of them.
 */
export function escalates(signs: readonly Sign[], fingerprint: string, now: Instant): boolean {
  const recent = signs.filter((sign) => now - sign.at <= ESCALATION_WINDOW_MS * MICROS_PER_MILLI)
  const failures = sinceLastAcceptance(recent, fingerprint)
  const failing = new Set(failures.map((sign) => sign.supplyId))
  const active = new Set(recent.map((sign) => sign.supplyId))
  return (
    failing.size >= LEAST_SUPPLIES && failing.size * 2 >= active.size && failures.length >= LEAST_FAILURES
  )
}

/** A failure before an acceptance is over: the channel has worked since. */
function sinceLastAcceptance(signs: readonly Sign[], fingerprint: string): readonly Sign[] {
  const accepted = Math.max(
    Number.NEGATIVE_INFINITY,
    ...signs.filter((sign) => sign.kind === 'accepted').map((sign) => sign.at),
  )
  return signs.filter(
    (sign) => sign.kind === 'failed' && sign.fingerprint === fingerprint && sign.at > accepted,
  )
}

export interface Reach {
  readonly channelId: string
  /** Failed to connect within the last 10 s, and was not answered since. */
  readonly unreachable: boolean
}

const LEAST_CHANNELS = 3

/** `channels`: those that were called within the last minute. */
export function suspectsOwnNetwork(channels: readonly Reach[]): boolean {
  const unreachable = channels.filter((channel) => channel.unreachable).length
  return unreachable >= LEAST_CHANNELS && unreachable * 2 > channels.length
}
