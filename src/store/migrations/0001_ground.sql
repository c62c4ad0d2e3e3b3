-- What every other file leans on: identifiers in time order, and rows that nobody may change.

-- A UUID of version 7 by the database's clock, so that order of ID is order of creation whatever the processes' clocks
-- say. PostgreSQL 18 has uuidv7(); 15 to 17 do not.
create function new_time_id() returns uuid language sql volatile parallel safe as $$
  select encode(
    set_bit(set_bit(
      overlay(uuid_send(gen_random_uuid())
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
      52, 1), 53, 1), 'hex')::uuid
$$;

-- The smallest UUID of version 7 made at or after that instant: the bound of a partition, and of a range by time.
create function time_id_floor(at timestamptz) returns uuid language sql immutable strict parallel safe as $$
  select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$$;

create function time_id_instant(id uuid) returns timestamptz language sql immutable strict parallel safe as $$
  select to_timestamp((('x' || lpad(left(replace(id::text, '-', ''), 12), 16, '0'))::bit(64)::bigint) / 1000.0)
$$;

-- ORD-17, HLT-12: rows that record what was decided. Statement triggers refuse even a statement that would touch no row,
-- row triggers refuse what reaches a partition by another way. ALWAYS: session_replication_role does not switch them off.
create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% on % is refused: its rows are immutable; only retention detaches whole partitions', tg_op, tg_table_name
    using errcode = 'YM017';
end $$;

create function make_immutable(target regclass) returns void language plpgsql as $$
begin
  execute format('create trigger immutable_row before update or delete on %s for each row execute function refuse_change()', target);
  execute format('alter table %s enable always trigger immutable_row', target);
  perform make_statements_refused(target);
end $$;

create function make_statements_refused(target regclass) returns void language plpgsql as $$
begin
  execute format('create trigger immutable_statement before update or delete or truncate on %s for each statement execute function refuse_change()', target);
  execute format('alter table %s enable always trigger immutable_statement', target);
end $$;

-- One partition for each day, by UUID of version 7. Made beside the parent and attached, which blocks no insert.
-- Answers whether it had to be made.
create function ensure_day_partition(parent text, day date) returns boolean language plpgsql as $$
declare
  child text := parent || '_' || to_char(day, 'YYYYMMDD');
  since timestamptz := day::timestamp at time zone 'UTC';
begin
  if to_regclass(child) is not null then return false; end if;
  perform pg_advisory_xact_lock(hashtext('partition:' || child));
  -- A query, since to_regclass remembers for the whole statement that there was none.
  if exists (select from pg_class where relname = child
      and relnamespace = (select relnamespace from pg_class where oid = parent::regclass)) then return false; end if;
  execute format('create table %I (like %I including all)', child, parent);
  perform make_statements_refused(child::regclass);
  execute format('alter table %I attach partition %I for values from (%L) to (%L)',
    parent, child, time_id_floor(since), time_id_floor(since + interval '1 day'));
  execute format('alter table %I enable always trigger immutable_row', child);
  return true;
end $$;

-- A fence is new on each claim and never comes back, unlike a count of attempts.
create sequence fence_seq as bigint;

create table setting (
  name text primary key,
  value jsonb not null
);

-- One row for each run of a program; its claims are good while alive_until lies ahead (UNK-6).
create table process (
  id uuid primary key,
  roles text[] not null,
  host text not null,
  pid int not null,
  version text not null,
  started_at timestamptz not null default clock_timestamp(),
  alive_until timestamptz not null,
  stopped_at timestamptz
);
