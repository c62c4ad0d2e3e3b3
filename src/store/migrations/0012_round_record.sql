-- What rounds of one transaction were judged by, and their verdicts and figures, together and compressed: they share nearly
-- all of it, and PostgreSQL would spend more on parsing it than on everything else that a grant stores. A round names its
-- place in it. Rounds stored before keep theirs in columns of their own.
create table round_record (
  id uuid not null default new_time_id(),
  format smallint not null default 1 check (format = 1),
  -- Raw deflate (RFC 1951) of a JSON array of [dynamic, verdict, figures].
  content bytea not null,
  primary key (id)
) partition by range (id);
alter table round_record alter column content set storage external;
select make_immutable('round_record');

alter table round
  add column record_id uuid,
  add column place int check (place >= 0),
  alter column dynamic drop not null,
  alter column verdict drop not null,
  alter column figures drop not null,
  add constraint recorded_in_one_place check ((record_id is null) = (place is null)
    and (record_id is null) = (dynamic is not null) and (record_id is null) = (verdict is not null)
    and (record_id is null) = (figures is not null));
