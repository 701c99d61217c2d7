-- Why a partition was put off that waits for leave to send: {"provider", "sources", "isPlanned"}, the sources those of its
-- pool. It says something while the partition is deferred, and is null where it waits for anything else.
alter table partitions add column paced_by jsonb;
