-- What a result was found to be, and in what it is less than was promised: a provider's silent downgrade (DEG-7).
alter table task_output
  add column measured jsonb,
  add column shortfalls text[] not null default '{}';
alter table usage_record add column shortfalls text[] not null default '{}';
