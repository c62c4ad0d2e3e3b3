/** Where alerts are told, and the outbox of each (docs/alert-delivery.md). One delivery of an endpoint is under way at a time. */
import type { Severity } from '../core/alert-rules.ts'
import type { Sql } from './database.ts'
import { type Keyring, seal, unseal } from './secrets.ts'

export const ENDPOINT_KINDS = ['webhook', 'slack', 'feishu', 'dingtalk', 'wecom'] as const
export type EndpointKind = (typeof ENDPOINT_KINDS)[number]

/** What must stay secret: the address, which may carry a token, and the signing secret. */
export interface Address {
  readonly url: string
  readonly secret: string | null
}

export interface NewEndpoint extends Address {
  readonly id: string
  readonly kind: EndpointKind
  readonly minSeverity: Severity
}

interface SealedRow {
  readonly id: string
  readonly key_id: string
  readonly nonce: Buffer
  readonly ciphertext: Buffer
  readonly digest: Buffer
}

const place = (id: string) => `alert-endpoint:${id}`

const ADD = {
  name: 'add-alert-endpoint',
  text: `insert into alert_endpoint (id, kind, host, min_severity, key_id, nonce, ciphertext, digest)
    values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (id) do nothing`,
}

/** False: there is one of that ID already. */
export async function addEndpoint(sql: Sql, keyring: Keyring, given: NewEndpoint): Promise<boolean> {
  const { url, secret } = given
  const sealed = seal(keyring, JSON.stringify({ url, secret }), place(given.id))
  const values = [given.id, given.kind, new URL(url).host, given.minSeverity]
  const { rowCount } = await sql.query(ADD, [
    ...values,
    sealed.keyId,
    sealed.nonce,
    sealed.ciphertext,
    sealed.digest,
  ])
  return rowCount === 1
}

const ROTATE = {
  name: 'readdress-alert-endpoint',
  text: `update alert_endpoint set host = $2, key_id = $3, nonce = $4, ciphertext = $5, digest = $6 where id = $1`,
}

/** Another address or secret; deliveries go on. False: there is no such endpoint. */
export async function readdressEndpoint(
  sql: Sql,
  keyring: Keyring,
  to: Address & { id: string },
): Promise<boolean> {
  const { id, url, secret } = to
  const sealed = seal(keyring, JSON.stringify({ url, secret }), place(id))
  const values = [id, new URL(url).host, sealed.keyId, sealed.nonce, sealed.ciphertext, sealed.digest]
  return (await sql.query(ROTATE, values)).rowCount === 1
}

function openAddress(keyring: Keyring, row: SealedRow): Address {
  const opened: unknown = JSON.parse(unseal(keyring, { ...row, keyId: row.key_id }, place(row.id)))
  if (typeof opened !== 'object' || opened === null || !('url' in opened) || typeof opened.url !== 'string')
    throw new Error(`the address of alert endpoint ${row.id} cannot be read`)
  const secret = 'secret' in opened && typeof opened.secret === 'string' ? opened.secret : null
  return { url: opened.url, secret }
}

export interface EndpointView {
  readonly id: string
  readonly kind: EndpointKind
  readonly host: string
  readonly min_severity: Severity
  readonly enabled: boolean
  readonly off_why: string | null
  readonly created_at: number
  readonly failures: number
  readonly failing_since: number | null
  readonly waiting: number
}

const LIST = {
  name: 'alert-endpoints',
  text: `select e.id, e.kind, e.host, e.min_severity, e.enabled, e.off_why, e.created_at, e.failures, e.failing_since,
      (select count(*)::int from alert_delivery d where d.endpoint_id = e.id and d.delivered_at is null) as waiting
    from alert_endpoint e order by e.id`,
}

export async function endpointViews(sql: Sql): Promise<EndpointView[]> {
  return (await sql.query<EndpointView>(LIST)).rows
}

const SWITCH = {
  name: 'switch-alert-endpoint',
  text: `update alert_endpoint set enabled = $2, off_why = case when $2 then null else $3 end, failures = 0, failing_since = null,
      next_at = clock_timestamp(), fence = fence + 1, busy_until = null
    where id = $1`,
}

/** On: what waits is delivered, from the oldest. False: there is no such endpoint. */
export async function switchEndpoint(
  sql: Sql,
  id: string,
  to: { enabled: boolean; why: string | null },
): Promise<boolean> {
  return (await sql.query(SWITCH, [id, to.enabled, to.why])).rowCount === 1
}

const REMOVE = { name: 'remove-alert-endpoint', text: 'delete from alert_endpoint where id = $1' }

/** With what still waits for it. */
export async function removeEndpoint(sql: Sql, id: string): Promise<boolean> {
  return (await sql.query(REMOVE, [id])).rowCount === 1
}

export interface OpenEndpoint extends Address {
  readonly id: string
  readonly kind: EndpointKind
  readonly fence: bigint
  readonly failures: number
  /** Seconds for which it has been failing; 0 where it has not. */
  readonly failing_seconds: number
}

type EndpointRow = SealedRow & Omit<OpenEndpoint, keyof Address>

const OPEN_COLUMNS = `e.id, e.kind, e.fence, e.failures, e.key_id, e.nonce, e.ciphertext, e.digest,
      coalesce(extract(epoch from clock_timestamp() - e.failing_since), 0)::float8 as failing_seconds`

const CLAIM = {
  name: 'claim-alert-endpoints',
  text: `with due as (
      select id from alert_endpoint e where enabled and next_at <= clock_timestamp()
        and (busy_until is null or busy_until <= clock_timestamp())
        and exists (select from alert_delivery d where d.endpoint_id = e.id and d.delivered_at is null)
      order by next_at limit $1 for no key update skip locked)
    update alert_endpoint e set busy_until = clock_timestamp() + make_interval(secs => $2), fence = e.fence + 1
    from due where e.id = due.id returning ${OPEN_COLUMNS}`,
}

/** Take endpoints that have something to be told, for so long; nobody else delivers to them meanwhile. */
export async function claimEndpoints(
  sql: Sql,
  keyring: Keyring,
  want: { limit: number; leaseSeconds: number },
): Promise<OpenEndpoint[]> {
  const { rows } = await sql.query<EndpointRow>(CLAIM, [want.limit, want.leaseSeconds])
  return rows.map((row) => ({ ...row, ...openAddress(keyring, row) }))
}

const ONE = {
  name: 'alert-endpoint-by-id',
  text: `select ${OPEN_COLUMNS} from alert_endpoint e where e.id = $1`,
}

export async function openEndpoint(
  sql: Sql,
  keyring: Keyring,
  id: string,
): Promise<OpenEndpoint | undefined> {
  const [row] = (await sql.query<EndpointRow>(ONE, [id])).rows
  return row && { ...row, ...openAddress(keyring, row) }
}

export interface AlertPayload {
  readonly id: string
  readonly code: string
  readonly severity: Severity
  readonly message: string
  readonly subject: Readonly<Record<string, string | number | null>>
  readonly count: number
  readonly first_at: string
  readonly last_at: string
  readonly resolved_at: string | null
}

export interface Delivery {
  readonly id: bigint
  readonly message_id: string
  readonly event: 'raised' | 'resolved'
  readonly payload: AlertPayload
}

const NEXT = {
  name: 'next-alert-delivery',
  text: `select id, message_id, event, payload from alert_delivery where endpoint_id = $1 and delivered_at is null order by id limit 1`,
}

/** The oldest that waits. */
export async function nextDelivery(sql: Sql, endpointId: string): Promise<Delivery | undefined> {
  return (await sql.query<Delivery>(NEXT, [endpointId])).rows[0]
}

const DELIVERED = {
  name: 'alert-delivered',
  text: `with mine as (
      update alert_endpoint set failures = 0, failing_since = null, busy_until = clock_timestamp() + make_interval(secs => $4)
      where id = $1 and fence = $2 returning id)
    update alert_delivery d set delivered_at = clock_timestamp(), tries = tries + 1, last_error = null
    from mine where d.endpoint_id = mine.id and d.id = $3 and d.delivered_at is null`,
}

/** False: another process has the endpoint by now, and will tell it again. */
export async function markDelivered(
  sql: Sql,
  endpoint: Pick<OpenEndpoint, 'id' | 'fence'>,
  delivery: { id: bigint; leaseSeconds: number },
): Promise<boolean> {
  const values = [endpoint.id, endpoint.fence, delivery.id, delivery.leaseSeconds]
  return (await sql.query(DELIVERED, values)).rowCount === 1
}

const FAILED = {
  name: 'alert-delivery-failed',
  text: `with mine as (
      update alert_endpoint set failures = failures + 1, failing_since = coalesce(failing_since, clock_timestamp()), busy_until = null,
        next_at = clock_timestamp() + make_interval(secs => $4::float8), enabled = $6::text is null, off_why = $6
      where id = $1 and fence = $2 returning id)
    update alert_delivery d set tries = tries + 1, last_error = $5 from mine where d.endpoint_id = mine.id and d.id = $3`,
}

export interface Failure {
  readonly deliveryId: bigint
  readonly retryInSeconds: number
  /** Redacted. */
  readonly error: string
  /** Set: the endpoint is switched off for that. */
  readonly offWhy: string | null
}

/** False: another process has the endpoint by now. */
export async function markFailed(
  sql: Sql,
  endpoint: Pick<OpenEndpoint, 'id' | 'fence'>,
  failure: Failure,
): Promise<boolean> {
  const { deliveryId, retryInSeconds, error, offWhy } = failure
  const values = [endpoint.id, endpoint.fence, deliveryId, retryInSeconds, error.slice(0, 500), offWhy]
  return (await sql.query(FAILED, values)).rowCount === 1
}

const RELEASE = {
  name: 'release-alert-endpoint',
  text: 'update alert_endpoint set busy_until = null where id = $1 and fence = $2',
}

export async function releaseEndpoint(sql: Sql, endpoint: Pick<OpenEndpoint, 'id' | 'fence'>): Promise<void> {
  await sql.query(RELEASE, [endpoint.id, endpoint.fence])
}

export interface DeliveryView {
  readonly id: bigint
  readonly message_id: string
  readonly event: string
  readonly alert_id: string
  readonly code: string
  readonly created_at: number
  readonly tries: number
  readonly delivered_at: number | null
  readonly last_error: string | null
}

const DELIVERIES = {
  name: 'alert-deliveries',
  text: `select id, message_id, event, alert_id, payload->>'code' as code, created_at, tries, delivered_at, last_error
    from alert_delivery where endpoint_id = $1 order by id desc limit $2`,
}

/** Of one endpoint, the newest first. */
export async function deliveryViews(sql: Sql, endpointId: string, limit: number): Promise<DeliveryView[]> {
  return (await sql.query<DeliveryView>(DELIVERIES, [endpointId, limit])).rows
}
