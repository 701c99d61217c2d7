-- Where an instance's rows are on a machine of their own, all is looked up by its key and its instance. Before there are
-- statistics an index that begins with the instance looks as good as the key, and a look would go through all that the instance
-- has. So a partition's recipients have an index of both, and the others are partial ones, which serve only who asks by what they
-- are for.

-- step, outside a transaction
create index concurrently if not exists deliveries_of_partition on deliveries (partition_id, instance_id);

-- step, outside a transaction
create index concurrently if not exists partitions_by_destination on partitions (instance_id, destination, id) where destination is not null;

-- step, outside a transaction
create index concurrently if not exists batches_of_campaign on batches (instance_id, campaign_numid, created_at)
  where campaign_numid is not null;

-- step, outside a transaction
create index concurrently if not exists batches_by_age on batches (instance_id, created_at, eeid) where created_at is not null;

-- Citus takes one command at a time.

-- step
drop index deliveries_partition;

-- step
drop index partitions_destination;

-- step
drop index batches_campaign;

-- step
drop index batches_age;
