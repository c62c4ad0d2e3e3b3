import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { randomUUID } from 'node:crypto'
import { v7 } from 'uuid'
import zlib from 'node:zlib'
import { startEmbedded } from '../src/store/embedded.ts'
import { migrate } from '../src/store/migrate.ts'
import { openDatabase } from '../src/store/database.ts'
import { maintainPartitions } from '../src/store/partitions.ts'
const dir = await mkdtemp(join(tmpdir(), 'ym-life-'))
const server = await startEmbedded({ dataDir: join(dir, 'pg'), log: { info() {}, warn: console.error, error: console.error } })
const db = await openDatabase({ url: server.url, poolSize: 10 })
await migrate(db)
await maintainPartitions(db, { aheadDays: 3, retainDays: { round: 90, health_events: 90 } })
const levels = (n: number, k: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`level-${i}`, { a: 'enabled', c: 300, e: k, g: 1796136160662572, h: 'healthy', l: '1', n: null, p: 'allowed', r: 0, s: [0, 0], u: k, ep: 0 }]))
const make = (k: number) => ({ task_id: v7(), number: 1, admitted: true, decider: 1, release_id: '1', outcome: 'granted', result: 'selected', reason: null, attempt_id: v7(),
  dynamic: { now: 1, task: { id: 'x' }, supplies: levels(12, k), channels: levels(4, k) }, verdict: { pass: 'untried', ranking: Array.from({ length: 12 }, (_, i) => `m-${i}`) },
  figures: { candidates: Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`m-${i}`, { free: 0, tier: 'exact', quote: '5', supply: 'a-1', channel: 'a', evidence: { free: 0, in_use: 300, supply: 'a-1', concurrency: 300 }, priority: 0, obstacles: ['supply_saturated'], probe_turn: false, second_class: null, expected_cost: '5' }])) },
  reservation: { supply: { epoch: 0, in_use: k } } })
const T = `insert into round (task_id, number, admitted, decider, release_id, outcome, result, reason, attempt_id, dynamic, verdict, figures, reservation)
    select task_id, number, admitted, decider, release_id, outcome, result, reason, attempt_id, dynamic, verdict, figures, reservation
    from jsonb_to_recordset($1::TYPE) r(task_id uuid, number int, admitted boolean, decider int, release_id bigint, outcome text, result text, reason text, attempt_id uuid, dynamic jsonb, verdict jsonb, figures jsonb, reservation jsonb)`
for (const n of [100, 500]) for (let i = 0; i < 3; i++) {
  const rows = Array.from({ length: n }, (_, k) => make(k))
  let t = performance.now(); const text = JSON.stringify(rows); const ts = performance.now() - t
  t = performance.now(); await db.query({ name: 'a', text: T.replace('TYPE', 'jsonb') }, [text]); const ta = performance.now() - t
  t = performance.now(); await db.query({ name: 'p', text: 'select jsonb_array_length($1::jsonb)' }, [text]); const tp = performance.now() - t
  for (const r of rows) { r.task_id = v7() }
  const text2 = JSON.stringify(rows)
  t = performance.now(); await db.query({ name: 'b', text: T.replace('jsonb_to_recordset', 'json_to_recordset').replace('TYPE', 'json') }, [text2]); const tb = performance.now() - t
  t = performance.now(); const z = zlib.zstdCompressSync(Buffer.from(text)); const tz = performance.now() - t
  t = performance.now(); const g = zlib.deflateRawSync(Buffer.from(text), { level: 1 }); const tg = performance.now() - t
  console.log(n, 'stringify', ts.toFixed(1), 'insert jsonb', ta.toFixed(1), 'parse only', tp.toFixed(1), 'insert json', tb.toFixed(1), 'zstd', tz.toFixed(1), z.length, 'deflate1', tg.toFixed(1), g.length, 'of', text.length)
}
const { rows } = await db.query<any>(`select tgname from pg_trigger where tgrelid = 'round'::regclass`); console.log(JSON.stringify(rows))
await db.close(); await server.stop()
