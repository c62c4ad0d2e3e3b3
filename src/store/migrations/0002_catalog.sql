-- What operators publish. Definitions are versioned rows that never change; switches, limits and credentials are not
-- versions and take effect at once (STR-6). IDs are permanent slugs, since ties are broken by them.

create domain slug as text check (value ~ '^[a-z0-9][a-z0-9._-]{0,62}$');

create table credential (
  id bigint generated always as identity primary key,
  channel_id slug not null,
  reference text not null check (reference ~ '^(env|file):.+'),
  -- AES-256-GCM; the key is named, never stored. `digest` is a keyed hash, to see whether a secret changed.
  key_id text not null,
  nonce bytea not null check (length(nonce) = 12),
  ciphertext bytea not null,
  digest bytea not null,
  created_at timestamptz not null default clock_timestamp()
);

create table channel (
  id slug primary key,
  provider text not null,
  base_url text not null check (base_url ~ '^https?://'),
  credential_ref text not null check (credential_ref ~ '^(env|file):.+'),
  credential_id bigint references credential,
  concurrency int not null check (concurrency between 1 and 1000000),
  admin_state text not null default 'enabled' check (admin_state in ('enabled', 'disabled')),
  options jsonb not null default '{}' check (jsonb_typeof(options) = 'object'),
  archived_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);

create table supply (
  id slug primary key,
  channel_id slug not null references channel,
  upstream_model text not null check (upstream_model <> ''),
  media text not null check (media in ('video', 'image')),
  real_person text not null default 'restricted' check (real_person in ('allowed', 'restricted', 'denied')),
  concurrency int not null check (concurrency between 1 and 1000000),
  -- How long a job usually takes: what polls are paced by until there are figures of our own.
  expected_seconds int not null default 60 check (expected_seconds between 1 and 86400),
  admin_state text not null default 'enabled' check (admin_state in ('enabled', 'disabled')),
  capability_version_id bigint,
  price_list_version_id bigint,
  archived_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  unique (id, channel_id)
);
create index supply_channel on supply (channel_id);

-- `document` is the JSON of decision.md: {billing_mode, modes[]}.
create table capability_version (
  id bigint generated always as identity primary key,
  supply_id slug not null references supply,
  version int not null check (version >= 1),
  document jsonb not null check (jsonb_typeof(document) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  unique (supply_id, version)
);

-- `document` is the price list as the operator wrote it; `converted` the same in the base currency (COST-7), the JSON of
-- decision.md: {mode, bills_failures, prices[]}. `rate` is what one unit of `currency` cost then.
create table price_list_version (
  id bigint generated always as identity primary key,
  supply_id slug not null references supply,
  version int not null check (version >= 1),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  rate numeric not null check (rate > 0),
  document jsonb not null,
  converted jsonb not null check (jsonb_typeof(converted) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  unique (supply_id, version)
);

alter table supply
  add foreign key (capability_version_id) references capability_version,
  add foreign key (price_list_version_id) references price_list_version;

create table policy (
  id slug primary key,
  version_id bigint,
  archived_at timestamptz
);

-- `document` is the policy of decision.md plus what runtime reads: real_person_refusal.
create table policy_version (
  id bigint generated always as identity primary key,
  policy_id slug not null references policy,
  version int not null check (version >= 1),
  document jsonb not null check (jsonb_typeof(document) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  unique (policy_id, version)
);
alter table policy add foreign key (version_id) references policy_version;

create table degradation_rule (
  id slug primary key,
  version_id bigint,
  -- Set by the gate when a model that leads to it is published; cleared by the operator, or by a new version.
  published boolean not null default false,
  archived_at timestamptz
);

-- `document`: {from_profile, to_profile, operations[]}.
create table degradation_rule_version (
  id bigint generated always as identity primary key,
  rule_id slug not null references degradation_rule,
  version int not null check (version >= 1),
  document jsonb not null check (jsonb_typeof(document) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  unique (rule_id, version)
);
alter table degradation_rule add foreign key (version_id) references degradation_rule_version;

create table model (
  id text primary key check (id ~ '^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$'),
  media text not null check (media in ('video', 'image')),
  enabled boolean not null default false,
  published boolean not null default false,
  version_id bigint,
  -- The last published release; it lives on beside what was saved since.
  release_id bigint,
  archived_at timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  check (not published or release_id is not null)
);

-- `document`: {profile, limits{modes[]}, defaults{}, degradation, normal_cost, emergency_cost_override, allowed_groups,
-- policy, max_run_seconds, image_timeout_seconds, description}.
create table model_version (
  id bigint generated always as identity primary key,
  model_id text not null references model,
  version int not null check (version >= 1),
  document jsonb not null check (jsonb_typeof(document) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  unique (model_id, version)
);
alter table model add foreign key (version_id) references model_version;

-- What is saved. `enabled` is a switch and no save. The capability version is the one the binding was verified against.
create table binding (
  id slug primary key,
  model_id text not null references model,
  supply_id slug not null references supply,
  tier text not null check (tier in ('exact', 'fallback', 'degraded')),
  degradation_rule_id slug references degradation_rule,
  priority int not null default 0 check (priority between 0 and 1000000),
  enabled boolean not null default true,
  capability_version_id bigint references capability_version,
  verified_by text,
  verified_at timestamptz,
  verified_evidence text,
  archived_at timestamptz,
  check ((tier = 'degraded') = (degradation_rule_id is not null)),
  check ((verified_by is null) = (verified_at is null) and (verified_by is null or capability_version_id is not null))
);
create unique index binding_once on binding (model_id, supply_id, tier, coalesce(degradation_rule_id, '')) where archived_at is null;

-- What was published: one immutable row that a round can refer to.
-- `bindings`: [{id, supply_id, channel_id, tier, priority, capability_version_id, degradation_rule_id, degradation_rule_version_id}].
create table release (
  id bigint generated always as identity primary key,
  model_id text not null references model,
  number int not null check (number >= 1),
  model_version_id bigint not null references model_version,
  policy_version_id bigint not null references policy_version,
  bindings jsonb not null check (jsonb_typeof(bindings) = 'array'),
  -- The gate's checks, each with its evidence (STR-6).
  evidence jsonb not null,
  published_by text not null,
  published_at timestamptz not null default clock_timestamp(),
  unique (model_id, number)
);
alter table model add foreign key (release_id) references release;

select make_immutable('capability_version');
select make_immutable('price_list_version');
select make_immutable('policy_version');
select make_immutable('degradation_rule_version');
select make_immutable('model_version');
select make_immutable('release');
select make_immutable('credential');
