/**
 * The outbox: tells endpoints of alerts, at least once, and in order for each. Any number of processes may run it; an
 * endpoint is told by one at a time, and a slow one keeps nobody else waiting.
 */
import type { Caller } from '../providers/call.ts'
import { redact } from '../providers/redaction.ts'
import { retryAfterMs } from '../providers/retry-after.ts'
import {
  type AlertPayload,
  claimEndpoints,
  markDelivered,
  markFailed,
  nextDelivery,
  type OpenEndpoint,
  openEndpoint,
  releaseEndpoint,
} from '../store/alert-endpoints.ts'
import { raiseAlerts } from '../store/alerts.ts'
import type { Database } from '../store/database.ts'
import type { Keyring } from '../store/secrets.ts'
import { messageFor, receptionOf, type Told } from './alert-messages.ts'
import type { Journal } from './journal.ts'

export interface OutboxPorts {
  readonly db: Database
  readonly keyring: Keyring
  readonly caller: Caller
  readonly journal: Journal
}

const AT_ONCE = 16
/** Longer than a delivery may take. */
const CLAIM_SECONDS = 30
const TIMEOUT_MS = 10_000
const MOST_IN_A_ROW = 50
const FIRST_BACKOFF_SECONDS = 5
const LONGEST_BACKOFF_SECONDS = 15 * 60
/** After so long without a single success it is given up. */
const GIVEN_UP_SECONDS = 5 * 86_400

export type TestAnswer =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'failed'; readonly why: string }
  | { readonly kind: 'not_found' }

interface Tried {
  readonly kind: 'delivered' | 'gone' | 'failed'
  readonly why: string
  readonly retryAfterMs: number | null
}

export class Outbox {
  readonly #ports: OutboxPorts
  readonly #running = new Map<string, Promise<void>>()

  constructor(ports: OutboxPorts) {
    this.#ports = ports
  }

  /** Take endpoints that have something to be told; does not wait for them. */
  async tick(): Promise<boolean> {
    const room = AT_ONCE - this.#running.size
    if (room <= 0) return false
    const { db, keyring, journal } = this.#ports
    for (const endpoint of await claimEndpoints(db, keyring, { limit: room, leaseSeconds: CLAIM_SECONDS })) {
      const work = this.#deliver(endpoint)
        .catch((error) => journal.fault('outbox', error, { endpoint: endpoint.id }))
        .finally(() => this.#running.delete(endpoint.id))
      this.#running.set(endpoint.id, work)
    }
    return false
  }

  async stop(): Promise<void> {
    await Promise.allSettled([...this.#running.values()])
  }

  /** One message now, beside the queue, and what came back. */
  async test(id: string): Promise<TestAnswer> {
    const { db, keyring } = this.#ports
    const endpoint = await openEndpoint(db, keyring, id)
    if (!endpoint) return { kind: 'not_found' }
    const now = Date.now()
    const tried = await this.#send(endpoint, {
      messageId: `test-${now}`,
      event: 'test',
      alert: trial(now),
      now,
    })
    return tried.kind === 'delivered' ? { kind: 'delivered' } : { kind: 'failed', why: tried.why }
  }

  async #deliver(endpoint: OpenEndpoint): Promise<void> {
    const { db } = this.#ports
    for (let n = 0; n < MOST_IN_A_ROW; n += 1) {
      const delivery = await nextDelivery(db, endpoint.id)
      if (!delivery) break
      const { message_id: messageId, event, payload } = delivery
      const tried = await this.#send(endpoint, { messageId, event, alert: payload, now: Date.now() })
      if (tried.kind !== 'delivered') return this.#failed(endpoint, delivery.id, tried)
      const mine = await markDelivered(db, endpoint, { id: delivery.id, leaseSeconds: CLAIM_SECONDS })
      if (!mine) return
    }
    await releaseEndpoint(db, endpoint)
  }

  async #failed(endpoint: OpenEndpoint, deliveryId: bigint, tried: Tried): Promise<void> {
    const offWhy =
      tried.kind === 'gone'
        ? 'it answered 410: gone'
        : endpoint.failing_seconds > GIVEN_UP_SECONDS
          ? `it has failed for five days: ${tried.why}`
          : null
    const retryInSeconds = Math.max(backoffSeconds(endpoint.failures), (tried.retryAfterMs ?? 0) / 1000)
    await this.#ports.db.transaction(
      async (tx) => {
        const mine = await markFailed(tx, endpoint, { deliveryId, retryInSeconds, error: tried.why, offWhy })
        if (mine && offWhy !== null) await raiseAlerts(tx, [endpointOff(endpoint.id, offWhy)])
      },
      { retry: true },
    )
  }

  async #send(endpoint: OpenEndpoint, told: Told): Promise<Tried> {
    const message = messageFor(endpoint.kind, endpoint, told)
    const secrets = [message.url, endpoint.url, ...(endpoint.secret === null ? [] : [endpoint.secret])]
    const exchange = await this.#ports.caller.exchange({
      channelId: `alert:${endpoint.id}`,
      method: 'POST',
      purpose: 'create',
      timeoutMs: TIMEOUT_MS,
      secrets,
      ...message,
    })
    if (exchange.kind === 'stopped_before_sending') return failed('there was no connection in time')
    if (exchange.kind === 'broken') {
      const { end } = exchange.evidence
      return failed(end.kind === 'error' ? redact(end.message, secrets) : `it gave no answer (${end.kind})`)
    }
    const { answer, receivedAtMs } = exchange
    const reception = receptionOf(endpoint.kind, answer.status, answer.body)
    return {
      kind: reception.kind,
      why: reception.kind === 'failed' ? reception.why : '',
      retryAfterMs: retryAfterMs(answer.headers, receivedAtMs),
    }
  }
}

function failed(why: string): Tried {
  return { kind: 'failed', why, retryAfterMs: null }
}

/** 5 s, 10 s … up to 15 min, each up to a fifth longer, so that endpoints of one host do not return together. */
export function backoffSeconds(failures: number): number {
  const base = Math.min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** Math.min(failures, 20))
  return base * (1 + Math.random() / 5)
}

function endpointOff(id: string, why: string) {
  return {
    fingerprint: `alert_endpoint_off:${id}`,
    code: 'alert_endpoint_off',
    severity: 'high',
    message: `Alert endpoint ${id} was switched off: ${why}. What waits for it is kept.`,
    subject: { endpoint: id },
  } as const
}

function trial(now: number): AlertPayload {
  const at = new Date(now).toISOString()
  return {
    id: '00000000-0000-0000-0000-000000000000',
    code: 'test',
    severity: 'info',
    message: 'This is a test of this alert endpoint. Nothing is wrong.',
    subject: {},
    count: 1,
    first_at: at,
    last_at: at,
    resolved_at: null,
  }
}
