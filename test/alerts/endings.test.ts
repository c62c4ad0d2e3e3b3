/** What ends an alert: each rule of the table, looked up in the facts. */
import { readdir, readFile } from 'node:fs/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { ALERT_RULES, type AlertCode, quietHours } from '../../src/core/alert-rules.ts'
import { resolveWhatIsOver } from '../../src/store/alert-endings.ts'
import { raiseAlerts } from '../../src/store/alerts.ts'
import { admitted, alertCodes, ended, fault, leaveOnly } from '../runtime/facts.ts'
import { rowsOf, type System, startSystem, until } from '../system/kit.ts'

let system: System
afterEach(() => system?.stop())

async function raised(code: AlertCode, subject: Record<string, string | number> = {}): Promise<void> {
  const { severity } = ALERT_RULES[code]
  const fingerprint = `${code}:${JSON.stringify(subject)}`
  await raiseAlerts(system.db, [{ fingerprint, code, severity, message: 'x', subject }])
}

async function openAfterLook(): Promise<string[]> {
  await resolveWhatIsOver(system.db)
  return alertCodes(system)
}

describe('the table', () => {
  it('has a page for operators for every alert, and no other', async () => {
    const pages = await readdir(new URL('../../docs/operating/alerts/', import.meta.url))
    expect(new Set(pages)).toEqual(new Set(Object.keys(ALERT_RULES).map((code) => `${code}.md`)))
    for (const [code, { severity }] of Object.entries(ALERT_RULES)) {
      const page = await readFile(new URL(`../../docs/operating/alerts/${code}.md`, import.meta.url), 'utf8')
      expect(page, code).toMatch(new RegExp(`^# ${code}\n`))
      expect(page, code).toContain(`Severity: ${severity}`)
      for (const part of [
        '## What it means',
        '## What Yardmaster already did',
        '## What to do',
        '## What ends it',
      ])
        expect(page, `${code}: ${part}`).toContain(part)
    }
    const index = await readFile(new URL('../../docs/operating/alerts.md', import.meta.url), 'utf8')
    for (const code of Object.keys(ALERT_RULES)) expect(index).toContain(`(alerts/${code}.md)`)
  })
})

describe('an event', () => {
  it('ends when it has not come again for its time, and comes again as a new alert', async () => {
    system = await startSystem()
    const codes = Object.keys(quietHours()).sort()
    for (const code of codes) await raised(code as AlertCode)
    expect(await openAfterLook()).toEqual(codes)
    await rowsOf(
      system.db,
      `update alert set first_at = first_at - interval '25 hours', last_at = last_at - interval '23 hours'`,
    )
    expect(await openAfterLook()).toEqual(codes)
    await rowsOf(system.db, `update alert set last_at = last_at - interval '61 minutes'`)
    expect(await openAfterLook()).toEqual([])
    await raised('unknown_status')
    const rows = await rowsOf(
      system.db,
      `select count from alert where code = 'unknown_status' order by first_at`,
    )
    expect(rows).toEqual([{ count: 1n }, { count: 1n }])
  })
})

describe('a condition', () => {
  it.each(['channel', 'supply'] as const)(
    'of a %s’s circuit ends when the level is healthy, or switched off',
    async (level) => {
      system = await startSystem()
      const id = level === 'channel' ? 'ark-north' : 'seedance-north'
      const code = `${level}_circuit_open` as const
      await rowsOf(
        system.db,
        `update ${level}_health set state = 'circuit_open', open_until = clock_timestamp() + interval '1 hour' where ${level}_id = $1`,
        [id],
      )
      await raised(code, { [level]: id, cause: 'x' })
      expect(await openAfterLook()).toEqual([code])
      await rowsOf(
        system.db,
        `update ${level}_health set state = 'probing', open_until = null where ${level}_id = $1`,
        [id],
      )
      expect(await openAfterLook()).toEqual([code])
      await rowsOf(system.db, `update ${level}_health set state = 'healthy' where ${level}_id = $1`, [id])
      expect(await openAfterLook()).toEqual([])
      await raised(code, { [level]: id, cause: 'x' })
      await rowsOf(system.db, `update ${level}_health set state = 'disabled' where ${level}_id = $1`, [id])
      expect(await openAfterLook()).toEqual([])
    },
  )

  it('DEG-4: of exact supplies ends when one is granted again, and not by a degraded or fallback grant', async () => {
    system = await startSystem({ simulator: { defaults: { duration_ms: 50 } } })
    const engine = system.engine()
    await engine.start()
    await leaveOnly(system, ['seedance-relay'])
    await ended(system, await admitted(system, engine))
    expect(await alertCodes(system)).toContain('exact_unavailable')
    expect(await openAfterLook()).toContain('exact_unavailable')
    await rowsOf(system.db, `update supply_health set state = 'healthy', open_until = null`)
    await ended(system, await admitted(system, engine))
    expect(await openAfterLook()).not.toContain('exact_unavailable')
  })

  it('UNK-5: of half a level held by doubt ends when it is less than half', async () => {
    system = await startSystem({
      catalog: (text) => text.replace('    concurrency: 5\n', '    concurrency: 4\n'),
      simulator: { defaults: { duration_ms: 50 } },
    })
    const engine = system.engine()
    await engine.start()
    await leaveOnly(system, ['seedance-north'])
    await fault(system, { on: 'create', times: 2, fault: { kind: 'accept_then_drop' } })
    await Promise.all([1, 2].map(() => admitted(system, engine)))
    await until('the alert', async () => (await alertCodes(system)).includes('uncertain_half'))
    expect(await openAfterLook()).toContain('uncertain_half')
    const [one] = await rowsOf<{ id: string; fence: bigint }>(
      system.db,
      `select id, fence from attempt where state = 'submission_uncertain' limit 1`,
    )
    const { jobs } = (await system.control('GET', `/ledger/${one?.id}`)) as { jobs: string[] }
    await engine.settle.apply(one?.id ?? '', one?.fence ?? 0n, {
      kind: 'accepted',
      providerTaskId: jobs[0] ?? '',
      requestId: null,
    })
    expect(await openAfterLook()).not.toContain('uncertain_half')
  })

  it('HLT-16: of our own network ends after half a minute without a failure to connect', async () => {
    system = await startSystem()
    await rowsOf(system.db, `insert into channel_reach (channel_id) values ('relay')`)
    await raised('own_network_suspected')
    expect(await openAfterLook()).toEqual(['own_network_suspected'])
    await rowsOf(system.db, `update channel_reach set failed_at = failed_at - interval '31 seconds'`)
    expect(await openAfterLook()).toEqual([])
  })

  it('of an endpoint that is off ends when it is on, or gone', async () => {
    system = await startSystem()
    await rowsOf(
      system.db,
      `insert into alert_endpoint (id, kind, host, enabled, off_why, key_id, nonce, ciphertext, digest) values ('e', 'slack', 'h', false, 'x', 'k', '', '', '')`,
    )
    await raised('alert_endpoint_off', { endpoint: 'e' })
    expect(await openAfterLook()).toEqual(['alert_endpoint_off'])
    await rowsOf(system.db, `update alert_endpoint set enabled = true, off_why = null`)
    expect(await openAfterLook()).toEqual([])
  })
})
