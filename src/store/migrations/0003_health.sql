-- HLT-12: what channels and supplies are believed to be able to do. Each row is also the lock of its level: whoever
-- grants a lease on it, moves its health or epoch, or changes its limit or switch, locks it first, channels before
-- supplies, each in the order of its ID.

create table channel_health (
  channel_id slug primary key references channel,
  state text not null default 'healthy'
    check (state in ('healthy', 'degraded', 'circuit_open', 'probing', 'recovering', 'disabled')),
  epoch bigint not null default 0 check (epoch >= 0),
  recovery_successes int not null default 0,
  open_until timestamptz,
  not_before timestamptz,
  last_granted_at timestamptz,
  counters jsonb not null default '{}',
  updated_at timestamptz not null default clock_timestamp(),
  constraint recovery_fits_state check (case state
    when 'probing' then recovery_successes between 0 and 1
    when 'recovering' then recovery_successes between 2 and 4
    else recovery_successes = 0 end),
  constraint cooldown_fits_state check ((state = 'circuit_open') = (open_until is not null))
) with (fillfactor = 50);

create table supply_health (
  supply_id slug primary key references supply,
  state text not null default 'healthy'
    check (state in ('healthy', 'degraded', 'circuit_open', 'probing', 'recovering', 'disabled')),
  epoch bigint not null default 0 check (epoch >= 0),
  recovery_successes int not null default 0,
  open_until timestamptz,
  not_before timestamptz,
  last_granted_at timestamptz,
  counters jsonb not null default '{}',
  updated_at timestamptz not null default clock_timestamp(),
  constraint recovery_fits_state check (case state
    when 'probing' then recovery_successes between 0 and 1
    when 'recovering' then recovery_successes between 2 and 4
    else recovery_successes = 0 end),
  constraint cooldown_fits_state check ((state = 'circuit_open') = (open_until is not null))
) with (fillfactor = 50);

create table health_events (
  id uuid not null default new_time_id(),
  at timestamptz not null default clock_timestamp(),
  level text not null check (level in ('channel', 'supply')),
  level_id text not null,
  attempt_id uuid,
  kind text not null,
  from_state text not null,
  to_state text not null,
  epoch_before bigint not null,
  epoch_after bigint not null check (epoch_after >= epoch_before),
  recovery_successes int not null check (recovery_successes between 0 and 5),
  applied boolean not null,
  detail jsonb not null default '{}',
  primary key (id)
) partition by range (id);
create index health_events_level on health_events (level, level_id, id);
select make_immutable('health_events');

-- HLT-19: which news of an attempt a level has had.
create table attempt_news (
  attempt_id uuid not null,
  level text not null check (level in ('channel', 'supply')),
  kind text not null,
  at timestamptz not null default clock_timestamp(),
  primary key (attempt_id, level, kind)
);
