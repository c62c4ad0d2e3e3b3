/** The fewest rows that a task, its round and its attempt need, written as plain SQL. */
import type { Sql } from '../../src/store/database.ts'

/** A catalog of one model with one supply, and a customer. */
export async function insertCatalog(sql: Sql): Promise<void> {
  await sql.query(`
    insert into credential (channel_id, reference, key_id, nonce, ciphertext, digest)
      values ('channel-a', 'env:A', 'k', '\\x000102030405060708090a0b', '\\x00', '\\x00');
    insert into channel (id, provider, base_url, credential_ref, credential_id, concurrency)
      values ('channel-a', 'ark', 'http://127.0.0.1:1', 'env:A', 1, 8);
    insert into supply (id, channel_id, upstream_model, media, concurrency) values ('supply-a', 'channel-a', 'm', 'video', 5);
    insert into capability_version (supply_id, version, document) values ('supply-a', 1, '{}');
    insert into price_list_version (supply_id, version, currency, rate, document, converted)
      values ('supply-a', 1, 'CNY', 1, '{}', '{}');
    insert into policy (id) values ('policy-a');
    insert into policy_version (policy_id, version, document) values ('policy-a', 1, '{}');
    insert into degradation_rule (id) values ('rule-a');
    insert into degradation_rule_version (rule_id, version, document) values ('rule-a', 1, '{}');
    insert into model (id, media) values ('model-a', 'video');
    insert into model_version (model_id, version, document) values ('model-a', 1, '{}');
    insert into release (model_id, number, model_version_id, policy_version_id, bindings, evidence, published_by)
      values ('model-a', 1, 1, 1, '[]', '[]', 'test');
    insert into customer (id, name) values ('customer-a', 'A');`)
}

/** A queued task made so many days before now; answers its ID. */
export async function insertTask(sql: Sql, daysAgo = 0): Promise<string> {
  const { rows } = await sql.query<{ id: string }>(
    `insert into task (id, kind, customer_id, api_key_id, model_id, release_id, state, lane, facts)
     values (overlay(time_id_floor(clock_timestamp() - make_interval(days => $1))::text placing right(gen_random_uuid()::text, 12) from 25)::uuid,
       'video', 'customer-a', gen_random_uuid(), 'model-a', 1, 'queued', 'l', '{}') returning id`,
    [daysAgo],
  )
  return rows[0]?.id ?? ''
}

export async function insertRound(sql: Sql, taskId: string, number = 1): Promise<void> {
  await sql.query(
    `insert into round (task_id, number, admitted, decider, release_id, outcome, result, dynamic, verdict, figures)
     values ($1, $2, true, 1, 1, 'wait', 'wait', '{}', '{}', '{}')`,
    [taskId, number],
  )
}

export async function insertRoundRecord(sql: Sql): Promise<void> {
  await sql.query(`insert into round_record (content) values ('\\x00')`)
}

export async function insertHealthEvent(sql: Sql): Promise<void> {
  await sql.query(
    `insert into health_events (level, level_id, kind, from_state, to_state, epoch_before, epoch_after, recovery_successes, applied)
     values ('channel', 'channel-a', 'opened', 'healthy', 'circuit_open', 0, 1, 0, true)`,
  )
}
