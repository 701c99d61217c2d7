-- Reputation is a source's: an address of ours that mail leaves from, or a pool without addresses, by its name.

-- Which pool an instance's mail leaves through, or that of one of its campaigns: config/delivery.json as the delivery
-- service read it last. The first row that fits decides.
create table pool_assignments (
  position       integer primary key,
  instance       text    not null, -- its name
  campaign_numid bigint, -- null: all campaigns
  pool           text    not null -- '' is the default pool
);
create index pool_assignments_instance on pool_assignments (instance);

alter table partitions add column pool text collate "C" not null default ''; -- that it leaves through; '' is the default pool
-- Within a destination pools take turns as well: what one cannot do now holds up no other.
create index partitions_ready_by_pool on partitions (instance_id, destination, pool, id) where state = 'ready';
drop index partitions_ready_by_instance;

-- '*': there is no way to the destination from anywhere.
alter table destination_backoffs add column source text collate "C" not null default '*';
alter table destination_backoffs drop constraint destination_backoffs_pkey, add primary key (destination, source);
