-- CUS-1: the least that supply execution must know of customers.

create table customer (
  id slug primary key,
  name text not null,
  groups text[] not null default '{default}',
  active boolean not null default true,
  created_at timestamptz not null default clock_timestamp()
);

-- Only a SHA-256 of the key is kept: keys are 256 random bits, so that a slow hash would add nothing.
create table api_key (
  id uuid primary key default new_time_id(),
  customer_id slug not null references customer,
  name text not null default '',
  prefix text not null,
  digest bytea not null unique check (length(digest) = 32),
  created_at timestamptz not null default clock_timestamp(),
  -- A rotated key stays good until then (CUS-1: rotation with overlap).
  expires_at timestamptz,
  revoked_at timestamptz,
  replaced_by uuid references api_key,
  last_used_at timestamptz
);
create index api_key_customer on api_key (customer_id);
