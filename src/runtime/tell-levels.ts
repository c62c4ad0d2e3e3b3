/**
 * What happened to an attempt, told to its channel and its supply, and judged with what others saw (HLT-16): the same
 * error on several supplies is told to their channel; what our own network is suspected of is told to nobody. Locks, after
 * those of task and attempt: the reach of channels, then channel, then supply.
 */
import { escalates, suspectsOwnNetwork } from '../core/escalation.ts'
import { escalated, type Happening, newsFor } from '../core/health-news.ts'
import type { HealthSettings } from '../core/health-row.ts'
import type { Fault } from '../core/outcome.ts'
import { raiseAlerts } from '../store/alerts.ts'
import type { Sql } from '../store/database.ts'
import { channelsInReach, noteUnreached, signsOf } from '../store/escalation.ts'
import { type HeardNews, hearNews, type LevelNews } from '../store/health.ts'
import { lockLevels } from '../store/levels.ts'
import { tellHealth } from './health-alerts.ts'

export interface Teller {
  readonly attemptId: string
  readonly channelId: string
  readonly supplyId: string
  /** Those that it was granted in. */
  readonly channelEpoch: bigint
  readonly supplyEpoch: bigint
  readonly calledAt: number
}

export interface Telling {
  readonly happening: Happening
  readonly settings: HealthSettings
  /** False: the happening says nothing of the account as it is called now; only its reach is noted. */
  readonly counts?: boolean
}

export async function tellLevels(tx: Sql, teller: Teller, telling: Telling): Promise<void> {
  const { happening, settings } = telling
  const fault = 'fault' in happening ? happening.fault : null
  const aside = fault?.connection === true && (await isOwnNetwork(tx, teller.channelId))
  if (telling.counts === false) return
  const news = newsOf(teller, happening).map((told) => ({ ...told, aside }))
  const share = fault && (await channelsShare(tx, teller, { fault, news }))
  const heard = await hearNews(tx, share ? [share, ...news] : news, settings)
  await storeTold(tx, heard)
}

/** Store what the levels have heard, with its alerts. */
export async function storeTold(tx: Sql, heard: HeardNews): Promise<void> {
  const steps = heard.steps.map(({ told: { level, id }, step }) => ({ level, id, step }))
  await Promise.all([heard.store(), tellHealth(tx, steps)])
}

export interface Success {
  readonly teller: Teller
  readonly happening: Happening & { readonly kind: 'accepted' | 'finished' }
}

/**
 * Of many attempts at once, in the order given: none of it is a fault, so that no level is judged with others. What it
 * answers is for `storeTold`.
 */
export function hearSuccesses(
  tx: Sql,
  successes: readonly Success[],
  settings: HealthSettings,
): Promise<HeardNews> {
  const news = successes.flatMap(({ teller, happening }) => newsOf(teller, happening))
  return hearNews(tx, news, settings)
}

function newsOf(teller: Teller, happening: Happening): LevelNews[] {
  const { attemptId, calledAt } = teller
  const levels = [
    { level: 'channel', id: teller.channelId, epoch: Number(teller.channelEpoch) },
    { level: 'supply', id: teller.supplyId, epoch: Number(teller.supplyEpoch) },
  ] as const
  return levels.flatMap(({ level, id, epoch }) => {
    const news = newsFor(level, happening, { epoch, calledAt })
    return news ? [{ level, id, attemptId, news }] : []
  })
}

/** The channel's news, where this failure of a supply was one of several by the same cause. */
async function channelsShare(
  tx: Sql,
  teller: Teller,
  of: { fault: Fault; news: readonly LevelNews[] },
): Promise<LevelNews | null> {
  const { fault, news } = of
  const failed = news.some(
    (told) => told.level === 'supply' && (told.news.kind === 'failed' || told.news.kind === 'uncertain'),
  )
  if (!failed) return null
  // Those who fail at once see one another only under the channel's lock.
  await lockLevels(tx, { channels: [teller.channelId], supplies: [] })
  const { signs, now, epoch } = await signsOf(tx, teller.channelId)
  if (epoch !== teller.channelEpoch || !escalates(signs, fault.fingerprint, now)) return null
  const share = escalated(fault, { epoch: Number(epoch), calledAt: teller.calledAt })
  return { level: 'channel', id: teller.channelId, attemptId: teller.attemptId, news: share }
}

/** Note that the channel was out of reach, and judge whether most are: then nothing is opened for it. */
export async function isOwnNetwork(tx: Sql, channelId: string): Promise<boolean> {
  await noteUnreached(tx, channelId)
  const channels = await channelsInReach(tx)
  if (!suspectsOwnNetwork(channels)) return false
  const lost = channels.filter((channel) => channel.unreachable).length
  await raiseAlerts(tx, [
    {
      fingerprint: 'own_network_suspected',
      code: 'own_network_suspected',
      severity: 'critical',
      message: `${lost} of ${channels.length} channels in use cannot be connected to: suspect the network of this installation. No circuit is opened for it.`,
      subject: { unreachable: lost, in_use: channels.length },
    },
  ])
  return true
}
