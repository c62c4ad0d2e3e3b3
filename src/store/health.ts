/**
 * News applied to the health of channels and supplies, under the locks of their rows: the row moves, the event is
 * appended, and what an attempt has told a level is remembered, all in the transaction of the cause (HLT-12, HLT-19).
 */

import type { HealthState } from '../core/catalog.ts'
import { applyNews, healthFromColumns, healthToColumns, type Step, setAside } from '../core/health.ts'
import { type HealthNews, mayGive, type NewsKind } from '../core/health-news.ts'
import type { HealthRow, HealthSettings, LevelKind } from '../core/health-row.ts'
import type { Sql } from './database.ts'
import { lockLevels } from './levels.ts'

export interface LevelNews {
  readonly level: LevelKind
  readonly id: string
  readonly attemptId: string | null
  readonly news: HealthNews
  /** HLT-16: our own network is suspected; the news is written down and does not count. */
  readonly aside?: boolean
}

interface HealthDbRow {
  id: string
  state: HealthState
  epoch: bigint
  recovery_successes: number
  open_until: number | null
  not_before: number | null
  counters: Record<string, unknown>
  now: number
}

const COLUMNS = 'state, epoch, recovery_successes, open_until, not_before, counters, clock_timestamp() as now'

const READ = {
  channel: {
    name: 'channel-health',
    text: `select channel_id as id, ${COLUMNS} from channel_health where channel_id = $1`,
  },
  supply: {
    name: 'supply-health',
    text: `select supply_id as id, ${COLUMNS} from supply_health where supply_id = $1`,
  },
}

const SET = `state = $2, epoch = $3, recovery_successes = $4, open_until = timestamptz 'epoch' + $5::bigint * interval '1 microsecond',
  not_before = timestamptz 'epoch' + $6::bigint * interval '1 microsecond', counters = $7, updated_at = clock_timestamp()`

const WRITE = {
  channel: { name: 'write-channel-health', text: `update channel_health set ${SET} where channel_id = $1` },
  supply: { name: 'write-supply-health', text: `update supply_health set ${SET} where supply_id = $1` },
}

const EVENT = {
  name: 'append-health-event',
  text: `insert into health_events (level, level_id, attempt_id, kind, from_state, to_state, epoch_before, epoch_after,
      recovery_successes, applied, detail)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
}

const GIVEN = {
  name: 'news-given',
  text: 'select kind from attempt_news where attempt_id = $1 and level = $2',
}

const GIVE = {
  name: 'give-news',
  text: 'insert into attempt_news (attempt_id, level, kind) values ($1, $2, $3) on conflict do nothing',
}

/** Lock the level, read it and the clock, let `change` judge it, and store what came of that. The one writer of health. */
export async function changeHealth(
  tx: Sql,
  level: { readonly kind: LevelKind; readonly id: string; readonly attemptId: string | null },
  change: (row: HealthRow, now: number) => Step,
): Promise<Step> {
  await lockLevels(
    tx,
    level.kind === 'channel'
      ? { channels: [level.id], supplies: [] }
      : { channels: [], supplies: [level.id] },
  )
  const [stored] = (await tx.query<HealthDbRow>(READ[level.kind], [level.id])).rows
  if (!stored) throw new Error(`${level.kind} ${level.id} has no health row`)
  const row = healthFromColumns({ ...stored, epoch: Number(stored.epoch) })
  const step = change(row, stored.now)
  if (step.row !== row) await write(tx, level, step.row)
  if (step.event) await append(tx, level, step.event)
  return step
}

async function write(tx: Sql, level: { kind: LevelKind; id: string }, row: HealthRow): Promise<void> {
  const columns = healthToColumns(row)
  await tx.query(WRITE[level.kind], [
    level.id,
    columns.state,
    columns.epoch,
    columns.recovery_successes,
    columns.open_until,
    columns.not_before,
    JSON.stringify(columns.counters),
  ])
}

async function append(
  tx: Sql,
  level: { kind: LevelKind; id: string; attemptId: string | null },
  event: NonNullable<Step['event']>,
): Promise<void> {
  await tx.query(EVENT, [
    level.kind,
    level.id,
    level.attemptId,
    event.kind,
    event.from,
    event.to,
    event.epochBefore,
    event.epochAfter,
    event.recoverySuccesses,
    event.applied,
    JSON.stringify(event.detail),
  ])
}

/** Let news count, channels before supplies. Answers the step of each that was not already told. */
export async function applyLevelNews(
  tx: Sql,
  news: readonly LevelNews[],
  settings: HealthSettings,
): Promise<{ readonly told: LevelNews; readonly step: Step }[]> {
  const ordered = [...news].sort((a, b) => (a.level + a.id < b.level + b.id ? -1 : 1))
  const steps: { told: LevelNews; step: Step }[] = []
  for (const told of ordered) {
    if (!(await firstTime(tx, told))) continue
    const level = { kind: told.level, id: told.id, attemptId: told.attemptId }
    const step = await changeHealth(tx, level, (row, now) =>
      told.aside ? setAside(row, told.news) : applyNews(told.level, row, told.news, now, settings),
    )
    steps.push({ told, step })
  }
  return steps
}

async function firstTime(tx: Sql, told: LevelNews): Promise<boolean> {
  if (told.attemptId === null) return true
  const { rows } = await tx.query<{ kind: NewsKind }>(GIVEN, [told.attemptId, told.level])
  if (!mayGive(told.news.kind, new Set(rows.map((row) => row.kind)))) return false
  // Who tells the same at the same time waits here for the first, and finds it told.
  return (await tx.query(GIVE, [told.attemptId, told.level, told.news.kind])).rowCount === 1
}
