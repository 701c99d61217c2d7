-- Foreign keys look a message up by its key and its instance, by a plan that each connection makes once, and on a new
-- deployment before there are statistics. An index that begins with the instance then looks as good as the key, and every look
-- would go through all messages of the instance. As a partial index it serves only who asks by the time of acceptance.

-- step, outside a transaction
create index concurrently if not exists messages_accepted_at on messages (instance_id, created_at) where created_at is not null;

-- step
drop index messages_accepted;
alter index messages_accepted_at rename to messages_accepted;

-- A partition's message is of the same batch, and goes with it: one reference is enough.
alter table partitions drop constraint partitions_eeid_instance_id_fkey;
