/**
 * The operator's switches and limits, which take effect at once and publish nothing (STR-6). A level's switch and its
 * health move together under the lock of its health row: health `disabled` mirrors the switch (HLT-17).
 */
import type { AdminState, HealthState } from '../core/catalog.ts'
import { disable, enable } from '../core/health.ts'
import type { LevelKind } from '../core/health-row.ts'
import { lockCatalog } from './catalog.ts'
import type { Database, Sql } from './database.ts'
import { changeHealth } from './health.ts'
import { lockLevels } from './levels.ts'
import { withPartition } from './partitions.ts'

export interface LevelSwitch {
  readonly kind: LevelKind
  readonly id: string
  readonly state: AdminState
  /** On the way back: start with a probe instead of what it was before (HLT-17). */
  readonly probe: boolean
}

export class NoSuchEntry extends Error {
  constructor(family: string, id: string) {
    super(`there is no ${family} ${id}`)
    this.name = 'NoSuchEntry'
  }
}

export interface Switched {
  readonly id: string
  readonly state: AdminState
  readonly health: HealthState
  /** false: it stood so already. */
  readonly changed: boolean
}

const SET_STATE = {
  channel: {
    name: 'switch-channel',
    text: `update channel set admin_state = $2, updated_at = clock_timestamp() where id = $1 and admin_state <> $2`,
  },
  supply: {
    name: 'switch-supply',
    text: `update supply set admin_state = $2, updated_at = clock_timestamp() where id = $1 and admin_state <> $2`,
  },
}

/** Switch a channel or a supply. Throws NoSuchEntry. */
export function switchLevel(db: Database, wanted: LevelSwitch): Promise<Switched> {
  return withPartition(db, () => db.transaction((tx) => switchLevelIn(tx, wanted), { retry: true }))
}

/** The same within a transaction that holds no lock on any level yet. */
export async function switchLevelIn(tx: Sql, wanted: LevelSwitch): Promise<Switched> {
  const { kind, id, state, probe } = wanted
  await mustExist(tx, kind, id)
  const step = await changeHealth(tx, { kind, id, attemptId: null }, (row) =>
    state === 'disabled' ? disable(row) : enable(row, { probe }),
  )
  const { rowCount } = await tx.query(SET_STATE[kind], [id, state])
  return { id, state, health: step.row.state, changed: rowCount === 1 || step.event !== null }
}

const SET_LIMIT = {
  channel: {
    name: 'limit-channel',
    text: `update channel set concurrency = $2, updated_at = clock_timestamp() where id = $1`,
  },
  supply: {
    name: 'limit-supply',
    text: `update supply set concurrency = $2, updated_at = clock_timestamp() where id = $1`,
  },
}

/** A new limit; what runs above it runs on. `concurrency` from 1 to 1,000,000. Throws NoSuchEntry. */
export async function limitLevel(
  db: Database,
  wanted: { readonly kind: LevelKind; readonly id: string; readonly concurrency: number },
): Promise<void> {
  const { kind, id, concurrency } = wanted
  await db.transaction(
    async (tx) => {
      await lockCatalog(tx)
      await mustExist(tx, kind, id)
      await lockLevels(tx, {
        channels: kind === 'channel' ? [id] : [],
        supplies: kind === 'supply' ? [id] : [],
      })
      await tx.query(SET_LIMIT[kind], [id, concurrency])
    },
    { retry: true },
  )
}

const EXISTS = {
  channel: { name: 'channel-exists', text: 'select 1 from channel where id = $1' },
  supply: { name: 'supply-exists', text: 'select 1 from supply where id = $1' },
}

async function mustExist(tx: Sql, kind: LevelKind, id: string): Promise<void> {
  if ((await tx.query(EXISTS[kind], [id])).rowCount === 0) throw new NoSuchEntry(kind, id)
}

const SWITCH_BINDING = {
  name: 'switch-binding',
  text: 'update binding set enabled = $2 where id = $1 and archived_at is null',
}

/** No save: the model stays published. Throws NoSuchEntry. */
export async function switchBinding(db: Database, id: string, enabled: boolean): Promise<void> {
  const { rowCount } = await db.query(SWITCH_BINDING, [id, enabled])
  if (rowCount === 0) throw new NoSuchEntry('binding', id)
}
