-- What is told to others: usage, alerts, answers that are kept, and the files behind results.

-- CUS-2.
create table usage_record (
  task_id uuid primary key,
  customer_id slug not null,
  api_key_id uuid not null,
  model_id text not null,
  kind text not null check (kind in ('video', 'image')),
  -- The parameters that were billed: the facts as sent, and for a partial batch the count that was delivered.
  parameters jsonb not null,
  result text not null check (result in ('succeeded', 'failed', 'cancelled', 'rejected')),
  error_code text,
  degraded boolean not null,
  requested_profile text not null,
  actual_profile text not null,
  dropped_inputs text[] not null default '{}',
  cost_micros bigint not null check (cost_micros >= 0),
  currency text not null,
  created_at timestamptz not null,
  ended_at timestamptz not null
);
create index usage_customer on usage_record (customer_id, ended_at);

create table alert (
  id uuid primary key default new_time_id(),
  -- Same cause, same text: raising it again counts up instead of adding a row.
  fingerprint text not null,
  code text not null,
  severity text not null check (severity in ('info', 'warning', 'high', 'critical')),
  message text not null,
  subject jsonb not null default '{}',
  count bigint not null default 1 check (count >= 1),
  first_at timestamptz not null default clock_timestamp(),
  last_at timestamptz not null default clock_timestamp(),
  acknowledged_at timestamptz,
  acknowledged_by text,
  resolved_at timestamptz
);
create unique index alert_open on alert (fingerprint) where resolved_at is null;

-- Claimed in the transaction that creates the task, so before anything can be submitted (CUS-3).
create table idempotency_claim (
  customer_id slug not null,
  endpoint text not null,
  key text not null check (length(key) between 1 and 255),
  payload_digest bytea not null,
  task_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  primary key (customer_id, endpoint, key)
);
create index idempotency_expiry on idempotency_claim (expires_at);

-- Files on disk under their SHA-256; the row is the truth about how long one is kept.
create table asset (
  digest text primary key check (digest ~ '^[0-9a-f]{64}$'),
  bytes bigint not null check (bytes >= 0),
  content_type text not null,
  created_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null
);
create index asset_expiry on asset (expires_at);
