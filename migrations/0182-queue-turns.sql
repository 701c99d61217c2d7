-- Ready partitions by instance and destination: workers visit instances in turn, and each instance's destinations in turn.
-- Writers of the queue wait while the index is made: it has only what is ready now.
create index partitions_ready_by_instance on partitions (instance_id, destination, id) where state = 'ready';
drop index partitions_ready;
