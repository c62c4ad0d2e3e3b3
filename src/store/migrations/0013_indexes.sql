-- The reconciler looks every second for images that nobody carries any more: it read the whole queue of videos for it.
create index task_waiting_image on task (created_at) where state = 'queued' and kind = 'image';

-- Every change of an attempt's state writes into all of its indexes. Numbers that are null are never the same.
create unique index attempt_of_task on attempt (task_id, number);
drop index attempt_task;
drop index attempt_number;

-- What has ended is never counted by model and state.
create index task_open on task (model_id, state) where state in ('queued', 'running');
drop index task_model_state;
