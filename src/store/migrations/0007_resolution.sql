-- UNK-9: how the fate of an unknown submission is found out. An attempt that is looked for has `next_lookup_at`: one
-- that is uncertain, or one that was given up and of which a callback came after all.
alter table attempt
  add column next_lookup_at timestamptz,
  add column lookups int not null default 0,
  -- A task ID that a callback named. Nothing but a hint: it is confirmed by a query of our own.
  add column hinted_task_id text check (length(hinted_task_id) between 1 and 200),
  add column called_back_at timestamptz,
  -- What found out: callback, client_id, time or operator.
  add column resolved_by text check (resolved_by in ('callback', 'client_id', 'time', 'operator')),
  add column lookup_note text;
create index attempt_lookup on attempt (next_lookup_at) where next_lookup_at is not null;
-- Those that may have been accepted under an ID that nobody knows.
create index attempt_nameless on attempt (channel_id, submitting_at) where provider_task_id is null and submitting_at is not null;
