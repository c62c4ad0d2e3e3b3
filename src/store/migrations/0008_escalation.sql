-- HLT-16: what several levels say together. Read only where something failed.
-- Same cause, same text: the fingerprint of an attempt's failure.
alter table attempt add column fingerprint text;
create index attempt_lately on attempt (channel_id, ended_at) where ended_at is not null;

-- When a channel last could not be connected to; cleared once it answers.
create table channel_reach (
  channel_id slug primary key references channel,
  failed_at timestamptz not null default clock_timestamp()
);
