-- Alerts told to others. An endpoint's address and secret are sealed, since a webhook's address is often its secret.
create table alert_endpoint (
  id slug primary key,
  kind text not null check (kind in ('webhook', 'slack', 'feishu', 'dingtalk', 'wecom')),
  -- For people: where it goes, without what must stay secret.
  host text not null,
  min_severity text not null default 'warning' check (min_severity in ('info', 'warning', 'high', 'critical')),
  enabled boolean not null default true,
  off_why text,
  key_id text not null,
  nonce bytea not null,
  ciphertext bytea not null,
  digest bytea not null,
  created_at timestamptz not null default clock_timestamp(),
  -- Deliveries of one endpoint go out one after the other: so the backoff is the endpoint's.
  failures int not null default 0,
  failing_since timestamptz,
  next_at timestamptz not null default clock_timestamp(),
  -- Whoever delivers holds it until then; the fence tells a late one that it lost it.
  busy_until timestamptz,
  fence bigint not null default 0,
  check ((enabled and off_why is null) or not enabled)
);

-- The outbox: written in the transaction of its cause, in the order in which causes committed for one alert.
create table alert_delivery (
  id bigint generated always as identity primary key,
  -- The same at every try, so that a receiver can tell a repetition.
  message_id uuid not null default gen_random_uuid(),
  endpoint_id slug not null references alert_endpoint on delete cascade,
  alert_id uuid not null references alert on delete cascade,
  event text not null check (event in ('raised', 'resolved')),
  payload jsonb not null,
  created_at timestamptz not null default clock_timestamp(),
  tries int not null default 0,
  delivered_at timestamptz,
  last_error text
);
create index alert_delivery_due on alert_delivery (endpoint_id, id) where delivered_at is null;
create index alert_delivery_alert on alert_delivery (alert_id);
