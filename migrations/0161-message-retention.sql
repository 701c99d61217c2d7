-- How long an instance keeps what it sent: batches with their messages, partitions and deliveries. Columns are added without
-- a default, or with a constant one: no table is rewritten. Indexes are made while the queue is in use.

-- step
-- Null: kept for ever. Unsubscribe links have to work for 30 days after the sending: 15 U.S.C. 7704(a)(3)(A)(ii).
alter table instances
  add column message_retention_days integer check (message_retention_days >= 30);

-- step
-- From this moment on the batch is gone for whoever asks; what hangs on it is being removed, portion by portion.
alter table batches
  add column expired_at timestamptz;

-- step
-- Batches of it are gone, but their events may be there: these are found without them.
alter table campaigns
  add column lost_batches boolean not null default false;

-- step, outside a transaction
create index concurrently if not exists batches_age on batches (instance_id, created_at, eeid);

-- step, outside a transaction
create index concurrently if not exists batches_expired on batches (instance_id, eeid) where expired_at is not null;
