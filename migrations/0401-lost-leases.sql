-- Workers that died, or were cut off, over a partition, one after another; 0 once one of them has done with it.
alter table partitions add column lost_leases smallint not null default 0;
