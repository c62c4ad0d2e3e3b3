-- Wake-ups for other processes (WAKE-3): written in the transaction that frees a slot or queues a task, taken out and told
-- by the process that wrote them, or by any other where that one died. Hints: nothing is lost where they are.
create table wake_hint (
  -- The process that wrote it, and that tells it.
  writer uuid not null,
  id bigint generated always as identity,
  -- What it is about: a level that was freed, or a model of which a task waits.
  channel_id slug,
  supply_id slug,
  model_id text,
  created_at timestamptz not null default clock_timestamp(),
  -- In the order of one writer: taken by its index, whatever dead rows lie about.
  primary key (writer, id),
  check ((channel_id is null) = (supply_id is null) and (channel_id is null) <> (model_id is null))
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_insert_threshold = -1);
