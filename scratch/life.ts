import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { applyCatalog } from '../src/catalog/apply.ts'
import { checkCatalog } from '../src/catalog/check.ts'
import { startEmbedded } from '../src/store/embedded.ts'
import { migrate } from '../src/store/migrate.ts'
import { openDatabase } from '../src/store/database.ts'
import { parseKeyring } from '../src/store/secrets.ts'
import { createCustomer, createKey } from '../src/store/accounts.ts'
import { maintainPartitions } from '../src/store/partitions.ts'
import { Engine } from '../src/runtime/engine.ts'
import { laneDigest } from '../src/runtime/lane.ts'
import { factsToJson } from '../src/core/frozen.ts'

const N = Number(process.argv[2] ?? 2000)
const dir = await mkdtemp(join(tmpdir(), 'ym-life-'))
const server = await startEmbedded({ dataDir: join(dir, 'pg'), log: { info() {}, warn: console.error, error: console.error } })
const db = await openDatabase({ url: server.url, poolSize: 10 })
await migrate(db)
const channels = ['a', 'b', 'c', 'd']
const rows = channels.flatMap((c) => [1, 2, 3].map((n) => ({ id: `${c}-${n}`, c })))
const text = `
currency: CNY
anchors:
  - &video
    - { duration_seconds: 4-15, resolutions: [480p, 720p, 1080p], aspect_ratios: ["16:9", "9:16", "1:1"], generate_audio: true }
  - &tried { by: bench, at: 2026-11-20, evidence: "none" }
channels:
${channels.map((c) => `  ${c}: { provider: ark, base_url: "http://127.0.0.1:9/api/v3", credential: env:K, concurrency: 10000 }`).join('\n')}
supplies:
${rows.map(({ id, c }, n) => `  ${id}: { channel: ${c}, upstream_model: doubao-seedance-2-0-260128, media: video, real_person: allowed, concurrency: 300, expected_seconds: 1, capability: { billing_mode: per_second, modes: *video }, prices: { rows: [{ price: ${1 + n / 10} }] } }`).join('\n')}
policies:
  video: { retry_window_seconds: 1200 }
models:
  mix-video:
    media: video
    limits: *video
    defaults: { seconds: 5, resolution: 720p, aspect_ratio: "16:9", generate_audio: false }
    max_run_seconds: 200
    policy: video
    bindings:
${rows.map(({ id }) => `      m-${id}: { supply: ${id}, verified: *tried }`).join('\n')}
`
const env = { K: 'sk-secret-key-123' }
const keyring = parseKeyring(Buffer.alloc(32, 7).toString('base64'), 'x')
const checked = await checkCatalog(text, env)
if (!checked.catalog) { console.error(JSON.stringify(checked.problems, null, 1)); process.exit(1) }
await applyCatalog(db, checked.catalog, { publish: true, prune: false, dryRun: false, by: 'b', environment: env, keyring })
await maintainPartitions(db, { aheadDays: 3, retainDays: { round: 90, health_events: 90 } })
await createCustomer(db, { id: 'bench', name: 'B', groups: ['default'] })
const key = await createKey(db, { customerId: 'bench', name: 'b' })
const { rows: [k] } = await db.query<any>('select id from api_key')
const { rows: [r] } = await db.query<any>('select id as release_id from release limit 1')
const facts = factsToJson({ media: 'video', billingMode: null, degradation: null, realPerson: false, durationSeconds: 5, resolution: '720p', aspectRatio: '16:9', generateAudio: false, inputs: {} } as any)
const lane = laneDigest('mix-video', facts as any, [])
const film = (await import('../src/simulator/media/mp4.ts'))
const fetched = Buffer.from('x')
await db.transaction(async (tx) => {
  await tx.query({ name: 'fill', text: `with t as (insert into task (kind, customer_id, api_key_id, model_id, release_id, state, lane, facts, request_id, fingerprint)
   select 'video', 'bench', $1::uuid, 'mix-video', $2::bigint, 'queued', $3, $4::jsonb, 'req_' || i, decode(md5(i::text), 'hex') from generate_series(1, $5::int) i returning id)
   insert into task_content select id, '{"prompt":"a yard at night","inputs":{},"metadata":{},"echo":{"seconds":"5","size":"1280x720"}}'::jsonb from t` }, [k.id, String(r.release_id), lane, JSON.stringify(facts), N])
})
await db.query('analyze')
const stat = new Map<string, { n: number; ms: number }>()
const note = (name: string, ms: number) => { const e = stat.get(name) ?? { n: 0, ms: 0 }; e.n++; e.ms += ms; stat.set(name, e) }
const wrapSql = (sql: any) => ({ query: async (st: any, v?: any) => { const t = performance.now(); try { return await sql.query(st, v) } finally { note(typeof st === 'string' ? st.slice(0, 30) : st.name, performance.now() - t) } } })
const wdb: any = { ...wrapSql(db), transaction: async (body: any, o: any) => { const t = performance.now(); let inner = 0; try { return await db.transaction(async (tx) => { const t2 = performance.now(); const r = await body(wrapSql(tx)); inner = performance.now() - t2; return r }, o) } finally { note('TX', performance.now() - t); note('TX-begin+commit', performance.now() - t - inner) } }, close: () => db.close() }
const assets: any = {
  async put() { return { digest: 'ab'.repeat(32), bytes: 10, contentType: 'video/mp4', expiresAt: Date.now() * 1000 + 1e12 } },
  async open() { return null }, async sweep() { return { expired: 0, leftovers: 0 } },
}
const { lookInto } = await import('../src/runtime/artefact.ts')
// a real little film on disk
const { AssetStore } = await import('../src/store/assets.ts')
const real = new AssetStore(db, join(dir, 'assets'))
const movie = film.makeMp4({ seconds: 5, width: 1280, height: 720, audio: false, fps: 1, note: 'x' } as any)
const isReal = process.env.REAL_ASSETS === '1'
if (!isReal) {
  const one = await real.put(movie, { contentType: 'video/mp4', expiresAt: Date.now() * 1000 + 1e12, maxBytes: 1e9 })
  assets.put = async () => one
  const bytes: Buffer[] = []
  const o = await real.open(one.digest); for await (const c of o!.stream) bytes.push(c as Buffer)
  const all = Buffer.concat(bytes)
  const { Readable } = await import('node:stream')
  assets.open = async (_d: string, range: any = {}) => ({ asset: one, stream: Readable.from([all.subarray(range.start ?? 0, (range.end ?? all.length - 1) + 1)]) })
}
const ark: any = {
  name: 'ark',
  submitVideo: async (_a: unknown, s: any) => ({ kind: 'accepted', providerTaskId: `job-${s.attemptId}`, requestId: null }),
  poll: async () => ({ kind: 'succeeded', video: { location: 'x', reported: null } }),
  download: async () => ({ kind: 'body', contentType: 'video/mp4', stream: (async function* () { yield movie })() }),
}
const faults: any = {}
const engine = new Engine({
  db: wdb, keyring, assets: isReal ? real : assets, providers: new Map([['ark', ark]]),
  journal: { note: (e) => (faults[e] = (faults[e] ?? 0) + 1), fault: (e, err) => { if (!faults[e]) console.error(e, err); faults[e] = (faults[e] ?? 0) + 1 } },
  roles: ['dispatch', 'poll', 'reconcile'], version: 'b', resultLifeMs: 1e8, largestResultBytes: 1e8, alertCaller: undefined as any,
  submissions: 2000,
})
const before = (await db.query<any>(`select pg_current_wal_lsn() as lsn, xact_commit as x from pg_stat_database where datname = current_database()`)).rows[0]
const began = performance.now()
const cpu = process.cpuUsage()
await engine.start()
for (;;) {
  await new Promise((r) => setTimeout(r, 100))
  const { rows: [c] } = await db.query<any>(`select count(*)::int as n from task where ended_at is not null`)
  if (process.env.TRACE) { const { rows: [q] } = await db.query<any>("select (select count(*)::int from task where state='queued') q, (select jsonb_object_agg(state, n) from (select state, count(*) n from attempt group by 1) x) a, (select jsonb_agg(distinct wait_event_type || ':' || coalesce(wait_event,'')) from pg_stat_activity where datname=current_database() and state='active') w"); console.log(((performance.now()-began)/1000).toFixed(1), c.n, JSON.stringify(q)) }
  if (c.n >= N || performance.now() - began > 120_000) {
    const s = (performance.now() - began) / 1000
    const used = process.cpuUsage(cpu)
    const after = (await db.query<any>(`select pg_wal_lsn_diff(pg_current_wal_lsn(), $1::pg_lsn)::bigint as wal, (select xact_commit from pg_stat_database where datname = current_database()) as x`.replace('$1', `'${before.lsn}'`))).rows[0]
    console.log(JSON.stringify({ done: c.n, seconds: s, rate: Math.round(c.n / s), nodeCpu: (used.user + used.system) / 1e6 / s, walPer: Number(after.wal) / c.n, xactPer: Number(after.x - before.x) / c.n, faults }))
    const st = await db.query<any>(`select state, count(*)::int from task group by 1`); console.log(JSON.stringify(st.rows))
    for (const [n, e] of [...stat].sort((a, b) => b[1].ms - a[1].ms).slice(0, 30)) console.log(n.padEnd(34), e.n, Math.round(e.ms), (e.ms / e.n).toFixed(1))
    break
  }
}
await engine.stop()
console.log(JSON.stringify((await db.query<any>(`select avg(pg_column_size(dynamic))::int d, avg(length(dynamic::text))::int dt, avg(pg_column_size(verdict))::int v, avg(length(verdict::text))::int vt, avg(pg_column_size(figures))::int f, avg(length(figures::text))::int ft, avg(pg_column_size(reservation))::int r, count(*)::int from round where outcome = 'granted'`)).rows))
const [one] = (await db.query<any>(`select dynamic, verdict, figures, reservation from round where outcome='granted' offset 1000 limit 1`)).rows
console.log(JSON.stringify(one.dynamic)); console.log(JSON.stringify(one.verdict)); console.log(JSON.stringify(one.figures)); console.log(JSON.stringify(one.reservation))
console.log(JSON.stringify((await db.query<any>(`select outcome, count(*)::int from round group by 1`)).rows))
await db.close(); await server.stop()
