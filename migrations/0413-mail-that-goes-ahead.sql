-- A message to a few recipients goes ahead of its instance's other mail. Those have an index that is ordered as no other one is: of equal
-- ones the planner could take that of all that is ready.

-- step
alter table partitions add column if not exists goes_ahead boolean not null default false;

-- step, outside a transaction
create index concurrently if not exists partitions_ready_ahead on partitions (instance_id, pool, destination, id)
  where state = 'ready' and goes_ahead;
