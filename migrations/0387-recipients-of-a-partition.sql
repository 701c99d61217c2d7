-- A partition's recipients are looked up by it and its instance. Before there are statistics an index that begins with the
-- instance looks as good as one that has the partition alone, and a look would go through all that the instance has.

-- step, outside a transaction
create index concurrently if not exists deliveries_of_partition on deliveries (partition_id, instance_id);

-- step
drop index deliveries_partition;
alter index deliveries_of_partition rename to deliveries_partition;
