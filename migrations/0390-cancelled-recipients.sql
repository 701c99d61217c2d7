-- Recipients that were taken back with their batch. Those that were taken back one by one, or erased while they waited, are none of
-- `recipients` any more; an erasure of a settled one changes no count.
alter table partitions add column cancelled integer not null default 0;

-- Of batches cancelled so far, as far as the deliveries that are there tell: who was neither delivered to nor refused, nor waits.
update partitions p set cancelled = counted.cancelled from (
  select p.id, p.instance_id,
    greatest(0, least(count(*) filter (where d.state = 'cancelled'),
                      p.recipients - p.refused - count(*) filter (where d.state in ('delivered', 'queued')))) as cancelled
  from batches b
  join partitions p on p.instance_id = b.instance_id and p.eeid = b.eeid
  join deliveries d on d.instance_id = p.instance_id and d.partition_id = p.id
  where b.cancelled_at is not null
  group by p.id, p.instance_id, p.recipients, p.refused
) counted
where p.instance_id = counted.instance_id and p.id = counted.id and counted.cancelled > 0;
