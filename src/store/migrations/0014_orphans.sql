-- One submission may have become several jobs, and each of them is paid for.
alter table orphan_result drop constraint orphan_result_pkey;
alter table orphan_result add column provider_task_id text;
alter table orphan_result add constraint orphan_once unique nulls not distinct (attempt_id, provider_task_id);

-- The part of cost_micros that jobs cost which nobody was given, beyond the attempt's own.
alter table attempt add column orphan_cost_micros bigint not null default 0 check (orphan_cost_micros >= 0);
