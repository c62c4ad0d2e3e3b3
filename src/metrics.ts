/**
 * Figures for Prometheus, read from the database when they are asked for, so that every process tells the same; those of
 * wake-ups are this process's own.
 */
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client'
import type { WakeFigures } from './runtime/wake.ts'
import type { Database } from './store/database.ts'

const TASKS = {
  name: 'metrics-tasks',
  text: `select model_id, state, count(*)::int as n from task where state in ('queued', 'running') group by 1, 2`,
}

const LEVELS = {
  name: 'metrics-levels',
  text: `
    select 'channel' as level, c.id, c.concurrency, h.state,
      (select count(*)::int from capacity_lease l where l.channel_id = c.id and l.released_at is null) as held
    from channel c join channel_health h on h.channel_id = c.id where c.archived_at is null
    union all
    select 'supply', s.id, s.concurrency, h.state,
      (select count(*)::int from capacity_lease l where l.supply_id = s.id and l.released_at is null)
    from supply s join supply_health h on h.supply_id = s.id where s.archived_at is null`,
}

const ALERTS = {
  name: 'metrics-alerts',
  text: 'select severity, count(*)::int as n from alert where resolved_at is null group by 1',
}

export function openMetrics(db: Database, wake: () => WakeFigures): Registry {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, prefix: 'yardmaster_' })
  const registers = [registry]
  new Gauge({
    name: 'yardmaster_tasks',
    help: 'Tasks that have not ended, by model and state.',
    labelNames: ['model', 'state'],
    registers,
    async collect() {
      this.reset()
      const { rows } = await db.query<{ model_id: string; state: string; n: number }>(TASKS)
      for (const row of rows) this.set({ model: row.model_id, state: row.state }, row.n)
    },
  })
  const held = new Gauge({
    name: 'yardmaster_leases_held',
    help: 'Capacity leases held, by level.',
    labelNames: ['level', 'id'],
    registers,
  })
  const limit = new Gauge({
    name: 'yardmaster_concurrency_limit',
    help: 'Configured concurrency, by level.',
    labelNames: ['level', 'id'],
    registers,
  })
  new Gauge({
    name: 'yardmaster_health_info',
    help: '1 for the state that a level is in.',
    labelNames: ['level', 'id', 'state'],
    registers,
    async collect() {
      for (const gauge of [this, held, limit]) gauge.reset()
      const { rows } = await db.query<{
        level: string
        id: string
        concurrency: number
        state: string
        held: number
      }>(LEVELS)
      for (const { level, id, state, ...row } of rows) {
        this.set({ level, id, state }, 1)
        held.set({ level, id }, row.held)
        limit.set({ level, id }, row.concurrency)
      }
    },
  })
  new Gauge({
    name: 'yardmaster_alerts_open',
    help: 'Alerts that are not resolved, by severity.',
    labelNames: ['severity'],
    registers,
    async collect() {
      this.reset()
      const { rows } = await db.query<{ severity: string; n: number }>(ALERTS)
      for (const row of rows) this.set({ severity: row.severity }, row.n)
    },
  })
  addWakeFigures(registers, wake)
  return registry
}

function addWakeFigures(registers: Registry[], wake: () => WakeFigures): void {
  new Gauge({
    name: 'yardmaster_wake_listening',
    help: '1 while this process hears hints of others; at 0 it finds their work by its scan alone.',
    registers,
    collect() {
      this.set(wake().hears ? 1 : 0)
    },
  })
  new Counter({
    name: 'yardmaster_wakes_total',
    help: 'Wake-ups between processes: told to others, heard from others, hints swept for others.',
    labelNames: ['kind'],
    registers,
    collect() {
      this.reset()
      const { told, heard, swept } = wake()
      for (const [kind, count] of Object.entries({ told, heard, swept })) this.inc({ kind }, count)
    },
  })
}
