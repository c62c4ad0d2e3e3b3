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
    name: 'channels-health',
    text: `select channel_id as id, ${COLUMNS} from channel_health where channel_id = any($1::text[])`,
  },
  supply: {
    name: 'supplies-health',
    text: `select supply_id as id, ${COLUMNS} from supply_health where supply_id = any($1::text[])`,
  },
}

const WRITE = (level: LevelKind) => ({
  name: `write-${level}-health`,
  text: `update ${level}_health h set state = w.state, epoch = w.epoch, recovery_successes = w.recovery_successes,
      open_until = timestamptz 'epoch' + w.open_until * interval '1 microsecond',
      not_before = timestamptz 'epoch' + w.not_before * interval '1 microsecond', counters = w.counters, updated_at = clock_timestamp()
    from jsonb_to_recordset($1::jsonb) w(id text, state text, epoch bigint, recovery_successes int, open_until bigint,
      not_before bigint, counters jsonb)
    where h.${level}_id = w.id`,
})
const WRITES = { channel: WRITE('channel'), supply: WRITE('supply') }

// Events of one statement are a microsecond apart, so that their order can be read back (HLT-18).
const EVENTS = {
  name: 'append-health-events',
  text: `insert into health_events (at, level, level_id, attempt_id, kind, from_state, to_state, epoch_before, epoch_after,
      recovery_successes, applied, detail)
    select clock_timestamp() + e.place * interval '1 microsecond', e.level, e.level_id, e.attempt_id, e.kind, e.from_state,
      e.to_state, e.epoch_before, e.epoch_after, e.recovery_successes, e.applied, e.detail
    from jsonb_to_recordset($1::jsonb) e(place int, level text, level_id text, attempt_id uuid, kind text, from_state text,
      to_state text, epoch_before bigint, epoch_after bigint, recovery_successes int, applied boolean, detail jsonb)`,
}

const GIVEN = {
  name: 'news-given',
  text: 'select attempt_id, level, kind from attempt_news where attempt_id = any($1::uuid[])',
}

const GIVE = {
  name: 'give-news',
  text: `insert into attempt_news (attempt_id, level, kind)
    select attempt_id, level, kind from jsonb_to_recordset($1::jsonb) n(attempt_id uuid, level text, kind text)`,
}

interface Given {
  attempt_id: string
  level: LevelKind
  kind: NewsKind
}

interface Level {
  readonly kind: LevelKind
  readonly id: string
}

/** Lock the level, read it and the clock, let `change` judge it, and store what came of that. */
export async function changeHealth(
  tx: Sql,
  level: Level & { readonly attemptId: string | null },
  change: (row: HealthRow, now: number) => Step,
): Promise<Step> {
  const rows = await LevelRows.lock(tx, [level])
  const step = rows.change(level, change)
  await rows.store(tx)
  return step
}

interface Held {
  readonly level: Level
  row: HealthRow
  readonly now: number
  changed: boolean
}

/** Rows of health under their locks; what is changed in them is stored together. The one writer of health. */
class LevelRows {
  readonly #rows: Map<string, Held>
  readonly #events: object[] = []

  private constructor(rows: Map<string, Held>) {
    this.#rows = rows
  }

  static async lock(tx: Sql, levels: readonly Level[]): Promise<LevelRows> {
    const idsOf = (kind: LevelKind) => [
      ...new Set(levels.filter((level) => level.kind === kind).map((level) => level.id)),
    ]
    const [channels, supplies] = [idsOf('channel'), idsOf('supply')]
    // Read by statements of their own, which see what was committed before the locks were had.
    const [, ...stored] = await Promise.all([
      lockLevels(tx, { channels, supplies }),
      readRows(tx, 'channel', channels),
      readRows(tx, 'supply', supplies),
    ])
    const rows = new Map(stored.flat().map((held) => [keyOf(held.level), held]))
    return new LevelRows(rows)
  }

  change(
    level: Level & { readonly attemptId: string | null },
    change: (row: HealthRow, now: number) => Step,
  ): Step {
    const held = this.#rows.get(keyOf(level))
    if (!held) throw new Error(`${level.kind} ${level.id} has no health row`)
    const step = change(held.row, held.now)
    if (step.row !== held.row) {
      held.row = step.row
      held.changed = true
    }
    if (step.event) this.#events.push(eventRow(level, step.event, this.#events.length))
    return step
  }

  async store(tx: Sql): Promise<void> {
    await Promise.all([
      this.#storeRows(tx, 'channel'),
      this.#storeRows(tx, 'supply'),
      this.#events.length > 0 && tx.query(EVENTS, [JSON.stringify(this.#events)]),
    ])
  }

  async #storeRows(tx: Sql, kind: LevelKind): Promise<void> {
    const rows = [...this.#rows.values()]
      .filter(({ level, changed }) => changed && level.kind === kind)
      .map(({ level, row }) => ({ id: level.id, ...healthToColumns(row) }))
    if (rows.length > 0) await tx.query(WRITES[kind], [JSON.stringify(rows)])
  }
}

async function readRows(tx: Sql, kind: LevelKind, ids: readonly string[]): Promise<Held[]> {
  if (ids.length === 0) return []
  const { rows } = await tx.query<HealthDbRow>(READ[kind], [ids])
  return rows.map((one) => ({
    level: { kind, id: one.id },
    row: healthFromColumns({ ...one, epoch: Number(one.epoch) }),
    now: one.now,
    changed: false,
  }))
}

function keyOf(level: Level): string {
  return `${level.kind} ${level.id}`
}

function eventRow(
  level: Level & { readonly attemptId: string | null },
  event: NonNullable<Step['event']>,
  place: number,
) {
  return {
    place,
    level: level.kind,
    level_id: level.id,
    attempt_id: level.attemptId,
    kind: event.kind,
    from_state: event.from,
    to_state: event.to,
    epoch_before: event.epochBefore,
    epoch_after: event.epochAfter,
    recovery_successes: event.recoverySuccesses,
    applied: event.applied,
    detail: event.detail,
  }
}

/** News that was judged under the locks of its levels, and is not stored yet. */
export interface HeardNews {
  /** Of each that was not already told. */
  readonly steps: readonly { readonly told: LevelNews; readonly step: Step }[]
  readonly store: () => Promise<void>
}

/**
 * Let news count, of one attempt or of many: channels before supplies, and for each of them in the order given. Answers the
 * step of each that was not already told.
 */
export async function applyLevelNews(
  tx: Sql,
  news: readonly LevelNews[],
  settings: HealthSettings,
): Promise<HeardNews['steps']> {
  const heard = await hearNews(tx, news, settings)
  await heard.store()
  return heard.steps
}

/** The half of it that reads, for those who have more to store with it. */
export async function hearNews(
  tx: Sql,
  news: readonly LevelNews[],
  settings: HealthSettings,
): Promise<HeardNews> {
  if (news.length === 0) return { steps: [], store: async () => {} }
  const levels = news.map(({ level, id }) => ({ kind: level, id }))
  // What was told is read under the level's lock, which everybody holds who tells it something.
  const [rows, given] = await Promise.all([LevelRows.lock(tx, levels), newsGiven(tx, news)])
  const fresh = firstTimes(news, given)
  const ordered = [...fresh].sort((a, b) => compareKeys(a.level + a.id, b.level + b.id))
  const steps = ordered.map((told) => {
    const level = { kind: told.level, id: told.id, attemptId: told.attemptId }
    const step = rows.change(level, (row, now) =>
      told.aside ? setAside(row, told.news) : applyNews(told.level, row, told.news, now, settings),
    )
    return { told, step }
  })
  return {
    steps,
    store: async () => {
      await Promise.all([note(tx, fresh), rows.store(tx)])
    },
  }
}

function compareKeys(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** The kinds of news that each attempt has told each level. */
type GivenNews = Map<string, Set<NewsKind>>

async function newsGiven(tx: Sql, news: readonly LevelNews[]): Promise<GivenNews> {
  const attempts = [...new Set(news.flatMap((told) => told.attemptId ?? []))]
  const given: GivenNews = new Map()
  if (attempts.length === 0) return given
  for (const row of (await tx.query<Given>(GIVEN, [attempts])).rows) addTo(given, row)
  return given
}

/** HLT-19: what an attempt has not told the level before. */
function firstTimes(news: readonly LevelNews[], given: GivenNews): LevelNews[] {
  return news.filter((told) => {
    if (told.attemptId === null) return true
    const row = { attempt_id: told.attemptId, level: told.level, kind: told.news.kind }
    if (!mayGive(row.kind, given.get(`${row.attempt_id} ${row.level}`) ?? new Set())) return false
    addTo(given, row)
    return true
  })
}

function addTo(given: GivenNews, row: Given): void {
  const key = `${row.attempt_id} ${row.level}`
  const kinds = given.get(key)
  if (kinds) kinds.add(row.kind)
  else given.set(key, new Set([row.kind]))
}

/** All of it, or nothing of the transaction: whoever else had told it would have been seen under the level's lock. */
async function note(tx: Sql, fresh: readonly LevelNews[]): Promise<void> {
  const rows = fresh.flatMap((told) =>
    told.attemptId === null ? [] : [{ attempt_id: told.attemptId, level: told.level, kind: told.news.kind }],
  )
  if (rows.length > 0) await tx.query(GIVE, [JSON.stringify(rows)])
}
