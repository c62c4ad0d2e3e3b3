/** Channels and supplies as operators see them: what is configured, how they are, and how full. */
import type { AdminState, HealthState, RealPersonPolicy } from '../core/catalog.ts'
import type { LevelKind } from '../core/health-row.ts'
import type { Media } from '../core/request.ts'
import type { Instant } from '../core/time.ts'
import type { Sql } from './database.ts'

export interface LevelView {
  id: string
  admin_state: AdminState
  health: HealthState
  recovery_successes: number
  epoch: bigint
  open_until: Instant | null
  not_before: Instant | null
  concurrency: number
  in_use: number
  archived: boolean
}

export interface ChannelView extends LevelView {
  provider: string
  base_url: string
  credential_ref: string
  /** Whether a secret is stored. */
  credential_stored: boolean
  supplies: string[]
}

export interface SupplyView extends LevelView {
  channel_id: string
  upstream_model: string
  media: Media
  real_person: RealPersonPolicy
  expected_seconds: number
  capability_version: number | null
  price_list_version: number | null
  models: string[]
}

const LEVEL = (
  kind: LevelKind,
) => `l.id, l.admin_state, h.state as health, h.recovery_successes, h.epoch, h.open_until,
    h.not_before, l.concurrency, l.archived_at is not null as archived,
    (select count(*)::int from capacity_lease c where c.${kind}_id = l.id and c.released_at is null) as in_use`

const CHANNELS = {
  name: 'channel-views',
  text: `select ${LEVEL('channel')}, l.provider, l.base_url, l.credential_ref, l.credential_id is not null as credential_stored,
      array(select s.id::text from supply s where s.channel_id = l.id and s.archived_at is null order by s.id) as supplies
    from channel l join channel_health h on h.channel_id = l.id
    where ($1::text is null and l.archived_at is null) or l.id = $1 order by l.id`,
}

const SUPPLIES = {
  name: 'supply-views',
  text: `select ${LEVEL('supply')}, l.channel_id, l.upstream_model, l.media, l.real_person, l.expected_seconds,
      cv.version as capability_version, pv.version as price_list_version,
      array(select distinct b.model_id from binding b where b.supply_id = l.id and b.archived_at is null order by 1) as models
    from supply l join supply_health h on h.supply_id = l.id
    left join capability_version cv on cv.id = l.capability_version_id
    left join price_list_version pv on pv.id = l.price_list_version_id
    where ($1::text is null and l.archived_at is null) or l.id = $1 order by l.id`,
}

/** All that are not archived, or the one of that ID. */
export async function channelViews(sql: Sql, id: string | null = null): Promise<ChannelView[]> {
  return (await sql.query<ChannelView & Record<string, unknown>>(CHANNELS, [id])).rows
}

export async function supplyViews(sql: Sql, id: string | null = null): Promise<SupplyView[]> {
  return (await sql.query<SupplyView & Record<string, unknown>>(SUPPLIES, [id])).rows
}
