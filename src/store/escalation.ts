/** What is read, on the path of a failure alone, to judge several levels together (HLT-16). */
import type { Reach, Sign } from '../core/escalation.ts'
import type { Sql } from './database.ts'

// Alive, or ended within the minute: whatever happened within it has happened to one of these.
const LATELY = {
  name: 'attempts-lately',
  text: `with lately as (
      select l.attempt_id as id from capacity_lease l where l.channel_id = $1 and l.released_at is null
      union select id from attempt where channel_id = $1 and ended_at > clock_timestamp() - interval '61 seconds')
    select a.supply_id, a.state, a.category, a.scope, a.fingerprint, a.channel_epoch, a.accepted_at, a.uncertain_at, a.ended_at,
      h.epoch, clock_timestamp() as now
    from lately join attempt a on a.id = lately.id join channel_health h on h.channel_id = a.channel_id`,
}

interface LatelyRow {
  readonly supply_id: string
  readonly state: string
  readonly category: string | null
  readonly scope: string | null
  readonly fingerprint: string | null
  readonly channel_epoch: bigint
  readonly accepted_at: number | null
  readonly uncertain_at: number | null
  readonly ended_at: number | null
  readonly epoch: bigint
  readonly now: number
}

/** The channel's signs of the last minute, to be read under its lock. Failures of an older epoch are none. */
export async function signsOf(
  tx: Sql,
  channelId: string,
): Promise<{ readonly signs: readonly Sign[]; readonly now: number; readonly epoch: bigint | null }> {
  const { rows } = await tx.query<LatelyRow>(LATELY, [channelId])
  const [first] = rows
  return { signs: rows.flatMap(signsOfRow), now: first?.now ?? 0, epoch: first?.epoch ?? null }
}

function signsOfRow(row: LatelyRow): Sign[] {
  const {
    supply_id: supplyId,
    accepted_at: accepted,
    uncertain_at: uncertain,
    ended_at: ended,
    fingerprint,
  } = row
  const signs: Sign[] = []
  if (accepted !== null) signs.push({ kind: 'accepted', supplyId, at: accepted })
  if (row.state === 'succeeded' && ended !== null) signs.push({ kind: 'finished', supplyId, at: ended })
  if (fingerprint === null || row.channel_epoch !== row.epoch) return signs
  // An uncertain submission failed when it was seen; what was found out later is no failure of its own (UNK-8).
  if (uncertain !== null) signs.push({ kind: 'failed', supplyId, at: uncertain, fingerprint })
  else if (ended !== null && row.state === 'failed' && row.category === 'supply' && row.scope === 'supply')
    signs.push({ kind: 'failed', supplyId, at: ended, fingerprint })
  return signs
}

const UNREACHED = {
  name: 'channel-unreached',
  text: `insert into channel_reach (channel_id) values ($1) on conflict (channel_id) do update set failed_at = clock_timestamp()`,
}
const LOCK_REACH = {
  name: 'lock-reach',
  text: `select pg_advisory_xact_lock(hashtextextended('channel_reach', 7))`,
}

/**
 * A channel could not be connected to. Under one lock for all channels, so that those who fail at once see one another;
 * to be taken after the attempt's lock and before a channel's.
 */
export async function noteUnreached(tx: Sql, channelId: string): Promise<void> {
  await tx.query(LOCK_REACH)
  await tx.query(UNREACHED, [channelId])
}

const REACHED = { name: 'channel-reached', text: 'delete from channel_reach where channel_id = $1' }

/** It answered. */
export async function noteReached(sql: Sql, channelId: string): Promise<void> {
  await sql.query(REACHED, [channelId])
}

// A channel with jobs at its provider is asked about them all the time. Acceptances and HTTP answers of its attempts show
// that it was reached since; polls that are answered clear the note itself.
const REACHES = {
  name: 'channels-in-reach',
  text: `select c.id as "channelId",
      coalesce(r.failed_at > clock_timestamp() - interval '10 seconds', false) and not exists (
        select from capacity_lease l join attempt a on a.id = l.attempt_id
        where l.channel_id = c.id and l.released_at is null
          and (a.accepted_at > r.failed_at or (a.uncertain_at > r.failed_at and a.http_status is not null)))
      and not exists (
        select from attempt a where a.channel_id = c.id and a.ended_at > r.failed_at
          and (a.accepted_at > r.failed_at or a.state = 'succeeded' or a.http_status is not null)) as unreachable
    from channel c join channel_health h on h.channel_id = c.id left join channel_reach r on r.channel_id = c.id
    where c.archived_at is null and (h.last_granted_at > clock_timestamp() - interval '60 seconds'
      or exists (select from capacity_lease l where l.channel_id = c.id and l.released_at is null))`,
}

/** The channels that were called within the last minute. */
export async function channelsInReach(tx: Sql): Promise<Reach[]> {
  return (await tx.query<Reach>(REACHES)).rows
}
