/** What ends an alert, looked up in the facts (core/alert-rules): for causes that end without anybody passing by. */
import { quietHours } from '../core/alert-rules.ts'
import { resolving } from './alerts.ts'
import type { Sql } from './database.ts'

const LEVEL = (level: 'channel' | 'supply') => ({
  name: `alerts-over-${level}`,
  text: resolving(`code = '${level}_circuit_open' and exists (
      select from ${level}_health h join ${level} l on l.id = h.${level}_id where h.${level}_id = alert.subject->>'${level}'
        and (h.state in ('healthy', 'degraded', 'disabled') or l.archived_at is not null))`),
})

const ENDINGS = [
  LEVEL('channel'),
  LEVEL('supply'),
  {
    name: 'alerts-over-exact',
    text: resolving(`code in ('exact_unavailable', 'degradation_used') and exists (
      select from attempt a join task t on t.id = a.task_id
      where t.model_id = alert.subject->>'model' and a.tier = 'exact' and a.created_at > alert.last_at)`),
  },
  {
    name: 'alerts-over-half',
    text: resolving(`code = 'uncertain_half' and (
      select 2 * count(*) < (alert.subject->>'concurrency')::int from attempt a where a.state = 'submission_uncertain'
        and case when alert.subject ? 'channel' then a.channel_id = alert.subject->>'channel' else a.supply_id = alert.subject->>'supply' end)`),
  },
  {
    name: 'alerts-over-network',
    text: resolving(`code = 'own_network_suspected'
      and not exists (select from channel_reach where failed_at > clock_timestamp() - interval '30 seconds')`),
  },
  {
    name: 'alerts-over-endpoint',
    text: resolving(`code = 'alert_endpoint_off'
      and not exists (select from alert_endpoint e where e.id = alert.subject->>'endpoint' and not e.enabled)`),
  },
] as const

const QUIET = {
  name: 'alerts-over-quiet',
  text: resolving(`last_at < clock_timestamp() - make_interval(hours => ($1::jsonb->>code)::int)`),
}

const ANY = {
  name: 'any-alert-open',
  text: 'select exists (select from alert where resolved_at is null) as open',
}

/** Resolve what is over. Costs one look where nothing is open. */
export async function resolveWhatIsOver(sql: Sql): Promise<void> {
  const [row] = (await sql.query<{ open: boolean }>(ANY)).rows
  if (!row?.open) return
  for (const ending of ENDINGS) await sql.query(ending)
  await sql.query(QUIET, [JSON.stringify(quietHours())])
}
