/** Alerts told to others: at least once, in order, signed, and given up only when the receiver says so. */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { afterEach, describe, expect, it } from 'vitest'
import type { AlertCode, Severity } from '../../src/core/alert-rules.ts'
import { addEndpoint, type EndpointKind, endpointViews } from '../../src/store/alert-endpoints.ts'
import { raiseAlerts, resolveAlerts } from '../../src/store/alerts.ts'
import { rowsOf, type System, startSystem, until } from '../system/kit.ts'

let system: System
const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
  await system?.stop()
})

interface Got {
  readonly headers: IncomingHttpHeaders
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: bodies of many shapes
  readonly body: any
  readonly path: string
}

async function receiver(
  answer: (got: Got, n: number) => { status: number; body?: string; wait?: Promise<void> },
) {
  const got: Got[] = []
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const text = Buffer.concat(chunks).toString()
    const one = { headers: request.headers, text, body: JSON.parse(text), path: request.url ?? '' }
    got.push(one)
    const { status, body = '', wait } = answer(one, got.length)
    await wait
    response.writeHead(status).end(body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  closing.push(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${address.port}/hook?token=very-secret-token`, got }
}

const SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`

async function endpoint(
  url: string,
  more: { id?: string; kind?: EndpointKind; minSeverity?: Severity; secret?: string | null } = {},
) {
  const { db, keyring } = system
  const given = {
    id: 'ops',
    kind: 'webhook' as const,
    minSeverity: 'warning' as const,
    secret: SECRET,
    ...more,
  }
  await addEndpoint(db, keyring, { ...given, url })
}

const alert = (code: AlertCode, severity: Severity = 'high', subject: Record<string, string> = {}) => ({
  fingerprint: `${code}:${JSON.stringify(subject)}`,
  code,
  severity,
  message: `${code} happened`,
  subject,
})

/** Reconcilers alone, so that nothing else is going on. */
async function running(count = 1) {
  const engines = Array.from({ length: count }, () => system.engine({ roles: ['reconcile'] }))
  for (const engine of engines) await engine.start()
  return engines
}

const waiting = async () =>
  (
    await rowsOf<{ n: number }>(
      system.db,
      'select count(*)::int as n from alert_delivery where delivered_at is null',
    )
  )[0]?.n

describe('an alert', () => {
  it('is told once when it is raised and once when it is over, signed, however often it comes', async () => {
    system = await startSystem()
    const { url, got } = await receiver(() => ({ status: 204 }))
    await endpoint(url)
    await running()
    for (let n = 0; n < 3; n += 1) await raiseAlerts(system.db, [alert('request_unsendable')])
    await until('the first', async () => got.length === 1)
    await resolveAlerts(system.db, [alert('request_unsendable').fingerprint])
    await until('the second', async () => got.length === 2 && (await waiting()) === 0)
    expect(got.map((one) => one.body.type)).toEqual(['alert.raised', 'alert.resolved'])
    expect(got[0]?.body.data).toMatchObject({
      code: 'request_unsendable',
      severity: 'high',
      message: 'request_unsendable happened',
      count: 1,
      resolved_at: null,
    })
    expect(got[1]?.body.data).toMatchObject({ count: 3, resolved_at: expect.any(String) })
    for (const { headers, text } of got) {
      const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signed } = headers
      const right = createHmac('sha256', Buffer.alloc(32, 5))
        .update(`${id}.${timestamp}.${text}`)
        .digest('base64')
      expect(signed).toBe(`v1,${right}`)
      expect(Math.abs(Number(timestamp) - Date.now() / 1000)).toBeLessThan(300)
    }
    expect(got[0]?.headers['webhook-id']).not.toBe(got[1]?.headers['webhook-id'])
  })

  it('below the severity that an endpoint wants is not told, nor its end', async () => {
    system = await startSystem()
    const { url, got } = await receiver(() => ({ status: 200 }))
    await endpoint(url, { minSeverity: 'high' })
    await raiseAlerts(system.db, [
      alert('unknown_status', 'warning'),
      alert('emergency_cost_override', 'critical'),
    ])
    await resolveAlerts(system.db, [alert('unknown_status').fingerprint])
    await running()
    await until('one', async () => (await waiting()) === 0)
    expect(got.map((one) => one.body.data.code)).toEqual(['emergency_cost_override'])
  })

  it('of a transaction that is rolled back is told to nobody', async () => {
    system = await startSystem()
    const { url } = await receiver(() => ({ status: 200 }))
    await endpoint(url)
    await system.db
      .transaction(async (tx) => {
        await raiseAlerts(tx, [alert('request_unsendable')])
        throw new Error('no')
      })
      .catch(() => undefined)
    expect(await rowsOf(system.db, 'select * from alert_delivery')).toEqual([])
  })
})

describe('delivery', () => {
  it('is in order for an endpoint, with retries under the same ID, and slow ones keep nobody waiting', async () => {
    system = await startSystem()
    const flaky = await receiver((_, n) => ({ status: n === 2 || n === 3 ? 503 : 200 }))
    let release = () => {}
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const slow = await receiver(() => ({ status: 200, wait: held }))
    await endpoint(flaky.url)
    await endpoint(slow.url, { id: 'slow' })
    await running(2)
    for (let n = 0; n < 5; n += 1)
      await raiseAlerts(system.db, [alert('job_not_found', 'high', { channel: `c${n}` })])
    // The waiting time of a retry is passed over.
    const hurry = () =>
      rowsOf(system.db, `update alert_endpoint set next_at = clock_timestamp() where busy_until is null`)
    await until('all at the flaky one', async () => {
      await hurry()
      return flaky.got.length >= 7
    })
    expect(flaky.got.map((one) => one.body.data.subject.channel)).toEqual([
      'c0',
      'c1',
      'c1',
      'c1',
      'c2',
      'c3',
      'c4',
    ])
    const ids = flaky.got.map((one) => one.headers['webhook-id'])
    expect(new Set(ids.slice(1, 4)).size).toBe(1)
    expect(new Set(ids).size).toBe(5)
    expect(flaky.got[1]?.text.replace(/"timestamp":"[^"]+"/, '')).toBe(
      flaky.got[3]?.text.replace(/"timestamp":"[^"]+"/, ''),
    )
    expect(slow.got).toHaveLength(1)
    release()
    await until('all at the slow one', async () => slow.got.length === 5 && (await waiting()) === 0)
    expect(slow.got.map((one) => one.body.data.subject.channel)).toEqual(['c0', 'c1', 'c2', 'c3', 'c4'])
  })

  it('backs off, and says why', async () => {
    system = await startSystem()
    const { url } = await receiver(() => ({ status: 500, body: 'very-secret-token' }))
    await endpoint(url)
    await raiseAlerts(system.db, [alert('request_unsendable')])
    await running()
    const failed = async () => (await endpointViews(system.db))[0]
    await until('a failure', async () => ((await failed())?.failures ?? 0) > 0)
    const [row] = await rowsOf<{ seconds: number; last_error: string }>(
      system.db,
      `select extract(epoch from e.next_at - clock_timestamp())::float8 as seconds, d.last_error
        from alert_endpoint e join alert_delivery d on d.endpoint_id = e.id`,
    )
    expect(row?.seconds).toBeGreaterThan(3)
    expect(row?.seconds).toBeLessThan(7)
    expect(row?.last_error).toBe('it answered 500')
  })

  it('is taken over from a process that died between sending and noting: sent again, under the same ID', async () => {
    system = await startSystem()
    const { url, got } = await receiver(() => ({ status: 200 }))
    await endpoint(url)
    await raiseAlerts(system.db, [alert('request_unsendable')])
    // As it stands after a kill: claimed, sent, not noted.
    await rowsOf(
      system.db,
      `update alert_endpoint set busy_until = clock_timestamp() + interval '1 second', fence = fence + 1`,
    )
    const [delivery] = await rowsOf<{ message_id: string }>(
      system.db,
      'select message_id::text from alert_delivery',
    )
    await running()
    await until('it again', async () => (await waiting()) === 0)
    expect(got.map((one) => one.headers['webhook-id'])).toEqual([
      `msg_${delivery?.message_id.replaceAll('-', '')}`,
    ])
  })

  it('ends at 410: the endpoint is switched off, the others are told, and what waits is kept', async () => {
    system = await startSystem()
    const gone = await receiver(() => ({ status: 410 }))
    const other = await receiver(() => ({ status: 200 }))
    await endpoint(gone.url, { id: 'gone' })
    await endpoint(other.url, { id: 'other' })
    const engines = await running()
    await raiseAlerts(system.db, [alert('request_unsendable')])
    await until('both', async () => other.got.length === 2)
    expect(other.got.map((one) => one.body.data.code)).toEqual(['request_unsendable', 'alert_endpoint_off'])
    expect(await endpointViews(system.db)).toMatchObject([
      { id: 'gone', enabled: false, off_why: 'it answered 410: gone', waiting: 1 },
      { id: 'other', enabled: true },
    ])
    expect(gone.got).toHaveLength(1)
    expect(engines).toHaveLength(1)
  })

  it('keeps address and secret out of rows, errors and faults', async () => {
    system = await startSystem()
    await endpoint('http://127.0.0.1:9/very-secret-token', { secret: SECRET })
    await raiseAlerts(system.db, [alert('request_unsendable')])
    await running()
    await until('a failure', async () => ((await endpointViews(system.db))[0]?.failures ?? 0) > 0)
    const rows = JSON.stringify(
      [
        await rowsOf(system.db, 'select * from alert_endpoint'),
        await rowsOf(system.db, 'select * from alert_delivery'),
        await rowsOf(system.db, 'select * from alert'),
        system.faults,
        system.notes,
      ],
      (_, value) => (typeof value === 'bigint' ? String(value) : value),
    )
    expect(rows).not.toContain('very-secret-token')
    expect(rows).not.toContain(SECRET)
  })
})
