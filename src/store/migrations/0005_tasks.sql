-- Tasks, their rounds, attempts and leases. A task's row is the lock of the task; the order of locks is
-- task, attempt, channel, supply, each family in the order of its ID.

create table task (
  id uuid primary key default new_time_id(),
  kind text not null check (kind in ('video', 'image')),
  customer_id slug not null references customer,
  api_key_id uuid not null,
  model_id text not null,
  -- The release that the door judged; later rounds use the newest published one.
  release_id bigint not null,
  state text not null check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'rejected')),
  -- New on every claim; every write matches it.
  fence bigint not null default nextval('fence_seq'),
  -- 0: goes first, has an earlier attempt; 1: has none (STR-12).
  turn smallint not null default 1 check (turn in (0, 1)),
  -- Tasks of one lane can be served by the same supplies at the same price: if the first must wait, so must the rest.
  lane text not null,
  next_action_at timestamptz not null default clock_timestamp(),
  created_at timestamptz not null default clock_timestamp(),
  -- The facts that a decision reads; the JSON of `request` in decision.md.
  facts jsonb not null check (jsonb_typeof(facts) = 'object'),
  attempts int not null default 0 check (attempts between 0 and 2),
  rounds int not null default 0 check (rounds >= 0),
  attempt_id uuid,
  -- ORD-18: what the last stored wait said, and when it was stored.
  wait_digest text,
  wait_reason text,
  wait_round_at timestamptz,
  cancel_requested_at timestamptz,
  started_at timestamptz,
  ended_at timestamptz,
  error_code text,
  error_message text,
  error_param text,
  degraded jsonb,
  progress smallint not null default 0 check (progress between 0 and 100),
  request_id text,
  -- CUS-4: what an unmodified SDK's repeat is matched by.
  fingerprint bytea,
  repeat_count int not null default 0 check (repeat_count >= 0),
  expires_at timestamptz,
  -- DELETE of an ended request hides it from the customer only.
  hidden_at timestamptz,
  constraint running_has_an_attempt check ((state = 'running') = (attempt_id is not null)),
  constraint ended_when_over check ((state in ('queued', 'running')) = (ended_at is null)),
  constraint failure_has_a_code check ((state in ('failed', 'rejected')) = (error_code is not null))
) with (fillfactor = 80);
-- An image is never queued for the dispatcher: its own request carries it on.
create index task_queue on task (turn, lane, id) where state = 'queued' and kind = 'video';
create index task_customer on task (customer_id, kind, id desc) where hidden_at is null;
create index task_fingerprint on task (customer_id, fingerprint, id) where fingerprint is not null;
create index task_model_state on task (model_id, state);

-- What was asked for, with prompt and references to assets; kept apart so that the queue's rows stay narrow.
-- `content`: {prompt, inputs: {kind: [{url}|{asset}]}, metadata, public: {…fields echoed to the customer}}.
create table task_content (
  task_id uuid primary key references task,
  content jsonb not null
);

-- One evaluation of all candidates (IN-2): references to versions, what was dynamic, and the verdict with its figures.
create table round (
  task_id uuid not null,
  number int not null check (number >= 1),
  at timestamptz not null default clock_timestamp(),
  admitted boolean not null,
  decider int not null,
  release_id bigint not null,
  -- ORD-14: what the count under the lock said of a selection.
  outcome text not null check (outcome in ('granted', 'reservation_failed', 'wait', 'rejected', 'asked')),
  result text not null check (result in ('selected', 'wait', 'rejected')),
  reason text,
  attempt_id uuid,
  -- {now, task, caller, request, model, rules, candidates}: with the release, all that `decide` read.
  dynamic jsonb not null,
  verdict jsonb not null,
  figures jsonb not null,
  -- The counts under the lock that granted or refused (ORD-13).
  reservation jsonb,
  primary key (task_id, number),
  constraint granted_has_an_attempt check ((outcome = 'granted') = (attempt_id is not null)),
  constraint outcome_fits_result check (case outcome
    when 'granted' then result = 'selected' when 'reservation_failed' then result = 'selected'
    when 'asked' then true else outcome = result end)
) partition by range (task_id);
create index round_at on round (at);
select make_immutable('round');

create table attempt (
  id uuid primary key,
  task_id uuid not null references task,
  -- 1 and 2 for those that reached submitting; an abandoned one is not counted and has none (UNK-6).
  number int check (number between 1 and 2),
  round int not null,
  kind text not null check (kind in ('video', 'image')),
  binding_id slug not null,
  supply_id slug not null,
  channel_id slug not null,
  provider text not null,
  upstream_model text not null,
  tier text not null check (tier in ('exact', 'fallback', 'degraded')),
  release_id bigint not null,
  price_list_version_id bigint not null references price_list_version,
  degradation_rule_version_id bigint,
  -- An attempt keeps the credential it was submitted with, so that a rotation does not break polling.
  credential_id bigint not null references credential,
  state text not null check (state in
    ('reserved', 'submitting', 'submission_uncertain', 'accepted', 'succeeded', 'failed', 'abandoned', 'cancelled')),
  fence bigint not null default nextval('fence_seq'),
  owner uuid,
  channel_epoch bigint not null,
  supply_epoch bigint not null,
  quote_micros bigint not null check (quote_micros >= 0),
  bills_failures boolean not null,
  created_at timestamptz not null default clock_timestamp(),
  submitting_at timestamptz,
  uncertain_at timestamptz,
  -- UNK-5.
  uncertain_deadline timestamptz,
  accepted_at timestamptz,
  ended_at timestamptz,
  -- RTY-7: when a running job has had its time.
  run_deadline timestamptz,
  provider_task_id text,
  provider_request_id text,
  expected_ms int not null default 60000,
  next_poll_at timestamptz,
  poll_owner uuid,
  polls int not null default 0,
  poll_failures int not null default 0,
  category text check (category in ('content', 'request', 'supply', 'capacity', 'unknown')),
  scope text check (scope in ('request', 'supply', 'channel', 'attempt')),
  retryable boolean,
  may_change_supply boolean,
  error_code text,
  -- Operators only (ERR-3).
  error_message text,
  provider_code text,
  http_status int,
  degraded jsonb,
  -- What it cost, or may cost while that is open.
  cost_micros bigint not null check (cost_micros >= 0),
  reported jsonb,
  constraint counted_when_submitting check ((number is null) = (state in ('reserved', 'abandoned'))),
  constraint submitting_is_dated check ((submitting_at is null) = (state in ('reserved', 'abandoned'))),
  constraint accepted_is_known check (state <> 'accepted' or kind = 'image' or (provider_task_id is not null and next_poll_at is not null)),
  constraint uncertain_has_a_deadline check (state <> 'submission_uncertain' or uncertain_deadline is not null),
  constraint ended_when_over check ((state in ('succeeded', 'failed', 'abandoned', 'cancelled')) = (ended_at is not null)),
  constraint failure_is_explained check (state <> 'failed' or (category is not null and scope is not null and error_code is not null))
) with (fillfactor = 80);
create index attempt_task on attempt (task_id);
create unique index attempt_number on attempt (task_id, number) where number is not null;
-- STR-8: never two open attempts of one task.
create unique index attempt_open on attempt (task_id) where state in ('reserved', 'submitting', 'submission_uncertain', 'accepted');
create index attempt_claimed on attempt (owner) where state in ('reserved', 'submitting');
create index attempt_poll on attempt (next_poll_at) where state = 'accepted';
create index attempt_poll_owner on attempt (poll_owner) where state = 'accepted' and poll_owner is not null;
create index attempt_uncertain on attempt (uncertain_deadline) where state = 'submission_uncertain';
create index attempt_run_deadline on attempt (run_deadline) where state = 'accepted';
create index attempt_provider_task on attempt (channel_id, provider_task_id) where provider_task_id is not null;
alter table task add foreign key (attempt_id) references attempt deferrable initially deferred;

-- Leases held are the count; there is no counter. A lease is the provider's job, not the process's claim.
create table capacity_lease (
  attempt_id uuid primary key references attempt,
  channel_id slug not null,
  supply_id slug not null,
  channel_epoch bigint not null,
  supply_epoch bigint not null,
  granted_at timestamptz not null default clock_timestamp(),
  -- The provider's maximum life: an expired job that nobody could ask about frees its slot then (RTY-7).
  held_until timestamptz,
  released_at timestamptz,
  released_why text,
  check ((released_at is null) = (released_why is null))
) with (fillfactor = 80);
create index lease_channel_live on capacity_lease (channel_id) include (channel_epoch) where released_at is null;
create index lease_supply_live on capacity_lease (supply_id) include (supply_epoch) where released_at is null;

-- Finished results, by place in the batch. A failed place names its error and is not billed.
create table task_output (
  task_id uuid not null references task,
  place int not null check (place >= 0),
  asset_digest text,
  content_type text,
  bytes bigint,
  error jsonb,
  primary key (task_id, place),
  check ((asset_digest is null) = (error is not null))
);

-- A result that came after its task had ended: recorded with its cost, never delivered (RTY-7, UNK-5).
create table orphan_result (
  attempt_id uuid primary key references attempt,
  task_id uuid not null,
  found_at timestamptz not null default clock_timestamp(),
  how text not null,
  cost_micros bigint not null check (cost_micros >= 0)
);
