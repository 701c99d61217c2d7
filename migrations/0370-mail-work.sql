-- Instances with mail in their queues: from `next_at` on a worker is to look at the instance. Whoever makes mail due sets it
-- earlier, who finds nothing sets it later (services/store/mail/queue/mail-work.ts). It refers to nothing, so that it can stay
-- on one machine where the instances lie on several.
create table mail_work (
  instance_id bigint      primary key,
  next_at     timestamptz not null
) with (fillfactor = 50);
create index mail_work_next on mail_work (next_at);
insert into mail_work select distinct instance_id, now() from partitions where state <> 'finished';

-- What is waiting, and what is leased, is looked for by instance.
create index partitions_due on partitions (instance_id, due_at) where state = 'deferred';
create index partitions_leases on partitions (instance_id, lease_until) where state = 'leased';
drop index partitions_deferred;
drop index partitions_leased;
