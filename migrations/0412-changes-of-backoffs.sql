-- Workers read what has changed since they read last. A back-off that ended early stays, with an end that is past and without a
-- reason, until all have read that.
alter table destination_backoffs add column changed_at timestamptz not null default clock_timestamp();
create index destination_backoffs_changed on destination_backoffs (changed_at);
