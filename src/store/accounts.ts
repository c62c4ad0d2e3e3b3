/**
 * Customers and their API keys (CUS-1). A key is 256 random bits and is shown once; what is kept is its SHA-256, and a
 * prefix to tell keys apart by.
 */
import { createHash, randomBytes } from 'node:crypto'
import type { Instant } from '../core/time.ts'
import type { Database, Sql } from './database.ts'

export interface CustomerView {
  id: string
  name: string
  groups: string[]
  active: boolean
  created_at: Instant
  /** Keys that are good now. */
  keys: number
}

export interface KeyView {
  id: string
  customer_id: string
  name: string
  prefix: string
  created_at: Instant
  expires_at: Instant | null
  revoked_at: Instant | null
  replaced_by: string | null
  last_used_at: Instant | null
  state: 'active' | 'expiring' | 'expired' | 'revoked'
}

/** `key` is the only copy of the secret there will ever be. */
export interface NewKey {
  readonly id: string
  readonly customerId: string
  readonly key: string
  readonly prefix: string
}

export class AccountFault extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'AccountFault'
  }
}

const CREATE_CUSTOMER = {
  name: 'create-customer',
  text: `insert into customer (id, name, groups) values ($1, $2, $3) on conflict (id) do nothing`,
}

/** Throws AccountFault where the ID is taken. */
export async function createCustomer(
  sql: Sql,
  customer: { readonly id: string; readonly name: string; readonly groups: readonly string[] },
): Promise<void> {
  const { rowCount } = await sql.query(CREATE_CUSTOMER, [customer.id, customer.name, customer.groups])
  if (rowCount === 0) throw new AccountFault(`there is a customer ${customer.id} already`)
}

const CUSTOMERS = {
  name: 'customer-views',
  text: `select c.id, c.name, c.groups, c.active, c.created_at,
      (select count(*)::int from api_key k where k.customer_id = c.id and k.revoked_at is null
        and (k.expires_at is null or k.expires_at > clock_timestamp())) as keys
    from customer c where $1::text is null or c.id = $1 order by c.id`,
}

export async function customerViews(sql: Sql, id: string | null = null): Promise<CustomerView[]> {
  return (await sql.query<CustomerView & Record<string, unknown>>(CUSTOMERS, [id])).rows
}

const SET_ACTIVE = { name: 'set-customer-active', text: 'update customer set active = $2 where id = $1' }

/** Suspended: its keys are refused, and what it has queued ends (ORD-19). Throws AccountFault. */
export async function setCustomerActive(sql: Sql, id: string, active: boolean): Promise<void> {
  const { rowCount } = await sql.query(SET_ACTIVE, [id, active])
  if (rowCount === 0) throw new AccountFault(`there is no customer ${id}`)
}

const CREATE_KEY = {
  name: 'create-key',
  text: `insert into api_key (customer_id, name, prefix, digest)
    select c.id, $2::text, $3::text, $4::bytea from customer c where c.id = $1 returning id`,
}

/** Throws AccountFault where there is no such customer. */
export async function createKey(
  sql: Sql,
  wanted: { readonly customerId: string; readonly name: string },
): Promise<NewKey> {
  const key = `ym_${randomBytes(32).toString('base64url')}`
  const prefix = key.slice(0, 9)
  const digest = createHash('sha256').update(key).digest()
  const { rows } = await sql.query<{ id: string }>(CREATE_KEY, [
    wanted.customerId,
    wanted.name,
    prefix,
    digest,
  ])
  const [made] = rows
  if (!made) throw new AccountFault(`there is no customer ${wanted.customerId}`)
  return { id: made.id, customerId: wanted.customerId, key, prefix }
}

const KEYS = {
  name: 'key-views',
  text: `select k.id, k.customer_id, k.name, k.prefix, k.created_at, k.expires_at, k.revoked_at, k.replaced_by, k.last_used_at,
      case when k.revoked_at is not null then 'revoked'
        when k.expires_at <= clock_timestamp() then 'expired'
        when k.expires_at is not null then 'expiring' else 'active' end as state
    from api_key k where ($1::text is null or k.customer_id = $1) order by k.customer_id, k.id`,
}

/** Of one customer, or of all. */
export async function keyViews(sql: Sql, customerId: string | null = null): Promise<KeyView[]> {
  return (await sql.query<KeyView & Record<string, unknown>>(KEYS, [customerId])).rows
}

const FIND_KEY = {
  name: 'find-key-by-id-or-prefix',
  text: `select id, customer_id, name from api_key
    where (id::text = $1 or prefix = $1) and revoked_at is null and (expires_at is null or expires_at > clock_timestamp())
    for update`,
}

const REVOKE = {
  name: 'revoke-key',
  text: `update api_key set revoked_at = clock_timestamp() where id = $1`,
}

/** By ID or prefix; refused from the next request on. Throws AccountFault. Answers the ID. */
export async function revokeKey(db: Database, idOrPrefix: string): Promise<string> {
  return db.transaction(async (tx) => {
    const { id } = await oneKey(tx, idOrPrefix)
    await tx.query(REVOKE, [id])
    return id
  })
}

const REPLACE = {
  name: 'replace-key',
  text: `update api_key set replaced_by = $2,
      expires_at = least(expires_at, clock_timestamp() + make_interval(secs => $3)) where id = $1`,
}

/** A new key beside the old one, which stays good for that long: 0 ends it at once. Throws AccountFault. */
export async function rotateKey(db: Database, idOrPrefix: string, overlapSeconds: number): Promise<NewKey> {
  return db.transaction(async (tx) => {
    const old = await oneKey(tx, idOrPrefix)
    const made = await createKey(tx, { customerId: old.customer_id, name: old.name })
    await tx.query(REPLACE, [old.id, made.id, overlapSeconds])
    return made
  })
}

async function oneKey(
  tx: Sql,
  idOrPrefix: string,
): Promise<{ id: string; customer_id: string; name: string }> {
  const { rows } = await tx.query<{ id: string; customer_id: string; name: string }>(FIND_KEY, [idOrPrefix])
  const [key, other] = rows
  if (!key) throw new AccountFault(`there is no key ${idOrPrefix} that is good now`)
  if (other) throw new AccountFault(`several keys begin with ${idOrPrefix}: give the ID instead`)
  return key
}
